//! An assignment of units to devices, evaluated incrementally.
//!
//! A net is cut by device d iff 0 < k_d < p, with k_d its pins on d and p all of its pins; a cut net is sent by d if
//! its producer is on d, and received otherwise. When a unit moves from a to b, only k_a and k_b of its nets change,
//! and whether another device cuts a net, or holds its producer, does not depend on k_a and k_b. So a move changes only
//! the loads of a and b, and
//!
//! ```text
//! on a:  k_a = 1 → the net is no longer cut      k_a = p → it becomes cut
//! on b:  k_b = 0 → it becomes cut                k_b = p − 1 → it is no longer cut
//! ```
//!
//! where p ≥ 2; if the unit is the producer, the nets that stay cut change their role on both devices. The uplink of a
//! group follows the same table, with the pins in the group, if the move leaves or enters the group. A move therefore
//! takes time proportional to the nets of the unit, times the few devices that each of them touches.
//!
//! The sums are compensated, so that rounding does not accumulate over millions of moves.

use stagewright_core::cluster::DeviceId;
use stagewright_core::contraction::{NetId, SharedId, UnitId, Units};
use stagewright_core::id;
use stagewright_core::ids::Keyed;
use stagewright_core::objective::PassSums;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::stage_load::Compensated;
use stagewright_core::tolerance;

use super::counts::Counts;

id! {
    /// Index of a group of devices.
    pub GroupId;
}

/// The device of every unit.
pub(super) type DeviceOf = Keyed<UnitId, DeviceId>;

/// No group.
const NONE: GroupId = GroupId(u32::MAX);

/// Sums of one device and pass, with additions and removals.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    compute: Compensated,
    sent: Compensated,
    received: Compensated,
    synchronised: Compensated,
}

impl Sums {
    fn value(&self) -> PassSums {
        PassSums {
            compute: self.compute.value(),
            sent: self.sent.value(),
            received: self.received.value(),
            synchronised: self.synchronised.value(),
        }
    }
}

/// Accumulates the seconds of nets that become or cease to be cut.
trait Transfers {
    fn sent(&mut self, seconds: f64);
    fn received(&mut self, seconds: f64);
    fn synchronised(&mut self, seconds: f64);
}

impl Transfers for Sums {
    #[inline]
    fn sent(&mut self, seconds: f64) {
        self.sent.add(seconds);
    }

    #[inline]
    fn received(&mut self, seconds: f64) {
        self.received.add(seconds);
    }

    #[inline]
    fn synchronised(&mut self, seconds: f64) {
        self.synchronised.add(seconds);
    }
}

impl Transfers for PassSums {
    #[inline]
    fn sent(&mut self, seconds: f64) {
        self.sent += seconds;
    }

    #[inline]
    fn received(&mut self, seconds: f64) {
        self.received += seconds;
    }

    #[inline]
    fn synchronised(&mut self, seconds: f64) {
        self.synchronised += seconds;
    }
}

/// Change of the sums of one device, which is either the source or the target of a move.
#[derive(Debug, Clone, Copy, Default)]
pub struct Change {
    sums: [PassSums; 2],
    uplink: [f64; 2],
}

/// Effect on both devices of moving one unit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Delta {
    /// Change of the device that the unit leaves.
    pub from: Change,
    /// Change of the device that the unit enters.
    pub to: Change,
}

/// The device of every unit of a free split, with the sums that the objective needs.
#[derive(Debug, Clone)]
pub struct Assignment<'a> {
    problem: &'a Problem,
    units: &'a Units,
    pool_of: Keyed<DeviceId, usize>,
    group_of: Keyed<DeviceId, GroupId>,
    device_of: DeviceOf,
    on_devices: Counts<NetId, DeviceId>,
    in_groups: Counts<NetId, GroupId>,
    sums: Keyed<DeviceId, [Sums; 2]>,
    /// Number of units on every device that read each shared parameter.
    shared_on: Counts<SharedId, DeviceId>,
    /// Minimum and maximum bytes needed by the units of each device.
    bytes: Keyed<DeviceId, [Compensated; 2]>,
    uplinks: Keyed<GroupId, [Compensated; 2]>,
}

