//! Tabu search on the simulator.
//!
//! Every step samples some moves, most of them on the critical path, and makes the best one even if the makespan grows.
//! A move may not be reversed for some steps, unless that gives the best schedule so far. A walk that has not improved
//! for many steps returns to the best schedule and continues from there.
//!
//! Glover, "Tabu search, part I", ORSA Journal on Computing 1989; moves on the critical path as in Nowicki and
//! Smutnicki, "A fast taboo search algorithm for the job shop problem", Management Science 1996.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use stagewright_core::graph::{ClassId, OpId};
use stagewright_core::ids::Keyed;

use super::instance::Instance;
use super::moves::{Move, SearchState};
use super::rounds::{self, Ground, Walker};
use super::schedule::{Best, Score, is_better};
use super::search::SearchSolver;
use super::start::starts;

/// Number of steps of each walk in the first round.
const FIRST_STEPS: u64 = 25;
/// Number of moves sampled per step.
const LOOKED_AT: usize = 12;
/// Minimum and maximum number of steps for which a move may not be reversed.
const TENURE: [u64; 2] = [8, 24];
/// Steps without an improvement after which a walk returns to the best schedule.
const PATIENCE: u64 = 200;

/// Tabu search from list schedules.
pub static TABU: SearchSolver = SearchSolver {
    name: "tabu",
    summary: "tabu search on the simulator, from list schedules (makespan)",
    counts_simulations: false,
    starts_from_plan: true,
    begin: starts,
    run: |search, context| rounds::run(walk, FIRST_STEPS, None, search, context),
};

/// The tabu list: the step at which each prohibition ends.
struct Forbidden {
    devices: usize,
    /// By class and device: step until which the class may not move to the device.
    homes: Vec<u64>,
    /// By operator: step until which its queue position may not be exchanged.
    places: Keyed<OpId, u64>,
}

impl Forbidden {
    /// An empty list.
    fn new(instance: &Instance<'_>) -> Forbidden {
        let (graph, devices) = (instance.graph(), instance.device_count());
        Forbidden {
            devices,
            homes: vec![0; graph.class_count() * devices],
            places: Keyed::filled(0, graph.operator_count()),
        }
    }

    fn allows(&self, made: &Move, state: &SearchState, step: u64) -> bool {
        let here = |class: ClassId| state.home(class).index();
        made.classes().all(|class| self.homes[class.index() * self.devices + here(class)] <= step)
            && state.swapped(made).into_iter().flatten().all(|op| self.places[op] <= step)
    }

    /// Forbids reversing a move.
    fn forbid(&mut self, made: &Move, state: &SearchState, until: u64) {
        for &(class, from) in made.homes() {
            self.homes[class.index() * self.devices + from.index()] = until;
        }
        for op in state.swapped(made).into_iter().flatten() {
            self.places[op] = until;
        }
    }
}

fn walk(
    ground: &Ground<'_, '_>,
    Walker { evaluator, choice }: &mut Walker<'_, '_>,
    start: &Best,
    steps: u64,
    rng: &mut ChaCha8Rng,
) -> Best {
    let (instance, graph) = (ground.instance, ground.instance.graph());
    let mut forbidden = Forbidden::new(instance);
    let mut best = start.clone();
    let mut state = SearchState::new(&start.schedule, &ground.order, ground.instance);
    let mut now = evaluator.settle(&state.schedule);
    state.see(evaluator.settled(), graph);
    let mut found_at = 0;
    for step in 1..=steps {
        // The best sampled move, stored as its inverse: undoing the stored move makes the sampled one again.
        let mut chosen: Option<(Score, Move)> = None;
        for _ in 0..LOOKED_AT {
            if ground.is_over(evaluator, best.score) {
                return best;
            }
            let Some(made) = state.step(instance, &ground.groups, ground.guidance, choice, rng) else {
                continue;
            };
            let is_allowed = forbidden.allows(&made, &state, step);
            let mut limit = chosen.as_ref().map_or(f64::INFINITY, |chosen| chosen.0.energy());
            if !is_allowed {
                limit = limit.min(best.score.energy());
            }
            let score = evaluator.change(state.changes(&made, graph), limit);
            choice.learn(made.kind, score.map_or(0.0, |score| (now.energy() - score.energy()).max(0.0)));
            evaluator.take_back();
            let redo = state.undo(&made, instance);
            if let Some(score) = score.filter(|score| score.energy() < limit) {
                chosen = Some((score, redo));
            }
        }
        let Some((score, redo)) = chosen else { continue };
        let made = state.undo(&redo, instance);
        evaluator.change(state.changes(&made, graph), f64::INFINITY);
        evaluator.keep();
        now = score;
        forbidden.forbid(&made, &state, step + rng.random_range(TENURE[0]..=TENURE[1]));
        if is_better(score, best.score) {
            best = Best { score, schedule: state.schedule.clone() };
            found_at = step;
        }
        if step - found_at > PATIENCE {
            state = SearchState::new(&best.schedule, &ground.order, instance);
            now = evaluator.settle(&state.schedule);
            found_at = step;
        }
        state.see(evaluator.settled(), graph);
    }
    best
}
