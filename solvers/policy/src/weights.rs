//! Named parameters of a network, initialised from a seed or given.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor, Var};
use rand::{Rng, RngExt};
use stagewright_core::seed;
use thiserror::Error;

/// Reason why a network cannot be built from its parameters.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// A parameter that the network needs is missing.
    #[error("the parameter `{0}` is missing")]
    Missing(String),
    /// A parameter whose shape is not the one that the network needs.
    #[error("the parameter `{name}` has the shape {found:?}, expected {needed:?}")]
    Shape {
        /// Name of the parameter.
        name: String,
        /// Shape of the parameter.
        found: Vec<usize>,
        /// The shape that the network needs.
        needed: Vec<usize>,
    },
    /// A parameter that the network does not have.
    #[error("the network has no parameter `{0}`")]
    Unknown(String),
    /// A failed tensor operation.
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
}

/// A network or a part of one, unless a parameter is wrong.
pub type Built<T> = Result<T, WeightsError>;

/// Parameters by name.
#[derive(Debug, Clone)]
pub struct Weights {
    vars: BTreeMap<String, Var>,
    dtype: DType,
    device: Device,
}

impl Weights {
    /// The parameters, all of one type and on one device.
    pub fn vars(&self) -> &BTreeMap<String, Var> {
        &self.vars
    }

    /// The type of the parameters.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The device of the parameters.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Total number of elements.
    pub fn len(&self) -> usize {
        self.vars.values().map(|var| var.elem_count()).sum()
    }

    /// Whether there are no parameters.
    pub fn is_empty(&self) -> bool {
        self.vars.is_empty()
    }
}

/// Initialisation of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    /// Uniform in ±√(3 / inputs), with variance 1 / inputs.
    Uniform {
        /// Inputs of the layer.
        inputs: usize,
    },
    /// A constant.
    Constant(f64),
}

/// Source of the parameters of a network under construction.
pub enum Source {
    /// New parameters, each drawn from its own random stream, numbered in the order of requests.
    Seed(u64),
    /// Given parameters.
    Given(BTreeMap<String, Tensor>),
}

/// Supplies the layers of a network with parameters.
pub struct ParameterBuilder {
    source: Source,
    weights: Weights,
    is_frozen: bool,
}

impl ParameterBuilder {
    /// A builder that takes parameters from `source`. Frozen parameters take part in no gradient, so inference keeps
    /// nothing for gradients.
    pub fn new(source: Source, is_frozen: bool, dtype: DType, device: &Device) -> ParameterBuilder {
        let weights = Weights { vars: BTreeMap::new(), dtype, device: device.clone() };
        ParameterBuilder { source, weights, is_frozen }
    }

    /// Returns the parameter of the given name and shape, drawn or given.
    ///
    /// # Errors
    /// If a given parameter is missing or of another shape.
    pub fn parameter(&mut self, name: &str, shape: &[usize], init: Init) -> Result<Tensor, WeightsError> {
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

    /// All parameters supplied.
    ///
    /// # Errors
    /// If there are given parameters that no layer requested.
    pub fn finish(self) -> Result<Weights, WeightsError> {
        if let Source::Given(given) = self.source
            && let Some(name) = given.into_keys().next()
        {
            return Err(WeightsError::Unknown(name));
        }
        Ok(self.weights)
    }
}

/// Initial values of a parameter. Drawn here because candle's CPU generator takes no seed.
fn drawn(count: usize, init: Init, rng: &mut impl Rng) -> Vec<f32> {
    match init {
        Init::Constant(value) => vec![value as f32; count],
        Init::Uniform { inputs } => {
            let limit = (3.0 / inputs.max(1) as f32).sqrt();
            (0..count).map(|_| rng.random_range(-limit..limit)).collect()
        }
    }
}
