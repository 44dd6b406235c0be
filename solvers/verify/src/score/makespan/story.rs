//! What happens in a step, in order.

use std::cmp::Ordering;

/// Something that takes time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// An operator.
    Operator(usize),
    /// A transfer, by its place in the step.
    Transfer(usize),
}

/// Something that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// It starts.
    Starts(Task),
    /// It ends.
    Ends(Task),
}

/// A step as it goes.
#[derive(Debug)]
pub(super) struct Story {
    /// All that happens, in order.
    pub(super) moments: Vec<Moment>,
    /// When the last of it does.
    pub(super) end: f64,
}

/// Seconds since the beginning, which have an order.
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
