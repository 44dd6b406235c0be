//! What is common to the systems: what an episode is, and a system with its parameters.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor};
use rand_chacha::ChaCha8Rng;

use super::gdp::Gdp;
use super::hdp::Hdp;
use super::hsdag::Hsdag;
use super::placeto::Placeto;
use super::{Kind, Reading, Settings, Trials};
use crate::learn::{Descent, TrainError};
use crate::weights::{Nursery, Source, Weights, WeightsError};

/// What an episode is for.
pub(super) enum Purpose<'e> {
    /// Choices are drawn and learned from, with steps of gradients at a rate.
    Learn(&'e mut Descent, f64),
    /// Choices are drawn, and nothing is learned.
    Draw,
    /// The likeliest is chosen, and nothing is learned.
    Greedy,
}

/// How an episode is played.
pub(super) struct Play<'e, 't, 'a, 's, 'p> {
    /// What rewards on this graph are compared with, rows of numbers; what they mean is each system's affair. Empty at the
    /// first episode, and where nothing is learned.
    pub(super) baselines: &'e mut Vec<Vec<f64>>,
    pub(super) reading: &'a Reading<'s, 'p>,
    pub(super) trials: &'t mut Trials<'a, 's, 'p>,
    pub(super) purpose: Purpose<'e>,
    pub(super) rng: &'e mut ChaCha8Rng,
}

impl Play<'_, '_, '_, '_, '_> {
    /// Whether it is played to learn from.
    pub(super) fn is_to_learn(&self) -> bool {
        matches!(self.purpose, Purpose::Learn(..))
    }

    /// Whether what was played is to be learned from: what is learned when the trials are over is of no use.
    pub(super) fn is_learning(&self) -> bool {
        self.is_to_learn() && !self.trials.is_over()
    }

    /// The only number that rewards on this graph are compared with; at first as given.
    pub(super) fn baseline(&mut self, first: f64) -> &mut f64 {
        if self.baselines.is_empty() {
            self.baselines.push(vec![first]);
        }
        &mut self.baselines[0][0]
    }

    /// Whether the likeliest is played.
    pub(super) fn is_greedy(&self) -> bool {
        matches!(self.purpose, Purpose::Greedy)
    }

    /// A step against the sum of several losses, held one at a time, if anything is learned. None is made where the trials end
    /// before all losses are computed.
    pub(super) fn learn_in_parts(
        &mut self,
        weights: &Weights,
        losses: impl Iterator<Item = candle_core::Result<Tensor>>,
    ) -> Result<(), TrainError> {
        if let Purpose::Learn(descent, rate) = &mut self.purpose {
            descent.step_in_parts(weights, losses, *rate, || !self.trials.is_over())?;
        }
        Ok(())
    }

    /// A step against a loss, if anything is learned.
    pub(super) fn learn(&mut self, weights: &Weights, loss: &Tensor) -> Result<(), TrainError> {
        if let Purpose::Learn(descent, rate) = &mut self.purpose {
            descent.step(weights, loss, *rate)?;
        }
        Ok(())
    }
}

/// A system with its networks.
pub(super) trait System: Send + Sync {
    /// Draws placements, has them played, and learns from what they came to. Where the trials are over amid an
    /// episode, nothing is learned from it.
    fn episode(&self, weights: &Weights, play: Play<'_, '_, '_, '_, '_>) -> Result<(), TrainError>;
}

/// What rewards are compared with, by graph: rows of numbers, none of them empty.
pub(super) type Baselines = BTreeMap<u64, Vec<Vec<f64>>>;

/// A system with its parameters.
pub struct Agent {
    pub(super) kind: Kind,
    pub(super) settings: Settings,
    pub(super) weights: Weights,
    pub(super) baselines: Baselines,
    system: Box<dyn System>,
}

impl Agent {
    /// A new system, its parameters drawn from a seed.
    ///
    /// # Errors
    /// Where tensors cannot be made.
    pub fn new(kind: Kind, settings: Settings, seed: u64) -> Result<Agent, WeightsError> {
        Agent::build(kind, settings, Source::Seed(seed))
    }

    /// A system of given parameters.
    ///
    /// # Errors
    /// Where they are not those of such a system.
    pub fn of(
        kind: Kind,
        settings: Settings,
        parameters: BTreeMap<String, Tensor>,
    ) -> Result<Agent, WeightsError> {
        Agent::build(kind, settings, Source::Given(parameters))
    }

    fn build(kind: Kind, settings: Settings, source: Source) -> Result<Agent, WeightsError> {
        let mut nursery = Nursery::new(source, false, DType::F32, &Device::Cpu);
        let system: Box<dyn System> = match kind {
            Kind::Gdp => Box::new(Gdp::new(&mut nursery, settings)?),
            Kind::Placeto => Box::new(Placeto::new(&mut nursery, settings)?),
            Kind::Hsdag => Box::new(Hsdag::new(&mut nursery, settings)?),
            Kind::Hdp => Box::new(Hdp::new(&mut nursery, settings)?),
        };
        Ok(Agent { kind, settings, weights: nursery.finish()?, baselines: Baselines::new(), system })
    }

    /// Which system it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its sizes.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Its parameters.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// One episode that is learned from. `graph` tells graphs apart, since baselines are of a graph. Here as below, whether
    /// a graph is too large is for the caller to ask ([`Kind::too_large`]).
    ///
    /// # Errors
    /// Gradients that are no numbers.
    pub fn learn<'a, 's, 'p>(
        &mut self,
        graph: u64,
        reading: &'a Reading<'s, 'p>,
        trials: &mut Trials<'a, 's, 'p>,
        (descent, rate): (&mut Descent, f64),
        rng: &mut ChaCha8Rng,
    ) -> Result<(), TrainError> {
        let mut baselines = self.baselines.remove(&graph).unwrap_or_default();
        let purpose = Purpose::Learn(descent, rate);
        let played = self
            .system
            .episode(&self.weights, Play { baselines: &mut baselines, reading, trials, purpose, rng });
        if !baselines.is_empty() {
            self.baselines.insert(graph, baselines);
        }
        played
    }

    /// One episode that is drawn as if to learn from it, and not learned from.
    ///
    /// # Errors
    /// Where tensors cannot be made.
    pub fn draw<'a, 's, 'p>(
        &self,
        reading: &'a Reading<'s, 'p>,
        trials: &mut Trials<'a, 's, 'p>,
        rng: &mut ChaCha8Rng,
    ) -> Result<(), TrainError> {
        self.play(Purpose::Draw, reading, trials, rng)
    }

    /// One episode that takes the likeliest choice everywhere, from which nothing is learned. How many placements it plays
    /// is the system's affair: one of GDP and HDP, 20 of HSDAG, and of Placeto one for every unit after a random one.
    ///
    /// # Errors
    /// Where tensors cannot be made.
    pub fn greedy<'a, 's, 'p>(
        &self,
        reading: &'a Reading<'s, 'p>,
        trials: &mut Trials<'a, 's, 'p>,
        rng: &mut ChaCha8Rng,
    ) -> Result<(), TrainError> {
        self.play(Purpose::Greedy, reading, trials, rng)
    }

    /// One episode from which nothing is learned.
    fn play<'a, 's, 'p>(
        &self,
        purpose: Purpose<'_>,
        reading: &'a Reading<'s, 'p>,
        trials: &mut Trials<'a, 's, 'p>,
        rng: &mut ChaCha8Rng,
    ) -> Result<(), TrainError> {
        let baselines = &mut Vec::new();
        self.system.episode(&self.weights, Play { baselines, reading, trials, purpose, rng })
    }
}
