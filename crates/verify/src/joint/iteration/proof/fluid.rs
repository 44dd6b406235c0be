//! A bound on pipelines with several stages per device whose memory is scarce: layers are treated as a fluid over the devices.
//!
//! Let p devices have v chunks each; let S be the time of the schedule, τ the seconds of the two passes of a layer, and
//! L_i the sum of τ over all layers of device i. Three constraints hold; the first follows from the documentation of
//! [`super::screen`]:
//!
//! - S ≥ Σ_i a_i L_i with a_i = (m + (p − 1 − i) / v) / p, under DualPipeV with a_i = m / p;
//! - S ≥ m L_i for every device;
//! - a device holds the states of its layers, the activations of g_i = min(2 (p − 1 − i) + 1, p) microbatches for each
//!   of them, and their largest workspace: before its first backward pass it has run (v − 1) p + 2 (p − 1 − i) + 1
//!   forward passes, or all of them, which means p of every chunk but the last and at least g_i of the last. Under
//!   DualPipeV g_i = i + 1: before its first backward pass it has run as many forward passes of its second stage, and more
//!   of its first.
//!
//! If time allows a device at most N layers of a class, 1 / N of the sum of their workspaces is at most the largest
//! workspace. Now let y, λ_i and z_i be prices of the three constraints. A layer in a configuration on device i costs
//! (y a_i + λ_i m) τ, plus z_i for each of its bytes. All layers together cost at most (y + Σ λ_i) S + Σ z_i times the
//! bytes of a device. If they cost more on whichever devices they run, the schedule takes longer than S. Transfers
//! between stages count as work that may be on any device.
//!
//! Any prices are valid. Here λ_i and z_i minimise the price of all time and memory of a device such that every layer
//! of the class with the most work costs at least 1 on it, which is a linear program with two variables; y is found by
//! search.

use stagewright_core::document::Schedule;

use super::layers::Layers;
use super::place::Place;
use super::{Effort, Exhausted};
use crate::joint::iteration::order::Pipeline;

/// Steps of the search for a price.
const STEPS: usize = 40;

/// Relative margin by which the cost of layers has to exceed the capacity of the devices, to allow for rounding.
const MARGIN: f64 = 1e-9;

/// A layer in a configuration.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// Seconds of the two passes of a microbatch.
    seconds: f64,
    /// Bytes that the layer always needs.
    fixed: f64,
    /// Bytes of the activations of a microbatch.
    kept: f64,
}

/// Prices on a device: of a second of all microbatches, and of a byte.
#[derive(Debug, Clone, Copy)]
struct Prices {
    second: f64,
    byte: f64,
}

/// A device of a pipeline.
#[derive(Debug, Clone, Copy)]
struct Device {
    /// a_i.
    ramp: f64,
    /// g_i.
    in_flight: f64,
}

/// Layers on a kind of devices.
#[derive(Debug)]
pub(super) struct Fluid {
    /// Number of layers of each class, with their configurations.
    classes: Vec<(f64, Vec<Part>)>,
    /// The class with the most work, and the workspaces of its configurations.
    main: usize,
    workspaces: Vec<f64>,
    /// Bytes of a device.
    limit: f64,
    /// Seconds of all updates.
    update: f64,
}

impl Fluid {
    /// The layers on the kind of `place`; `None` if its memory is unlimited, or some layer cannot run there.
    pub(super) fn new(layers: &Layers, place: &Place) -> Option<Self> {
        if place.limit.is_infinite() {
            return None;
        }
        let (mut classes, mut update) = (Vec::new(), 0.0);
        let (mut main, mut largest) = (0, 0.0);
        for (index, (class, priced)) in layers.classes.iter().zip(&place.classes).enumerate() {
            let priced = priced.as_ref()?;
            let count = class.count as f64;
            let parts = priced.settings.iter().map(|setting| Part {
                seconds: priced.forward + setting.both,
                fixed: priced.state,
                kept: setting.activations.iter().sum(),
            });
            classes.push((count, parts.collect()));
            update += count * priced.update;
            if count * priced.passes() > largest {
                (main, largest) = (index, count * priced.passes());
            }
        }
        let workspaces = &place.classes.get(main)?.as_ref()?.settings;
        let workspaces = workspaces.iter().map(|setting| setting.workspace).collect();
        Some(Fluid { classes, main, workspaces, limit: place.limit, update })
    }

