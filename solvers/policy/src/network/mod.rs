//! The network: an encoder of graphs and devices, and four heads.
//!
//! The network reads units and devices as two sets, with edges between units and, as an assignment between the sets,
//! the plan to improve on. Devices are distinguished by their properties and by the units that the plan puts on them,
//! never by an index. So one network serves any number of devices, and renaming units or devices permutes its output
//! and changes nothing else.

pub(crate) mod attention;
mod batch;
mod encoder;
mod heads;
pub mod layers;

use std::collections::BTreeMap;

use candle_core::{DType, Device, Result, Tensor};
use serde::{Deserialize, Serialize};

pub use batch::Batch;
use encoder::Encoder;
use heads::Heads;
pub use heads::Output;

use crate::features::Input;
use crate::weights::{Built, ParameterBuilder, Source, Weights};

/// Size of a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Width of embeddings.
    pub width: usize,
    /// Number of message-passing layers.
    pub layers: usize,
    /// Attention heads; must divide the width.
    pub heads: usize,
    /// Units per attention segment.
    pub segment: usize,
    /// Summaries per graph.
    pub summaries: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config { width: 64, layers: 6, heads: 4, segment: 64, summaries: 8 }
    }
}

impl Config {
    /// Upper limit on every size; larger sizes are mistakes or attacks.
    const MOST: usize = 1024;
    /// Largest number of parameters; more are mistakes or attacks.
    const MAX_PARAMETERS: f64 = (1 << 28) as f64;

    /// Approximate number of parameters: those of the matrices whose shape depends on the width.
    fn parameters(&self) -> f64 {
        17.0 * (self.width as f64).powi(2) * self.layers as f64
    }

    /// Describes an invalid size, if any.
    pub fn mistake(&self) -> Option<String> {
        let sizes = [
            ("width", self.width),
            ("layers", self.layers),
            ("heads", self.heads),
            ("segment", self.segment),
            ("summaries", self.summaries),
        ];
        if let Some((name, size)) = sizes.iter().find(|(_, size)| !(1..=Config::MOST).contains(size)) {
            return Some(format!("`{name}` is {size}, expected 1 to {}", Config::MOST));
        }
        if !self.width.is_multiple_of(self.heads) || self.width < 2 {
            return Some(format!(
                "`width` is {}, expected a multiple of the {} heads",
                self.width, self.heads
            ));
        }
        (self.parameters() > Config::MAX_PARAMETERS)
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
    /// A new network with parameters drawn from a seed, independent of the device and the number of threads.
    ///
    /// # Errors
    /// If a tensor operation fails.
    pub fn new(config: Config, seed: u64, dtype: DType, device: &Device) -> Built<Network> {
        Network::build(config, Source::Seed(seed), false, dtype, device)
    }

    /// A network with given parameters.
    ///
    /// # Errors
    /// If the parameters do not match the configuration.
    pub fn from_parameters(
        config: Config,
        parameters: BTreeMap<String, Tensor>,
        dtype: DType,
        device: &Device,
    ) -> Built<Network> {
        Network::build(config, Source::Given(parameters), false, dtype, device)
    }

    /// A copy for inference only, which keeps nothing for gradients.
    ///
    /// # Errors
    /// If a tensor operation fails.
    pub fn frozen(&self) -> Built<Network> {
        let detached = |(name, var): (&String, &candle_core::Var)| (name.clone(), var.as_detached_tensor());
        let given = Source::Given(self.weights.vars().iter().map(detached).collect());
        Network::build(self.config.clone(), given, true, self.weights.dtype(), self.weights.device())
    }

    /// Approximate cost of a forward pass: bytes of memory, and floating-point operations.
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
    ) -> Built<Network> {
        let mut parameters = ParameterBuilder::new(source, is_frozen, dtype, device);
        let encoder = Encoder::new(&mut parameters, &config)?;
        let heads = Heads::new(&mut parameters, &config)?;
        Ok(Network { config, weights: parameters.finish()?, encoder, heads })
    }

    /// Configuration of the network.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Parameters of the network.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Batches inputs for this network.
    ///
    /// # Errors
    /// If a tensor operation fails.
    pub fn batch(&self, inputs: &[&Input]) -> Result<Batch> {
        Batch::new(inputs, &self.config, self.weights.dtype(), self.weights.device())
    }

    /// Runs the network on a batch. O(layers · width · (width · units + edges) + units · segment · width).
    ///
    /// # Errors
    /// If a tensor operation fails.
    pub fn forward(&self, batch: &Batch) -> Result<Output> {
        self.heads.forward(&self.encoder.forward(batch)?, batch)
    }
}
