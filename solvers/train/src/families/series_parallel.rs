//! Series-parallel graphs: a part is an operator, two parts in series, or a fork, parallel parts and a join.
//!
//! Valdes, Tarjan and Lawler, "The recognition of series parallel digraphs", SIAM Journal on Computing 1982.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::super::shape::{Role, Shape};

/// Fewest operators of a fork, two sides and a join.
const LEAST_PARALLEL: usize = 4;

/// A shape of `operators` operators in series and in parallel.
pub(super) fn shape(rng: &mut ChaCha8Rng, operators: usize) -> Shape {
    let series = rng.random_range(0.2..0.6);
    let mut shape = Shape::default();
    part(rng, &mut shape, operators, &[], series);
    shape
}

/// Adds a part of `operators` operators, at least one, that reads the outputs of others; returns its last operator.
/// Every part is cut into constant fractions, so the recursion depth is logarithmic.
fn part(rng: &mut ChaCha8Rng, shape: &mut Shape, operators: usize, reads: &[usize], series: f64) -> usize {
    if operators == 1 {
        return shape.add_any(rng, reads);
    }
    if operators < LEAST_PARALLEL || rng.random_bool(series) {
        let first = share(rng, operators);
        let middle = part(rng, shape, first, reads, series);
        return part(rng, shape, operators - first, &[middle], series);
    }
    let fork = shape.add_any(rng, reads);
    let mut left = operators - 2;
    let mut sides = rng.random_range(2..=4).min(left);
    let mut ends = Vec::with_capacity(sides);
    while sides > 0 {
        let limit = left - (sides - 1);
        let count = if sides == 1 { left } else { share(rng, 2 * left / sides).clamp(1, limit) };
        ends.push(part(rng, shape, count, &[fork], series));
        left -= count;
        sides -= 1;
    }
    shape.add(Role::Combine, &ends)
}

/// Between a fifth and four fifths of `total`, at least 1 and less than `total` if that is at least 2.
fn share(rng: &mut ChaCha8Rng, total: usize) -> usize {
    ((total as f64 * rng.random_range(0.2..0.8)).round() as usize).clamp(1, total.saturating_sub(1).max(1))
}
