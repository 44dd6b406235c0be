//! Memory of devices over time, from the intervals of a timeline.
//!
//! Parameters and optimiser state are resident. Workspace is held while its operator runs, and a tensor from the
//! start of its producer, or of the transfer to the device, until its last reader there and, on the producer's
//! device, its last transfer have ended. Zero durations have no interval: a peak within one instant shows only in
//! the peaks of the simulator.

use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::TensorId;
use stagewright_core::simulate::Span;

use super::Step;

/// Memory of a device from one change to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Level {
    /// Seconds since the step began.
    pub(super) from: f64,
    /// Bytes held.
    pub(super) bytes: f64,
}

impl Step<'_> {
    /// Memory levels of every device of the cluster, by device index: the first at 0, then one per change. Takes
    /// O(pins log pins).
    pub(super) fn levels(&self) -> Vec<Vec<Level>> {
        let mut changes: Vec<Vec<[f64; 2]>> = vec![Vec::new(); self.problem.cluster().device_count()];
        let mut hold = |device: DeviceId, span: Span, bytes: f64| {
            if bytes > 0.0 && span.start < span.end {
                changes[device.index()].push([span.start, bytes]);
                // Memory held to the end is never freed.
                if span.end.is_finite() {
                    changes[device.index()].push([span.end, -bytes]);
                }
            }
        };
        self.intervals(&mut hold);
        let mut levels = Vec::with_capacity(changes.len());
        for (changes, mut bytes) in changes.iter_mut().zip(self.flow.fixed_bytes().iter().copied()) {
            changes.sort_by(|left, right| left[0].total_cmp(&right[0]));
            let mut of_device = vec![Level { from: 0.0, bytes }];
            for at_once in changes.chunk_by(|left, right| left[0] == right[0]) {
                bytes += at_once.iter().map(|change| change[1]).sum::<f64>();
                let level = Level { from: at_once[0][0], bytes };
                match of_device.last_mut() {
                    Some(last) if last.from == level.from => *last = level,
                    _ => of_device.push(level),
                }
            }
            levels.push(of_device);
        }
        levels
    }

    /// Calls `hold` for every interval in which a device holds bytes.
    fn intervals(&self, hold: &mut impl FnMut(DeviceId, Span, f64)) {
        let graph = self.problem.graph();
        let operators = self.timeline.operators();
        let mut transfers = (0..).zip(self.timeline.transfers()).peekable();
        for op in graph.operators() {
            hold(self.placement.device_of(op), operators[op.index()], graph.operator(op).workspace_bytes);
        }
        for tensor in graph.tensors() {
            let producer = graph.producer(tensor);
            let home = self.placement.device_of(producer);
            let made = operators[producer.index()];
            // End of the last reader on each device.
            let mut read: Vec<(DeviceId, f64)> = Vec::new();
            for &reader in graph.consumers(tensor) {
                read.push((self.placement.device_of(reader), operators[reader.index()].end));
            }
            read.sort_by(|left, right| left.0.cmp(&right.0).then(right.1.total_cmp(&left.1)));
            read.dedup_by_key(|(device, _)| *device);
            let until = |device: DeviceId| {
                read.binary_search_by_key(&device, |(device, _)| *device).map_or(0.0, |index| read[index].1)
            };
            let mut end = made.end.max(until(home));
            let is_of_tensor = |&(number, _): &(u32, &Span)| TensorId(self.flow.tensor_of(number)) == tensor;
            while let Some((transfer, moved)) = transfers.next_if(is_of_tensor) {
                end = end.max(moved.end);
                let [_, to] = self.ends_of(transfer);
                hold(to, Span { start: moved.start, end: until(to) }, graph.bytes(tensor));
            }
            if graph.is_version_2() && graph.consumers(tensor).is_empty() {
                end = f64::INFINITY;
            }
            hold(home, Span { start: made.start, end }, graph.bytes(tensor));
        }
    }
}
