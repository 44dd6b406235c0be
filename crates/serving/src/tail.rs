//! 95th percentiles of times under random arrivals.

/// The share of requests that may be slower.
const SLOWER: f64 = 0.05;

/// The 95th percentile of a normal variable, in standard deviations.
const NORMAL: f64 = 1.645;

/// Steps of bisections.
const BISECTIONS: usize = 60;

/// The 95th percentile of the wait in a queue with random arrivals and equal times of service (M/D/1), in services, at a share of busy time
/// below 1.
///
/// P(wait > t) ≈ C · exp(−x · t), the limit for long waits of Cramér and Lundberg: x > 0 solves ρ · (exp(x) − 1) = x, and
/// C = (1 − ρ) / (ρ · exp(x) − 1). By the exact distribution, 93.9 to 96.3% of the requests wait
/// less. At ρ up to 0.05, where 95% find no queue, the result is 0.
pub(crate) fn wait(busy: f64) -> f64 {
    if busy <= SLOWER {
        return 0.0;
    }
    if busy >= 1.0 {
        return f64::INFINITY;
    }
    let exceeds = |rate: f64| busy * (rate.exp() - 1.0) > rate;
    let (mut low, mut high) = (0.0, 1.0);
    while !exceeds(high) {
        high *= 2.0;
    }
    for _ in 0..BISECTIONS {
        let middle = f64::midpoint(low, high);
        if exceeds(middle) { high = middle } else { low = middle }
    }
    let share = (1.0 - busy) / (busy * high.exp() - 1.0);
    ((share / SLOWER).ln() / high).max(0.0)
}

/// The largest share of busy time at which [`wait`] is at most `services`.
pub(crate) fn busiest(services: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..BISECTIONS {
        let middle = f64::midpoint(low, high);
        if wait(middle) <= services { low = middle } else { high = middle }
    }
    low
}

/// The 95th percentile of a number of random events of some mean (Poisson), by the normal distribution.
pub(crate) fn events(mean: f64) -> f64 {
    mean + NORMAL * mean.max(0.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::{busiest, wait};

    /// P(wait ≤ t) of M/D/1 with services of 1, by Erlang's sum; exact in double precision for short waits.
    fn exact(busy: f64, time: f64) -> f64 {
        let mut sum = 0.0;
        for served in 0..=(time.floor() as i32) {
            let rest = busy * (time - f64::from(served));
            let factorial: f64 = (1..=served).map(f64::from).product();
            sum += (-rest).powi(served) / factorial * rest.exp();
        }
        (1.0 - busy) * sum
    }

    #[test]
    fn percentiles_are_those_of_the_exact_distribution() {
        for busy in [0.06, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8] {
            let found = wait(busy);
            let share = exact(busy, found);
            assert!((share - 0.95).abs() < 0.014, "{busy}: {found} services have {share}");
        }
    }

    #[test]
    fn the_busiest_share_is_the_inverse() {
        for busy in [0.1, 0.4, 0.9, 0.99] {
            assert!((busiest(wait(busy)) - busy).abs() < 1e-6, "{busy}");
        }
        assert!(wait(0.05) == 0.0 && wait(1.0).is_infinite() && busiest(f64::INFINITY) == 1.0);
    }
}
