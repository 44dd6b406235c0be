//! Kernels of a layer in a step, which bound its time from below when there is little work.
//!
//! Counts are those of fused kernels of present engines, rounded: for attention a normalisation, the product of queries, keys
//! and values, rotation, writing the cache, attention in two kernels, the output, and what a collective adds. A fit in which
//! all but that of attention were free gave 1.6 to 2.9 for a dense block, 14 for latents, 9 to 12 for linear attention and 8
//! to 9 for a mixture; these are rounded, and only [`launch_s`](crate::Engine::launch_s) is fitted.

use stagewright_structure::{Indexer, Layer, Mixer};

const ATTENTION: f64 = 8.0;
/// Attention over latents has projections in two steps, and absorbs its keys in products of their own.
const LATENT: f64 = 14.0;
const INDEXER: f64 = 7.0;
const LINEAR: f64 = 10.0;
const CONVOLUTION: f64 = 5.0;
const DENSE: f64 = 2.0;
/// Router, choice, order of the tokens, two products, their quantisation, the sum.
const MIXTURE: f64 = 9.0;

/// Kernels of a layer.
pub(super) fn launches(layer: &Layer) -> f64 {
    let indexer = |indexer: Option<&Indexer>| {
        if indexer.is_some_and(|indexer| !indexer.shared) { INDEXER } else { 0.0 }
    };
    let mixer = match &layer.mixer {
        Mixer::Attention(attention) => ATTENTION + indexer(attention.indexer.as_ref()),
        Mixer::Latent(latent) => LATENT + indexer(latent.indexer.as_ref()),
        Mixer::Compressed(compressed) => LATENT + indexer(compressed.indexer.as_ref()),
        Mixer::Linear(_) | Mixer::StateSpace(_) => LINEAR,
        Mixer::Convolution(_) => CONVOLUTION,
        Mixer::None => 0.0,
    };
    let dense = if layer.dense.is_some() { DENSE } else { 0.0 };
    let mixture = if layer.mixture.is_some() { MIXTURE } else { 0.0 };
    mixer + dense + mixture
}
