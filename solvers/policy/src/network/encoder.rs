//! The encoder: messages along edges in both directions and between units and devices, modulated by the whole graph.

use candle_core::{Result, Tensor};
use candle_nn::ops::sigmoid;

use super::Config;
use super::attention::Attention;
use super::batch::Batch;
use super::layers::{Linear, Norm, Perceptron};
use crate::features::{DEVICE, EDGE, GRAPH, UNIT};
use crate::rows::Rows;
use crate::weights::{Built, ParameterBuilder};

/// Embeddings computed by the encoder.
#[derive(Debug, Clone)]
pub(crate) struct Code {
    /// u × width.
    pub(crate) units: Tensor,
    /// d × width.
    pub(crate) devices: Tensor,
    /// g × width.
    pub(crate) graphs: Tensor,
}

/// Messages in one direction along the edges, each multiplied by a gate that sees both ends and the edge (Bresson and
/// Laurent, "Residual gated graph ConvNets", 2017).
#[derive(Debug, Clone)]
struct Messages {
    value: Linear,
    near: Linear,
    far: Linear,
    edge: Linear,
}

impl Messages {
    fn new(parameters: &mut ParameterBuilder, name: &str, width: usize) -> Built<Messages> {
        Ok(Messages {
            value: Linear::new(parameters, &format!("{name}.value"), width, width)?,
            near: Linear::new(parameters, &format!("{name}.near"), width, width)?,
            far: Linear::new(parameters, &format!("{name}.far"), width, width)?,
            edge: Linear::new(parameters, &format!("{name}.edge"), EDGE, width)?,
        })
    }

    /// The messages received by every unit: the sum over its incoming edges, divided by √(1 + number of edges).
    fn forward(&self, h: &Tensor, edge: &Tensor, from: &Rows, to: &Rows, by: &Tensor) -> Result<Tensor> {
        if from.row_count() == 0 {
            // Kernels cannot run on empty tensors.
            return h.zeros_like();
        }
        let gate = (from.sum(&self.far.forward(h)?)? + to.sum(&self.near.forward(h)?)?)?;
        let gate = sigmoid(&(gate + self.edge.forward(edge)?)?)?;
        let message = (gate * from.sum(&self.value.forward(h)?)?)?;
        to.transposed().sum(&message)?.broadcast_mul(by)
    }
}

/// One layer: updates every unit from its embedding, the messages from both sides and its device, and every device from
/// its units.
#[derive(Debug, Clone)]
struct Layer {
    forward: Messages,
    backward: Messages,
    mix: Linear,
    norm: Norm,
    /// Scale and shift of every feature, computed from the whole graph (Perez et al., "FiLM: visual reasoning with a
    /// general conditioning layer", AAAI 2018). GDP's superposition has only the scale.
    modulation: Linear,
    device: Perceptron,
    device_norm: Norm,
    attention: Option<Attention>,
}

impl Layer {
    fn new(parameters: &mut ParameterBuilder, index: usize, config: &Config) -> Built<Layer> {
        let width = config.width;
        let name = format!("layer.{index}");
        Ok(Layer {
            forward: Messages::new(parameters, &format!("{name}.forward"), width)?,
            backward: Messages::new(parameters, &format!("{name}.backward"), width)?,
            mix: Linear::new(parameters, &format!("{name}.mix"), 4 * width, width)?,
            norm: Norm::new(parameters, &format!("{name}.norm"), width)?,
            modulation: Linear::zero(parameters, &format!("{name}.modulation"), width, 2 * width)?,
            device: Perceptron::new(parameters, &format!("{name}.device"), [2 * width, width, width])?,
            device_norm: Norm::new(parameters, &format!("{name}.device_norm"), width)?,
            // Only every second layer attends.
            attention: match index % 2 == 1 {
                true => Some(Attention::new(parameters, &format!("{name}.attention"), config)?),
                false => None,
            },
        })
    }

    fn forward(&self, code: &Code, batch: &Batch) -> Result<Code> {
        let h = &code.units;
        let before = self.forward.forward(h, &batch.edge, &batch.from, &batch.to, &batch.by_inputs)?;
        let after = self.backward.forward(h, &batch.edge, &batch.to, &batch.from, &batch.by_outputs)?;
        let beside = batch.home.sum(&code.devices)?;
        let mixed = self.mix.forward(&Tensor::cat(&[h, &before, &after, &beside], 1)?)?;
        let mixed = self.norm.forward(&mixed)?;
        let both = batch.graph_of_unit.sum(&self.modulation.forward(&code.graphs)?)?;
        let width = both.dim(1)? / 2;
        let mixed = (mixed.mul(&(both.narrow(1, 0, width)? + 1.0)?)? + both.narrow(1, width, width)?)?;
        let mut units = (h + mixed.silu()?)?;
        if let Some(attention) = &self.attention {
            units = attention.forward(&units, batch)?;
        }
        let held = batch.at_home.sum(&units)?.broadcast_mul(&batch.by_at_home)?;
        let seen = self.device.forward(&Tensor::cat(&[&code.devices, &held], 1)?)?;
        let devices = (&code.devices + self.device_norm.forward(&seen)?)?;
        Ok(Code { units, devices, graphs: code.graphs.clone() })
    }
}

/// The encoder of graphs and devices.
#[derive(Debug, Clone)]
pub(crate) struct Encoder {
    unit: Perceptron,
    device: Perceptron,
    graph: Perceptron,
    layers: Vec<Layer>,
    norm: Norm,
}

impl Encoder {
    pub(crate) fn new(parameters: &mut ParameterBuilder, config: &Config) -> Built<Encoder> {
        let width = config.width;
        let layer = |parameters: &mut ParameterBuilder, index| Layer::new(parameters, index, config);
        Ok(Encoder {
            unit: Perceptron::new(parameters, "unit", [UNIT, width, width])?,
            device: Perceptron::new(parameters, "device", [DEVICE, width, width])?,
            graph: Perceptron::new(parameters, "graph", [GRAPH + 2 * width, width, width])?,
            layers: (0..config.layers).map(|index| layer(parameters, index)).collect::<Built<_>>()?,
            norm: Norm::new(parameters, "norm", width)?,
        })
    }

    pub(crate) fn forward(&self, batch: &Batch) -> Result<Code> {
        let units = self.unit.forward(&batch.unit)?;
        let devices = self.device.forward(&batch.device)?;
        let of_units = batch.units_of_graph.sum(&units)?.broadcast_mul(&batch.by_units)?;
        let of_devices = batch.devices_of_graph.sum(&devices)?.broadcast_mul(&batch.by_devices)?;
        let graphs = self.graph.forward(&Tensor::cat(&[&batch.graph, &of_units, &of_devices], 1)?)?;
        let mut code = Code { units, devices, graphs };
        for layer in &self.layers {
            code = layer.forward(&code, batch)?;
        }
        Ok(Code { units: self.norm.forward(&code.units)?, ..code })
    }
}
