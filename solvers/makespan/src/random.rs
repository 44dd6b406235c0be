//! Baselines without a list schedule: random placements, and annealing from one of them.
//!
//! Drawing as many random placements as time allows shows whether a solver searches at all; the walks of `annealing`
//! from a random placement show the value of starting from list schedules.

use rand::{Rng, RngExt};
use stagewright_core::cluster::DeviceId;
use stagewright_core::seed;
use stagewright_core::solver::{Context, SolveError};

use super::instance::Instance;
use super::schedule::{Best, Evaluator, Schedule};
use super::search::{Search, SearchSolver, most_simulations};
use super::{annealing, assigned, rounds};

/// The best of many random placements. Each colocation class goes to a device drawn uniformly from those that may run
/// it.
pub static RANDOM_PLACEMENTS: SearchSolver = SearchSolver {
    name: "random",
    summary: "the best of random placements (makespan, for comparison)",
    counts_simulations: true,
    starts_from_plan: false,
    begin: start,
    run: draw,
};

/// Simulated annealing from a random placement.
pub static ANNEALING_FROM_RANDOM: SearchSolver = SearchSolver {
    name: "annealing-from-random",
    summary: "simulated annealing on the simulator, from a random placement (makespan, for comparison)",
    counts_simulations: true,
    starts_from_plan: false,
    begin: start,
    run: |search, context| rounds::run(annealing::walk, annealing::FIRST_STEPS, None, search, context),
};

/// First random stream of placements, far from the streams of walks.
const PLACEMENTS: u64 = 1 << 48;

/// A random placement with priorities derived from it. O(pins + operators log operators).
fn drawn(instance: &Instance<'_>, rng: &mut impl Rng) -> Schedule {
    let graph = instance.graph();
    let mut device_of = vec![DeviceId(0); graph.operator_count()];
    for class in graph.class_ids() {
        let members = graph.class(class);
        let homes = instance.homes(members[0]);
        let home = homes[rng.random_range(0..homes.len())];
        for op in members {
            device_of[op.index()] = home;
        }
    }
    let order = assigned::order(instance, &device_of);
    Schedule::by_order(device_of, &order)
}

/// The first random placement.
fn start(evaluator: &mut Evaluator<'_, '_>, context: &mut Context<'_>) -> Result<Vec<Best>, SolveError> {
    let first = drawn(evaluator.instance(), &mut seed::stream(context.seed(), PLACEMENTS));
    Ok(Best::better_of(None, evaluator, first).into_iter().collect())
}

/// Draws placements until one of the limits.
fn draw(search: &mut Search<'_, '_>, context: &mut Context<'_>) -> Result<(), SolveError> {
    let limit = most_simulations(search.instance, context);
    let mut number = PLACEMENTS;
    while search.evaluator.runs < limit && !search.is_over() {
        number += 1;
        let next = drawn(search.instance, &mut seed::stream(context.seed(), number));
        if let Some(found) = Best::better_of(None, &mut search.evaluator, next) {
            search.take(found, context);
        }
    }
    Ok(())
}
