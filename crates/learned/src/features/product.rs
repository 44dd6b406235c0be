//! Features of matrix products.

use stagewright_core::document::Precision;

use super::{alignment, last_wave, log, padding};
use crate::processor::Processor;

/// Rows and columns of tiles that libraries use.
const TILES: [(f64, f64); 5] = [(64.0, 64.0), (128.0, 64.0), (128.0, 128.0), (128.0, 256.0), (256.0, 128.0)];

/// Number of features.
pub(super) const COUNT: usize = 13 + 3 * TILES.len();

/// Products of matrices of m × k and k × n.
#[derive(Debug, Clone, Copy)]
pub(super) struct Product {
    pub(super) batch: f64,
    pub(super) m: f64,
    pub(super) n: f64,
    pub(super) k: f64,
}

/// Features, and least seconds of computation and of memory traffic.
pub(super) fn features(
    Product { batch, m, n, k }: Product,
    precision: Precision,
    processor: &Processor,
) -> (Vec<f64>, [f64; 2]) {
    let (operand, result) = (precision.bytes(), precision.bytes().max(Precision::Bf16.bytes()));
    let bytes = batch * (operand * (m * k + k * n) + result * m * n);
    let compute = 2.0 * batch * m * n * k / processor.flops;
    let mut values = Vec::with_capacity(COUNT);
    values.extend([log(batch), log(m), log(n), log(k), log(compute / (bytes / processor.bandwidth))]);
    for (rows, columns) in TILES {
        let tiles = batch * (m / rows).ceil() * (n / columns).ceil();
        values.push(log(tiles / processor.multiprocessors).clamp(-8.0, 6.0));
        values.push(last_wave(tiles, processor.multiprocessors));
        values.push(padding(m, rows) + padding(n, columns));
    }
    values.extend([padding(m, 16.0), padding(m, 64.0), alignment(k), alignment(n), alignment(m)]);
    values.extend([log(k / 64.0), log(operand), super::flag(batch == 1.0)]);
    (values, [compute, processor.least_memory_seconds(bytes)])
}
