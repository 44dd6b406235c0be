//! Output heads: priority, grouping, affinity and value.

use candle_core::{Result, Tensor};

use super::Config;
use super::batch::Batch;
use super::encoder::Code;
use super::layers::{Linear, Perceptron};
use crate::features::{EDGE, PAIR};
use crate::weights::{Built, ParameterBuilder};

/// Raw output of the network for a batch.
#[derive(Debug, Clone)]
pub struct Output {
    /// u × 1: priority; lower values run earlier.
    pub priority: Tensor,
    /// e × 1: logits that both ends are on the same device.
    pub together: Tensor,
    /// p × 1: logits of units on devices, to be normalised per unit.
    pub affinity: Tensor,
    /// g × 1: the natural logarithm of the best value over the lower bound.
    pub value: Tensor,
}

/// The four heads.
#[derive(Debug, Clone)]
pub(crate) struct Heads {
    priority: Perceptron,
    together_ends: Linear,
    together_edge: Linear,
    together: Perceptron,
    affinity_unit: Linear,
    affinity_device: Linear,
    affinity_pair: Linear,
    affinity: Linear,
    value: Perceptron,
}

impl Heads {
    pub(crate) fn new(parameters: &mut ParameterBuilder, config: &Config) -> Built<Heads> {
        let (width, hidden) = (config.width, config.width / 2);
        Ok(Heads {
            priority: Perceptron::new(parameters, "head.priority", [width, hidden, 1])?,
            together_ends: Linear::new(parameters, "head.together.ends", width, hidden)?,
            together_edge: Linear::new(parameters, "head.together.edge", EDGE, hidden)?,
            together: Perceptron::new(parameters, "head.together", [2 * hidden, hidden, 1])?,
            affinity_unit: Linear::new(parameters, "head.affinity.unit", width, hidden)?,
            affinity_device: Linear::new(parameters, "head.affinity.device", width, hidden)?,
            affinity_pair: Linear::new(parameters, "head.affinity.pair", PAIR, hidden)?,
            affinity: Linear::new(parameters, "head.affinity.out", hidden, 1)?,
            value: Perceptron::new(parameters, "head.value", [2 * width, width, 1])?,
        })
    }

    fn together(&self, code: &Code, batch: &Batch) -> Result<Tensor> {
        if batch.from.row_count() == 0 {
            return Tensor::zeros((0, 1), batch.dtype, code.units.device());
        }
        let ends = self.together_ends.forward(&code.units)?;
        let (from, to) = (batch.from.sum(&ends)?, batch.to.sum(&ends)?);
        // The order of the ends does not matter, but their similarity does.
        let both = (((&from + &to)? + self.together_edge.forward(&batch.edge)?)?).silu()?;
        let apart = (from - to)?.sqr()?;
        self.together.forward(&Tensor::cat(&[&both, &apart], 1)?)
    }

    pub(crate) fn forward(&self, code: &Code, batch: &Batch) -> Result<Output> {
        let together = self.together(code, batch)?;
        let unit = batch.unit_of_pair.sum(&self.affinity_unit.forward(&code.units)?)?;
        let device = batch.device_of_pair.sum(&self.affinity_device.forward(&code.devices)?)?;
        let pair = ((unit + device)? + self.affinity_pair.forward(&batch.pair)?)?.silu()?;
        let pooled = batch.units_of_graph.sum(&code.units)?.broadcast_mul(&batch.by_units)?;
        Ok(Output {
            priority: self.priority.forward(&code.units)?,
            together,
            affinity: (self.affinity.forward(&pair)? + &batch.incapable)?,
            value: self.value.forward(&Tensor::cat(&[&code.graphs, &pooled], 1)?)?,
        })
    }
}
