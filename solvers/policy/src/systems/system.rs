//! What is common to the systems: how they are made, and what an episode is.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::gdp::Gdp;
use super::hdp::Hdp;
use super::hsdag::Hsdag;
use super::placeto::Placeto;
use super::{Reading, Trials};
use crate::learn::{AdamConfig, Descent, TrainError};
use crate::weights::{Nursery, Source, Weights, WeightsError};

/// A system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Zhou et al., "GDP: generalized device placement for dataflow graphs", 2019.
    Gdp,
    /// Addanki et al., "Placeto: learning generalizable device placement algorithms for distributed machine
    /// learning", NeurIPS 2019.
    Placeto,
    /// Duan et al., "A structure-aware framework for learning device placements on computation graphs", NeurIPS 2024.
    Hsdag,
    /// Mirhoseini et al., "A hierarchical model for device placement", ICLR 2018.
    Hdp,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 4] = [Kind::Gdp, Kind::Placeto, Kind::Hsdag, Kind::Hdp];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Gdp => "gdp",
            Kind::Placeto => "placeto",
            Kind::Hsdag => "hsdag",
            Kind::Hdp => "hdp",
        }
    }

    /// Most units that it reads; a larger graph is coarsened to about so many. Placeto's paper groups to as many,
    /// since it plays every group of every episode.
    pub fn most_units(self) -> usize {
        match self {
            Kind::Placeto => 256,
            Kind::Gdp | Kind::Hsdag | Kind::Hdp => 2048,
        }
    }

    /// Units above which it is not asked: some graphs cannot be coarsened to so few as it reads.
    pub fn too_many_units(self) -> usize {
        4 * self.most_units()
    }

    /// Steps of gradients as its paper makes them; the rates of GDP and HDP are chosen here.
    pub fn adam(self) -> AdamConfig {
        let plain = AdamConfig { rate: 1e-3, warmup: 1, last: 1.0, decay: 0.0, clip: 1.0 };
        match self {
            Kind::Placeto => AdamConfig { last: 0.1, clip: 1.25, ..plain },
            Kind::Gdp | Kind::Hsdag | Kind::Hdp => plain,
        }
    }

    /// Its sizes as its paper or its authors' program has them; GDP's are those of its successor.
    pub fn settings(self, devices: usize) -> Settings {
        let (width, layers) = match self {
            Kind::Gdp => (128, 3),
            Kind::Placeto => (0, 8),
            Kind::Hsdag => (128, 2),
            Kind::Hdp => (512, 1),
        };
        Settings { devices, width, layers }
    }
}

/// Sizes of a system's networks. Unlike the policy of [`network`](crate::network), all four choose among a fixed number
/// of devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Most devices of a problem.
    pub devices: usize,
    /// Numbers of a code. Placeto's is as wide as what it reads.
    #[serde(default)]
    pub width: usize,
    /// Layers; rounds of messages of Placeto.
    #[serde(default)]
    pub layers: usize,
}

impl Settings {
    /// Larger sizes are mistakes.
    const MOST: usize = 1024;
    /// So are more parameters in square layers than these.
    const MOST_PARAMETERS: usize = 1 << 26;

    /// Says what is wrong with the sizes, if anything.
    pub fn mistake(&self, kind: Kind) -> Option<String> {
        let mut sizes = vec![("devices", self.devices, 1), ("layers", self.layers, 1)];
        if kind != Kind::Placeto {
            sizes.push(("width", self.width, 8));
        }
        if let Some((name, size, least)) =
            sizes.iter().find(|(_, size, least)| !(*least..=Settings::MOST).contains(size))
        {
            return Some(format!("`{name}` is {size}, it must be from {least} to {}", Settings::MOST));
        }
        if kind == Kind::Placeto && self.width != 0 {
            return Some("`width` of placeto is that of what it reads: leave it out".into());
        }
        if self.width * self.width * self.layers > Settings::MOST_PARAMETERS {
            return Some(format!("{} layers of width {} are too large", self.layers, self.width));
        }
        let parts = match kind {
            Kind::Gdp => super::gdp::HEADS,
            // Half of it for either direction.
            Kind::Hdp => 2,
            Kind::Placeto | Kind::Hsdag => 1,
        };
        (!self.width.is_multiple_of(parts))
            .then(|| format!("`width` is {}, it must be a multiple of {parts}", self.width))
    }
}

/// How an episode is played.
pub(super) struct Play<'e, 't, 'a, 's, 'p> {
    /// What rewards on this graph are compared with, rows of numbers; what they mean is each system's affair. Empty at the
    /// first episode, and where nothing is learned.
    pub(super) baselines: &'e mut Vec<Vec<f64>>,
    pub(super) reading: &'a Reading<'s, 'p>,
    pub(super) trials: &'t mut Trials<'a, 's, 'p>,
    /// Makes steps of gradients; without it nothing is learned, and the likeliest is played.
    pub(super) descent: Option<&'e mut Descent>,
    /// The learning rate.
    pub(super) rate: f64,
    pub(super) rng: &'e mut ChaCha8Rng,
}

impl Play<'_, '_, '_, '_, '_> {
    /// Whether what was played is to be learned from: what is learned when the trials are over is of no use.
    pub(super) fn is_learning(&self) -> bool {
        self.descent.is_some() && !self.trials.is_over()
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
        self.descent.is_none()
    }

    /// A step against the sum of several losses, held one at a time, if anything is learned.
    pub(super) fn learn_in_parts(
        &mut self,
        weights: &Weights,
        losses: impl Iterator<Item = candle_core::Result<Tensor>>,
    ) -> Result<(), TrainError> {
        if let Some(descent) = &mut self.descent {
            descent.step_in_parts(weights, losses, self.rate)?;
        }
        Ok(())
    }

    /// A step against a loss, if anything is learned.
    pub(super) fn learn(&mut self, weights: &Weights, loss: &Tensor) -> Result<(), TrainError> {
        if let Some(descent) = &mut self.descent {
            descent.step(weights, loss, self.rate)?;
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

    /// One episode that is learned from. `graph` tells graphs apart, since baselines are of a graph. Nothing is played on
    /// a graph of too many units ([`Kind::too_many_units`]).
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
        if reading.units() > self.kind.too_many_units() {
            return Ok(());
        }
        let mut baselines = self.baselines.remove(&graph).unwrap_or_default();
        let play = Play { baselines: &mut baselines, reading, trials, descent: Some(descent), rate, rng };
        let played = self.system.episode(&self.weights, play);
        if !baselines.is_empty() {
            self.baselines.insert(graph, baselines);
        }
        played
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
        if reading.units() > self.kind.too_many_units() {
            return Ok(());
        }
        let play = Play { baselines: &mut Vec::new(), reading, trials, descent: None, rate: 0.0, rng };
        self.system.episode(&self.weights, play)
    }
}
