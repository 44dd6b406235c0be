//! Features of kernels over rows and elements, in single precision.

use super::{alignment, flag, last_wave, log};
use crate::processor::Processor;
use crate::shape::Rowwise;

/// Bytes of an element.
const ELEMENT: f64 = 4.0;

/// Number of features.
pub(super) const COUNT: usize = 14 + Rowwise::ALL.len();

/// Features, and least seconds of computation and of memory traffic.
pub(super) fn features(
    operation: Rowwise,
    rows: f64,
    columns: f64,
    processor: &Processor,
) -> (Vec<f64>, [f64; 2]) {
    let elements = rows * columns;
    let bytes = ELEMENT * elements * if operation.is_binary() { 3.0 } else { 2.0 };
    let compute = operation.flop() * elements / processor.flops;
    let by_row = flag(!operation.is_elementwise());
    // An elementwise kernel has a block for some hundred elements, the others one for each row.
    let blocks = if operation.is_elementwise() { (elements / 512.0).ceil() } else { rows };
    let padded = log(libm::exp2(log(columns).ceil()) / columns);
    let mut values = Vec::with_capacity(COUNT);
    values.extend([by_row * log(rows), by_row * log(columns), log(elements)]);
    values.push(log(bytes / processor.cache_bytes));
    values.push(log(rows / processor.multiprocessors).clamp(-8.0, 12.0));
    values.push(log((blocks / processor.multiprocessors / 8.0).max(1e-3)));
    values.extend([8.0, 16.0].map(|blocks_each| last_wave(blocks, processor.multiprocessors * blocks_each)));
    values.extend([alignment(columns), alignment(elements)]);
    values.extend([by_row * flag(columns > 1024.0), by_row * padded]);
    values.extend(Rowwise::ALL.map(|kind| flag(kind == operation)));
    values.extend([1.0 - by_row, flag(operation.is_binary())]);
    (values, [compute, processor.least_memory_seconds(bytes)])
}
