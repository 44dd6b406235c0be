//! Features of a kernel on a processor, as a network sees them.
//!
//! All features are logarithms to base 2, or zero and one: sizes; the ratio of computation to memory traffic; tiles for
//! each multiprocessor, what the last wave of tiles leaves idle, and what tiles pad; powers of two that divide a size.
//! None is a figure of the device alone: with such figures, networks predict unknown classes worse.
//!
//! Beside the features, a network is given the least cycles of computation and of memory traffic, which it divides by
//! the shares that it predicts.

mod attention;
mod convolution;
mod product;
mod rows;

use libm::log2;
use stagewright_core::document::{KernelDocument, Precision};

use crate::processor::Processor;
use crate::shape::{Group, Shape};

/// Inputs of a network.
#[derive(Debug, Clone, PartialEq)]
pub struct Features {
    /// The features, in the order of the group.
    pub values: Vec<f64>,
    /// Lower bounds of computation and of memory traffic, in thousands of cycles.
    pub kilocycles: [f64; 2],
}

/// Features of a kernel, whose sizes must be valid, on a processor at a precision; `None` if no network predicts the
/// kernel. O(1).
pub fn features(shape: &Shape, precision: Precision, processor: &Processor) -> Option<Features> {
    shape.group(precision)?;
    let (values, seconds) = match *shape {
        Shape::Library(KernelDocument::Product { batch, m, n, k }) => {
            product::features(product::Product { batch, m, n, k }, precision, processor)
        }
        Shape::Library(KernelDocument::Attention {
            batch,
            queries,
            keys,
            heads,
            kv_heads,
            head_dim,
            causal,
        }) => {
            let attention = attention::Attention { batch, queries, keys, heads, kv_heads, head_dim, causal };
            attention::features(&attention, precision, processor)
        }
        Shape::Rows { operation, rows, columns } => rows::features(operation, rows, columns, processor),
        Shape::Convolution { images, inputs, outputs, kernel, size, stride, padding } => {
            let convolution =
                convolution::Convolution { images, inputs, outputs, kernel, size, stride, padding };
            convolution::features(&convolution, processor)
        }
    };
    Some(Features { values, kilocycles: seconds.map(|seconds| processor.kilocycles(seconds)) })
}

impl Group {
    /// Number of features of a kernel of the group.
    pub fn features(self) -> usize {
        match self {
            Group::Products => product::COUNT,
            Group::SingleProducts => product::COUNT,
            Group::Attention => attention::COUNT,
            Group::Rows => rows::COUNT,
            Group::Convolutions => convolution::COUNT,
        }
    }
}

/// Logarithm to base 2 of a number, at least that of 10⁻³⁰.
fn log(value: f64) -> f64 {
    log2(value.max(1e-30))
}

/// One for true, zero for false.
fn flag(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

/// Logarithm to base 2 of the largest power of two, of at most 64, that divides a whole number.
fn alignment(size: f64) -> f64 {
    (1..=6).filter(|&power| size % f64::from(1 << power) == 0.0).count() as f64
}

/// Logarithm of what rounding up to a multiple adds.
fn padding(size: f64, multiple: f64) -> f64 {
    log((size / multiple).ceil() * multiple / size)
}

/// Logarithm of the slots of all waves over the blocks that fill them; zero if one wave is not full.
fn last_wave(blocks: f64, slots: f64) -> f64 {
    if blocks > slots { log((blocks / slots).ceil() * slots / blocks) } else { 0.0 }
}
