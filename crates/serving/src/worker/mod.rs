//! Workers: equal devices that hold some of the layers together.

mod collectives;
mod memory;
mod mixer;
mod step;
mod tables;

use std::ops::Range;

use stagewright_core::document::Precision;
use stagewright_costs::Costs;
use stagewright_formats::Result;
use stagewright_structure::Encoding;

use crate::device::Device;
use crate::engine::Engine;
use crate::model::{Experts, LayerKind, Model, Product};
use crate::parallel::Parallel;

pub use step::{Speculation, Step};

/// Exponent of the rounded maximum of the time to read weights and the time to multiply with them: at equal times the product
/// takes a quarter longer than either.
const SHARPNESS: f64 = 3.0;

/// Bytes of a weight below which it has to be decoded for products in 16 bits.
const FEW_BYTES: f64 = 1.5;

/// Bytes of a number of the hidden state.
pub(crate) const HIDDEN_BYTES: f64 = 2.0;

/// Equal devices that hold a range of layers.
///
/// Sequences are divided among the `data` copies of attention (*ranks*); every batch below is that of one rank, and all ranks
/// have alike ones. Seconds are closed forms, each in constant time for a kind of layer.
#[derive(Debug, Clone)]
pub struct Worker<'a> {
    model: &'a Model,
    engine: &'a Engine,
    device: &'a Device,
    parallel: Parallel,
    cache: Encoding,
    costs: Option<&'a Costs>,
    layers: Range<usize>,
    /// Kinds of the layers with their numbers.
    counts: Vec<(usize, f64)>,
}