impl<'a> Assignment<'a> {
    /// Assigns a device to every unit. O(units + pins · devices that a net touches).
    ///
    /// # Panics
    /// If `device_of` does not name a device of the cluster for every unit.
    pub fn new(problem: &'a Problem, units: &'a Units, device_of: DeviceOf) -> Assignment<'a> {
        assert_eq!(device_of.len(), units.len(), "one device for every unit");
        let cluster = problem.cluster();
        let pool_of: Keyed<_, _> = cluster.devices().map(|device| problem.pool_of(device)).collect();
        let group = |&pool: &usize| problem.pools()[pool].group.map_or(NONE, GroupId::new);
        let group_of = pool_of.iter().map(group).collect();
        let (devices, groups) = (cluster.device_count(), cluster.group_count());
        let pins = || units.nets().ids().map(|net| units.pins(net).len());
        let mut readers = Keyed::filled(0, units.shared().len());
        for unit in units.ids() {
            for &shared in units.shared_of(unit) {
                readers[shared] += 1;
            }
        }
        let mut assignment = Assignment {
            problem,
            units,
            pool_of,
            group_of,
            device_of,
            on_devices: Counts::new(pins(), devices),
            in_groups: Counts::new(pins(), groups),
            sums: Keyed::filled(Default::default(), devices),
            shared_on: Counts::new(readers.iter().copied(), devices),
            bytes: Keyed::filled(Default::default(), devices),
            uplinks: Keyed::filled(Default::default(), groups),
        };
        assignment.add_up();
        assignment
    }

    /// The assignment of a placement; `None` if it splits a unit or names a device that does not exist.
    pub fn of_placement(problem: &'a Problem, units: &'a Units, placement: &Placement) -> Option<Self> {
        let mut device_of = Keyed::from(Vec::with_capacity(units.len()));
        for unit in units.ids() {
            let mut devices = units.members(unit).iter().map(|&op| placement.device_of(op));
            let first = devices.next()?;
            if first.index() >= problem.cluster().device_count() || devices.any(|device| device != first) {
                return None;
            }
            device_of.push(first);
        }
        Some(Assignment::new(problem, units, device_of))
    }

    fn add_up(&mut self) {
        let units = self.units;
        for unit in units.ids() {
            let device = self.device_of[unit];
            for pass in 0..units.passes() {
                let seconds = units.pass_seconds(unit, self.pool_of[device], pass);
                self.sums[device][pass].compute.add(seconds);
            }
            self.add_bytes(unit, device);
        }
        for (net, spec) in units.nets().enumerate() {
            let pass = usize::from(spec.pass);
            let pins = units.pins(net);
            for &pin in pins {
                let device = self.device_of[pin];
                self.on_devices.put(net, device);
                if self.group_of[device] != NONE {
                    self.in_groups.put(net, self.group_of[device]);
                }
            }
            let all = pins.len() as u32;
            let producer = (!spec.is_gradient()).then(|| self.device_of[spec.producer]);
            for (device, inside) in self.on_devices.of(net) {
                if inside < all {
                    let seconds = units.transfer(net, self.pool_of[device]);
                    let sums = &mut self.sums[device][pass];
                    match producer {
                        None => sums.synchronised(seconds),
                        Some(producer) if producer == device => sums.sent(seconds),
                        Some(_) => sums.received(seconds),
                    }
                }
            }
            for (group, inside) in self.in_groups.of(net) {
                if inside < all {
                    self.uplinks[group][pass].add(units.uplink(net, group.index()));
                }
            }
        }
    }

    /// The problem.
    pub fn problem(&self) -> &'a Problem {
        self.problem
    }

    /// The units.
    pub fn units(&self) -> &'a Units {
        self.units
    }

    /// Number of devices.
    pub fn devices(&self) -> usize {
        self.sums.len()
    }

    /// The device of a unit.
    #[inline]
    pub fn device_of(&self, unit: UnitId) -> DeviceId {
        self.device_of[unit]
    }

    /// The device of every unit.
    pub fn assigned(&self) -> &DeviceOf {
        &self.device_of
    }

    /// Whether support and pins let a unit run on a device.
    #[inline]
    pub fn allowed(&self, unit: UnitId, device: DeviceId) -> bool {
        self.units.supported(unit, self.pool_of[device])
    }

    /// Whether every unit is on a device that it may run on.
    pub fn supported(&self) -> bool {
        self.units.ids().all(|unit| self.allowed(unit, self.device_of[unit]))
    }

    /// Adds the bytes of a unit to a device.
    fn add_bytes(&mut self, unit: UnitId, device: DeviceId) {
        let units = self.units;
        let [least, largest] = &mut self.bytes[device];
        least.add(units.bytes(unit, 1));
        largest.add(units.most_bytes(unit, 1));
        for &shared in units.shared_of(unit) {
            if self.shared_on.put(shared, device) == 0 {
                let bytes = units.shared()[shared].bytes;
                least.add(bytes);
                largest.add(bytes);
            }
        }
    }

    /// Subtracts the bytes of a unit from a device.
    fn take_bytes(&mut self, unit: UnitId, device: DeviceId) {
        let units = self.units;
        let [least, largest] = &mut self.bytes[device];
        least.add(-units.bytes(unit, 1));
        largest.add(-units.most_bytes(unit, 1));
        for &shared in units.shared_of(unit) {
            if self.shared_on.take(shared, device) == 1 {
                let bytes = units.shared()[shared].bytes;
                least.add(-bytes);
                largest.add(-bytes);
            }
        }
    }

    /// Whether the units of a device fit its memory, with one more unit if given. O(1) if sums decide it, otherwise
    /// O(units + pins of the units on the device).
    fn fits_with(&self, device: DeviceId, more: Option<UnitId>) -> bool {
        let (units, memory) = (self.units, self.memory(device));
        let [mut least, mut largest] = self.bytes[device].map(Compensated::value);
        if let Some(unit) = more {
            least += units.bytes(unit, 1);
            largest += units.most_bytes(unit, 1);
            for &shared in units.shared_of(unit) {
                if self.shared_on.get(shared, device) == 0 {
                    let bytes = units.shared()[shared].bytes;
                    least += bytes;
                    largest += bytes;
                }
            }
        }
        if units.bytes_are_sums() {
            return tolerance::fits(least, memory);
        }
        if units.always_fits() || largest <= memory {
            return true;
        }
        let members = units.ids().filter(|&unit| self.device_of[unit] == device);
        tolerance::fits(least * (1.0 - tolerance::OPTIMAL_RELATIVE), memory)
            && tolerance::fits(units.device_bytes(members.chain(more)).total(1), memory)
    }

    /// Minimum bytes that a device needs; exact for graphs of version 1.
    pub fn least_bytes(&self, device: DeviceId) -> f64 {
        self.bytes[device][0].value()
    }

    /// Memory of a device; infinite if unlimited.
    pub fn memory(&self, device: DeviceId) -> f64 {
        self.problem.pools()[self.pool_of[device]].memory
    }

    /// Whether the units on a device fit.
    pub fn fits(&self, device: DeviceId) -> bool {
        self.fits_with(device, None)
    }

    /// Whether a device has room for one more unit.
    #[inline]
    pub fn has_room(&self, unit: UnitId, device: DeviceId) -> bool {
        self.fits_with(device, Some(unit))
    }

    /// Whether the units of every device fit.
    pub fn all_fit(&self) -> bool {
        self.sums.ids().all(|device| self.fits(device))
    }

    /// Load of a device in one pass, in seconds.
    #[inline]
    pub fn load(&self, device: DeviceId, pass: usize) -> f64 {
        self.problem.objective().rules().load(&self.sums[device][pass].value(), 1)
    }

    /// Load of a device after a change.
    #[inline]
    pub fn load_after(&self, device: DeviceId, pass: usize, change: &Change) -> f64 {
        let mut sums = self.sums[device][pass].value();
        let by = change.sums[pass];
        sums.compute += by.compute;
        sums.sent += by.sent;
        sums.received += by.received;
        sums.synchronised += by.synchronised;
        self.problem.objective().rules().load(&sums, 1)
    }

    /// The group of a device, if any.
    #[inline]
    pub fn group(&self, device: DeviceId) -> Option<GroupId> {
        let group = self.group_of[device];
        (group != NONE).then_some(group)
    }

    /// Load of a group's uplink in one pass.
    #[inline]
    pub fn uplink(&self, group: GroupId, pass: usize) -> f64 {
        self.uplinks[group][pass].value()
    }

    /// Load of a group's uplink after a change of one of its devices.
    #[inline]
    pub fn uplink_after(&self, group: GroupId, pass: usize, change: &Change) -> f64 {
        self.uplinks[group][pass].value() + change.uplink[pass]
    }

    /// Number of groups.
    pub fn groups(&self) -> usize {
        self.uplinks.len()
    }

    /// Objective value, ignoring constraints. O(devices + groups).
    pub fn value(&self) -> f64 {
        (0..self.units.passes()).map(|pass| self.bottleneck(pass)).sum()
    }

    /// Largest load of one pass.
    fn bottleneck(&self, pass: usize) -> f64 {
        let loads = self.sums.ids().map(|device| self.load(device, pass));
        loads.chain(self.uplinks.ids().map(|group| self.uplink(group, pass))).fold(0.0, f64::max)
    }

    /// Effect of moving a unit to a device other than its own.
    pub fn delta(&self, unit: UnitId, to: DeviceId) -> Delta {
        let units = self.units;
        let from = self.device_of[unit];
        let (pool_from, pool_to) = (self.pool_of[from], self.pool_of[to]);
        let (group_from, group_to) = (self.group_of[from], self.group_of[to]);
        let mut delta = Delta::default();
        for pass in 0..units.passes() {
            delta.from.sums[pass].compute = -units.pass_seconds(unit, pool_from, pass);
            delta.to.sums[pass].compute = units.pass_seconds(unit, pool_to, pass);
        }
        for &net in units.nets_of(unit) {
            let pin = Pin::new(units, unit, net);
            let inside = self.on_devices.get(net, from);
            pin.leave(inside, units.transfer(net, pool_from), &mut delta.from.sums[pin.pass]);
            let inside = self.on_devices.get(net, to);
            pin.enter(inside, units.transfer(net, pool_to), &mut delta.to.sums[pin.pass]);
            if group_from != group_to {
                if group_from != NONE {
                    let inside = self.in_groups.get(net, group_from);
                    let seconds = units.uplink(net, group_from.index());
                    delta.from.uplink[pin.pass] += pin.leave_group(inside, seconds);
                }
                if group_to != NONE {
                    let inside = self.in_groups.get(net, group_to);
                    let seconds = units.uplink(net, group_to.index());
                    delta.to.uplink[pin.pass] += pin.enter_group(inside, seconds);
                }
            }
        }
        delta
    }

    /// Moves a unit to a device other than its own. Moving the unit back undoes the move.
    pub fn apply(&mut self, unit: UnitId, to: DeviceId) {
        let units = self.units;
        let from = std::mem::replace(&mut self.device_of[unit], to);
        let (pool_from, pool_to) = (self.pool_of[from], self.pool_of[to]);
        let (group_from, group_to) = (self.group_of[from], self.group_of[to]);
        for pass in 0..units.passes() {
            self.sums[from][pass].compute.add(-units.pass_seconds(unit, pool_from, pass));
            self.sums[to][pass].compute.add(units.pass_seconds(unit, pool_to, pass));
        }
        self.take_bytes(unit, from);
        self.add_bytes(unit, to);
        // Apply the changes item by item, because the sums of a delta are rounded.
        for &net in units.nets_of(unit) {
            let pin = Pin::new(units, unit, net);
            let inside = self.on_devices.take(net, from);
            pin.leave(inside, units.transfer(net, pool_from), &mut self.sums[from][pin.pass]);
            let inside = self.on_devices.put(net, to);
            pin.enter(inside, units.transfer(net, pool_to), &mut self.sums[to][pin.pass]);
            if group_from != group_to {
                if group_from != NONE {
                    let inside = self.in_groups.take(net, group_from);
                    let seconds = units.uplink(net, group_from.index());
                    self.uplinks[group_from][pin.pass].add(pin.leave_group(inside, seconds));
                }
                if group_to != NONE {
                    let inside = self.in_groups.put(net, group_to);
                    let seconds = units.uplink(net, group_to.index());
                    self.uplinks[group_to][pin.pass].add(pin.enter_group(inside, seconds));
                }
            }
        }
    }

    /// The placement, without an order of stages.
    pub fn placement(&self) -> Placement {
        placement(self.problem, self.units, &self.device_of)
    }
}

