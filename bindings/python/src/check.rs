//! The independent checker.

use serde::Serialize;
use stagewright::core::document::{PinsDocument, PlanDocument};
use stagewright::core::problem::Problem;
use stagewright::failure::Failure;
use stagewright_verify::BoundVerdict;

/// Result of the checker, in the terms of `check --json`.
#[derive(Serialize)]
pub(crate) struct Checked {
    holds: bool,
    value_s: Option<f64>,
    bound: Bound,
    violations: Vec<Violation>,
}

#[derive(Serialize)]
struct Bound {
    verdict: &'static str,
    by: Option<&'static str>,
    limit_s: Option<f64>,
}

#[derive(Serialize)]
struct Violation {
    kind: &'static str,
    message: String,
}

/// Checks a plan document against the problem of a model.
///
/// # Errors
/// If the documents do not describe a problem that can be checked.
pub(crate) fn report(
    problem: &Problem,
    model: &str,
    pins: Option<&PinsDocument>,
    plan: &PlanDocument,
) -> Result<Checked, Failure> {
    let (graph, cluster) = (problem.graph().document(), problem.cluster().document());
    let report = stagewright_verify::check(graph, cluster, pins, plan).map_err(|error| {
        Failure::new(error.code(), error.to_string())
            .at(model)
            .help("correct the named document; the plan itself was not checked")
    })?;
    let (verdict, by, limit_s) = match report.bound {
        BoundVerdict::NoClaim => ("no-claim", None, None),
        BoundVerdict::NotVerified => ("not-verified", None, None),
        BoundVerdict::Verified { by, proved_s } => ("verified", Some(by.name()), Some(proved_s)),
        BoundVerdict::Refuted { by, limit_s } => ("refuted", Some(by.name()), limit_s),
    };
    let violations = report.violations.iter();
    Ok(Checked {
        holds: report.holds(),
        value_s: report.value_s,
        bound: Bound { verdict, by, limit_s },
        violations: violations
            .map(|found| Violation { kind: found.kind.name(), message: found.message.clone() })
            .collect(),
    })
}
