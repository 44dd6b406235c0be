//! Means and percentiles of times in bounded memory.

/// Buckets for a factor of e: percentiles are within a quarter of a percent.
const RESOLUTION: f64 = 200.0;

/// Times that are told from 0, in seconds.
const SHORTEST: f64 = 1e-9;

/// Buckets up to some 10^9 seconds.
const BUCKETS: usize = 8400;

/// Times of requests: the sum, and the number in each bucket.
#[derive(Debug, Clone)]
pub(super) struct Distribution {
    count: u64,
    sum: f64,
    buckets: Vec<u64>,
}

/// Mean and percentiles of a time of requests in seconds; 0 without any request. Percentiles are within 0.25%.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Summary {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl Distribution {
    /// A distribution of no times.
    pub(super) fn new() -> Distribution {
        Distribution { count: 0, sum: 0.0, buckets: vec![0; BUCKETS] }
    }

    /// Adds a time in seconds.
    pub(super) fn add(&mut self, seconds: f64) {
        // Conversions of negative numbers give the first bucket.
        let bucket = 1.0 + (seconds / SHORTEST).ln() * RESOLUTION;
        self.buckets[(bucket as usize).min(BUCKETS - 1)] += 1;
        self.count += 1;
        self.sum += seconds;
    }

    /// Number of times.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Mean and percentiles.
    pub(super) fn summary(&self) -> Summary {
        if self.count == 0 {
            return Summary::default();
        }
        let mean = self.sum / self.count as f64;
        Summary { mean, p50: self.percentile(0.5), p95: self.percentile(0.95), p99: self.percentile(0.99) }
    }

    /// Middle of the bucket of the smallest time that a share of all times does not exceed.
    fn percentile(&self, share: f64) -> f64 {
        let wanted = (share * self.count as f64).ceil() as u64;
        let mut below = 0;
        let bucket = self.buckets.iter().position(|&count| {
            below += count;
            below >= wanted
        });
        match bucket {
            None | Some(0) => 0.0,
            Some(bucket) => SHORTEST * ((bucket as f64 - 0.5) / RESOLUTION).exp(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_a_quarter_of_a_percent() {
        let mut times = Distribution::new();
        assert_eq!(times.summary(), Summary::default());
        for number in 1..=1000 {
            times.add(f64::from(number) * 1e-3);
        }
        let summary = times.summary();
        assert!((summary.mean - 0.5005).abs() < 1e-9);
        for (own, exact) in [(summary.p50, 0.5), (summary.p95, 0.95), (summary.p99, 0.99)] {
            assert!((own / exact - 1.0).abs() <= 0.0026, "{own} {exact}");
        }
    }

    #[test]
    fn times_out_of_range_count_at_its_ends() {
        let mut times = Distribution::new();
        for seconds in [0.0, -1.0, 1e30] {
            times.add(seconds);
        }
        let summary = times.summary();
        assert_eq!((times.count(), summary.p50), (3, 0.0));
        assert!(summary.p99 > 1e9);
    }
}
