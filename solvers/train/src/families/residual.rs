//! Residual chains: blocks in series, each added to its input and sometimes to the input of an earlier block.
//!
//! He, Zhang, Ren and Sun, "Deep residual learning for image recognition", CVPR 2016; long skips as in Ronneberger,
//! Fischer and Brox, "U-Net", MICCAI 2015.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::super::shape::{Role, Shape};

/// A shape of about `operators` operators, but never more.
pub(super) fn shape(rng: &mut ChaCha8Rng, operators: usize) -> Shape {
    let layers = rng.random_range(1..=4);
    let has_norms = rng.random_bool(0.7);
    let long_skips = if rng.random_bool(0.4) { rng.random_range(0.05..0.4) } else { 0.0 };
    let layer = Role::layer(has_norms);
    let mut shape = Shape::default();
    let mut last = shape.add(Role::Input, &[]);
    let mut before: Vec<usize> = Vec::new();
    // A block has at least one layer and the sum.
    while shape.len() + layer.len() < operators {
        let room = (operators - shape.len() - 1) / layer.len();
        let roles = layer.repeat(layers.min(room));
        let end = shape.chain(&roles, &[last]);
        let mut summed = vec![last, end];
        if !before.is_empty() && rng.random_bool(long_skips) {
            summed.push(before[rng.random_range(0..before.len())]);
        }
        before.push(last);
        last = shape.add(Role::Combine, &summed);
    }
    shape
}
