//! Features of fused attention.

use stagewright_core::document::{KernelDocument, Precision};
use stagewright_core::kernel;

use super::{flag, last_wave, log, padding};
use crate::processor::Processor;

/// Queries of a tile that libraries use.
const TILES: [f64; 3] = [64.0, 128.0, 256.0];

/// Number of features.
pub(super) const COUNT: usize = 21 + 2 * TILES.len();

/// Fused attention of `queries` to `keys` in each of `batch` sequences.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attention {
    pub(super) batch: f64,
    pub(super) queries: f64,
    pub(super) keys: f64,
    pub(super) heads: f64,
    pub(super) kv_heads: f64,
    pub(super) head_dim: f64,
    pub(super) causal: bool,
}

/// Features, and least seconds of computation and of memory traffic.
pub(super) fn features(
    attention: &Attention,
    precision: Precision,
    processor: &Processor,
) -> (Vec<f64>, [f64; 2]) {
    let &Attention { batch, queries, keys, heads, kv_heads, head_dim, causal } = attention;
    let is_decode = queries <= 1.0;
    // The first of the queries of a causal kernel attends to all keys before it, the last one to all.
    let skipped = if causal && !is_decode { ((queries - 1.0) / 2.0).min(keys - 1.0).max(0.0) } else { 0.0 };
    let flop = 4.0 * batch * heads * head_dim * queries * (keys - skipped);
    let bytes = 2.0 * precision.bytes() * batch * head_dim * (heads * queries + kv_heads * keys);
    let compute = flop / processor.flops;
    let document = KernelDocument::Attention { batch, queries, keys, heads, kv_heads, head_dim, causal };
    let padded = kernel::work(&document, precision).flop / flop;
    let filling =
        |blocks: f64, lower: f64, upper: f64| log(blocks / processor.multiprocessors).clamp(lower, upper);
    let mut values = Vec::with_capacity(COUNT);
    values.extend([log(batch), log(keys), log(heads), log(kv_heads), log(head_dim), log(heads / kv_heads)]);
    values.extend([flag(heads == kv_heads), flag(kv_heads == 1.0)]);
    values.extend([log(compute / (bytes / processor.bandwidth)), log(padded)]);
    for rows in TILES {
        let blocks = batch * heads * (queries / rows).ceil();
        values.extend([filling(blocks, -9.0, 8.0), last_wave(blocks, processor.multiprocessors)]);
    }
    let blocks = batch * kv_heads * (heads / kv_heads * queries / 64.0).ceil();
    values.extend([filling(blocks, -9.0, 8.0), last_wave(blocks, processor.multiprocessors)]);
    values.push(filling(batch * kv_heads * (keys / 128.0).ceil(), -9.0, 10.0));
    values.extend([padding(keys, 64.0), padding(keys, 128.0)]);
    values.extend([flag(head_dim % 64.0 == 0.0), flag(head_dim == 128.0), flag(head_dim >= 256.0)]);
    values.extend([flag(head_dim == 64.0), flag(causal && !is_decode), flag(is_decode)]);
    (values, [compute, processor.least_memory_seconds(bytes)])
}
