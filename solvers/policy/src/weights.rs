//! The parameters of a network by name, made anew from a seed or taken from somewhere.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor, Var};
use rand::{Rng, RngExt};
use stagewright_core::seed;
use thiserror::Error;

/// Why parameters do not make a network.
#[derive(Debug, Error)]
pub enum WeightsError {
    /// One that the network needs is not there.
    #[error("the parameter `{0}` is missing")]
    Missing(String),
    /// One of another shape.
    #[error("the parameter `{name}` has the shape {found:?}, the network needs {needed:?}")]
    Shape {
        /// Its name.
        name: String,
        /// Its shape.
        found: Vec<usize>,
        /// The shape that the network needs.
        needed: Vec<usize>,
    },
    /// One that the network does not have.
    #[error("the network has no parameter `{0}`")]
    Unknown(String),
    /// Tensors that could not be made.
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
}

/// Parameters by name.
#[derive(Debug, Clone)]
pub struct Weights {
    vars: BTreeMap<String, Var>,
    dtype: DType,
    device: Device,
}

impl Weights {
    /// Parameters by name, all of one type on one device.
    pub fn vars(&self) -> &BTreeMap<String, Var> {
        &self.vars
    }

    /// The type of the parameters.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Where they are.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// How many numbers they are.
    pub fn len(&self) -> usize {
        self.vars.values().map(|var| var.elem_count()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.vars.is_empty()
    }
}

/// How a new parameter begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Init {
    /// Uniform in ±√(3 / inputs), whose variance is one part in so many.
    Uniform {
        /// Inputs of the layer.
        inputs: usize,
    },
    /// All the same.
    Constant(f64),
}

/// Where a network takes its parameters from while it is built.
pub(crate) enum Source {
    /// New ones, each drawn from a stream of its own in the order in which they are asked for.
    Seed(u64),
    /// Given ones.
    Given(BTreeMap<String, Tensor>),
}

/// Hands out parameters to the layers of a network.
pub(crate) struct Nursery {
    source: Source,
    weights: Weights,
    is_frozen: bool,
}

impl Nursery {
    /// Parameters that are frozen take part in no gradient, so that a network that only answers keeps nothing for one.
    pub(crate) fn new(source: Source, is_frozen: bool, dtype: DType, device: &Device) -> Nursery {
        let weights = Weights { vars: BTreeMap::new(), dtype, device: device.clone() };
        Nursery { source, weights, is_frozen }
    }

    /// A parameter.
    pub(crate) fn parameter(
        &mut self,
        name: &str,
        shape: &[usize],
        init: Init,
    ) -> Result<Tensor, WeightsError> {
        let (dtype, device) = (self.weights.dtype, self.weights.device.clone());
        let tensor = match &mut self.source {
            Source::Seed(seed) => {
                let mut rng = seed::stream(*seed, self.weights.vars.len() as u64);
                let count = shape.iter().product();
                let numbers = drawn(count, init, &mut rng);
                Tensor::from_vec(numbers, shape, &Device::Cpu)?
            }
            Source::Given(given) => {
                let tensor = given.remove(name).ok_or_else(|| WeightsError::Missing(name.into()))?;
                if tensor.dims() != shape {
                    let (name, found, needed) = (name.into(), tensor.dims().to_vec(), shape.to_vec());
                    return Err(WeightsError::Shape { name, found, needed });
                }
                tensor
            }
        };
        let var = Var::from_tensor(&tensor.to_dtype(dtype)?.to_device(&device)?)?;
        let tensor = if self.is_frozen { var.as_detached_tensor() } else { var.as_tensor().clone() };
        self.weights.vars.insert(name.into(), var);
        Ok(tensor)
    }

    /// All that were handed out; given ones must all have been.
    pub(crate) fn finish(self) -> Result<Weights, WeightsError> {
        if let Source::Given(given) = self.source
            && let Some(name) = given.into_keys().next()
        {
            return Err(WeightsError::Unknown(name));
        }
        Ok(self.weights)
    }
}

/// Numbers for a new parameter. Drawn here since candle's CPU generator takes no seed.
fn drawn(count: usize, init: Init, rng: &mut impl Rng) -> Vec<f32> {
    match init {
        Init::Constant(value) => vec![value as f32; count],
        Init::Uniform { inputs } => {
            let most = (3.0 / inputs.max(1) as f32).sqrt();
            (0..count).map(|_| rng.random_range(-most..most)).collect()
        }
    }
}
