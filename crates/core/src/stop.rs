//! The stop signal of a solve.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Reason why a solve ended before a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The time limit was reached.
    Time,
    /// The memory limit was reached.
    Memory,
    /// The requested gap was reached.
    Gap,
    /// The observer or the user interrupted the solve.
    Interrupted,
}

impl StopReason {
    /// Stable name.
    pub fn name(self) -> &'static str {
        match self {
            StopReason::Time => "time",
            StopReason::Memory => "memory",
            StopReason::Gap => "gap",
            StopReason::Interrupted => "interrupted",
        }
    }
}

/// Stop signal for worker threads; cheap to clone and to poll.
#[derive(Debug, Clone)]
pub struct Stop {
    deadline: Option<Instant>,
    flag: Arc<AtomicBool>,
}

impl Stop {
    /// A signal that applies after `limit`, or when `flag` is set.
    pub fn new(limit: Option<Duration>, flag: Arc<AtomicBool>) -> Self {
        // A limit beyond the range of the clock is treated as unlimited.
        Stop { deadline: limit.and_then(|limit| Instant::now().checked_add(limit)), flag }
    }

    /// A signal that never applies.
    pub fn never() -> Self {
        Stop { deadline: None, flag: Arc::default() }
    }

    /// Reason to stop now, if any.
    pub fn reason(&self) -> Option<StopReason> {
        if self.is_interrupted() {
            Some(StopReason::Interrupted)
        } else if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            Some(StopReason::Time)
        } else {
            None
        }
    }

    /// Whether the observer or the user stopped the solve, regardless of the deadline.
    pub fn is_interrupted(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// Makes the signal apply now.
    pub(crate) fn interrupt(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// The signal with another time limit, which is counted from now.
    pub fn within(&self, limit: Option<Duration>) -> Stop {
        Stop::new(limit, self.flag.clone())
    }

    /// The signal without its deadline, for short work that must be completed.
    pub fn without_deadline(&self) -> Stop {
        Stop { deadline: None, flag: self.flag.clone() }
    }

    /// Time left, if there is a limit.
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }
}
