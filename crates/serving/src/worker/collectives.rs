//! Collectives of a layer.

use super::{HIDDEN_BYTES, Worker};
use crate::model::LayerKind;

/// Bytes of the hidden state of a token that is sent to an expert and back, on the average of both: 8 bits there, 16 back.
const DISPATCH_BYTES: f64 = 1.5;

/// Collectives of a layer: after the mixer and after the feed-forward block, or before and after the experts.
const PER_LAYER: f64 = 2.0;

impl Worker<'_> {
    /// Seconds of the collectives of a layer for the tokens of a rank.
    ///
    /// Tensor parallelism adds up partial sums twice: each all-reduce moves `2 · (n − 1) / n` of the hidden states over a
    /// device's link (Patarasu and Yuan 2009). With several ranks, tokens are sent to the devices of their experts and back: to
    /// as many as there are groups of experts that they need, or to all devices if experts are divided.
    pub(super) fn collective_seconds(&self, kind: &LayerKind, tokens: f64) -> f64 {
        let tensor = self.parallel.tensor;
        let state = tokens * self.model.hidden;
        let mut seconds = 0.0;
        if tensor > 1 {
            let moved = 2.0 * part_elsewhere(tensor) * state * HIDDEN_BYTES;
            seconds += PER_LAYER * self.transfer(tensor, moved);
        }
        if let Some(experts) = kind.experts.as_ref().filter(|_| self.parallel.data > 1) {
            let devices = self.parallel.devices();
            let copies = match self.parallel.experts {
                1 => self.parallel.data,
                groups => experts.active.min(groups),
            };
            let moved = state * DISPATCH_BYTES * copies as f64 * part_elsewhere(devices);
            seconds += PER_LAYER * self.transfer(devices, moved);
        }
        seconds
    }

    /// Seconds of a collective among devices that moves bytes over the link of each.
    fn transfer(&self, devices: u64, bytes: f64) -> f64 {
        let link = self.device.link(devices);
        (devices as f64).log2() * self.engine.hop_s + bytes / (link.bandwidth * self.engine.link)
    }
}

/// Share of data that is not on a device of `devices`.
fn part_elsewhere(devices: u64) -> f64 {
    1.0 - 1.0 / devices as f64
}
