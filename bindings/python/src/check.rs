//! The independent checker.

use pyo3::prelude::*;
use serde::Serialize;
use stagewright::core::document::PlanDocument;
use stagewright::failure::Failure;
use stagewright_verify::BoundVerdict;

use crate::failure::Result;
use crate::plan::Plan;
use crate::problem::{Problem, Shared, json};

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

/// Checks a plan document against a problem.
///
/// # Errors
/// If the documents describe no problem that can be checked.
pub(crate) fn report(shared: &Shared, plan: &PlanDocument) -> Result<Checked, Failure> {
    let problem = &shared.problem;
    let (graph, cluster) = (problem.graph().document(), problem.cluster().document());
    let report = stagewright_verify::check(graph, cluster, shared.pins.as_ref(), plan).map_err(|error| {
        Failure::new(error.code(), error.to_string())
            .at(&shared.model)
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

/// Checks a plan against a problem, which need not be the one that it was made for.
#[pyfunction]
pub(crate) fn check(py: Python<'_>, problem: &Problem, plan: &Plan) -> Result<String> {
    py.detach(|| json(&report(&problem.inner, &plan.document)?))
}
