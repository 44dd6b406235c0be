//! Layers used by the encoder and the heads.

use candle_core::{Result, Tensor};
use candle_nn::Module;

use crate::weights::{Init, ParameterBuilder, WeightsError};

/// Keeps the standard deviation away from zero.
const EPSILON: f64 = 1e-5;

/// x ↦ xWᵀ + b.
#[derive(Debug, Clone)]
pub(crate) struct Linear(candle_nn::Linear);

impl Linear {
    pub(crate) fn new(
        parameters: &mut ParameterBuilder,
        name: &str,
        inputs: usize,
        outputs: usize,
    ) -> std::result::Result<Linear, WeightsError> {
        Linear::scaled(parameters, name, inputs, outputs, Init::Uniform { inputs })
    }

    /// A layer initialised to zero.
    pub(crate) fn zero(
        parameters: &mut ParameterBuilder,
        name: &str,
        inputs: usize,
        outputs: usize,
    ) -> std::result::Result<Linear, WeightsError> {
        Linear::scaled(parameters, name, inputs, outputs, Init::Constant(0.0))
    }

    fn scaled(
        parameters: &mut ParameterBuilder,
        name: &str,
        inputs: usize,
        outputs: usize,
        init: Init,
    ) -> std::result::Result<Linear, WeightsError> {
        let weight = parameters.parameter(&format!("{name}.weight"), &[outputs, inputs], init)?;
        let bias = parameters.parameter(&format!("{name}.bias"), &[outputs], Init::Constant(0.0))?;
        Ok(Linear(candle_nn::Linear::new(weight, Some(bias))))
    }

    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.0.forward(x)
    }

    /// W, outputs × inputs.
    pub(crate) fn weight(&self) -> &Tensor {
        self.0.weight()
    }

    /// b, one per output.
    pub(crate) fn bias(&self) -> &Tensor {
        self.0.bias().expect("it is made with one")
    }
}

/// Layer normalisation over the last dimension, with a scale and no shift: candle's fused version, which has a shift,
/// does not propagate gradients.
#[derive(Debug, Clone)]
pub(crate) struct Norm(candle_nn::LayerNorm);

impl Norm {
    pub(crate) fn new(
        parameters: &mut ParameterBuilder,
        name: &str,
        width: usize,
    ) -> std::result::Result<Norm, WeightsError> {
        let scale = parameters.parameter(&format!("{name}.scale"), &[width], Init::Constant(1.0))?;
        Ok(Norm(candle_nn::LayerNorm::new_no_bias(scale, EPSILON)))
    }

    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor> {
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
    ) -> std::result::Result<Perceptron, WeightsError> {
        Ok(Perceptron {
            first: Linear::new(parameters, &format!("{name}.first"), inputs, hidden)?,
            second: Linear::new(parameters, &format!("{name}.second"), hidden, outputs)?,
        })
    }

    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.second.forward(&self.first.forward(x)?.silu()?)
    }
}
