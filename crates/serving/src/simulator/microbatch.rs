//! A microbatch: the batches of all ranks, which take their steps together.

use super::batch::Batch;
use super::fleet::Group;
use super::pace::pace;

/// Batches of the ranks, which run together since all their tokens meet in the experts.
#[derive(Debug)]
pub(super) struct Microbatch {
    /// Time at which the step began.
    pub(super) began: f64,
    /// Seconds of the step's prompts that follow it.
    pub(super) rest: f64,
    /// Batch of every rank.
    pub(super) ranks: Vec<Batch>,
}

impl Microbatch {
    /// A microbatch without sequences.
    pub(super) fn new(ranks: usize) -> Microbatch {
        Microbatch { began: 0.0, rest: 0.0, ranks: (0..ranks).map(|_| Batch::new()).collect() }
    }

    /// Seconds of the step on a stage: those of the rank that takes longest.
    pub(super) fn run(&mut self, group: &Group, stage: usize) -> f64 {
        let (mut seconds, mut rest) = (0.0_f64, 0.0_f64);
        for batch in &self.ranks {
            let own = pace(&group.replica, group.role, stage, &batch.step);
            (seconds, rest) = (seconds.max(own.seconds), rest.max(own.rest));
        }
        self.rest += rest;
        seconds
    }
}
