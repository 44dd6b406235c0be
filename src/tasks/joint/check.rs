//! The check of a joint plan.

use serde::Serialize;
use stagewright_core::document::JointPlanDocument;
use stagewright_verify::{CheckError, JointReport, JointVerdict, check_joint, check_joint_layers};

use super::{Joint, PlannedModel, text};
use crate::code::U002;
use crate::failure::{Failure, Result};
use crate::tasks::{Checked, Session, Shown, json};

/// The report as JSON.
#[derive(Serialize)]
struct Summary {
    holds: bool,
    value_s: Option<f64>,
    bound: &'static str,
    violations: Vec<String>,
}

/// Verifies a plan.
///
/// # Errors
/// If the documents cannot be checked (codes that begin with V), or there is no cluster (U002).
pub(super) fn check(
    task: &Joint,
    plan: JointPlanDocument,
    label: &str,
    session: &mut Session<'_>,
) -> Result<Checked> {
    let model = task.planned()?;
    let wrong = |error: CheckError| {
        Failure::new(error.code(), error.to_string())
            .at(format!("{}, {label}", model.label()))
            .help("correct the named document; the plan itself was not checked")
    };
    let report = match model {
        PlannedModel::Layers { document, .. } => {
            let plan = match task.given_cluster() {
                Some(cluster) => JointPlanDocument { cluster: Some(cluster.clone()), ..plan.clone() },
                None => plan.clone(),
            };
            check_joint_layers(document, &plan).map_err(wrong)?
        }
        PlannedModel::Graph { imported, .. } => {
            let Some(cluster) = task.cluster_of(&plan) else {
                return Err(Failure::new(U002, "no cluster given, and the plan contains none")
                    .at(label)
                    .help(format!("give one with {}", task.place()("cluster"))));
            };
            let (graph, cluster, notes) = task.priced(imported, cluster)?;
            notes.iter().for_each(|note| session.note(note));
            check_joint(&graph, &cluster, &plan).map_err(wrong)?
        }
    };
    let summary = Summary {
        holds: report.holds(),
        value_s: report.value_s,
        bound: verdict(&report),
        violations: report.violations.iter().map(ToString::to_string).collect(),
    };
    Ok(Checked {
        holds: summary.holds,
        value: report.value_s,
        bound: plan.bound.value_s,
        is_proved: summary.bound == "verified",
        violations: summary.violations.clone(),
        shown: Shown::new(json(&summary)?, move |width| text::checked(&plan, &report, width)),
    })
}

/// Name of a verdict in JSON.
fn verdict(report: &JointReport) -> &'static str {
    match report.bound {
        JointVerdict::NoClaim => "no-claim",
        JointVerdict::NotVerified => "not-verified",
        JointVerdict::Refuted => "refuted",
        _ => "verified",
    }
}
