//! Results of a simulation.

use super::distribution::{Distribution, Summary};

/// Result of a simulation, after its warm-up.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Results of the classes, in their order.
    pub classes: Vec<ClassOutcome>,
    /// Results of the groups, in their order.
    pub groups: Vec<GroupOutcome>,
    /// Measured time in seconds: up to the end of the settings, or of the last request.
    pub seconds: f64,
    /// Whether the limit of events ended the simulation.
    pub is_cut: bool,
}

/// Requests of a class that ended in the measured time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassOutcome {
    /// Number of them.
    pub finished: u64,
    /// Requests that were refused in that time: caches that never fit, or a full system.
    pub refused: u64,
    /// Finished requests a second.
    pub requests_per_s: f64,
    /// Time to the first token.
    pub ttft: Summary,
    /// Time between tokens, of requests with more than one.
    pub tpot: Summary,
}

/// Replicas of a group in the measured time, in their mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupOutcome {
    /// Sequences of a rank that are decoded at once.
    pub batch: f64,
    /// Share of the time in which a stage is busy.
    pub utilisation: f64,
}

/// Requests of a class so far.
#[derive(Debug)]
pub(super) struct ClassRecord {
    ttft: Distribution,
    tpot: Distribution,
    pub(super) refused: u64,
}

impl ClassRecord {
    /// A record of no requests.
    pub(super) fn new() -> ClassRecord {
        ClassRecord { ttft: Distribution::new(), tpot: Distribution::new(), refused: 0 }
    }

    /// Adds a request of `output` tokens by the times of its arrival, its first and its last token.
    pub(super) fn add(&mut self, output: u64, arrived: f64, [first, last]: [f64; 2]) {
        self.ttft.add(first - arrived);
        if output > 1 {
            self.tpot.add((last - first) / (output - 1) as f64);
        }
    }

    /// The result after some seconds.
    pub(super) fn outcome(&self, seconds: f64) -> ClassOutcome {
        let finished = self.ttft.count();
        let requests_per_s = if seconds > 0.0 { finished as f64 / seconds } else { 0.0 };
        let (ttft, tpot) = (self.ttft.summary(), self.tpot.summary());
        ClassOutcome { finished, refused: self.refused, requests_per_s, ttft, tpot }
    }
}
