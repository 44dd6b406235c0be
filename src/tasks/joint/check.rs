//! The check of a joint plan.

use serde::Serialize;
use stagewright_core::document::JointPlanDocument;
use stagewright_report::throughput::joint_throughput;
use stagewright_verify::{CheckError, JointReport, JointVerdict, check_joint, check_joint_layers};

use super::graph::tokens;
use super::{Joint, PlannedModel, text};
use crate::failure::{Failure, Result};
use crate::tasks::cluster::ClusterSummary;
use crate::tasks::{Checked, Session, Shown, json};

/// The report as JSON.
#[derive(Serialize)]
struct Summary {
    holds: bool,
    /// The cluster for which the plan was checked; absent if the devices are those of a file of Piper.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<ClusterSummary>,
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
            let plan = match task.given_devices()? {
                Some(cluster) => JointPlanDocument { cluster: Some(cluster), ..plan.clone() },
                None => plan.clone(),
            };
            check_joint_layers(document, &plan).map_err(wrong)?
        }
        PlannedModel::Graph { imported, .. } => {
            let joined = task.joined(imported, &plan, label)?;
            joined.notes.iter().for_each(|note| session.note(note));
            check_joint(&joined.graph, &joined.cluster, &plan).map_err(wrong)?
        }
    };
    let summary = Summary {
        holds: report.holds(),
        cluster: task.cluster_summary(&plan),
        value_s: report.value_s,
        bound: verdict(&report),
        violations: report.violations.iter().map(ToString::to_string).collect(),
    };
    let cluster = match &summary.cluster {
        Some(cluster) => cluster.text(),
        None => "that of the file of Piper".to_owned(),
    };
    let tokens = task.planned_graph().and_then(|(_, imported)| tokens(&imported.graph));
    let throughput = report
        .value_s
        .and_then(|value| joint_throughput(&plan.objective, plan.execution.as_ref(), value, tokens));
    Ok(Checked {
        holds: summary.holds,
        value: report.value_s,
        bound: plan.bound.value_s,
        is_proved: summary.bound == "verified",
        violations: summary.violations.clone(),
        shown: Shown::new(json(&summary)?, move |width| {
            text::checked(&plan, &report, throughput.as_ref(), &cluster, width)
        }),
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
