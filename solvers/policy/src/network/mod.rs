//! The network: an encoder of graphs and devices, and four heads.
//!
//! It reads units and devices as two sets, with edges among units and an assignment between the two, the plan to improve
//! on. Devices are told apart by what they are and by what that plan has on them, never by a number, so one network
//! serves any number of devices, and renaming units or devices renames its answers and changes nothing else.

pub(crate) mod attention;
mod batch;
mod encoder;
mod heads;
pub(crate) mod layers;

use std::collections::BTreeMap;

use candle_core::{DType, Device, Result, Tensor};
use serde::{Deserialize, Serialize};

pub use batch::Batch;
use encoder::Encoder;
use heads::Heads;
pub use heads::Output;

use crate::features::Input;
use crate::weights::{Nursery, Source, Weights, WeightsError};

/// The size of a network and which of its parts are there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Numbers of a unit's code.
    pub width: usize,
    /// Rounds of messages.
    pub layers: usize,
    /// Heads of attention; divides the width.
    pub heads: usize,
    /// Units of a segment.
    pub segment: usize,
    /// Summaries of a graph.
    pub summaries: usize,
    /// Whether the whole modulates the layers.
    pub modulation: bool,
    /// Whether units attend to their segment.
    pub attention: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            width: 64,
            layers: 6,
            heads: 4,
            segment: 64,
            summaries: 8,
            modulation: true,
            attention: true,
        }
    }
}

impl Config {
    /// Sizes beyond these are mistakes, or attacks.
    const MOST: usize = 1024;
    /// So are more parameters than these.
    const MOST_PARAMETERS: f64 = (1 << 28) as f64;

    /// Parameters of the matrices that grow with the sizes.
    fn parameters(&self) -> f64 {
        17.0 * (self.width as f64).powi(2) * self.layers as f64
    }

    /// Says what is wrong with the sizes, if anything.
    pub fn mistake(&self) -> Option<String> {
        let sizes = [
            ("width", self.width),
            ("layers", self.layers),
            ("heads", self.heads),
            ("segment", self.segment),
            ("summaries", self.summaries),
        ];
        if let Some((name, size)) = sizes.iter().find(|(_, size)| !(1..=Config::MOST).contains(size)) {
            return Some(format!("`{name}` is {size}, it must be from 1 to {}", Config::MOST));
        }
        if !self.width.is_multiple_of(self.heads) || self.width < 2 {
            return Some(format!(
                "`width` is {}, it must be a multiple of the {} heads",
                self.width, self.heads
            ));
        }
        (self.parameters() > Config::MOST_PARAMETERS)
            .then(|| format!("a network of {} layers of width {} is too large", self.layers, self.width))
    }
}

/// A network with its parameters.
#[derive(Debug, Clone)]
pub struct Network {
    config: Config,
    weights: Weights,
    encoder: Encoder,
    heads: Heads,
}

impl Network {
    /// A new network, its parameters drawn from a seed: the same whatever the device and the number of threads.
    ///
    /// # Errors
    /// Where tensors cannot be made.
    pub fn new(
        config: Config,
        seed: u64,
        dtype: DType,
        device: &Device,
    ) -> std::result::Result<Network, WeightsError> {
        Network::build(config, Source::Seed(seed), false, dtype, device)
    }

    /// A network of given parameters.
    ///
    /// # Errors
    /// Where they are not those of such a network.
    pub fn of(
        config: Config,
        parameters: BTreeMap<String, Tensor>,
        dtype: DType,
        device: &Device,
    ) -> std::result::Result<Network, WeightsError> {
        Network::build(config, Source::Given(parameters), false, dtype, device)
    }

    /// The same network for answers alone: it keeps nothing for gradients, and has none.
    ///
    /// # Errors
    /// Where tensors cannot be made.
    pub fn frozen(&self) -> std::result::Result<Network, WeightsError> {
        let of = |(name, var): (&String, &candle_core::Var)| (name.clone(), var.as_detached_tensor());
        let given = Source::Given(self.weights.vars().iter().map(of).collect());
        Network::build(self.config.clone(), given, true, self.weights.dtype(), self.weights.device())
    }

    /// What an answer takes, roughly: bytes of memory, and floating-point operations.
    pub fn cost(&self, units: usize, edges: usize, devices: usize) -> [f64; 2] {
        let [units, edges, devices] = [units, edges, devices].map(|count| count as f64);
        let (width, layers) = (self.config.width as f64, self.config.layers as f64);
        let pairs = units * devices;
        let seen = (self.config.segment + self.config.summaries) as f64;
        let numbers =
            width * (12.0 * units + 8.0 * edges + 3.0 * pairs) + units * seen * self.config.heads as f64;
        let operations = layers
            * (24.0 * width * width * units + 40.0 * width * edges + 4.0 * width * seen * units)
            + 8.0 * width * pairs;
        [4.0 * numbers, operations]
    }

    fn build(
        config: Config,
        source: Source,
        is_frozen: bool,
        dtype: DType,
        device: &Device,
    ) -> std::result::Result<Network, WeightsError> {
        let mut nursery = Nursery::new(source, is_frozen, dtype, device);
        let encoder = Encoder::new(&mut nursery, &config)?;
        let heads = Heads::new(&mut nursery, &config)?;
        Ok(Network { config, weights: nursery.finish()?, encoder, heads })
    }

    /// Its size.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Its parameters.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Inputs side by side, for this network.
    ///
    /// # Errors
    /// Where tensors cannot be made.
    pub fn batch(&self, inputs: &[&Input]) -> Result<Batch> {
        Batch::new(inputs, &self.config, self.weights.dtype(), self.weights.device())
    }

    /// What it says of a batch. O(layers · width · (width · units + edges) + units · segment · width).
    ///
    /// # Errors
    /// Where tensors cannot be made.
    pub fn forward(&self, batch: &Batch) -> Result<Output> {
        self.heads.forward(&self.encoder.forward(batch)?, batch)
    }
}
