//! States of one run, in the order of time.

use super::engine::NO_PAUSE;
use super::state::State;

/// States kept of one run, about.
const STATES: u32 = 16;

/// States of one run from between its events, evenly spread over them, and the memory of others. There is no
/// gap but at the end: what is missing there is kept when a run passes it.
#[derive(Debug, Clone, Default)]
pub(super) struct Film {
    states: Vec<State>,
    /// How many of them are of the run.
    count: usize,
    /// Events between two states.
    every: u32,
}

impl Film {
    /// Forgets all states, for a run of about so many events.
    pub(super) fn clear(&mut self, events: u32) {
        self.count = 0;
        self.every = events.div_ceil(STATES).max(1);
    }

    /// How many states there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// How many states are from before a moment.
    pub(super) fn count_before(&self, moment: f64) -> usize {
        self.states[..self.count].partition_point(|state| state.clock.now < moment)
    }

    /// The first so many states.
    pub(super) fn first(&self, count: usize) -> &[State] {
        &self.states[..count]
    }

    /// The states from a number on.
    pub(super) fn rest_mut(&mut self, number: usize) -> &mut [State] {
        &mut self.states[number..self.count]
    }

    /// Forgets all but the first states.
    pub(super) fn truncate(&mut self, count: usize) {
        self.count = self.count.min(count);
    }

    /// Keeps a state after the others.
    pub(super) fn push(&mut self, state: &State) {
        if self.count == self.states.len() {
            self.states.push(State::default());
        }
        self.states[self.count].clone_from(state);
        self.count += 1;
    }

    /// How many events will have happened when the state after this one is to be kept.
    pub(super) fn next(&self, state: &State) -> u32 {
        (state.clock.happened / self.every + 1).checked_mul(self.every).unwrap_or(NO_PAUSE)
    }
}
