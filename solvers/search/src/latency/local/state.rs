//! A feasible assignment of operators to calls and hosts, with its timeline.

use stagewright_core::call_timing::{Call, Offload, Site, Timeline};
use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::OpId;
use stagewright_core::ids::Keyed;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::stage_load::Compensated;
use stagewright_core::tolerance;

use crate::latency::host::Hosts;

/// All possible calls: the same number on each accelerator, on at most as many accelerators of a pool as there are
/// operators.
#[derive(Debug)]
pub(super) struct Slots {
    pub(super) calls: Keyed<u32, Call>,
    /// Device and call number of each call.
    seats: Keyed<u32, (DeviceId, u32)>,
    hosts: Hosts,
}

impl Slots {
    /// The calls that a search from a placement may make: as many per accelerator as the objective allows, but in total
    /// not many more than could hold an operator each, and never fewer than the placement makes.
    pub(super) fn new(problem: &Problem, start: &Placement) -> Slots {
        let max_devices = problem.graph().operator_count().max(1);
        let accelerators =
            problem.pools().iter().filter(|pool| !pool.host).map(|pool| pool.devices.len().min(max_devices));
        let spread = (2 * max_devices / accelerators.sum::<usize>().max(1)).max(2);
        let made =
            problem.graph().operators().map(|op| start.call_of(op)).max().unwrap_or(0).saturating_add(1);
        let numbers = problem.objective().calls().min(u32::try_from(spread).unwrap_or(u32::MAX).max(made));
        let mut slots =
            Slots { calls: Keyed::default(), seats: Keyed::default(), hosts: Hosts::new(problem) };
        for (pool, spec) in problem.pools().iter().enumerate().filter(|(_, spec)| !spec.host) {
            for &device in spec.devices.iter().take(max_devices) {
                for number in 0..numbers {
                    let before = u32::try_from(slots.calls.len()).ok().and_then(|index| index.checked_sub(1));
                    slots.calls.push(Call { pool: pool as u32, after: before.filter(|_| number > 0) });
                    slots.seats.push((device, number));
                }
            }
        }
        slots
    }

    /// The device of a call.
    pub(super) fn device(&self, call: u32) -> DeviceId {
        self.seats[call].0
    }

    /// All calls on the device of a call.
    pub(super) fn of_device(&self, call: u32) -> std::ops::Range<u32> {
        let device = self.device(call);
        let first = call - self.seats[call].1;
        let len = self.seats.iter().skip(first as usize).take_while(|seat| seat.0 == device).count() as u32;
        first..first + len
    }
}

/// An operator with its previous site, which undoes a move.
pub(super) type Was = (OpId, Site);

/// A feasible assignment.
#[derive(Debug, Clone)]
pub(super) struct SiteAssignment<'p> {
    offload: &'p Offload<'p>,
    slots: &'p Slots,
    sites: Keyed<OpId, Site>,
    /// Number of operators of each call.
    members: Keyed<u32, u32>,
    bytes: Keyed<DeviceId, Compensated>,
    /// Maximum bytes of a device if sums do not decide; zero if they do.
    most_bytes: f64,
    timeline: Timeline,
    value: f64,
    /// Work space of [`SiteAssignment::shift`].
    touched: Vec<DeviceId>,
}

