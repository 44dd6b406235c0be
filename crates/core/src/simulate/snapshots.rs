//! Snapshots of one run, in time order.

use super::engine::NO_PAUSE;
use super::state::RunState;

/// Approximate number of states that are kept per run.
const STATES: u32 = 16;

/// States of one run, evenly spaced over its events, with spare memory for more. States may be missing only at the end
/// of the run; they are added when a run gets there.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshots {
    states: Vec<RunState>,
    /// Number of states that belong to the run.
    count: usize,
    /// Number of events between two states.
    every: u32,
}

impl Snapshots {
    /// Drops all states, for a run of about `events` events.
    pub(super) fn clear(&mut self, events: u32) {
        self.count = 0;
        self.every = events.div_ceil(STATES).max(1);
    }

    /// Number of states.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Number of states with an earlier time than `moment`.
    pub(super) fn count_before(&self, moment: f64) -> usize {
        self.states[..self.count].partition_point(|state| state.clock.now < moment)
    }

    /// The first `count` states.
    pub(super) fn first(&self, count: usize) -> &[RunState] {
        &self.states[..count]
    }

    /// The states from index `number` on.
    pub(super) fn rest_mut(&mut self, number: usize) -> &mut [RunState] {
        &mut self.states[number..self.count]
    }

    /// Drops all but the first `count` states.
    pub(super) fn truncate(&mut self, count: usize) {
        self.count = self.count.min(count);
    }

    /// Appends a state.
    pub(super) fn push(&mut self, state: &RunState) {
        if self.count == self.states.len() {
            self.states.push(RunState::default());
        }
        self.states[self.count].clone_from(state);
        self.count += 1;
    }

    /// Number of events after which the next state is to be stored.
    pub(super) fn next(&self, state: &RunState) -> u32 {
        (state.clock.happened / self.every + 1).checked_mul(self.every).unwrap_or(NO_PAUSE)
    }
}
