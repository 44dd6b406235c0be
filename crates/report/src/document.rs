//! Conversion of a solution into a plan document.

use stagewright_core::cluster::DeviceId;
use stagewright_core::document::{
    BoundDocument, DeviceDocument, ObjectiveKind, OriginDocument, PLAN_SCHEMA, PlanDocument, UplinkDocument,
};
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Plan, Solution, Status};

use stagewright_core::text::visible;

/// Metadata of a solve that the solution does not contain.
#[derive(Debug, Clone)]
pub struct Provenance {
    /// Display name of the solver, with the rule that chose it, if any.
    pub solver: String,
    /// Duration of the solve in seconds.
    pub seconds: f64,
    /// Seed of the solve.
    pub seed: u64,
}

/// Returns the plan document of a solution.
pub fn plan_document(problem: &Problem, solution: &Solution, provenance: Provenance) -> PlanDocument {
    let plan = solution.plan.as_ref();
    PlanDocument {
        schema: PLAN_SCHEMA.into(),
        status: solution.status.into(),
        solver: provenance.solver,
        objective: problem.objective().to_document(solution.value()),
        bound: bound_document(problem, solution),
        gap: solution.gap(),
        seconds: provenance.seconds,
        seed: provenance.seed,
        origin: Some(OriginDocument::of_library()),
        stop: solution.stop.map(|stop| stop.name().into()),
        // A name cannot break a line, so each of several reasons has one line.
        reason: solution.reason.as_deref().map(|reason| visible(reason).into_owned()),
        model: None,
        throughput: None,
        sources: None,
        cluster: Some(problem.cluster().document().clone()),
        pins: problem.pins().clone(),
        devices: plan.map(|plan| devices(problem, plan)).unwrap_or_default(),
        uplinks: plan.map(|plan| uplinks(problem, plan)).unwrap_or_default(),
        priority: plan.and_then(|plan| priority(problem, plan)),
        robust: None,
        requirements: None,
        second_goal: None,
    }
}

fn bound_document(problem: &Problem, solution: &Solution) -> BoundDocument {
    let bound = &solution.bound;
    if solution.status == Status::Infeasible {
        return BoundDocument { value_s: None, source: bound.source.into(), certificate: None };
    }
    BoundDocument {
        value_s: Some(bound.value),
        source: bound.source.into(),
        certificate: bound.certificate.as_ref().map(|certificate| certificate.to_document(problem)),
    }
}

fn devices(problem: &Problem, plan: &Plan) -> Vec<DeviceDocument> {
    let (graph, cluster) = (problem.graph(), problem.cluster());
    let ordered =
        !plan.placement.stages().is_empty() && problem.objective().kind() == ObjectiveKind::Throughput;
    let mut ops: Vec<Vec<String>> = vec![Vec::new(); cluster.device_count()];
    for op in graph.operators() {
        ops[plan.placement.device_of(op).index()].push(graph.operator(op).name.clone());
    }
    let mut calls = calls(problem, plan);
    plan.evaluation
        .devices
        .iter()
        .zip(0..)
        .map(|(load, stage)| DeviceDocument {
            name: cluster.device_name(load.device),
            kind: cluster.kind(cluster.kind_of(load.device)).name.clone(),
            stage: ordered.then_some(stage),
            replicas: load.replicas,
            calls: std::mem::take(&mut calls[load.device.index()]),
            load_s: load.load(),
            compute_s: load.compute(),
            communication_s: load.communication(),
            memory_bytes: load.memory_bytes,
            ops: std::mem::take(&mut ops[load.device.index()]),
        })
        .collect()
}

/// Operators of each call of each device, by device index. `None` for hosts and for objectives without calls.
fn calls(problem: &Problem, plan: &Plan) -> Vec<Option<Vec<Vec<String>>>> {
    let (graph, cluster) = (problem.graph(), problem.cluster());
    let mut calls = vec![None; cluster.device_count()];
    if problem.objective().kind() != ObjectiveKind::Latency {
        return calls;
    }
    let mut numbers: Vec<(DeviceId, u32)> =
        plan.evaluation.calls.iter().map(|call| (call.device, call.call)).collect();
    numbers.sort_unstable();
    for op in graph.operators() {
        let call = (plan.placement.device_of(op), plan.placement.call_of(op));
        // Hosts have no calls.
        let Ok(index) = numbers.binary_search(&call) else { continue };
        let first = numbers.partition_point(|number| number.0 < call.0);
        let of_device: &mut Vec<Vec<String>> = calls[call.0.index()].get_or_insert_default();
        if of_device.len() <= index - first {
            of_device.resize(index - first + 1, Vec::new());
        }
        of_device[index - first].push(graph.operator(op).name.clone());
    }
    calls
}

fn uplinks(problem: &Problem, plan: &Plan) -> Vec<UplinkDocument> {
    // The latency model has no uplinks.
    if problem.objective().kind() == ObjectiveKind::Latency {
        return Vec::new();
    }
    let groups = &problem.cluster().document().groups;
    groups
        .iter()
        .zip(&plan.evaluation.uplinks)
        .map(|(group, load)| UplinkDocument { group: group.name.clone(), load_s: load.iter().sum() })
        .collect()
}

/// Operator names by decreasing priority. `None` unless the objective is the makespan and the placement sets
/// priorities.
fn priority(problem: &Problem, plan: &Plan) -> Option<Vec<String>> {
    let priority = plan.placement.priority();
    if problem.objective().kind() != ObjectiveKind::Makespan || priority.is_empty() {
        return None;
    }
    Some(priority.iter().map(|&op| problem.graph().operator(op).name.clone()).collect())
}
