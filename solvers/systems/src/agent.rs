//! A system with its parameters.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor};
use rand_chacha::ChaCha8Rng;
use stagewright_policy::learn::{Descent, TrainError};
use stagewright_policy::weights::{ParameterBuilder, Source, Weights, WeightsError};

use crate::gdp::Gdp;
use crate::hdp::Hdp;
use crate::hsdag::Hsdag;
use crate::placeto::Placeto;
use crate::system::{Play, Purpose, System};
use crate::{Kind, Reading, Settings, Trials};

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
    /// and HDP, 20 for HSDAG and, for Placeto, a random one followed by one per unit.
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
