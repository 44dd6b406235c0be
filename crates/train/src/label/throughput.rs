//! Labels for the throughput of contiguous splits.
//!
//! The exact splitter finds one optimum. Others come from copies of the problem in which the cost of every operator is
//! perturbed by at most ε, relatively. Every value then changes by at most ε too, so the optimum of such a copy is
//! within (1 + ε) / (1 − ε) of the original optimum, and with ε chosen for the threshold of labels it always counts.
//! Remaining places are filled by a walk over splits near the best: units move to a neighbouring stage while the value
//! stays below the threshold.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::RngExt;
use stagewright_core::cluster::{Cluster, DeviceId};
use stagewright_core::contract::{UnitId, Units};
use stagewright_core::graph::Graph;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Plan, SolveError, Solver};
use stagewright_dp::Dp;

use super::best::Best;
use super::{MAX_PLANS, WORSE, Work, within};

/// Share of the time for the unperturbed problem.
const EXACT: f64 = 0.5;
/// Share of the time after which the walk starts at the latest.
const SPLITTING: f64 = 0.92;
/// Most perturbed problems.
const OTHERS: u64 = 2 * MAX_PLANS as u64;
/// Random stream of the walk, after those of the perturbed problems, and its number of steps.
const WALK: u64 = OTHERS + 1;
const STEPS: u64 = 300;
/// Largest relative perturbation of costs, ε: (1 + ε) / (1 − ε) is 1 + [`WORSE`].
pub(super) const OFF: f64 = WORSE / (2.0 + WORSE);

/// Splits the problem and perturbed copies of it.
pub(super) fn search(best: &mut Best<'_>, time: Duration, work: &Work) -> Result<(), SolveError> {
    let problem = best.problem();
    let began = Instant::now();
    let split = |problem: &Problem, turn: u64, time: Duration, from: Option<Placement>| {
        within(work, turn, time, from, |context| Dp.solve(problem, context))
    };
    best.take(split(problem, 0, time.mul_f64(EXACT), best.placement().cloned())?);
    let cluster = Arc::new(problem.cluster().clone());
    for turn in 1..=OTHERS {
        let left = time.mul_f64(SPLITTING).saturating_sub(began.elapsed());
        if best.is_full() || left.is_zero() {
            break;
        }
        let other = with_other_costs(problem, &cluster, work.seed, turn);
        // No warm start from the best placement: it would be the result whenever time ends the search.
        let share = left / (1 + (OTHERS - turn).min(MAX_PLANS as u64)) as u32;
        let found = split(&other, turn, share, None)?.plan;
        if let Some(plan) = found.and_then(|plan| Plan::try_new(problem, plan.placement).ok()) {
            best.take_plan(plan);
        }
    }
    walk(best, began + time, work.seed);
    Ok(())
}

/// Moves units to the stages of their neighbours, one by one, starting from the best split.
fn walk(best: &mut Best<'_>, end: Instant, seed: u64) {
    let problem = best.problem();
    let units = Units::new(problem);
    let Some(start) = best.placement() else { return };
    let mut device_of: Vec<DeviceId> = problem.graph().operators().map(|op| start.device_of(op)).collect();
    let stages = start.used();
    let mut rng = seed::stream(seed, WALK);
    for _ in 0..STEPS {
        if best.is_full() || Instant::now() >= end {
            return;
        }
        let unit = UnitId::new(rng.random_range(0..units.len()));
        let device = |unit: UnitId| device_of[units.members(unit)[0].index()];
        let here = device(unit);
        let near = units.successors(unit).iter().chain(units.predecessors(unit));
        let there: Vec<DeviceId> = near.map(|&near| device(near)).filter(|&near| near != here).collect();
        if there.is_empty() {
            continue;
        }
        let there = there[rng.random_range(0..there.len())];
        let before = device_of.clone();
        units.members(unit).iter().for_each(|op| device_of[op.index()] = there);
        let used = stages.iter().copied().filter(|stage| device_of.contains(stage)).collect();
        let moved = Placement::with_stages(device_of.clone(), used, BTreeMap::new());
        match Plan::try_new(problem, moved) {
            Ok(plan) if best.counts(plan.value()) => best.take_plan(plan),
            _ => device_of = before,
        }
    }
}

/// The problem with the costs of every operator perturbed by at most [`OFF`], relatively.
pub(super) fn with_other_costs(problem: &Problem, cluster: &Arc<Cluster>, seed: u64, turn: u64) -> Problem {
    let mut rng = seed::stream(seed, turn);
    let mut graph = problem.graph().document().clone();
    for operator in &mut graph.operators {
        let times = 1.0 + OFF * rng.random_range(-1.0..=1.0);
        operator.seconds.values_mut().for_each(|seconds| *seconds *= times);
        operator.flop = operator.flop.map(|flop| times * flop);
        operator.bytes_moved = operator.bytes_moved.map(|bytes| times * bytes);
    }
    let graph = Graph::from_document(graph).expect("costs were changed by a few percent alone");
    Problem::new(graph, cluster.clone(), *problem.objective(), problem.pins().clone())
        .expect("costs were changed by a few percent alone")
}

#[cfg(test)]
mod tests {
    use stagewright_core::evaluate::evaluate;

    use super::super::super::instance::{first_plan, instance};
    use super::super::super::recipe::{Recipe, RecipeDocument, Target};
    use super::*;

    #[test]
    fn other_costs_keep_every_value_within_the_threshold() {
        let document = RecipeDocument {
            seed: 4,
            families: None,
            except: Vec::new(),
            operators: [20, 60],
            devices: [2, 6],
            objectives: vec![Target::Throughput],
            communication: None,
            room: None,
            alike: false,
        };
        let recipe = Recipe::new(document).unwrap();
        let mut differs = 0;
        for index in 0..40 {
            let problem = instance(&recipe, index).problem;
            let placement = first_plan(&problem).unwrap().unwrap().placement;
            let value = evaluate(&problem, &placement).value;
            let cluster = Arc::new(problem.cluster().clone());
            let ratio = evaluate(&with_other_costs(&problem, &cluster, 9, index), &placement).value / value;
            assert!((1.0 - OFF - 1e-12..=1.0 + OFF + 1e-12).contains(&ratio), "{index}: {ratio}");
            differs += u32::from((ratio - 1.0).abs() > 1e-6);
        }
        assert!(differs > 30, "{differs}");
        assert!(((1.0 + OFF) / (1.0 - OFF) - 1.0 - WORSE).abs() < 1e-12);
    }
}
