//! Walks over schedules, in rounds.
//!
//! Each round starts from the best schedule so far. The walks of a round differ only in their random streams and run in
//! parallel, with the same result for any number of threads. In large graphs they change different parts of the
//! schedule, so after a round the changes of the other walks are added to the best schedule. If that improves it, the
//! next round has as many steps, otherwise twice as many; a round that would exceed the time limit is shortened to end
//! with it.

use std::cmp::Ordering;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use stagewright_core::graph::OpId;
use stagewright_core::seed;
use stagewright_core::solver::{Context, SolveError};

use super::choice::Choice;
use super::groups::Groups;
use super::guidance::Guidance;
use super::instance::Instance;
use super::rank;
use super::schedule::{Best, Evaluator, Score, is_better};
use super::search::{Goal, Search, most_simulations};

/// Number of walks per round, independent of the number of threads.
const WALKS: usize = 2;
/// Simulated operators of a walk in the first round of a large graph, and its minimum number of steps.
const FIRST_EFFORT: u64 = 1 << 20;
const FEWEST_STEPS: u64 = 4;

/// Data shared by all walks.
pub(super) struct Ground<'s, 'p> {
    pub(super) instance: &'s Instance<'p>,
    pub(super) groups: Groups,
    pub(super) guidance: Option<&'s Guidance>,
    /// The operators by decreasing upward rank.
    pub(super) order: Vec<OpId>,
    pub(super) goal: Goal,
    /// Simulation count of a walk's evaluator at which it ends; `u64::MAX` if unlimited.
    most_runs: u64,
}

impl<'s, 'p> Ground<'s, 'p> {
    fn new(guidance: Option<&'s Guidance>, search: &Search<'s, 'p>, context: &Context<'_>) -> Ground<'s, 'p> {
        let (instance, runs) = (search.instance, search.evaluator.runs);
        let each = |limit: u64| limit.saturating_sub(runs) / WALKS as u64;
        Ground {
            instance,
            groups: Groups::new(instance),
            guidance,
            order: rank::falling(instance, &rank::upward(instance)),
            goal: search.goal.clone(),
            most_runs: context.limits.simulations.map_or(u64::MAX, each).saturating_add(runs),
        }
    }

    /// Whether a walk with this best score may end.
    pub(super) fn is_over(&self, evaluator: &Evaluator<'_, '_>, best: Score) -> bool {
        evaluator.runs >= self.most_runs || self.goal.is_over(best)
    }
}

/// State that a walk keeps from one round to the next.
pub(super) struct Walker<'s, 'p> {
    pub(super) evaluator: Evaluator<'s, 'p>,
    pub(super) choice: Choice,
}

/// A walk of a given number of steps from a schedule; returns the best schedule met, which is never worse than the
/// start.
pub(super) type Walk = fn(&Ground<'_, '_>, &mut Walker<'_, '_>, &Best, u64, &mut ChaCha8Rng) -> Best;

/// Runs rounds of walks from the best schedule of a search until the search is over, starting with `first_steps` steps
/// per walk, or fewer in a large graph.
pub(super) fn run(
    walk: Walk,
    first_steps: u64,
    guidance: Option<&Guidance>,
    search: &mut Search<'_, '_>,
    context: &mut Context<'_>,
) -> Result<(), SolveError> {
    let instance = search.instance;
    let ground = Ground::new(guidance, search, context);
    let pool = context.pool()?;
    let walker =
        || Walker { evaluator: search.evaluator.clone(), choice: Choice::new(ground.groups.level_count()) };
    let mut walkers: Vec<Walker<'_, '_>> = (0..WALKS).map(|_| walker()).collect();
    let before = search.evaluator.runs;
    let limit = most_simulations(instance, context);
    let runs =
        |walkers: &[Walker<'_, '_>]| walkers.iter().map(|walker| walker.evaluator.runs - before).sum::<u64>();
    let operators = instance.graph().operator_count().max(1) as u64;
    let mut steps = first_steps.min(FIRST_EFFORT / operators).max(FEWEST_STEPS);
    for round in 0.. {
        let is_counted_out = walkers.iter().all(|walker| walker.evaluator.runs >= ground.most_runs);
        if is_counted_out || runs(&walkers) >= limit || search.is_over() {
            break;
        }
        let (began, before_round) = (Instant::now(), runs(&walkers));
        let (seed, start) = (context.seed(), &search.best);
        let walk = |(number, walker): (usize, &mut Walker<'_, '_>)| {
            if walker.evaluator.runs >= ground.most_runs {
                return start.clone();
            }
            let mut rng = seed::stream(seed, round * WALKS as u64 + number as u64);
            walk(&ground, walker, start, steps, &mut rng)
        };
        let found: Vec<Best> = pool.install(|| walkers.par_iter_mut().enumerate().map(walk).collect());
        // If only the start of every walk was simulated, no move is possible.
        let is_fixed = runs(&walkers) - before_round <= WALKS as u64;
        let merged = merged(found, start, &mut walkers[0].evaluator, ground.most_runs);
        search.evaluator.runs = before + runs(&walkers);
        let is_sum = merged.as_ref().is_some_and(|(_, is_sum)| *is_sum);
        if let Some((merged, _)) = merged {
            search.take(merged, context);
        }
        if is_fixed {
            break;
        }
        steps = next_steps(steps, is_sum, began.elapsed(), context);
    }
    Ok(())
}

/// Steps of the next round, given the steps of the last round and the time that it took.
fn next_steps(steps: u64, is_sum: bool, took: Duration, context: &Context<'_>) -> u64 {
    // If the changes of walks add up, it pays to combine them often.
    let next = if is_sum { steps } else { 2 * steps };
    // Take all steps that time allows if the next round would leave too little time for another one.
    let took = took.as_secs_f64().max(f64::MIN_POSITIVE);
    let left = context.stop().remaining().map_or(f64::INFINITY, |left| left.as_secs_f64());
    let possible = steps as f64 * left / took;
    if possible < 2.0 * next as f64 { possible.max(1.0) as u64 } else { next }
}

/// The best schedule of a round, combined with the device changes of the other schedules as long as they help, and
/// whether any helped. Ties go to the first schedule, regardless of the timing of threads.
fn merged(
    mut found: Vec<Best>,
    start: &Best,
    evaluator: &mut Evaluator<'_, '_>,
    most_runs: u64,
) -> Option<(Best, bool)> {
    found.sort_by(|a, b| a.score.partial_cmp(&b.score).unwrap_or(Ordering::Equal));
    let mut found = found.into_iter();
    let mut best = found.next()?;
    let mut is_sum = false;
    for other in found.filter(|other| is_better(other.score, start.score)) {
        let mut schedule = best.schedule.clone();
        let from = start.schedule.device_of.iter().zip(&other.schedule.device_of);
        for (device, (from, to)) in schedule.device_of.iter_mut().zip(from) {
            if device == from {
                *device = *to;
            }
        }
        if evaluator.runs < most_runs && schedule.device_of != best.schedule.device_of {
            let score = evaluator.score(&schedule);
            if is_better(score, best.score) {
                best = Best { score, schedule };
                is_sum = true;
            }
        }
    }
    Some((best, is_sum))
}