impl<'p> SiteAssignment<'p> {
    /// A placement as a state, with operators on hosts moved to their fastest hosts; `None` if the result is
    /// infeasible.
    pub(super) fn of_placement(
        offload: &'p Offload<'p>,
        slots: &'p Slots,
        placement: &Placement,
    ) -> Option<SiteAssignment<'p>> {
        let problem = offload.problem();
        let graph = offload.graph();
        let mut seats: Vec<(DeviceId, u32, u32)> =
            slots.seats.enumerate().map(|(call, &(device, number))| (device, number, call)).collect();
        seats.sort_unstable();
        // The calls of a device may have any numbers: map them to its first slots, in order.
        let mut numbers: Vec<(DeviceId, u32)> =
            graph.operators().map(|op| (placement.device_of(op), placement.call_of(op))).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let site = |op: OpId| {
            let device = placement.device_of(op);
            if problem.pools()[problem.pool_of(device)].host {
                return slots.hosts.pool(op).map(Site::Host);
            }
            let first = numbers.partition_point(|number| number.0 < device);
            let number = numbers.binary_search(&(device, placement.call_of(op))).ok()? - first;
            let index = seats.binary_search_by_key(&(device, number as u32), |seat| (seat.0, seat.1)).ok()?;
            Some(Site::Call(seats[index].2))
        };
        let sites: Keyed<OpId, Site> = graph.operators().map(site).collect::<Option<_>>()?;
        let mut state = SiteAssignment {
            members: Keyed::filled(0, slots.calls.len()),
            bytes: Keyed::filled(Compensated::default(), problem.cluster().device_count()),
            most_bytes: if problem.memory().is_sum() { 0.0 } else { problem.memory().of_all().total(1) },
            timeline: Timeline::new(graph),
            value: f64::INFINITY,
            touched: Vec::new(),
            offload,
            slots,
            sites,
        };
        for op in graph.operators() {
            let site = state.sites[op];
            state.count(op, site, 1.0)?;
        }
        state.value = state.timeline.schedule(offload, &state.sites, &slots.calls)?;
        state.fits_everywhere().then_some(state)
    }

    pub(super) fn value(&self) -> f64 {
        self.value
    }

    pub(super) fn problem(&self) -> &'p Problem {
        self.offload.problem()
    }

    pub(super) fn slots(&self) -> &'p Slots {
        self.slots
    }

    pub(super) fn site(&self, op: OpId) -> Site {
        self.sites[op]
    }

    /// Number of operators of a call.
    pub(super) fn members(&self, call: u32) -> u32 {
        self.members[call]
    }

    /// The site of an operator on its host, if any.
    pub(super) fn on_host(&self, op: OpId) -> Option<Site> {
        self.slots.hosts.pool(op).map(Site::Host)
    }

    /// Moves operators to sites and returns the new value; `was` receives the moved operators with their previous
    /// sites. Changes nothing and returns `None` if a device cannot run or hold the operators, or if an operator would
    /// wait for itself.
    pub(super) fn shift(
        &mut self,
        moves: impl Iterator<Item = (OpId, Site)>,
        was: &mut Vec<Was>,
    ) -> Option<f64> {
        was.clear();
        let mut capable = true;
        for (op, to) in moves {
            let from = self.sites[op];
            if from == to {
                continue;
            }
            was.push((op, from));
            capable &= self.put(op, from, to);
        }
        let value = if capable && !was.is_empty() && self.fits_after(was) {
            self.timeline.schedule(self.offload, &self.sites, &self.slots.calls)
        } else {
            None
        };
        match value {
            Some(value) => {
                self.value = value;
                Some(value)
            }
            None => {
                self.restore(was, self.value);
                None
            }
        }
    }

    /// Undoes a shift; `value` is the value before the shift.
    pub(super) fn restore(&mut self, was: &[Was], value: f64) {
        for &(op, from) in was.iter().rev() {
            let to = self.sites[op];
            self.put(op, to, from);
        }
        self.value = value;
    }

    fn put(&mut self, op: OpId, from: Site, to: Site) -> bool {
        let known = self.count(op, from, -1.0).is_some();
        self.sites[op] = to;
        let capable = self.count(op, to, 1.0).is_some();
        let pool = match to {
            Site::Host(pool) => pool,
            Site::Call(call) => self.slots.calls[call].pool,
        };
        known && capable && self.offload.seconds(op, pool as usize).is_some()
    }

    fn count(&mut self, op: OpId, site: Site, times: f64) -> Option<()> {
        if let Site::Call(call) = site {
            let members = &mut self.members[call];
            *members = members.wrapping_add_signed(times as i32);
        }
        let device = self.device(site, op)?;
        self.bytes[device].add(times * self.offload.graph().least_bytes(op));
        Some(())
    }

    fn device(&self, site: Site, op: OpId) -> Option<DeviceId> {
        match site {
            Site::Host(_) => self.slots.hosts.device(op),
            Site::Call(call) => Some(self.slots.device(call)),
        }
    }

    /// Whether the devices of moved operators have enough memory. Each device is checked once, which may cost as much as
    /// reading the graph.
    fn fits_after(&mut self, was: &[Was]) -> bool {
        let mut touched = std::mem::take(&mut self.touched);
        touched.clear();
        touched.extend(was.iter().filter_map(|&(op, _)| self.device(self.sites[op], op)));
        touched.sort_unstable();
        touched.dedup();
        let fits = touched.iter().all(|&device| self.device_fits(device));
        self.touched = touched;
        fits
    }

    fn device_fits(&self, device: DeviceId) -> bool {
        let problem = self.problem();
        let memory = problem.pools()[problem.pool_of(device)].memory;
        tolerance::fits(self.bytes[device].value(), memory)
            && (memory >= self.most_bytes || tolerance::fits(self.device_bytes(device), memory))
    }

    /// Bytes of a device, computed from scratch. O(operators + pins of the operators on the device).
    fn device_bytes(&self, device: DeviceId) -> f64 {
        let here = |&op: &OpId| self.device(self.sites[op], op) == Some(device);
        let problem = self.problem();
        problem.memory().of(problem.graph().operators().filter(here)).total(1)
    }

    fn fits_everywhere(&self) -> bool {
        self.problem().cluster().devices().all(|device| self.device_fits(device))
    }

    /// The state as a placement.
    pub(super) fn placement(&self) -> Placement {
        let graph = self.offload.graph();
        let (mut device_of, mut call_of) = (Vec::new(), Vec::new());
        for op in graph.operators() {
            let site = self.sites[op];
            device_of.push(self.device(site, op).expect("every operator has a device"));
            call_of.push(match site {
                Site::Host(_) => 0,
                Site::Call(call) => self.slots.seats[call].1,
            });
        }
        Placement::with_calls(device_of, call_of)
    }
}
