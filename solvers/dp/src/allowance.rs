//! What a run may still use, shared by the tasks of a batch.
//!
//! Whether the tasks together exceed an allowance does not depend on the order in which they spend it, so a batch of
//! several tasks that does is dropped whole, and the answer stays the same whatever the number of threads.

use std::sync::atomic::{AtomicI64, Ordering};

use stagewright_core::solver::{Stop, StopReason};

/// Most bytes that a task finds between two looks at the allowance.
const MOST_BETWEEN_CHECKS: u64 = 1 << 20;

/// What a run may use.
#[derive(Clone, Copy)]
pub(crate) struct Budget<'a> {
    pub(crate) stop: &'a Stop,
    /// Bytes of tables and of what tasks find.
    pub(crate) memory: Option<u64>,
    /// Supersets looked at.
    pub(crate) steps: Option<u64>,
}

/// Why a run ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Halt {
    /// A limit of the solve.
    Stop(StopReason),
    /// The run's own budget of steps.
    Steps,
}

impl Halt {
    /// Whether nothing more can be tried: the time is over, or the user ended it.
    pub(crate) fn by_clock(self) -> bool {
        matches!(self, Halt::Stop(StopReason::Time | StopReason::Interrupted | StopReason::Gap))
    }
}

/// What is left of a budget.
pub(crate) struct Allowance<'a> {
    stop: &'a Stop,
    steps: AtomicI64,
    bytes: AtomicI64,
    /// Bytes left at first.
    most_bytes: i64,
}

impl<'a> Allowance<'a> {
    /// What a budget leaves after some steps, with some bytes in use.
    pub(crate) fn new(budget: Budget<'a>, steps: u64, bytes: u64) -> Self {
        let left = |limit: Option<u64>, used: u64| match limit {
            Some(limit) => i64::try_from(limit.saturating_sub(used)).unwrap_or(i64::MAX),
            None => i64::MAX,
        };
        let most_bytes = left(budget.memory, bytes);
        Allowance {
            stop: budget.stop,
            steps: AtomicI64::new(left(budget.steps, steps)),
            bytes: AtomicI64::new(most_bytes),
            most_bytes,
        }
    }

    /// Takes steps and bytes off, and looks at the clock.
    pub(crate) fn spend(&self, steps: u64, bytes: u64) -> Result<(), Halt> {
        let exceeds = |left: &AtomicI64, amount: u64| {
            let amount = i64::try_from(amount).unwrap_or(i64::MAX);
            left.fetch_sub(amount, Ordering::Relaxed) < amount
        };
        let (no_steps, no_bytes) = (exceeds(&self.steps, steps), exceeds(&self.bytes, bytes));
        if let Some(reason) = self.stop.reason() {
            Err(Halt::Stop(reason))
        } else if no_bytes {
            Err(Halt::Stop(StopReason::Memory))
        } else if no_steps {
            Err(Halt::Steps)
        } else {
            Ok(())
        }
    }

    /// Bytes that a task may find between two calls of [`Allowance::spend`]: few beside what is left.
    pub(crate) fn bytes_between_checks(&self) -> u64 {
        MOST_BETWEEN_CHECKS.min(self.most_bytes.unsigned_abs() / 256)
    }

    /// Whether the work space of one task is within what was left at first. Work spaces are not added up, since how
    /// many there are at a time depends on the threads.
    pub(crate) fn hold(&self, bytes: u64) -> Result<(), Halt> {
        match i64::try_from(bytes) {
            Ok(bytes) if bytes <= self.most_bytes => Ok(()),
            _ => Err(Halt::Stop(StopReason::Memory)),
        }
    }
}
