//! Many walks, in rounds.
//!
//! A round starts a fixed number of walks, each from a member of a population and on its own random stream, the first
//! cool and the last hot: cool walks polish, hot walks escape from local minima. Their results become the next
//! population, with the worst replaced by the best, and the walks of the next round are longer. Neither the walks nor
//! their use depends on the number of threads. The rounds end when a value meets the target, at a limit, or after
//! several rounds in a row without an improvement, each of them longer than the round of the last improvement.

use rayon::prelude::*;
use stagewright_core::contraction::Units;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Context, Event, Result};

use super::anneal::{Cooling, Found, anneal};
use super::moves::Lines;
use super::state::{Assignment, DeviceOf};

/// Number of walks per round.
const TASKS: u64 = 8;
/// Maximum number of rounds, and of consecutive rounds without an improvement: the budget of a search without
/// a time limit.
const ROUNDS: u64 = 40;
const PATIENCE: u64 = 8;
/// Number of steps of a walk in the first round per pair of a unit and a device, and minimum number of steps.
const STEPS_PER_PAIR: u64 = 8;
const FEWEST_STEPS: u64 = 1 << 8;
/// Maximum number of steps of a walk in the first round and in any round.
const MAX_STEPS_AT_FIRST: u64 = 1 << 17;
const MAX_STEPS: u64 = 1 << 21;
/// Growth factor of the steps from round to round.
const GROWTH: f64 = 1.5;
/// Start temperatures of the coolest and the hottest walk, and common end temperature.
const COOLEST: f64 = 0.001;
const HOTTEST: f64 = 0.05;
const COLD: f64 = 0.00001;

/// Best result of all rounds.
pub(super) struct Outcome {
    /// The device of every unit.
    pub(super) device_of: DeviceOf,
    /// Number of moves tried.
    pub(super) steps: u64,
}

/// Steps of a walk in a round.
fn steps(problem: &Problem, units: &Units, round: u64) -> u64 {
    let pairs = units.len() as u64 * problem.cluster().device_count() as u64;
    let first = pairs.saturating_mul(STEPS_PER_PAIR).clamp(FEWEST_STEPS, MAX_STEPS_AT_FIRST);
    ((first as f64 * GROWTH.powi(round as i32)) as u64).min(MAX_STEPS)
}

/// The cooling schedule of a walk of a round; the first walk is the coolest.
pub(super) fn cooling(task: u64, steps: u64, target: f64) -> Cooling {
    let hot = COOLEST * (HOTTEST / COOLEST).powf(task as f64 / (TASKS - 1) as f64);
    Cooling { steps, hot, cold: COLD, target }
}

/// Searches from a feasible assignment down to `target`.
///
/// # Errors
/// If threads cannot be started.
pub(super) fn search(
    start: &Assignment<'_>,
    lines: &Lines,
    target: f64,
    context: &mut Context<'_>,
) -> Result<Outcome> {
    let (problem, units) = (start.problem(), start.units());
    let first = Found { value: start.value(), device_of: start.assigned().clone(), steps: 0 };
    let mut population = vec![first.clone(); TASKS as usize];
    let mut best = first;
    let (stop, seed) = (context.stop().clone(), context.seed());
    let (mut done, mut improved) = (0, 0);
    for round in 0..ROUNDS {
        if round - improved >= PATIENCE || best.value <= target || stop.reason().is_some() {
            break;
        }
        let steps = steps(problem, units, round);
        let walk = |(task, member): (usize, &Found)| {
            let start = Assignment::new(problem, units, member.device_of.clone());
            let cooling = cooling(task as u64, steps, target);
            let mut rng = seed::stream(seed, round * TASKS + task as u64 + 1);
            anneal(start, lines, cooling, &mut rng, &stop)
        };
        population = context.in_pool(|| population.par_iter().enumerate().map(walk).collect())?;
        done += population.iter().map(|found| found.steps).sum::<u64>();
        for found in &population {
            if found.value < best.value {
                best = found.clone();
                improved = round;
                context.emit(Event::Incumbent { value: best.value });
            }
        }
        let worst =
            (0..population.len()).rev().max_by(|&a, &b| population[a].value.total_cmp(&population[b].value));
        if let Some(worst) = worst {
            population[worst] = best.clone();
        }
        context.emit(Event::Progress { done: round + 1, total: Some(ROUNDS) });
    }
    Ok(Outcome { device_of: best.device_of, steps: done })
}