    /// Whether a pipeline can take less than `cutoff`, with transfers that take at least `crossed`.
    pub(super) fn may_take_less(
        &self,
        pipeline: &Pipeline,
        crossed: f64,
        cutoff: f64,
        effort: &mut Effort,
    ) -> Result<bool, Exhausted> {
        let Pipeline { schedule, devices, chunks, microbatches } = *pipeline;
        let (p, m) = (devices as f64, microbatches as f64);
        let room = cutoff - self.update / p;
        let mut classes = self.classes.clone();
        let parts = &mut classes[self.main].1;
        let least = parts.iter().map(|part| part.seconds).fold(f64::INFINITY, f64::min);
        // Maximum number of layers on a device, for the class with the most work.
        let layers = (room / (m * least) + MARGIN).floor();
        if layers < 1.0 || crossed.is_infinite() {
            return Ok(false);
        }
        for (part, workspace) in parts.iter_mut().zip(&self.workspaces) {
            part.fixed += workspace / layers;
        }
        classes.push((1.0, vec![Part { seconds: crossed, fixed: 0.0, kept: 0.0 }]));
        let behind = (0..devices).map(|device| (devices - 1 - device) as f64);
        let devices: Vec<Device> = behind
            .map(|behind| match schedule {
                Schedule::DualPipeV => Device { ramp: m / p, in_flight: p - behind },
                _ => {
                    Device { ramp: (m + behind / chunks as f64) / p, in_flight: (2.0 * behind + 1.0).min(p) }
                }
            })
            .collect();
        let search = Search {
            classes: &classes,
            main: self.main,
            devices: &devices,
            limit: self.limit,
            most: room,
            m,
        };
        Ok(!search.has_excess(p / (m * least), effort)?)
    }
}

/// A search for prices at which all layers cost more than the capacity of the devices.
#[derive(Debug)]
struct Search<'f> {
    classes: &'f [(f64, Vec<Part>)],
    main: usize,
    devices: &'f [Device],
    limit: f64,
    /// Seconds that the schedule may take.
    most: f64,
    m: f64,
}

