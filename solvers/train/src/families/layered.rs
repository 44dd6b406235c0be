//! Layered random graphs: operators in layers of random widths; each reads from the previous layer and sometimes from
//! earlier ones.
//!
//! The method *layrpred* of Tobita and Kasahara, "A standard task graph set for fair evaluation of multiprocessor
//! scheduling algorithms", Journal of Scheduling 2002.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::super::draw::log_uniform;
use super::super::shape::Shape;

/// Maximum number of layers that an edge spans.
const FARTHEST: usize = 4;

/// A shape of `operators` operators in layers.
pub(super) fn shape(rng: &mut ChaCha8Rng, operators: usize) -> Shape {
    let width = log_uniform(rng, 2.0, 2.0 * (operators as f64).sqrt());
    let degree = log_uniform(rng, 1.0, 4.0);
    let mut shape = Shape::default();
    let mut layers: Vec<std::ops::Range<usize>> = Vec::new();
    while shape.len() < operators {
        let first = shape.len();
        let limit = ((2.0 * width).round() as usize).max(2) - 1;
        let count = rng.random_range(1..=limit).min(operators - first);
        for _ in 0..count {
            let reads = reads(rng, &layers, degree);
            shape.add_any(rng, &reads);
        }
        layers.push(first..first + count);
    }
    shape
}

/// The inputs of an operator below the given layers: one from the last layer, and others from it or from earlier
/// layers.
fn reads(rng: &mut ChaCha8Rng, layers: &[std::ops::Range<usize>], degree: f64) -> Vec<usize> {
    let Some(last) = layers.last() else { return Vec::new() };
    let mut reads = vec![rng.random_range(last.clone())];
    let others = (2.0 * (degree - 1.0) * rng.random_range(0.0..1.0f64)).round() as usize;
    for _ in 0..others {
        let back = rng.random_range(1..=FARTHEST.min(layers.len()));
        // Most edges are short.
        let back = if rng.random_bool(0.6) { 1 } else { back };
        reads.push(rng.random_range(layers[layers.len() - back].clone()));
    }
    reads
}
