//! Events of a step, in order.

use std::cmp::Ordering;

/// A task with a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// An operator.
    Operator(usize),
    /// A transfer, by its index in the step.
    Transfer(usize),
}

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// A task starts.
    Starts(Task),
    /// A task ends.
    Ends(Task),
}

/// Trace of a step.
#[derive(Debug)]
pub(super) struct Story {
    /// The events, in order.
    pub(super) moments: Vec<Moment>,
    /// Time of the last event.
    pub(super) end: f64,
}

/// Seconds since the start, with a total order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Time(pub(super) f64);

impl Eq for Time {}

impl Ord for Time {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
