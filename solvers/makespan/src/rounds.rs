//! Walks over schedules, in rounds.
//!
//! Each round has twice as many steps as the one before and starts from the best schedule so far; a round that would
//! exceed the time limit is shortened to end with it. The walks of a round differ only in their random streams and run
//! in parallel, with the same result for any number of threads.

use std::time::Instant;

use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use stagewright_core::graph::OpId;
use stagewright_core::seed;
use stagewright_core::solver::{Context, SolveError};

use super::groups::Groups;
use super::guidance::Guidance;
use super::instance::Instance;
use super::rank;
use super::schedule::{Best, Evaluator, Score, is_better};
use super::search::{Goal, Search, most_simulations};

/// Number of walks per round, independent of the number of threads.
const WALKS: usize = 2;

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

impl Ground<'_, '_> {
    /// Whether a walk with this best score may end.
    pub(super) fn is_over(&self, evaluator: &Evaluator<'_, '_>, best: Score) -> bool {
        evaluator.runs >= self.most_runs || self.goal.is_over(best)
    }
}

/// A walk of a given number of steps from a schedule; returns the best schedule met, which is never worse than the
/// start.
pub(super) type Walk = fn(&Ground<'_, '_>, &mut Evaluator<'_, '_>, &Best, u64, &mut ChaCha8Rng) -> Best;

/// Rounds of walks from the best schedule of a search until it is over, starting with `first_steps` steps.
pub(super) fn run(
    walk: Walk,
    first_steps: u64,
    guidance: Option<&Guidance>,
    search: &mut Search<'_, '_>,
    context: &mut Context<'_>,
) -> Result<(), SolveError> {
    let instance = search.instance;
    let ground = Ground {
        instance,
        groups: Groups::new(instance),
        guidance,
        order: rank::falling(instance, &rank::upward(instance)),
        goal: search.goal.clone(),
        most_runs: context
            .limits
            .simulations
            .map_or(u64::MAX, |most| most.saturating_sub(search.evaluator.runs) / WALKS as u64)
            .saturating_add(search.evaluator.runs),
    };
    let pool = context.pool()?;
    let mut evaluators = vec![search.evaluator.clone(); WALKS];
    let before = search.evaluator.runs;
    let most = most_simulations(instance, context);
    let runs = |evaluators: &[Evaluator<'_, '_>]| {
        evaluators.iter().map(|evaluator| evaluator.runs - before).sum::<u64>()
    };
    let mut steps = first_steps;
    for round in 0.. {
        let is_counted_out = evaluators.iter().all(|evaluator| evaluator.runs >= ground.most_runs);
        if is_counted_out || runs(&evaluators) >= most || search.is_over() {
            break;
        }
        let (began, before_round) = (Instant::now(), runs(&evaluators));
        let (seed, start) = (context.seed, &search.best);
        let one = |(number, evaluator): (usize, &mut Evaluator<'_, '_>)| {
            if evaluator.runs >= ground.most_runs {
                return start.clone();
            }
            let mut rng = seed::stream(seed, round * WALKS as u64 + number as u64);
            walk(&ground, evaluator, start, steps, &mut rng)
        };
        let found: Vec<Best> = pool.install(|| evaluators.par_iter_mut().enumerate().map(one).collect());
        search.evaluator.runs = before + runs(&evaluators);
        // If only the start of every walk was simulated, no move is possible.
        let is_fixed = runs(&evaluators) - before_round <= WALKS as u64;
        // Ties go to the first walk, regardless of the timing of threads.
        let better = |a: Best, b: Best| if is_better(b.score, a.score) { b } else { a };
        if let Some(found) = found.into_iter().reduce(better) {
            search.take(found, context);
        }
        if is_fixed {
            break;
        }
        // All steps that time allows, if doubling them would leave too little for another round.
        let took = began.elapsed().as_secs_f64().max(f64::MIN_POSITIVE);
        let left = context.stop().remaining().map_or(f64::INFINITY, |left| left.as_secs_f64());
        let possible = steps as f64 * left / took;
        steps = if possible < 4.0 * steps as f64 { possible.max(1.0) as u64 } else { 2 * steps };
    }
    Ok(())
}
