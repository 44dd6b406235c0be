//! The complete check.

use stagewright_core::document::{
    ClusterDocument, Execution, GraphDocument, PinsDocument, PlanDocument, Split,
};

use crate::claim::{bound, figures, gap, names, robust, second_goal, seconds, status};
use crate::constraint::memory::Memory;
use crate::constraint::{
    Placed, calls, colocation, contiguous, convex, memory, peak, pins, placement, priority, replicas,
    requirements, stages, support, waits,
};
use crate::error::CheckError;
use crate::read::{Objective, Problem};
use crate::report::{DeviceFigures, Report};
use crate::score::{Score, latency, makespan, score};
use crate::violation::Findings;

/// Checks a plan against its problem.
///
/// # Arguments
///
/// `graph` and `cluster` are the problem; a cluster inside the graph document is ignored. `pins` apply in addition to
/// the plan's own. `plan` states the rules to check it under, the placement and the claims.
///
/// # Returns
///
/// The recomputed figures, the violations, and the verdicts on the bound and on the claims about the worst case; or an
/// error if the documents don't describe a problem that this version checks. Never panics.
///
/// # Complexity
///
/// O((V + P) log V + V · K) for V operators, P tensor pins and K device kinds, plus O((V + P) · D / 64) for a convex
/// split over D devices, O(C) for C calls under latency, or O(D · M) for M microbatches of a schedule; under makespan
/// the logarithm is of V + P. A certificate of column generation is replayed within fixed limits on time and memory,
/// whatever the input.
pub fn check(
    graph: &GraphDocument,
    cluster: &ClusterDocument,
    pins: Option<&PinsDocument>,
    plan: &PlanDocument,
) -> Result<Report, CheckError> {
    let problem = Problem::read(graph, cluster, pins, plan)?;
    let mut findings = Findings::default();
    status::check(plan, problem.graph.operators.len(), &mut findings);
    gap::check(plan, &mut findings);
    names::check(plan, &mut findings);
    seconds::check(plan, &mut findings);

    let has_placement = !plan.devices.is_empty() || plan.objective.value_s.is_some();
    let examined = if has_placement { examine(&problem, plan, &mut findings)? } else { None };
    let value_s = examined.as_ref().map(|(_, _, score)| score.value);
    let feasible_value = value_s.filter(|_| findings.feasible());
    let bound = bound::check(&problem, plan, feasible_value, &mut findings);
    let placed = examined.as_ref().map(|(placed, _, _)| placed);
    let robust = robust::check(&problem, plan, placed, &mut findings)?;
    let second_goal = second_goal::check(&problem, plan, examined.as_ref(), &mut findings);

    let halves = examined.as_ref().and_then(|(_, _, score)| score.halves);
    let mut report = Report {
        value_s,
        forward_s: halves.map(|[forward, _]| forward),
        backward_s: halves.map(|[_, backward]| backward),
        devices: Vec::new(),
        uplinks: Vec::new(),
        violations: findings.finish(),
        bound,
        robust,
        second_goal,
    };
    if let Some((placed, memory, score)) = &examined {
        report.devices = device_figures(&problem, placed, memory, score);
        let groups = problem.cluster.groups.iter().map(|group| group.name.clone());
        report.uplinks = groups.zip(score.uplinks.iter().copied()).collect();
    }
    Ok(report)
}

/// The placement with its memory and score; `None` if a constraint that they depend on is broken.
type Examined<'a> = Option<(Placed<'a>, Vec<Memory>, Score)>;

fn examine<'a>(
    problem: &Problem,
    plan: &'a PlanDocument,
    findings: &mut Findings,
) -> Result<Examined<'a>, CheckError> {
    let draft = placement::check(problem, plan, findings);
    support::check(problem, &draft, findings);
    pins::check(problem, &draft, findings);
    colocation::check(problem, &draft, findings);
    let Some(placed) = draft.complete() else { return Ok(None) };

    replicas::check(problem, &placed, findings);
    requirements::check(problem, &placed, plan.requirements.as_ref(), findings);
    let (memory, score) = match problem.rules.objective {
        Objective::Throughput => pipelined(problem, &placed, findings)?,
        Objective::Latency { calls } => offloaded(problem, &placed, calls, findings)?,
        Objective::Makespan { execution } => executed(problem, &placed, plan, execution, findings)?,
    };
    let Some(score) = score else { return Ok(None) };
    figures::check(problem, plan, &score, &memory, findings);
    Ok(Some((placed, memory, score)))
}

/// Checks and scores a pipeline: the stages, the split rule, the loads.
fn pipelined(
    problem: &Problem,
    placed: &Placed,
    findings: &mut Findings,
) -> Result<(Vec<Memory>, Option<Score>), CheckError> {
    let stages = stages::check(problem, placed, findings);
    match problem.rules.split {
        Split::Contiguous => contiguous::check(problem, placed, &stages, findings),
        Split::Convex => convex::check(problem, placed, findings),
        Split::Free => {}
    }
    let memory = memory::check(problem, placed, &stages, findings);
    Ok((memory, score(problem, placed, &stages)?))
}

/// Checks and scores a placement as calls of accelerators, at most `max_calls` on each.
fn offloaded(
    problem: &Problem,
    placed: &Placed,
    max_calls: u32,
    findings: &mut Findings,
) -> Result<(Vec<Memory>, Option<Score>), CheckError> {
    let stages = stages::absent(placed, findings);
    let memory = memory::check(problem, placed, &stages, findings);
    let Some(steps) = calls::check(problem, placed, max_calls, findings) else { return Ok((memory, None)) };
    let Some(waits) = waits::check(problem, placed, &steps, findings) else { return Ok((memory, None)) };
    Ok((memory, latency(problem, placed, &steps, &waits)?))
}

/// Checks and scores a placement as one step, in which the plan's priority decides which ready operator runs first.
fn executed(
    problem: &Problem,
    placed: &Placed,
    plan: &PlanDocument,
    execution: Execution,
    findings: &mut Findings,
) -> Result<(Vec<Memory>, Option<Score>), CheckError> {
    let Some(precedence) = priority::check(problem, plan, findings) else { return Ok((Vec::new(), None)) };
    let played = makespan(problem, placed, &precedence, execution)?;
    let Some((score, peaks)) = played else { return Ok((Vec::new(), None)) };
    Ok((peak::check(problem, placed, &peaks, findings), Some(score)))
}

fn device_figures(
    problem: &Problem,
    placed: &Placed,
    memory: &[Memory],
    score: &Score,
) -> Vec<DeviceFigures> {
    let figures = placed.devices.iter().zip(memory).zip(&score.devices);
    figures
        .map(|((device, memory), score)| DeviceFigures {
            name: device.document.name.clone(),
            kind: device.document.kind.clone(),
            stage: device.document.stage,
            replicas: device.document.replicas,
            load_s: score.load,
            compute_s: score.compute,
            communication_s: score.communication,
            memory_bytes: memory.bytes,
            memory_limit: problem.usable_memory(device.kind),
        })
        .collect()
}
