//! From what a network says to plans: candidates that the simulator scores, and orders that the exact program splits.

pub(crate) mod makespan;
pub(crate) mod throughput;

use rand::{Rng, RngExt};

/// Gumbel noise: adding it to log-likelihoods and taking the largest draws from them.
pub(crate) fn gumbel(rng: &mut impl Rng) -> f64 {
    -(-rng.random_range(f64::MIN_POSITIVE..1.0f64).ln()).ln()
}
