//! Adaptive selection of the next kind of neighbourhood by recent success (Ropke and Pisinger, "An adaptive
//! large neighborhood search heuristic", Transportation Science 2006).

use rand::{Rng, RngExt};

/// Decay factor of a score at each draw of its kind, and reward for a success.
const MEMORY: f64 = 0.9;
const REWARD: f64 = 1.0;
/// Minimum score, so that every kind is tried occasionally.
const LEAST_SCORE: f64 = 0.1;

/// Scores of the kinds of neighbourhoods.
pub(crate) struct Adaptive<const N: usize> {
    scores: [f64; N],
}

impl<const N: usize> Adaptive<N> {
    pub(crate) fn new() -> Adaptive<N> {
        Adaptive { scores: [REWARD; N] }
    }

    /// Draws a kind with probability proportional to its score.
    pub(crate) fn draw(&self, rng: &mut impl Rng) -> usize {
        let mut left = rng.random_range(0.0..self.scores.iter().sum());
        for (kind, score) in self.scores.iter().enumerate() {
            left -= score;
            if left < 0.0 {
                return kind;
            }
        }
        N - 1
    }

    /// Updates the score of a kind after a neighbourhood of this kind was tried.
    pub(crate) fn learn(&mut self, kind: usize, helped: bool) {
        let reward = if helped { REWARD } else { 0.0 };
        self.scores[kind] = (MEMORY * self.scores[kind] + reward).max(LEAST_SCORE);
    }
}
