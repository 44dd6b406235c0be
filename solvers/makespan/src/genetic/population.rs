//! Generations, evaluated in parallel.

use rayon::prelude::*;
use stagewright_core::solver::Stop;

use super::super::schedule::{Judge, Score};
use super::chromosome::{Code, Keys};

/// A chromosome and its score.
#[derive(Debug, Clone)]
pub(super) struct Individual {
    pub(super) keys: Keys,
    /// [`Score::WORST`] if the individual is only known to be outside the elite.
    pub(super) score: Score,
}

/// Evaluators for the members of a generation.
#[derive(Debug)]
pub(super) struct Population<'s, 'p> {
    judges: Vec<Judge<'s, 'p>>,
}

impl<'s, 'p> Population<'s, 'p> {
    /// One evaluator per thread.
    pub(super) fn new(judge: Judge<'s, 'p>, threads: usize) -> Population<'s, 'p> {
        Population { judges: vec![judge; threads.max(1)] }
    }

    /// Scores chromosomes up to a limit, each independently, so the result does not depend on their distribution over
    /// threads. Skips the remaining chromosomes when stopped.
    pub(super) fn judge(
        &mut self,
        code: &Code<'_, '_>,
        chromosomes: Vec<Keys>,
        limit: f64,
        stop: &Stop,
    ) -> Vec<Individual> {
        let share = chromosomes.len().div_ceil(self.judges.len()).max(1);
        let shares = chromosomes.into_par_iter().chunks(share);
        let judged = self.judges.par_iter_mut().zip(shares).flat_map_iter(|(judge, chromosomes)| {
            chromosomes.into_iter().filter(|_| stop.reason().is_none()).map(|keys| {
                let score = judge.score_below(&code.decode(&keys), limit).unwrap_or(Score::WORST);
                Individual { keys, score }
            })
        });
        judged.collect()
    }
}
