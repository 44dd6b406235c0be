//! Labels for the throughput of contiguous splits.
//!
//! The exact splitter finds one optimum. Others come from copies of the problem in which the cost of every operator is
//! perturbed by at most ε, relatively. Every value then changes by at most ε too, so the optimum of such a copy is
//! within (1 + ε) / (1 − ε) of the original optimum, and since ε is chosen for the threshold of labels, that optimum
//! always counts. Remaining places in the label are filled by a walk over splits near the best: units move to a
//! neighbouring stage while the value stays below the threshold.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::RngExt;
use stagewright_core::cluster::{Cluster, DeviceId};
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::graph::Graph;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Limits, Plan, Solution, SolveError, Solver};
use stagewright_dp::{Dp, DpWithin};

use super::best::Best;
use super::{LabelEffort, MAX_PLANS, MEMORY, WORSE, Work, within};

/// Share of the effort for the unperturbed problem.
const EXACT: f64 = 0.5;
/// Share of the effort after which the walk starts at the latest.
const SPLITTING: f64 = 0.92;
/// Number of steps of the splitter that count as one simulation: both take about ten microseconds, in graphs of up to
/// [`SMALL`](super::SMALL) operators.
const STEPS_PER_SIMULATION: u64 = 64;
/// Maximum number of perturbed problems.
const OTHERS: u64 = 2 * MAX_PLANS as u64;
/// Random stream of the walk, after those of the perturbed problems, and its number of moves.
const WALK: u64 = OTHERS + 1;
const MOVES: u64 = 300;
/// Largest relative perturbation of costs, ε: (1 + ε) / (1 − ε) is 1 + [`WORSE`].
pub(super) const OFF: f64 = WORSE / (2.0 + WORSE);

/// The effort for a problem, in seconds or in steps of the splitter.
struct Budget {
    /// The whole effort, in seconds or steps.
    all: f64,
    /// Start of the work, if the effort is in seconds; `None` if it is in steps.
    began: Option<Instant>,
    /// The steps taken, if the effort is in steps.
    steps: u64,
}

impl Budget {
    fn new(effort: LabelEffort, problem: &Problem) -> Budget {
        let Limits { time, simulations, .. } = effort.limits(problem);
        let steps = simulations.unwrap_or(0).saturating_mul(STEPS_PER_SIMULATION);
        let all = time.map_or(steps as f64, |time| time.as_secs_f64());
        Budget { all, began: time.map(|_| Instant::now()), steps: 0 }
    }

    /// The effort that remains until a share of the whole effort is spent.
    fn left(&self, share: f64) -> f64 {
        let spent = self.began.map_or(self.steps as f64, |began| began.elapsed().as_secs_f64());
        (self.all * share - spent).max(0.0)
    }

    /// Whether the time is over. Always false if the effort is in steps: they do not end a walk, whose moves are
    /// counted.
    fn is_over(&self) -> bool {
        self.began.is_some() && self.left(1.0) == 0.0
    }

    /// Splits a problem with a part of the effort.
    fn split(
        &mut self,
        problem: &Problem,
        turn: u64,
        part: f64,
        from: Option<Placement>,
        work: &Work,
    ) -> Result<Solution, SolveError> {
        let time = self.began.map(|_| Duration::from_secs_f64(part));
        let limits = Limits { time, memory: Some(MEMORY), gap: 0.0, simulations: None };
        let found = within(work, turn, limits, from, |context| match time {
            Some(_) => Dp.solve(problem, context),
            None => DpWithin { steps: part as u64 }.solve(problem, context),
        })?;
        let steps = found.statistics.iter().find(|(name, _)| *name == "steps");
        self.steps += steps.map_or(0, |(_, steps)| *steps);
        Ok(found)
    }
}

/// Splits the problem and perturbed copies of it.
pub(super) fn search(best: &mut Best<'_>, effort: LabelEffort, work: &Work) -> Result<(), SolveError> {
    let problem = best.problem();
    let mut budget = Budget::new(effort, problem);
    let half = budget.left(EXACT);
    best.take(budget.split(problem, 0, half, best.placement().cloned(), work)?);
    let cluster = Arc::new(problem.cluster().clone());
    for turn in 1..=OTHERS {
        let left = budget.left(SPLITTING);
        if best.is_full() || left == 0.0 {
            break;
        }
        let other = with_other_costs(problem, &cluster, work.seed, turn);
        // No warm start from the best placement: it would be the result whenever a limit ends the search.
        let share = left / (1 + (OTHERS - turn).min(MAX_PLANS as u64)) as f64;
        let found = budget.split(&other, turn, share, None, work)?.plan;
        if let Some(plan) = found.and_then(|plan| Plan::try_new(problem, plan.placement).ok()) {
            best.take_plan(plan);
        }
    }
    walk(best, &budget, work.seed);
    Ok(())
}

/// Moves units to the stages of their neighbours, one by one, starting from the best split.
fn walk(best: &mut Best<'_>, budget: &Budget, seed: u64) {
    let problem = best.problem();
    let units = Units::of(problem);
    let Some(start) = best.placement() else { return };
    let mut device_of: Vec<DeviceId> = problem.graph().operators().map(|op| start.device_of(op)).collect();
    let stages = start.used();
    let mut rng = seed::stream(seed, WALK);
    for _ in 0..MOVES {
        if best.is_full() || budget.is_over() {
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
    Problem::pinned(graph, cluster.clone(), *problem.objective(), problem.pins().clone())
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
