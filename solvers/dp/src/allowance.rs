//! Remaining budget of a run, shared by the tasks of a batch.
//!
//! Whether the tasks together exceed the allowance does not depend on the order in which they spend it. A batch of
//! several tasks that exceeds the allowance is therefore dropped as a whole, which keeps the result independent of the
//! number of threads.

use std::sync::atomic::{AtomicI64, Ordering};

use stagewright_core::solver::{Stop, StopReason};

/// Maximum bytes that a task accumulates between two checks of the allowance.
const MAX_BETWEEN_CHECKS: u64 = 1 << 20;

/// Limits of a run.
#[derive(Clone, Copy)]
pub(crate) struct Budget<'a> {
    pub(crate) stop: &'a Stop,
    /// Maximum bytes of tables and task results.
    pub(crate) memory: Option<u64>,
    /// Maximum number of supersets examined.
    pub(crate) steps: Option<u64>,
}

/// Reason that a run ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Halt {
    /// The whole solve reached a limit or was interrupted.
    Stop(StopReason),
    /// The run reached its own step limit.
    Steps,
}

impl Halt {
    /// Whether the whole solve has ended: it is out of time, interrupted, or at the requested gap.
    pub(crate) fn by_clock(self) -> bool {
        matches!(self, Halt::Stop(StopReason::Time | StopReason::Interrupted | StopReason::Gap))
    }
}

/// Steps and bytes that remain of a [`Budget`].
pub(crate) struct Allowance<'a> {
    stop: &'a Stop,
    steps: AtomicI64,
    bytes: AtomicI64,
    /// Bytes available at the start.
    most_bytes: i64,
}

impl<'a> Allowance<'a> {
    /// Remainder of a budget after `steps` steps, with `bytes` bytes in use.
    pub(crate) fn new(budget: Budget<'a>, steps: u64, bytes: u64) -> Self {
        let left = |limit: Option<u64>, used: u64| {
            limit.and_then(|limit| i64::try_from(limit.saturating_sub(used)).ok()).unwrap_or(i64::MAX)
        };
        let most_bytes = left(budget.memory, bytes);
        Allowance {
            stop: budget.stop,
            steps: AtomicI64::new(left(budget.steps, steps)),
            bytes: AtomicI64::new(most_bytes),
            most_bytes,
        }
    }

    /// Charges steps and bytes, and checks the clock.
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

    /// Checks the clock alone.
    pub(crate) fn check_clock(&self) -> Result<(), Halt> {
        self.stop.reason().map_or(Ok(()), |reason| Err(Halt::Stop(reason)))
    }

    /// Bytes that a task may accumulate between two calls of [`Allowance::spend`]: a small fraction of the bytes
    /// available.
    pub(crate) fn bytes_between_checks(&self) -> u64 {
        MAX_BETWEEN_CHECKS.min(self.most_bytes.unsigned_abs() / 256)
    }

    /// Checks that the workspace of one task fits into the bytes available at the start. Workspaces are not summed,
    /// since the number of workspaces that exist at once depends on the number of threads.
    pub(crate) fn hold(&self, bytes: u64) -> Result<(), Halt> {
        match i64::try_from(bytes) {
            Ok(bytes) if bytes <= self.most_bytes => Ok(()),
            _ => Err(Halt::Stop(StopReason::Memory)),
        }
    }
}
