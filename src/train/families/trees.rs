//! Random trees: out of a root, and into one.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::shape::Shape;

/// So many operators, each but the first reading what one other makes: one of the last few that were added, so that trees
/// are narrow or wide.
pub(super) fn out_tree(rng: &mut ChaCha8Rng, operators: usize) -> Shape {
    let recent = rng.random_range(1..=8) * (operators / 40 + 1);
    let mut shape = Shape::default();
    for at in 0..operators {
        let parent = (at > 0).then(|| rng.random_range(at.saturating_sub(recent)..at));
        shape.add_any(rng, parent.as_slice());
    }
    shape
}

/// The same turned round: each operator but the last has one reader.
pub(super) fn in_tree(rng: &mut ChaCha8Rng, operators: usize) -> Shape {
    out_tree(rng, operators).reversed()
}