/// The placement given by a device for every unit.
pub fn placement(problem: &Problem, units: &Units, device_of: &DeviceOf) -> Placement {
    let operators = problem.graph().operators();
    Placement::new(operators.map(|op| device_of[units.unit_of(op)]).collect())
}

/// The pin of a moving unit in a net.
#[derive(Clone, Copy)]
struct Pin {
    pass: usize,
    /// Number of pins of the net.
    all: u32,
    produces: bool,
    /// Whether the net is the gradient of a shared parameter.
    is_gradient: bool,
}

impl Pin {
    #[inline]
    fn new(units: &Units, unit: UnitId, net: NetId) -> Pin {
        let spec = units.nets()[net];
        Pin {
            pass: usize::from(spec.pass),
            all: units.pins(net).len() as u32,
            produces: spec.producer == unit,
            is_gradient: spec.is_gradient(),
        }
    }

    /// Records that the pin leaves a device with `inside` pins of the net.
    #[inline]
    fn leave(self, inside: u32, seconds: f64, sums: &mut impl Transfers) {
        if self.is_gradient {
            sums.synchronised(self.leave_group(inside, seconds));
        } else if self.produces {
            // The remaining pins receive the net from now on.
            if inside < self.all {
                sums.sent(-seconds);
            }
            if inside > 1 {
                sums.received(seconds);
            }
        } else if inside == 1 {
            sums.received(-seconds);
        } else if inside == self.all {
            // The producer stays, and sends from now on.
            sums.sent(seconds);
        }
    }

    /// Records that the pin enters a device with `inside` pins of the net: the reverse of leaving it with one more pin.
    #[inline]
    fn enter(self, inside: u32, seconds: f64, sums: &mut impl Transfers) {
        if self.is_gradient {
            sums.synchronised(self.enter_group(inside, seconds));
        } else if self.produces {
            if inside + 1 < self.all {
                sums.sent(seconds);
            }
            if inside > 0 {
                sums.received(-seconds);
            }
        } else if inside == 0 {
            sums.received(seconds);
        } else if inside + 1 == self.all {
            sums.sent(-seconds);
        }
    }

    /// Change of the uplink of a group when the pin leaves the group, which has `inside` pins before.
    #[inline]
    fn leave_group(self, inside: u32, seconds: f64) -> f64 {
        match inside {
            1 => -seconds,
            _ if inside == self.all => seconds,
            _ => 0.0,
        }
    }

    /// Change of the uplink of a group when the pin enters the group, which has `inside` pins before.
    #[inline]
    fn enter_group(self, inside: u32, seconds: f64) -> f64 {
        -self.leave_group(inside + 1, seconds)
    }
}
