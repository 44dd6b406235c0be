//! Attention within segments of the topological order, plus summaries of the whole graph.
//!
//! The order is cut into segments of equal length. A unit attends to its own segment and to a few summaries, each the
//! mean of an equal span of the order. The cost is linear in the number of units; full attention would be quadratic.
//! GDP (Zhou et al., 2019) attends to the previous segment instead, which makes segments wait for one another.

use candle_core::{Result, Tensor};
use candle_nn::ops::softmax;

use super::Config;
use super::batch::Batch;
use super::layers::{Linear, Norm};
use crate::weights::{Built, ParameterBuilder};

/// An attention layer with a residual connection.
#[derive(Debug, Clone)]
pub(crate) struct Attention {
    norm: Norm,
    query: Linear,
    key: Linear,
    value: Linear,
    out: Linear,
    heads: usize,
    segment: usize,
    summaries: usize,
}

impl Attention {
    pub(crate) fn new(parameters: &mut ParameterBuilder, name: &str, config: &Config) -> Built<Attention> {
        let width = config.width;
        let mut linear = |part: &str| Linear::new(parameters, &format!("{name}.{part}"), width, width);
        let [query, key, value] = [linear("query")?, linear("key")?, linear("value")?];
        Ok(Attention {
            query,
            key,
            value,
            // The layer starts as the identity.
            out: Linear::zero(parameters, &format!("{name}.out"), width, width)?,
            norm: Norm::new(parameters, &format!("{name}.norm"), width)?,
            heads: config.heads,
            segment: config.segment,
            summaries: config.summaries,
        })
    }

    /// Maps u × width to u × width.
    pub(crate) fn forward(&self, h: &Tensor, batch: &Batch) -> Result<Tensor> {
        let segments = &batch.segments;
        if segments.count == 0 {
            return Ok(h.clone());
        }
        let width = h.dim(1)?;
        let x = self.norm.forward(h)?;
        let slots = segments.unit_of_slot.sum(&x)?;
        let summaries = segments.units_of_summary.sum(&x)?.broadcast_mul(&segments.by_summary)?;
        let shared = segments.summary_of_key.sum(&summaries)?;
        let own = slots.reshape((segments.count, self.segment, width))?;
        let shared = shared.reshape((segments.count, self.summaries, width))?;
        let seen = Tensor::cat(&[&own, &shared], 1)?;
        let query = self.by_head(&self.query.forward(&own)?)?;
        let key = self.by_head(&self.key.forward(&seen)?)?;
        let value = self.by_head(&self.value.forward(&seen)?)?;
        let scale = ((width / self.heads) as f64).powf(-0.5);
        let scores = (query.matmul(&key.transpose(2, 3)?.contiguous()?)? * scale)?;
        let shares = softmax(&scores.broadcast_add(&segments.no_key)?, candle_core::D::Minus1)?;
        let mixed = shares.matmul(&value)?.transpose(1, 2)?.contiguous()?;
        let mixed = mixed.reshape((segments.count * self.segment, width))?;
        h + self.out.forward(&segments.slot_of_unit.sum(&mixed)?)?
    }

    /// Splits rows into heads: maps s × l × width to s × heads × l × (width / heads).
    fn by_head(&self, x: &Tensor) -> Result<Tensor> {
        let (segments, length, width) = x.dims3()?;
        x.reshape((segments, length, self.heads, width / self.heads))?.transpose(1, 2)?.contiguous()
    }
}
