//! Calls for a plan document without calls: the step between a split and its latency.

use stagewright_core::calls::assign;
use stagewright_core::cluster::Cluster;
use stagewright_core::document::{ClusterDocument, GraphDocument, ObjectiveKind, PlanDocument};
use stagewright_core::graph::Graph;
use stagewright_core::objective::Objective;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;

use crate::placement::placement;

/// Adds calls to the accelerators of a split, by [`assign`], if the plan's objective is latency and no device has any.
/// Returns whether it did. Leaves a plan that does not match the documents unchanged, so that a checker can report the
/// error.
pub fn assign_calls(graph: &GraphDocument, cluster: &ClusterDocument, plan: &mut PlanDocument) -> bool {
    let has_calls = plan.devices.iter().any(|device| device.calls.is_some());
    if plan.objective.kind != ObjectiveKind::Latency || has_calls || plan.devices.is_empty() {
        return false;
    }
    let Some((problem, placement)) = read(graph, cluster, plan) else { return false };
    let placement = assign(&problem, &placement);
    for device in &mut plan.devices {
        // A split of the reference package numbers its devices, but calls have no pipeline order.
        device.stage = None;
        let Some(id) = problem.cluster().device_named(&device.name) else { continue };
        if problem.pools()[problem.pool_of(id)].host {
            continue;
        }
        let mut calls: Vec<Vec<String>> = Vec::new();
        for op in problem.graph().operators().filter(|&op| placement.device_of(op) == id) {
            let call = placement.call_of(op) as usize;
            calls.resize_with(calls.len().max(call + 1), Vec::new);
            calls[call].push(problem.graph().operator(op).name.clone());
        }
        device.calls = Some(calls);
    }
    true
}

/// The problem of the documents, and its placement if every operator is on one device of the cluster.
fn read(
    graph: &GraphDocument,
    cluster: &ClusterDocument,
    plan: &PlanDocument,
) -> Option<(Problem, Placement)> {
    let graph = Graph::from_document(graph.clone()).ok()?;
    let cluster = Cluster::from_document(cluster.clone()).ok()?;
    let objective = Objective::Latency { calls: plan.objective.calls.unwrap_or(1) };
    let problem = Problem::new(graph, cluster, objective).ok()?;
    let placement = placement(&problem, plan).ok()?;
    Some((problem, placement))
}
