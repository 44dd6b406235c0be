//! Features of convolutions in single precision: those of the product that a convolution is, and its own.

use stagewright_core::document::Precision;

use super::product::{self, Product};
use super::{alignment, flag, log, padding};
use crate::processor::Processor;

/// Bytes of an element.
const ELEMENT: f64 = 4.0;

/// Products that the Winograd transform of a kernel of 3 × 3 saves: Lavin and Gray, "Fast algorithms for convolutional
/// neural networks", CVPR 2016, with tiles of 2 × 2.
const WINOGRAD: f64 = 2.25;

/// Number of features.
pub(super) const COUNT: usize = product::COUNT + 10;

/// A convolution of square images.
#[derive(Debug, Clone, Copy)]
pub(super) struct Convolution {
    pub(super) images: f64,
    pub(super) inputs: f64,
    pub(super) outputs: f64,
    pub(super) kernel: f64,
    pub(super) size: f64,
    pub(super) stride: f64,
    pub(super) padding: f64,
}

/// Features, and least seconds of computation and of memory traffic.
pub(super) fn features(convolution: &Convolution, processor: &Processor) -> (Vec<f64>, [f64; 2]) {
    let &Convolution { images, inputs, outputs, kernel, size, stride, padding: around } = convolution;
    let side = (((size + 2.0 * around - kernel) / stride).floor() + 1.0).max(1.0);
    let product = Product { batch: 1.0, m: images * side * side, n: outputs, k: inputs * kernel * kernel };
    let (mut values, [compute, _]) = product::features(product, Precision::Fp32, processor);
    let bytes = ELEMENT
        * (images * inputs * size * size
            + outputs * inputs * kernel * kernel
            + images * outputs * side * side);
    values.extend([log(inputs), log(images), log(side), log(size), alignment(inputs)]);
    values.extend([flag(kernel == 1.0), flag(kernel == 3.0), padding(side, 4.0), padding(side, 2.0)]);
    values.push(flag(side.min(64.0) % 8.0 == 0.0));
    let saved = if kernel == 3.0 && stride == 1.0 { WINOGRAD } else { 1.0 };
    (values, [compute / saved, processor.least_memory_seconds(bytes)])
}
