//! Samplers for the distributions of graphs and clusters.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Number of standard deviations at which normal samples are clamped, so that no single operator outweighs a whole
/// graph.
const MAX_DEVIATIONS: f64 = 4.0;

/// A log-uniform sample between `least` and `largest`, both positive.
pub(super) fn log_uniform(rng: &mut ChaCha8Rng, least: f64, largest: f64) -> f64 {
    (least.ln() + (largest.ln() - least.ln()) * rng.random_range(0.0..=1.0f64)).exp()
}

/// A log-uniform integer between `least`, at least 1, and `largest`, both inclusive.
pub(super) fn log_uniform_count(rng: &mut ChaCha8Rng, least: usize, largest: usize) -> usize {
    (log_uniform(rng, least as f64, largest as f64).round() as usize).clamp(least, largest)
}

/// A log-normal sample of median 1.
pub(super) fn log_normal(rng: &mut ChaCha8Rng, deviation: f64) -> f64 {
    (deviation * normal(rng).clamp(-MAX_DEVIATIONS, MAX_DEVIATIONS)).exp()
}

/// A standard normal sample (Box and Muller, "A note on the generation of random normal deviates", Annals of
/// Mathematical Statistics 1958).
fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random_range(0.0..1.0f64)).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.random_range(0.0..1.0f64)).cos()
}

/// Draws one of the values uniformly.
///
/// # Panics
/// If there are no values.
pub(super) fn one_of<T: Copy>(rng: &mut ChaCha8Rng, values: &[T]) -> T {
    values[rng.random_range(0..values.len())]
}

#[cfg(test)]
mod tests {
    use stagewright_core::seed;

    use super::*;

    #[test]
    fn half_of_log_normal_numbers_are_below_one_and_their_logarithms_deviate_as_asked() {
        let mut rng = seed::stream(1, 0);
        let logs: Vec<f64> = (0..20_000).map(|_| log_normal(&mut rng, 0.7).ln()).collect();
        let below = logs.iter().filter(|&&log| log < 0.0).count();
        let variance = logs.iter().map(|log| log * log).sum::<f64>() / logs.len() as f64;
        assert!((9_600..10_400).contains(&below), "{below}");
        assert!((variance.sqrt() - 0.7).abs() < 0.02, "{variance}");
    }

    #[test]
    fn log_uniform_numbers_are_spread_over_orders_of_magnitude() {
        let mut rng = seed::stream(2, 0);
        let mut counts = [0; 4];
        for _ in 0..8_000 {
            let order = (log_uniform(&mut rng, 1e-2, 1e2).log10() + 2.0).floor().clamp(0.0, 3.0);
            counts[order as usize] += 1;
        }
        assert!(counts.iter().all(|&count| (1_800..2_200).contains(&count)), "{counts:?}");
    }

    #[test]
    fn counts_reach_both_ends() {
        let mut rng = seed::stream(3, 0);
        let mut seen = [0; 5];
        for _ in 0..2_000 {
            seen[log_uniform_count(&mut rng, 2, 4)] += 1;
        }
        assert!(seen[..2] == [0, 0] && seen[2..].iter().all(|&count| count > 100), "{seen:?}");
    }
}
