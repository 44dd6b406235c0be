//! Layers of the encoder, of the heads, and of other networks on the same parameters.

use candle_core::{Result, Tensor};
use candle_nn::Module;

use crate::weights::{Built, Init, ParameterBuilder};

/// Keeps the standard deviation away from zero.
const EPSILON: f64 = 1e-5;

/// x ↦ xWᵀ + b.
#[derive(Debug, Clone)]
pub struct Linear(candle_nn::Linear);

impl Linear {
    /// A layer with random weights of variance 1 / inputs, and with biases initialised to zero.
    ///
    /// # Errors
    /// If a given parameter is missing or has another shape.
    pub fn new(
        parameters: &mut ParameterBuilder,
        name: &str,
        inputs: usize,
        outputs: usize,
    ) -> Built<Linear> {
        Linear::scaled(parameters, name, inputs, outputs, Init::Uniform { inputs })
    }

    /// A layer initialised to zero.
    ///
    /// # Errors
    /// If a given parameter is missing or has another shape.
    pub fn zero(
        parameters: &mut ParameterBuilder,
        name: &str,
        inputs: usize,
        outputs: usize,
    ) -> Built<Linear> {
        Linear::scaled(parameters, name, inputs, outputs, Init::Constant(0.0))
    }

    fn scaled(
        parameters: &mut ParameterBuilder,
        name: &str,
        inputs: usize,
        outputs: usize,
        init: Init,
    ) -> Built<Linear> {
        let weight = parameters.parameter(&format!("{name}.weight"), &[outputs, inputs], init)?;
        let bias = parameters.parameter(&format!("{name}.bias"), &[outputs], Init::Constant(0.0))?;
        Ok(Linear(candle_nn::Linear::new(weight, Some(bias))))
    }

    /// Maps rows of inputs to rows of outputs.
    ///
    /// # Errors
    /// If a tensor operation fails.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.0.forward(x)
    }

    /// W, outputs × inputs.
    pub fn weight(&self) -> &Tensor {
        self.0.weight()
    }

    /// b, one per output.
    pub fn bias(&self) -> &Tensor {
        self.0.bias().expect("it is made with one")
    }
}

/// Layer normalisation over the last dimension, with a scale and no shift: candle's fused version, which has a shift,
/// does not propagate gradients.
#[derive(Debug, Clone)]
pub struct Norm(candle_nn::LayerNorm);

impl Norm {
    /// A layer for rows of `width` numbers, with its scale initialised to one.
    ///
    /// # Errors
    /// If a given parameter is missing or has another shape.
    pub fn new(parameters: &mut ParameterBuilder, name: &str, width: usize) -> Built<Norm> {
        let scale = parameters.parameter(&format!("{name}.scale"), &[width], Init::Constant(1.0))?;
        Ok(Norm(candle_nn::LayerNorm::new_no_bias(scale, EPSILON)))
    }

    /// Normalises each row to mean zero and variance one, and then scales it.
    ///
    /// # Errors
    /// If a tensor operation fails.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.0.forward(x)
    }
}

/// Two linear layers with a SiLU between them.
#[derive(Debug, Clone)]
pub(crate) struct Perceptron {
    first: Linear,
    second: Linear,
}

impl Perceptron {
    pub(crate) fn new(
        parameters: &mut ParameterBuilder,
        name: &str,
        [inputs, hidden, outputs]: [usize; 3],
    ) -> Built<Perceptron> {
        Ok(Perceptron {
            first: Linear::new(parameters, &format!("{name}.first"), inputs, hidden)?,
            second: Linear::new(parameters, &format!("{name}.second"), hidden, outputs)?,
        })
    }

    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.second.forward(&self.first.forward(x)?.silu()?)
    }
}
