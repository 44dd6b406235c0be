//! Episodes of a system.

use candle_core::Tensor;
use rand_chacha::ChaCha8Rng;
use stagewright_policy::learn::{Descent, TrainError};
use stagewright_policy::weights::Weights;

use crate::{Reading, Trials};

/// Purpose of an episode.
pub(crate) enum Purpose<'e> {
    /// Choices are sampled and learned from, at a learning rate.
    Learn(&'e mut Descent, f64),
    /// Choices are sampled, without learning.
    Draw,
    /// The most likely choices are taken, without learning.
    Greedy,
}

/// Context of an episode.
pub(crate) struct Play<'e, 't, 'a, 's, 'p> {
    /// Reference values for rewards on this graph, as rows of numbers whose meaning is specific to each system. Empty
    /// in the first episode, and without learning.
    pub(crate) baselines: &'e mut Vec<Vec<f64>>,
    pub(crate) reading: &'a Reading<'s, 'p>,
    pub(crate) trials: &'t mut Trials<'a, 's, 'p>,
    pub(crate) purpose: Purpose<'e>,
    pub(crate) rng: &'e mut ChaCha8Rng,
}

impl Play<'_, '_, '_, '_, '_> {
    /// Whether the episode is for learning.
    pub(crate) fn is_to_learn(&self) -> bool {
        matches!(self.purpose, Purpose::Learn(..))
    }

    /// Whether to learn from the episode: once the trials are over, learning is of no use.
    pub(crate) fn is_learning(&self) -> bool {
        self.is_to_learn() && !self.trials.is_over()
    }

    /// The scalar baseline of this graph, initialised to `first`.
    pub(crate) fn baseline(&mut self, first: f64) -> &mut f64 {
        if self.baselines.is_empty() {
            self.baselines.push(vec![first]);
        }
        &mut self.baselines[0][0]
    }

    /// Whether the most likely choices are taken.
    pub(crate) fn is_greedy(&self) -> bool {
        matches!(self.purpose, Purpose::Greedy)
    }

    /// Takes one step against the sum of several losses, one in memory at a time, if the episode is for learning. No
    /// step is taken if the trials end before all losses are computed.
    pub(crate) fn learn_in_parts(
        &mut self,
        weights: &Weights,
        losses: impl Iterator<Item = candle_core::Result<Tensor>>,
    ) -> Result<(), TrainError> {
        if let Purpose::Learn(descent, rate) = &mut self.purpose {
            descent.step_in_parts(weights, losses, *rate, || !self.trials.is_over())?;
        }
        Ok(())
    }

    /// Takes one step against a loss, if the episode is for learning.
    pub(crate) fn learn(&mut self, weights: &Weights, loss: &Tensor) -> Result<(), TrainError> {
        if let Purpose::Learn(descent, rate) = &mut self.purpose {
            descent.step(weights, loss, *rate)?;
        }
        Ok(())
    }
}

/// Outcome of an episode.
pub(crate) type Played = Result<(), TrainError>;

/// The networks of a system.
pub(crate) trait System: Send + Sync {
    /// Samples placements, simulates them, and learns from the results. If the trials end during an episode, nothing is
    /// learned from it.
    fn episode(&self, weights: &Weights, play: Play<'_, '_, '_, '_, '_>) -> Played;
}
