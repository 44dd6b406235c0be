//! Time that every solver spends on a problem outside of its search, even if little time is left.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A step that no limit interrupts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// The contraction of operators to units, before a search.
    Contraction,
    /// The evaluation of a plan, after a search.
    Evaluation,
}

/// The time that each step took when it last ran, in nanoseconds. Only the last run counts, so that a run slowed down
/// by another program is forgotten after the next.
#[derive(Debug, Default)]
pub(crate) struct Overhead([AtomicU64; 2]);

impl Overhead {
    /// Runs a step and records the time that it took.
    pub(crate) fn time<T>(&self, step: Step, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = work();
        let nanoseconds = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.0[step as usize].store(nanoseconds, Ordering::Relaxed);
        result
    }

    /// The time of one run of each step.
    pub(crate) fn total(&self) -> Duration {
        let nanoseconds = self.0.iter().map(|last| last.load(Ordering::Relaxed));
        Duration::from_nanos(nanoseconds.fold(0, u64::saturating_add))
    }
}
