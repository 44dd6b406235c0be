//! Fork-join graphs: stages in series, each a fork, parallel chains and a join.
//!
//! The shape of bulk-synchronous programs (Valiant, "A bridging model for parallel computation", CACM 1990).

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::super::shape::{Role, Shape};

/// Maximum number of chains per stage.
const WIDEST: usize = 16;
/// Maximum number of operators per chain.
const LONGEST: usize = 6;

/// A shape of about `operators` operators, but never more.
pub(super) fn shape(rng: &mut ChaCha8Rng, operators: usize) -> Shape {
    let mut shape = Shape::default();
    let mut last = shape.add(Role::Input, &[]);
    // A fork, a chain of one operator, and a join.
    while shape.len() + 3 <= operators {
        let left = operators - shape.len() - 2;
        let length = rng.random_range(1..=LONGEST).min(left);
        let chains = rng.random_range(1..=WIDEST).min(left / length);
        let fork = shape.add(Role::Pointwise, &[last]);
        let ends: Vec<usize> =
            (0..chains).map(|_| (0..length).fold(fork, |last, _| shape.add_any(rng, &[last]))).collect();
        last = shape.add(Role::Combine, &ends);
    }
    shape
}
