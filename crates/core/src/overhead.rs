//! Time that every solver spends on a problem, even if little is left for its search.

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

/// The time that each step took when it was last done, in nanoseconds: an interruption by another program counts once.
#[derive(Debug, Default)]
pub(crate) struct Overhead([AtomicU64; 2]);

impl Overhead {
    /// Does a step and notes its time.
    pub(crate) fn time<T>(&self, step: Step, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = work();
        let nanoseconds = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.0[step as usize].store(nanoseconds, Ordering::Relaxed);
        result
    }

    /// The time of one step of each kind.
    pub(crate) fn total(&self) -> Duration {
        let nanoseconds = self.0.iter().map(|last| last.load(Ordering::Relaxed));
        Duration::from_nanos(nanoseconds.fold(0, u64::saturating_add))
    }
}