impl<'a> Worker<'a> {
    /// A worker with all layers of a model, and caches in the encoding that the model asks for.
    ///
    /// # Errors
    /// If the degrees do not fit the model (L020). `label` names the input that has the degrees.
    pub fn new(
        label: &str,
        model: &'a Model,
        engine: &'a Engine,
        device: &'a Device,
        parallel: Parallel,
    ) -> Result<Worker<'a>> {
        parallel.check(label, model)?;
        let worker = Worker {
            model,
            engine,
            device,
            parallel,
            cache: model.cache,
            costs: None,
            layers: 0..0,
            counts: Vec::new(),
        };
        Ok(worker.with_layers(0..model.layers.len()))
    }

    /// The worker with a range of layers, cut to those of the model. The first layer brings the table of tokens, the last the
    /// projection to the vocabulary.
    #[must_use]
    pub fn with_layers(mut self, layers: Range<usize>) -> Worker<'a> {
        let end = layers.end.min(self.model.layers.len());
        self.layers = layers.start.min(end)..end;
        self.counts.clear();
        for &kind in &self.model.layers[self.layers.clone()] {
            match self.counts.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, count)) => *count += 1.0,
                None => self.counts.push((kind, 1.0)),
            }
        }
        self
    }

    /// The worker with caches in another encoding.
    #[must_use]
    pub fn with_cache(mut self, cache: Encoding) -> Worker<'a> {
        self.cache = cache;
        self
    }

    /// Layers of the worker.
    pub fn layers(&self) -> Range<usize> {
        self.layers.clone()
    }

    /// Degrees of parallelism.
    pub fn parallel(&self) -> Parallel {
        self.parallel
    }

    /// The model.
    pub fn model(&self) -> &'a Model {
        self.model
    }

    /// The engine.
    pub fn engine(&self) -> &'a Engine {
        self.engine
    }

    /// The device.
    pub fn device(&self) -> &'a Device {
        self.device
    }

    /// Encoding of caches.
    pub fn cache(&self) -> Encoding {
        self.cache
    }

    /// Whether the worker has the first layer, and with it the table of tokens.
    pub fn is_first(&self) -> bool {
        self.layers.start == 0 && !self.layers.is_empty()
    }

    /// Whether the worker has the last layer, and with it the projection to the vocabulary.
    pub fn is_last(&self) -> bool {
        self.layers.end == self.model.layers.len() && !self.layers.is_empty()
    }

    /// Seconds of a step. A step without tokens takes none.
    pub fn seconds(&self, step: &Step) -> f64 {
        if step.tokens() <= 0.0 {
            return 0.0;
        }
        let layers: f64 =
            self.counts.iter().map(|&(kind, count)| count * self.kind_seconds(kind, step)).sum();
        layers + self.end_seconds(step)
    }

    /// Seconds of a layer of a kind in a step.
    ///
    /// # Panics
    /// If the model has no such kind.
    pub fn kind_seconds(&self, kind: usize, step: &Step) -> f64 {
        let kind = &self.model.kinds[kind];
        let tokens = step.tokens();
        let products = match self.costs {
            Some(costs) => self.measured_products(costs, &kind.matrices, tokens),
            None => kind.products.iter().map(|product| self.product_seconds(product, tokens)).sum(),
        };
        let experts = kind.experts.as_ref().map_or(0.0, |experts| self.expert_seconds(experts, tokens));
        products
            + experts
            + self.mixer_seconds(kind, step)
            + self.small_kernel_seconds(kind, tokens)
            + self.collective_seconds(kind, tokens)
    }

    /// Seconds of a step outside the layers: the projection to the vocabulary for every token that is sampled or verified, and
    /// the host's work for every sequence. Workers without the last layer have none.
    pub fn end_seconds(&self, step: &Step) -> f64 {
        if !self.is_last() {
            return 0.0;
        }
        let prompts = if step.prompt > 0.0 { 1.0 } else { 0.0 };
        let sampled = step.sequences * step.queries + prompts;
        let head = self.model.head.as_ref().map_or(0.0, |head| self.product_seconds(head, sampled));
        head + self.engine.sequence_s * step.sequences
    }

    /// Seconds to multiply tokens with weights: the rounded maximum of reading and multiplying.
    fn product_seconds(&self, product: &Product, tokens: f64) -> f64 {
        let degree = product.share.degree(self.parallel.tensor);
        let read = product.bytes / degree / (self.device.bandwidth * self.engine.weight_bandwidth)
            + self.decoding_seconds(product.weights / degree, product.bytes / degree, product.precision);
        let flop = 2.0 * product.weights / degree * tokens;
        rounded_maximum(read, flop / (self.device.peak(product.precision) * self.engine.products))
    }

    /// Seconds to decode weights in fewer than 16 bits where the device multiplies them in 16: the arithmetic is that of single
    /// precision. Devices without such a peak decode for nothing.
    fn decoding_seconds(&self, weights: f64, bytes: f64, precision: Precision) -> f64 {
        let is_decoded = bytes < FEW_BYTES * weights && !self.device.has_units(precision);
        let rate = self.device.peaks.get(&Precision::Fp32).filter(|_| is_decoded);
        rate.map_or(0.0, |rate| self.engine.decoding * weights / rate)
    }

    /// Seconds of the experts on a device, for the tokens of all ranks.
    fn expert_seconds(&self, experts: &Experts, tokens: f64) -> f64 {
        let Parallel { data, expert_tensor, experts: groups, .. } = self.parallel;
        let tokens = tokens * data as f64;
        let (groups, parts) = (groups as f64, expert_tensor as f64);
        let distinct = experts.expected_distinct(tokens) / groups / parts;
        let (weights, bytes) = (distinct * experts.weights, distinct * experts.bytes);
        let read = bytes / (self.device.bandwidth * self.engine.expert_bandwidth)
            + self.decoding_seconds(weights, bytes, experts.precision);
        let flop = 2.0 * tokens * experts.active as f64 * experts.weights / groups / parts;
        rounded_maximum(read, flop / (self.device.peak(experts.precision) * self.engine.expert_products))
    }

    /// Seconds to launch the kernels of a layer, and of the small ones to read and write the hidden state.
    fn small_kernel_seconds(&self, kind: &LayerKind, tokens: f64) -> f64 {
        let bytes = self.engine.activations * tokens * self.model.hidden * HIDDEN_BYTES;
        kind.launches * self.engine.launch_s + bytes / (self.device.bandwidth * self.engine.weight_bandwidth)
    }

    /// FLOP a second of attention.
    fn attention_rate(&self) -> f64 {
        self.device.peak(Precision::Bf16) * self.engine.attention
    }
}

fn rounded_maximum(left: f64, right: f64) -> f64 {
    let larger = left.max(right);
    if larger <= 0.0 {
        return 0.0;
    }
    let share = |part: f64| (part / larger).powf(SHARPNESS);
    larger * (share(left) + share(right)).powf(1.0 / SHARPNESS)
}

#[cfg(test)]
mod tests {
    use super::rounded_maximum;

    #[test]
    fn the_rounded_maximum_is_a_quarter_above_equal_parts() {
        assert!((rounded_maximum(1.0, 1.0) - 2_f64.powf(1.0 / 3.0)).abs() < 1e-12);
        assert!((rounded_maximum(0.0, 3.0) - 3.0).abs() < 1e-12);
        assert_eq!(rounded_maximum(0.0, 0.0), 0.0);
    }
}
