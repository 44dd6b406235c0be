//! Which kind of neighbourhood comes next: drawn by how often each has helped lately (Ropke and Pisinger, "An
//! adaptive large neighborhood search heuristic", Transportation Science 2006).

use rand::{Rng, RngExt};

/// What is left of a score at each use, and what a success adds.
const MEMORY: f64 = 0.9;
const REWARD: f64 = 1.0;
/// Score below which none falls, so that each kind is tried now and then.
const LEAST_SCORE: f64 = 0.1;

/// Scores of kinds of neighbourhoods.
pub(crate) struct Adaptive<const N: usize> {
    scores: [f64; N],
}

impl<const N: usize> Adaptive<N> {
    pub(crate) fn new() -> Adaptive<N> {
        Adaptive { scores: [REWARD; N] }
    }

    /// A kind by its score.
    pub(crate) fn draw(&self, rng: &mut impl Rng) -> usize {
        let mut at = rng.random_range(0.0..self.scores.iter().sum());
        for (kind, score) in self.scores.iter().enumerate() {
            at -= score;
            if at < 0.0 {
                return kind;
            }
        }
        N - 1
    }

    /// Takes note of whether a kind has helped.
    pub(crate) fn learn(&mut self, kind: usize, helped: bool) {
        let reward = if helped { REWARD } else { 0.0 };
        self.scores[kind] = (MEMORY * self.scores[kind] + reward).max(LEAST_SCORE);
    }
}
