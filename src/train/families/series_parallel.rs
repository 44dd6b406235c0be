//! Series-parallel graphs: a part is one operator, two parts in a row, or a fork, some parts side by side and a join.
//!
//! Valdes, Tarjan and Lawler, "The recognition of series parallel digraphs", SIAM Journal on Computing 1982.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::shape::{Role, Shape};

/// Fewest operators that can be a fork, two sides and a join.
const LEAST_PARALLEL: usize = 4;

/// So many operators in series and in parallel.
pub(super) fn shape(rng: &mut ChaCha8Rng, operators: usize) -> Shape {
    let series = rng.random_range(0.2..0.6);
    let mut shape = Shape::default();
    part(rng, &mut shape, operators, &[], series);
    shape
}

/// Adds a part of so many operators, at least one, that reads what others make; says which is its last. Every part is cut
/// into shares that are fractions of it, so the depth of the recursion is logarithmic.
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
        let most = left - (sides - 1);
        let count = if sides == 1 { left } else { share(rng, 2 * left / sides).clamp(1, most) };
        ends.push(part(rng, shape, count, &[fork], series));
        left -= count;
        sides -= 1;
    }
    shape.add(Role::Combine, &ends)
}

/// A fifth to four fifths of some operators, at least one and not all where there are two.
fn share(rng: &mut ChaCha8Rng, of: usize) -> usize {
    ((of as f64 * rng.random_range(0.2..0.8)).round() as usize).clamp(1, of.saturating_sub(1).max(1))
}
