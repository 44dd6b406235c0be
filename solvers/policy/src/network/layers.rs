//! Layers used by the encoder and the heads.

use candle_core::{Result, Tensor};
use candle_nn::Module;

use crate::weights::{Built, Init, ParameterBuilder};

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
    ) -> Built<Linear> {
        Linear::scaled(parameters, name, inputs, outputs, Init::Uniform { inputs })
    }

    /// A layer initialised to zero.
    pub(crate) fn zero(
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
    pub(crate) fn new(parameters: &mut ParameterBuilder, name: &str, width: usize) -> Built<Norm> {
        let scale = parameters.parameter(&format!("{name}.scale"), &[width], Init::Constant(1.0))?;
        Ok(Norm(candle_nn::LayerNorm::new_no_bias(scale, EPSILON)))
    }

    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.0.forward(x)
    }
}

/// Linear layers with a ReLU between every two.
#[derive(Debug, Clone)]
pub(crate) struct Stack(Vec<Linear>);

impl Stack {
    /// Layers `name.0`, `name.1` and so on, from each size to the next.
    pub(crate) fn new(parameters: &mut ParameterBuilder, name: &str, sizes: &[usize]) -> Built<Stack> {
        let layer = |(index, ends): (usize, &[usize])| {
            Linear::new(parameters, &format!("{name}.{index}"), ends[0], ends[1])
        };
        Ok(Stack(sizes.windows(2).enumerate().map(layer).collect::<Built<_>>()?))
    }

    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (first, others) = self.0.split_first().expect("it is made of two sizes or more");
        others.iter().try_fold(first.forward(x)?, |x, layer| layer.forward(&x.relu()?))
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
