//! Labels for the throughput of contiguous splits.
//!
//! The exact splitter finds one optimum. Others come from the same problem with the cost of every operator off by at most ε:
//! no value of a placement is off by more, so the optimum of such a problem is within (1 + ε) / (1 − ε) of that of the
//! original, and with ε chosen for the threshold of labels it always counts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::RngExt;
use stagewright_core::cluster::Cluster;
use stagewright_core::graph::Graph;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Plan, SolveError, Solver};
use stagewright_dp::Dp;

use super::best::Best;
use super::{MOST_PLANS, WORSE, Work, within};

/// The share of the time that the problem itself gets.
const EXACT: f64 = 0.5;
/// Most problems with other costs.
const OTHERS: u64 = 2 * MOST_PLANS as u64;
/// How far costs are off: (1 + ε) / (1 − ε) is 1 + [`WORSE`].
pub(super) const OFF: f64 = WORSE / (2.0 + WORSE);

/// Splits the problem, and others like it.
pub(super) fn search(best: &mut Best<'_>, time: Duration, work: &Work) -> Result<(), SolveError> {
    let problem = best.problem();
    let end = Instant::now() + time;
    let split = |problem: &Problem, turn: u64, time: Duration, from: Option<Placement>| {
        within(work, turn, time, from, |context| Dp.solve(problem, context))
    };
    best.take(split(problem, 0, time.mul_f64(EXACT), best.placement().cloned())?);
    let cluster = Arc::new(problem.cluster().clone());
    for turn in 1..=OTHERS {
        let left = end.saturating_duration_since(Instant::now());
        if best.is_full() || left.is_zero() {
            break;
        }
        let other = with_other_costs(problem, &cluster, work.seed, turn);
        // Without the best placement to start from: it would be the answer wherever time ends the search.
        let share = left / (1 + (OTHERS - turn).min(MOST_PLANS as u64)) as u32;
        let found = split(&other, turn, share, None)?.plan;
        if let Some(plan) = found.and_then(|plan| Plan::try_new(problem, plan.placement).ok()) {
            best.take_plan(plan);
        }
    }
    Ok(())
}

/// The same problem with the costs of every operator off by at most [`OFF`].
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
