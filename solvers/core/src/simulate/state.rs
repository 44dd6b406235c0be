//! Where a run stands between two events.

use super::clock::Clock;
use super::flow::Flow;
use super::line::Lines;
use super::queue::Queue;

/// All that the rest of a run depends on, but for the flow, once everything has started that can start at a
/// moment. What has happened by then is in the timeline.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) clock: Clock,
    pub(super) devices: Vec<Device>,
    /// Operators that are ready, by device: rank or time of the request above, index below.
    pub(super) queues: Vec<Queue>,
    pub(super) lines: Lines,
    /// Copies that each operator still waits for.
    pub(super) waits: Vec<u32>,
    /// How many still need each copy.
    pub(super) holds: Vec<u32>,
    /// The makespan is no less, by what has started and the tails.
    pub(super) least: f64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Device {
    pub(super) is_busy: bool,
    /// Bytes on it, without those that are always there.
    pub(super) bytes: f64,
    /// The most of them so far.
    pub(super) peak: f64,
    /// The operator that started last.
    pub(super) ran: Option<u32>,
}

impl Device {
    /// More bytes are on the device.
    #[inline]
    pub(super) fn take(&mut self, bytes: f64) {
        self.bytes += bytes;
        if self.bytes > self.peak {
            self.peak = self.bytes;
        }
    }
}

impl State {
    /// Before anything of a flow has happened.
    pub(super) fn begin(&mut self, flow: &Flow) {
        self.clock.reset();
        self.devices.clear();
        self.devices.resize(flow.device_count(), Device::default());
        self.queues.iter_mut().for_each(Queue::clear);
        self.queues.resize_with(self.queues.len().max(flow.device_count()), Queue::default);
        self.lines.reset(flow.port_count());
        self.waits.clone_from(&flow.waits);
        self.holds.clone_from(&flow.holds);
        self.least = 0.0;
    }
}

impl Clone for State {
    fn clone(&self) -> State {
        let mut state = State::default();
        state.clone_from(self);
        state
    }

    /// Allocates nothing where there was as much.
    fn clone_from(&mut self, from: &State) {
        let State { clock, devices, queues, lines, waits, holds, least } = from;
        self.clock.clone_from(clock);
        self.devices.clone_from(devices);
        self.queues.clone_from(queues);
        self.lines.clone_from(lines);
        self.waits.clone_from(waits);
        self.holds.clone_from(holds);
        self.least = *least;
    }
}
