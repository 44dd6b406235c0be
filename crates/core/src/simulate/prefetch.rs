//! Software prefetching of a run's tables.
//!
//! A run reads its tables roughly from front to back, since most operators run roughly in index order, but not in an
//! order that the hardware can predict. Without prefetching it would wait for every cache line to come from memory,
//! which takes as long as the rest of its work. Sequential reads load many lines at a time, so a run periodically reads
//! a stretch of each table just to bring it into the cache. If operators run in a very different order, this does not
//! help and costs a few percent of the run.

use std::hint::black_box;

use super::flow::Flow;
use super::state::RunState;
use super::timeline::Timeline;

/// Number of events between two prefetches.
const STRETCH: u32 = 512;

/// Prefetch distance in events. It covers operators that run before others of lower index, but is short enough for the
/// data to stay in the cache until it is used.
const LEAD: u32 = 1024;

/// Size of a cache line in bytes.
const LINE: usize = 64;

/// Whether a prefetch is due.
#[inline]
pub(super) fn is_due(state: &RunState) -> bool {
    state.clock.happened.is_multiple_of(STRETCH)
}

/// Prefetches the data of upcoming events.
#[cold]
pub(super) fn read(flow: &Flow, state: &RunState, timeline: &Timeline) {
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

/// Window of upcoming events that starts at event `first` of `of` events.
struct Stretch {
    first: u64,
    of: u64,
}

impl Stretch {
    /// Reads the part of a table that corresponds to the window.
    fn read<T: Copy>(&self, table: &[T]) {
        let length = table.len() as u64;
        let entry = |event: u64| (length * event.min(self.of) / self.of) as usize;
        let part = &table[entry(self.first)..entry(self.first + u64::from(STRETCH))];
        for item in part.iter().step_by((LINE / size_of::<T>()).max(1)) {
            black_box(*item);
        }
    }
}