impl Search<'_> {
    /// Whether a golden-section search over prices of the ramp, up to `high`, finds one at which all layers cost more
    /// than the capacity of the devices.
    fn has_excess(&self, mut high: f64, effort: &mut Effort) -> Result<bool, Exhausted> {
        let parts: usize = self.classes.iter().map(|(_, parts)| parts.len()).sum();
        let ratio = (5f64.sqrt() - 1.0) / 2.0;
        let mut low = 0.0;
        let mut inner = [high - ratio * (high - low), low + ratio * (high - low)];
        let mut found = inner.map(|ramp| self.excess(ramp));
        for _ in 0..STEPS {
            effort.spend((self.devices.len() * parts) as u64)?;
            if found.iter().any(|excess| *excess > 0.0) {
                return Ok(true);
            }
            if found[0] < found[1] {
                low = inner[0];
                inner = [inner[1], low + ratio * (high - low)];
                found = [found[1], self.excess(inner[1])];
            } else {
                high = inner[1];
                inner = [high - ratio * (high - low), inner[0]];
                found = [self.excess(inner[0]), found[0]];
            }
        }
        Ok(false)
    }

    /// The cost of all layers minus the capacity of the devices, at a price of the ramp.
    fn excess(&self, ramp: f64) -> f64 {
        let prices: Vec<Prices> = self.devices.iter().map(|device| self.prices(device, ramp)).collect();
        let there_is: f64 = ramp * self.most
            + prices.iter().map(|prices| prices.second * self.most + prices.byte * self.limit).sum::<f64>();
        let least = |part: &Part| {
            let on_devices = self.devices.iter().zip(&prices).map(|(device, prices)| {
                let second = ramp * device.ramp + prices.second * self.m;
                second * part.seconds + prices.byte * (part.fixed + device.in_flight * part.kept)
            });
            on_devices.fold(f64::INFINITY, f64::min)
        };
        let all = self
            .classes
            .iter()
            .map(|(count, parts)| count * parts.iter().map(least).fold(f64::INFINITY, f64::min));
        all.sum::<f64>() - there_is * (1.0 + MARGIN)
    }

    /// The prices at which every layer of the class with the most work costs at least 1, and all time and memory of the
    /// device cost as little as possible.
    fn prices(&self, device: &Device, ramp: f64) -> Prices {
        // The required price of a second is the maximum of lines that fall with the price of a byte.
        let (_, parts) = &self.classes[self.main];
        let lines = parts.iter().map(|part| {
            let seconds = self.m * part.seconds;
            let bytes = part.fixed + device.in_flight * part.kept;
            [(1.0 - ramp * device.ramp * part.seconds) / seconds, bytes / seconds]
        });
        let lines: Vec<[f64; 2]> = lines.chain([[0.0; 2]]).collect();
        let value = |[second, fall]: [f64; 2], byte: f64| second - byte * fall;
        let mut byte = 0.0;
        let mut top = [0.0; 2];
        for &line in &lines {
            if line[0] > top[0] || line[0] == top[0] && line[1] < top[1] {
                top = line;
            }
        }
        // While memory costs less than the time that it saves, follow the line to the point where a flatter line rises
        // above it.
        while self.limit < self.most * top[1] {
            let flatter = lines.iter().filter(|line| line[1] < top[1]);
            let crossing = |line: &[f64; 2]| (top[0] - line[0]) / (top[1] - line[1]);
            let Some(&next) = flatter.min_by(|left, right| crossing(left).total_cmp(&crossing(right))) else {
                break;
            };
            (byte, top) = (crossing(&next).max(byte), next);
        }
        let second = lines.iter().map(|&line| value(line, byte)).fold(0.0, f64::max);
        Prices { second, byte }
    }
}

#[cfg(test)]
mod tests {
    use stagewright_core::document::Schedule;

    use crate::joint::iteration::order::{Pass, Pipeline};

    #[test]
    fn microbatches_in_flight_under_dualpipe_v_are_as_many_as_the_head_says() {
        for (devices, microbatches) in [(1, 2), (2, 4), (3, 7), (4, 8), (8, 40)] {
            let pipeline = Pipeline { schedule: Schedule::DualPipeV, devices, chunks: 2, microbatches };
            for device in 0..devices {
                let before = pipeline.tasks(device).take_while(|task| task.pass == Pass::Forward);
                let mut in_flight = [0; 2];
                before.for_each(|task| in_flight[usize::from(task.stage >= devices)] += 1);
                // The last device begins with a pair.
                let first = 2 * devices - 1 - device + usize::from(device + 1 == devices);
                assert_eq!(in_flight, [first, device + 1], "{devices} {microbatches}");
            }
        }
    }

    #[test]
    fn microbatches_in_flight_are_as_many_as_the_head_says() {
        for (devices, chunks, microbatches) in
            [(2, 2, 2), (2, 3, 8), (4, 2, 4), (4, 3, 8), (8, 2, 8), (8, 4, 32)]
        {
            let pipeline = Pipeline { schedule: Schedule::Interleaved, devices, chunks, microbatches };
            for device in 0..devices {
                let before = pipeline.tasks(device).take_while(|task| task.pass == Pass::Forward);
                let mut in_flight = vec![0; chunks];
                before.for_each(|task| in_flight[task.stage / devices] += 1);
                let least = devices.min(2 * (devices - 1 - device) + 1);
                assert_eq!(
                    in_flight.iter().min(),
                    Some(&least),
                    "{devices} {chunks} {microbatches} {device}"
                );
            }
        }
    }
}
