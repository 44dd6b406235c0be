//! Random out-trees and in-trees.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::super::shape::Shape;

/// A tree of `operators` operators. Each but the first reads the output of one of the last few operators before it; the
/// number of these makes trees narrow or wide.
pub(super) fn out_tree(rng: &mut ChaCha8Rng, operators: usize) -> Shape {
    let recent = rng.random_range(1..=8) * (operators / 40 + 1);
    let mut shape = Shape::default();
    for index in 0..operators {
        let parent = (index > 0).then(|| rng.random_range(index.saturating_sub(recent)..index));
        shape.add_any(rng, parent.as_slice());
    }
    shape
}

/// A reversed out-tree: each operator but the last has one reader.
pub(super) fn in_tree(rng: &mut ChaCha8Rng, operators: usize) -> Shape {
    out_tree(rng, operators).reversed()
}
