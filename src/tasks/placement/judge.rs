//! The figures of a placement, as the independent checker computes them.

use stagewright_core::document::{
    BoundDocument, ClusterDocument, GraphDocument, PinsDocument, PlanDocument, PlanStatus,
};
use stagewright_core::objective::Objective;
use stagewright_formats::calls::assign_calls;
use stagewright_verify::{CheckError, check};

/// Evaluates the placement of a plan with the independent checker. Returns the plan with the new figures and without
/// claims, without the command, options, seconds and seed of the solve that found it, and the names of the rules that it
/// breaks.
///
/// # Errors
/// If the documents cannot be checked.
pub fn judge(
    mut plan: PlanDocument,
    graph: &GraphDocument,
    cluster: &ClusterDocument,
    pins: Option<&PinsDocument>,
    objective: &Objective,
) -> Result<(PlanDocument, Vec<String>), CheckError> {
    plan.objective = objective.to_document(None);
    plan.status = PlanStatus::Feasible;
    plan.bound = BoundDocument { value_s: None, source: "none".into(), certificate: None };
    plan.gap = None;
    plan.pins = pins.cloned().unwrap_or_default();
    plan.cluster = Some(cluster.clone());
    // Those of the file are for the question that the plan was made for.
    (plan.sources, plan.throughput) = (None, None);
    (plan.requirements, plan.second_goal, plan.robust) = (None, None, None);
    // The solve that found the plan, with its command, is not the one that evaluates it.
    (plan.origin, plan.model, plan.stop) = (None, None, None);
    (plan.seconds, plan.seed) = (0.0, 0);
    assign_calls(graph, cluster, &mut plan);
    let report = check(graph, cluster, pins, &plan)?;
    plan.objective.value_s = report.value_s;
    for (device, figures) in plan.devices.iter_mut().zip(&report.devices) {
        device.load_s = figures.load_s;
        device.compute_s = figures.compute_s;
        device.communication_s = figures.communication_s;
        device.memory_bytes = figures.memory_bytes;
    }
    let broken = report.violations.iter().filter(|violation| violation.kind.breaks_feasibility());
    let mut breaks: Vec<String> = broken.map(|violation| violation.kind.name().to_owned()).collect();
    breaks.sort_unstable();
    breaks.dedup();
    plan.reason = report.value_s.is_none().then(|| "the placement cannot be evaluated".to_owned());
    Ok((plan, breaks))
}
