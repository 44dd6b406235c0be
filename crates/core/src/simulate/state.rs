//! State of a run between two events.

use super::clock::Clock;
use super::flow::Flow;
use super::line::Lines;
use super::queue::Queue;
use crate::ids::Keyed;

/// Everything that the rest of a run depends on besides the flow, at a moment when everything that can start has
/// started. The past is in the timeline.
#[derive(Debug, Default)]
pub(super) struct RunState {
    pub(super) clock: Clock,
    pub(super) devices: Keyed<u32, Device>,
    /// Ready operators of each device. A key has the rank, or the time or number of the request, in its upper half, and
    /// the index in its lower half.
    pub(super) queues: Keyed<u32, Queue>,
    pub(super) lines: Lines,
    /// Number of copies that each operator still waits for.
    pub(super) waits: Keyed<u32, u32>,
    /// Number of remaining holders of each copy.
    pub(super) holds: Keyed<u32, u32>,
    /// Lower bound on the makespan, from the tails of the operators that have started.
    pub(super) least: f64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Device {
    pub(super) is_busy: bool,
    /// Bytes in use, without resident bytes.
    pub(super) bytes: f64,
    /// Maximum of `bytes` so far.
    pub(super) peak: f64,
    /// The operator that started last.
    pub(super) ran: Option<u32>,
}

impl Device {
    /// Allocates bytes on the device.
    #[inline]
    pub(super) fn take(&mut self, bytes: f64) {
        self.bytes += bytes;
        if self.bytes > self.peak {
            self.peak = self.bytes;
        }
    }
}

impl RunState {
    /// Resets to the start of a flow.
    pub(super) fn begin(&mut self, flow: &Flow) {
        self.clock.reset();
        self.devices.clear();
        self.devices.resize(flow.device_count(), Device::default());
        self.queues.iter_mut().for_each(Queue::clear);
        let queues = self.queues.len().max(flow.device_count());
        self.queues.resize_with(queues, Queue::default);
        self.lines.reset(flow.port_count());
        self.waits.clone_from(&flow.waits);
        self.holds.clone_from(&flow.holds);
        self.least = 0.0;
    }
}

impl Clone for RunState {
    fn clone(&self) -> RunState {
        let mut state = RunState::default();
        state.clone_from(self);
        state
    }

    /// Does not allocate if the existing memory suffices.
    fn clone_from(&mut self, from: &RunState) {
        let RunState { clock, devices, queues, lines, waits, holds, least } = from;
        self.clock.clone_from(clock);
        self.devices.clone_from(devices);
        self.queues.clone_from(queues);
        self.lines.clone_from(lines);
        self.waits.clone_from(waits);
        self.holds.clone_from(holds);
        self.least = *least;
    }
}
