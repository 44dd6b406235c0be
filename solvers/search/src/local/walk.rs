//! The energy of a walk: a smooth surrogate for the bottleneck, updated move by move.
//!
//! The bottleneck alone is flat: most moves do not touch the worst device and leave it unchanged. The walk
//! therefore minimises the p-norm of the loads ℓ_r of all resources r (devices and uplinks), per pass,
//!
//! ```text
//! E = Σ over passes (Σ over r (ℓ_r / L)^p)^(1/p),      v / L ≤ E ≤ (number of r)^(1/p) · v / L
//! ```
//!
//! with v the value and L the value at the start of the walk. Relieving any device lowers E, and relieving the worst
//! device lowers E most. Loads are capped at a multiple of L, so that no term dominates.

use stagewright_core::cluster::DeviceId;
use stagewright_core::contraction::UnitId;
use stagewright_core::ids::Keyed;
use stagewright_core::stage_load::Compensated;

use super::moves::Shift;
use super::state::{Assignment, GroupId};

/// log₂ of the power p.
const DOUBLINGS: u32 = 4;
/// Cap on loads, as a multiple of the reference.
const STEEPEST: f64 = 4.0;

/// An assignment with its energy.
#[derive(Debug, Clone)]
pub(super) struct Walk<'a> {
    assignment: Assignment<'a>,
    passes: usize,
    reference: f64,
    /// (ℓ / L)^p of every device.
    device_terms: Keyed<DeviceId, [f64; 2]>,
    /// (ℓ / L)^p of every uplink.
    uplink_terms: Keyed<GroupId, [f64; 2]>,
    sums: [Compensated; 2],
    /// Buffer for the devices that a move touches.
    touched: Vec<DeviceId>,
}

impl<'a> Walk<'a> {
    /// A walk that starts at an assignment.
    pub(super) fn new(assignment: Assignment<'a>) -> Walk<'a> {
        let mut walk = Walk {
            passes: assignment.units().passes(),
            reference: assignment.value().max(f64::MIN_POSITIVE),
            device_terms: Keyed::filled([0.0; 2], assignment.devices()),
            uplink_terms: Keyed::filled([0.0; 2], assignment.groups()),
            sums: Default::default(),
            touched: Vec::new(),
            assignment,
        };
        walk.device_terms.ids().for_each(|device| walk.refresh_device(device));
        walk.uplink_terms.ids().for_each(|group| walk.refresh_uplink(group));
        walk
    }

    /// The current assignment.
    pub(super) fn assignment(&self) -> &Assignment<'a> {
        &self.assignment
    }

    /// The energy, at least the value divided by the reference.
    pub(super) fn energy(&self) -> f64 {
        norm(self.sums.map(Compensated::value))
    }

    /// The energy after moving one unit to a device other than its own.
    pub(super) fn energy_after(&self, unit: UnitId, to: DeviceId) -> f64 {
        let assignment = &self.assignment;
        let from = assignment.device_of(unit);
        let delta = assignment.delta(unit, to);
        let mut sums = self.sums.map(Compensated::value);
        for (pass, sum) in sums.iter_mut().enumerate().take(self.passes) {
            for (device, change) in [(from, &delta.from), (to, &delta.to)] {
                let load = assignment.load_after(device, pass, change);
                *sum += self.term(load) - self.device_terms[device][pass];
            }
            if assignment.group(from) != assignment.group(to) {
                for (device, change) in [(from, &delta.from), (to, &delta.to)] {
                    if let Some(group) = assignment.group(device) {
                        let load = assignment.uplink_after(group, pass, change);
                        *sum += self.term(load) - self.uplink_terms[group][pass];
                    }
                }
            }
        }
        norm(sums)
    }

    /// Moves units one after the other, each to a device other than its own.
    pub(super) fn shift(&mut self, shifts: impl Iterator<Item = Shift>) {
        let mut touched = std::mem::take(&mut self.touched);
        let mut touch = |device| {
            if !touched.contains(&device) {
                touched.push(device);
            }
        };
        for (unit, to) in shifts {
            touch(self.assignment.device_of(unit));
            touch(to);
            self.assignment.apply(unit, to);
        }
        for device in touched.drain(..) {
            self.refresh_device(device);
            if let Some(group) = self.assignment.group(device) {
                self.refresh_uplink(group);
            }
        }
        self.touched = touched;
    }

    #[inline]
    fn term(&self, load: f64) -> f64 {
        let share = (load / self.reference).clamp(0.0, STEEPEST);
        (0..DOUBLINGS).fold(share, |power, _| power * power)
    }

    fn refresh_device(&mut self, device: DeviceId) {
        for pass in 0..self.passes {
            let term = self.term(self.assignment.load(device, pass));
            let old = std::mem::replace(&mut self.device_terms[device][pass], term);
            self.sums[pass].add(-old);
            self.sums[pass].add(term);
        }
    }

    fn refresh_uplink(&mut self, group: GroupId) {
        for pass in 0..self.passes {
            let term = self.term(self.assignment.uplink(group, pass));
            let old = std::mem::replace(&mut self.uplink_terms[group][pass], term);
            self.sums[pass].add(-old);
            self.sums[pass].add(term);
        }
    }
}

/// The sum of the p-norms.
fn norm(sums: [f64; 2]) -> f64 {
    sums.iter().map(|sum| (0..DOUBLINGS).fold(sum.max(0.0), |root, _| root.sqrt())).sum()
}
