//! Reading ahead of a run.
//!
//! A run reads its tables about from front to back, since operators mostly run about in the order of their
//! indices, but in no order that a machine could foresee. So it would wait for every line of its tables to
//! come from memory, which takes as long as all else that it does. Read in order, the same lines come many at
//! a time. So every now and then a run reads a stretch of each table for no other end than to have it near.
//! Where operators run in quite another order this is of no use, and takes a few percent of the run.

use std::hint::black_box;

use super::flow::Flow;
use super::state::State;
use super::timeline::Timeline;

/// Events from one reading to the next.
const STRETCH: u32 = 512;

/// How many events a reading is ahead. An operator may run before others of lower index, but what is read has
/// to stay near until it runs.
const LEAD: u32 = 1024;

/// Bytes that come at once.
const LINE: usize = 64;

/// Whether it is time to read ahead.
#[inline]
pub(super) fn is_due(state: &State) -> bool {
    state.clock.happened.is_multiple_of(STRETCH)
}

/// Reads what events will read that are to come after some others.
#[cold]
pub(super) fn read(flow: &Flow, state: &State, timeline: &Timeline) {
    let stretch = Stretch { first: state.clock.happened.saturating_add(LEAD).into(), of: flow.events.into() };
    stretch.read(&flow.tasks);
    stretch.read(flow.inputs.all());
    stretch.read(flow.outputs.all());
    stretch.read(&flow.tensors);
    stretch.read(&flow.copies);
    stretch.read(&flow.readers);
    stretch.read(&flow.transfers);
    stretch.read(&flow.ports);
    stretch.read(&state.waits);
    stretch.read(&state.holds);
    stretch.read(&timeline.operators);
    stretch.read(&timeline.arrived_by);
    stretch.read(&timeline.ran_before);
    stretch.read(&timeline.transfers);
    stretch.read(&timeline.left_by);
}

/// Events from a number on, of so many.
struct Stretch {
    first: u64,
    of: u64,
}

impl Stretch {
    /// Reads the part of a table that these events are of it all.
    fn read<T: Copy>(&self, table: &[T]) {
        let length = table.len() as u64;
        let at = |event: u64| (length * event.min(self.of) / self.of) as usize;
        let part = &table[at(self.first)..at(self.first + u64::from(STRETCH))];
        for item in part.iter().step_by((LINE / size_of::<T>()).max(1)) {
            black_box(*item);
        }
    }
}
