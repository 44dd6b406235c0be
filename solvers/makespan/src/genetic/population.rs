//! Generations, evaluated in parallel.

use rayon::prelude::*;
use stagewright_core::solver::Stop;

use super::super::schedule::{Evaluator, Score};
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
    evaluators: Vec<Evaluator<'s, 'p>>,
}

impl<'s, 'p> Population<'s, 'p> {
    /// One evaluator per thread.
    pub(super) fn new(evaluator: Evaluator<'s, 'p>, threads: usize) -> Population<'s, 'p> {
        Population { evaluators: vec![evaluator; threads.max(1)] }
    }

    /// Scores chromosomes up to a limit, each independently, so the result does not depend on their distribution over
    /// threads. Skips the remaining chromosomes when stopped.
    pub(super) fn evaluate(
        &mut self,
        code: &Code<'_, '_>,
        chromosomes: Vec<Keys>,
        limit: f64,
        stop: &Stop,
    ) -> Vec<Individual> {
        let share = chromosomes.len().div_ceil(self.evaluators.len()).max(1);
        let shares = chromosomes.into_par_iter().chunks(share);
        let evaluated =
            self.evaluators.par_iter_mut().zip(shares).flat_map_iter(|(evaluator, chromosomes)| {
                chromosomes.into_iter().filter(|_| stop.reason().is_none()).map(|keys| {
                    let score = evaluator.score_below(&code.decode(&keys), limit).unwrap_or(Score::WORST);
                    Individual { keys, score }
                })
            });
        evaluated.collect()
    }
}
