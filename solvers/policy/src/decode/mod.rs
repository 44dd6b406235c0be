//! Decoding of predictions: candidate schedules that the simulator scores, and orders that the exact program splits.

pub(crate) mod makespan;
pub(crate) mod throughput;

use rand::{Rng, RngExt};

/// Gumbel noise: the argmax of log-probabilities plus this noise is a sample from them.
pub(crate) fn gumbel(rng: &mut impl Rng) -> f64 {
    -(-rng.random_range(f64::MIN_POSITIVE..1.0f64).ln()).ln()
}
