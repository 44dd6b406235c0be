//! Simulated annealing on the simulator.
//!
//! A walk changes the device of a group or exchanges two queue positions, and accepts an increase of the makespan by Δ
//! with probability exp(−Δ / T), while T falls geometrically from a fraction of the typical cost of a move. The
//! acceptance threshold is drawn before the simulation, which ends as soon as the makespan is certain to exceed the
//! threshold. Schedules that exceed the memory are penalised (see [`Score::energy`](super::schedule::Score)), so that a
//! walk may pass through them.
//!
//! Kirkpatrick, Gelatt and Vecchi, "Optimization by simulated annealing", Science 1983.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use stagewright_core::bound::LowerBound;
use stagewright_core::solver::{Context, SolveError};

use super::choice::Choice;
use super::guidance::Guidance;
use super::instance::Instance;
use super::moves::SearchState;
use super::rounds::{self, Ground, Walker};
use super::schedule::{Best, Evaluator, Score, is_better};
use super::search::{Goal, Search, SearchSolver};
use super::start::starts;

/// Number of steps of each walk in the first round.
pub(super) const FIRST_STEPS: u64 = 250;
/// Maximum number of moves tried to estimate the typical cost of a move, and number of steps of a walk per tried move.
const TRIED: u64 = 32;
const STEPS_PER_TRIED: u64 = 8;
/// Temperature at the beginning and at the end of a walk, as fractions of the typical cost of a move.
const HOT: f64 = 0.25;
const COLD: f64 = 0.005;

/// Anneals from a schedule, with or without guidance, until the goal set by the limits and the bound. Returns the best
/// schedule met, which is never worse than the start. Emits every feasible improvement.
///
/// # Errors
/// If worker threads cannot be started.
pub fn anneal(
    instance: &Instance<'_>,
    start: Best,
    guidance: Option<&Guidance>,
    bound: &LowerBound,
    context: &mut Context<'_>,
) -> Result<Best, SolveError> {
    let goal = Goal::new(bound, context);
    let mut evaluator = Evaluator::without_tails(instance);
    evaluator.find_tails(context.stop());
    let mut search = Search { instance, evaluator, starts: Vec::new(), best: start, goal };
    if instance.graph().operator_count() > 0 {
        rounds::run(walk, FIRST_STEPS, guidance, &mut search, context)?;
    }
    Ok(search.best)
}

/// Simulated annealing from list schedules.
pub static ANNEALING: SearchSolver = SearchSolver {
    name: "annealing",
    summary: "simulated annealing on the simulator, from list schedules (makespan)",
    counts_simulations: true,
    starts_from_plan: true,
    begin: starts,
    run: |search, context| rounds::run(walk, FIRST_STEPS, None, search, context),
};

pub(super) fn walk(
    ground: &Ground<'_, '_>,
    Walker { evaluator, choice }: &mut Walker<'_, '_>,
    start: &Best,
    steps: u64,
    rng: &mut ChaCha8Rng,
) -> Best {
    let graph = ground.instance.graph();
    let mut best = start.clone();
    let mut state = SearchState::new(&start.schedule, &ground.order, ground.instance);
    let mut score = evaluator.settle(&state.schedule);
    state.see(evaluator.settled(), graph);
    let cooling = (COLD / HOT).powf(1.0 / steps as f64);
    let tried = TRIED.min(steps / STEPS_PER_TRIED);
    // A walk too short to try every class cannot recover from the increases that it accepts, so it starts cooler.
    let length = (steps as f64 / graph.class_count() as f64).min(1.0);
    let mut temperature =
        HOT * length * usual_cost(tried, &mut state, score.energy(), ground, evaluator, choice, rng);
    for _ in 0..steps {
        if ground.is_over(evaluator, best.score) {
            break;
        }
        temperature *= cooling;
        let Some(done) = state.step(ground.instance, &ground.groups, ground.guidance, choice, rng) else {
            continue;
        };
        // Δ may be at most −T ln u, with u uniform.
        let limit = score.energy() - temperature * (1.0 - rng.random_range(0.0..1.0f64)).ln();
        let after = evaluator.change(state.changes(&done, graph), limit);
        choice.learn(done.kind, after.map_or(0.0, |after| (score.energy() - after.energy()).max(0.0)));
        match after {
            Some(after) if after.energy() < limit => {
                score = after;
                evaluator.keep();
                state.see(evaluator.settled(), graph);
                if is_better(score, best.score) {
                    best = Best { score, schedule: state.schedule.clone() };
                }
            }
            _ => {
                evaluator.take_back();
                state.undo(&done, ground.instance);
            }
        }
    }
    best
}

/// Median cost of the moves that increase the energy.
fn usual_cost(
    tried: u64,
    state: &mut SearchState,
    energy: f64,
    ground: &Ground<'_, '_>,
    evaluator: &mut Evaluator<'_, '_>,
    choice: &Choice,
    rng: &mut ChaCha8Rng,
) -> f64 {
    let mut costs = Vec::new();
    for _ in 0..tried {
        if ground.is_over(evaluator, Score::WORST) {
            break;
        }
        let Some(made) = state.step(ground.instance, &ground.groups, ground.guidance, choice, rng) else {
            continue;
        };
        let after = evaluator.change(state.changes(&made, ground.instance.graph()), f64::INFINITY);
        costs.extend(after.map(|after| after.energy() - energy).filter(|&cost| cost > 0.0));
        evaluator.take_back();
        state.undo(&made, ground.instance);
    }
    costs.sort_by(f64::total_cmp);
    costs.get(costs.len() / 2).copied().unwrap_or(0.0)
}
