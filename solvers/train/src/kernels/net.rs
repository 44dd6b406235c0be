//! A network of kernels in training, on candle. `stagewright_learned::network` has its arithmetic for predictions.

use candle_core::{D, DType, Device, Result, Tensor};
use stagewright_learned::network::{Class, EMBEDDING, LARGEST, Layer, Network, OUTPUTS};
use stagewright_policy::weights::{Built, Init, ParameterBuilder, Source, Weights};

/// Width of a Huber-like loss: errors of the logarithm below it count squared, above it linearly.
const BEND: f64 = 0.05;

/// Weight of the squares of embeddings and offsets, by class.
const SHRINK: f64 = 0.03;

/// Outputs before the first step: a launch of 4.5 thousand cycles, and shares of three quarters of both peaks.
const FIRST: [f64; OUTPUTS] = [1.5, 1.0, 1.0];

/// The parameters of a network, and the tensors that take part in gradients.
pub(super) struct Net {
    pub(super) weights: Weights,
    layers: Vec<[Tensor; 2]>,
    embeddings: Tensor,
    offsets: Tensor,
    classes: usize,
}

/// A batch of examples: features (n × features), classes (n), whether each knows its class (n × 1), least thousands of
/// cycles (n × 2) and the target (n).
pub(super) struct Batch {
    pub(super) features: Tensor,
    pub(super) class: Tensor,
    pub(super) knows: Tensor,
    pub(super) kilocycles: Tensor,
    pub(super) target: Tensor,
}

impl Net {
    /// A network with `widths` hidden units in its layers.
    ///
    /// # Errors
    /// If a given parameter is missing or of another shape.
    pub(super) fn new(
        source: Source,
        features: usize,
        widths: &[usize],
        classes: usize,
        device: &Device,
    ) -> Built<Net> {
        let mut builder = ParameterBuilder::new(source, false, DType::F32, device);
        let mut layers = Vec::new();
        let mut inputs = features + EMBEDDING;
        for (index, &outputs) in widths.iter().chain(&[OUTPUTS]).enumerate() {
            // The last layer starts small, so that the first predictions are near the constants of the head.
            let scale = if index == widths.len() { 20 } else { 1 };
            let weights = builder.parameter(
                &format!("{index}.weights"),
                &[inputs, outputs],
                Init::Uniform { inputs: scale * inputs },
            )?;
            let biases = builder.parameter(&format!("{index}.biases"), &[outputs], Init::Constant(0.0))?;
            layers.push([weights, biases]);
            inputs = outputs;
        }
        let embeddings =
            builder.parameter("embeddings", &[classes, EMBEDDING], Init::Uniform { inputs: 100 })?;
        let offsets = builder.parameter("offsets", &[classes, OUTPUTS], Init::Constant(0.0))?;
        Ok(Net { weights: builder.finish()?, layers, embeddings, offsets, classes })
    }

    /// Loss of a batch.
    pub(super) fn loss(&self, batch: &Batch) -> Result<Tensor> {
        let of_class = |table: &Tensor| table.index_select(&batch.class, 0)?.broadcast_mul(&batch.knows);
        let mut values = Tensor::cat(&[&batch.features, &of_class(&self.embeddings)?], D::Minus1)?;
        for (index, [weights, biases]) in self.layers.iter().enumerate() {
            values = values.matmul(weights)?.broadcast_add(biases)?;
            if index + 1 < self.layers.len() {
                values = values.silu()?;
            }
        }
        let first = Tensor::new(&FIRST.map(|value| value as f32), values.device())?;
        let outputs = (values + of_class(&self.offsets)?)?.broadcast_add(&first)?.clamp(-LARGEST, LARGEST)?;
        let launch = outputs.narrow(1, 0, 1)?.exp()?;
        let slowdowns = (outputs.narrow(1, 1, 2)?.neg()?.exp()? + 1.0)?;
        let parts = (&batch.kilocycles * slowdowns)?;
        let time = (launch + parts.sqr()?.sum_keepdim(1)?.sqrt()?)?.log()?.squeeze(1)?;
        let error = ((time - &batch.target)?.sqr()? + BEND * BEND)?.sqrt()?.mean_all()?;
        let shrink = SHRINK / (2.0 * self.classes as f64);
        let squares = (self.embeddings.sqr()?.sum_all()? + self.offsets.sqr()?.sum_all()?)?;
        error + (squares * shrink)?
    }

    /// The network for predictions.
    pub(super) fn network(&self) -> Result<Network> {
        let numbers = |tensor: &Tensor| tensor.flatten_all()?.to_vec1::<f32>();
        let mut layers = Vec::new();
        for (index, [weights, biases]) in self.layers.iter().enumerate() {
            let mut biases = numbers(biases)?;
            if index + 1 == self.layers.len() {
                biases.iter_mut().zip(FIRST).for_each(|(bias, first)| *bias += first as f32);
            }
            layers.push(Layer { weights: numbers(weights)?, biases });
        }
        let (embeddings, offsets) = (numbers(&self.embeddings)?, numbers(&self.offsets)?);
        let class = |index: usize| Class {
            embedding: std::array::from_fn(|number| embeddings[EMBEDDING * index + number]),
            offsets: std::array::from_fn(|number| offsets[OUTPUTS * index + number]),
        };
        Ok(Network { layers, classes: (0..self.classes).map(class).collect() })
    }
}
