//! Common parts of the systems: episodes, and a system with its parameters.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor};
use rand_chacha::ChaCha8Rng;
use stagewright_policy::learn::{Descent, TrainError};
use stagewright_policy::weights::{ParameterBuilder, Source, Weights, WeightsError};

use crate::gdp::Gdp;
use crate::hdp::Hdp;
use crate::hsdag::Hsdag;
use crate::placeto::Placeto;
use crate::{Kind, Reading, Settings, Trials};

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

/// The end of an episode.
pub(crate) type Played = Result<(), TrainError>;

/// The networks of a system.
pub(crate) trait System: Send + Sync {
    /// Samples placements, simulates them, and learns from the results. If the trials end during an episode, nothing is
    /// learned from it.
    fn episode(&self, weights: &Weights, play: Play<'_, '_, '_, '_, '_>) -> Played;
}

/// Reference values for rewards, by graph: non-empty rows of numbers.
pub(crate) type Baselines = BTreeMap<u64, Vec<Vec<f64>>>;

/// A system with its parameters.
pub struct Agent {
    pub(crate) kind: Kind,
    pub(crate) settings: Settings,
    pub(crate) weights: Weights,
    pub(crate) baselines: Baselines,
    system: Box<dyn System>,
}

impl Agent {
    /// A new system with parameters drawn from a seed.
    ///
    /// # Errors
    /// If a tensor operation fails.
    pub fn new(kind: Kind, settings: Settings, seed: u64) -> Result<Agent, WeightsError> {
        Agent::build(kind, settings, Source::Seed(seed))
    }

    /// A system with given parameters.
    ///
    /// # Errors
    /// If the parameters do not match the system.
    pub fn from_parameters(
        kind: Kind,
        settings: Settings,
        parameters: BTreeMap<String, Tensor>,
    ) -> Result<Agent, WeightsError> {
        Agent::build(kind, settings, Source::Given(parameters))
    }

    fn build(kind: Kind, settings: Settings, source: Source) -> Result<Agent, WeightsError> {
        let mut parameters = ParameterBuilder::new(source, false, DType::F32, &Device::Cpu);
        let system: Box<dyn System> = match kind {
            Kind::Gdp => Box::new(Gdp::new(&mut parameters, settings)?),
            Kind::Placeto => Box::new(Placeto::new(&mut parameters, settings)?),
            Kind::Hsdag => Box::new(Hsdag::new(&mut parameters, settings)?),
            Kind::Hdp => Box::new(Hdp::new(&mut parameters, settings)?),
        };
        Ok(Agent { kind, settings, weights: parameters.finish()?, baselines: Baselines::new(), system })
    }

    /// Kind of the system.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Sizes of the system.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Parameters of the system.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Runs one episode with learning. `graph` identifies the graph, since baselines are per graph. Here as below, the
    /// caller checks whether a graph is too large ([`Kind::too_large`]).
    ///
    /// # Errors
    /// If a gradient is not finite.
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

    /// Runs one episode that samples as in learning, but does not learn.
    ///
    /// # Errors
    /// If a tensor operation fails.
    pub fn draw<'a, 's, 'p>(
        &self,
        reading: &'a Reading<'s, 'p>,
        trials: &mut Trials<'a, 's, 'p>,
        rng: &mut ChaCha8Rng,
    ) -> Result<(), TrainError> {
        self.play(Purpose::Draw, reading, trials, rng)
    }

    /// Runs one episode that always takes the most likely choice, without learning. It simulates one placement for GDP
    /// and HDP, 20 for HSDAG, and for Placeto one per unit after a random one.
    ///
    /// # Errors
    /// If a tensor operation fails.
    pub fn greedy<'a, 's, 'p>(
        &self,
        reading: &'a Reading<'s, 'p>,
        trials: &mut Trials<'a, 's, 'p>,
        rng: &mut ChaCha8Rng,
    ) -> Result<(), TrainError> {
        self.play(Purpose::Greedy, reading, trials, rng)
    }

    /// Runs one episode without learning.
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
