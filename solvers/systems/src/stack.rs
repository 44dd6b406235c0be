//! Linear layers in a row.

use candle_core::{Result, Tensor};
use stagewright_policy::network::layers::Linear;
use stagewright_policy::weights::{Built, ParameterBuilder};

/// Linear layers with a ReLU between consecutive layers.
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
