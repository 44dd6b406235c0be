//! The latency of one sample through offloaded calls.

use super::constraint::{check_colocation, check_device_counts, check_replicas};
use super::throughput::check_memory;
use super::{CallTimes, DeviceLoad, Evaluation, Violation, slots};
use crate::call_timing::{Call, Offload, Site, Timeline};
use crate::cluster::DeviceId;
use crate::graph::OpId;
use crate::ids::Keyed;
use crate::objective::PassSums;
use crate::placement::Placement;
use crate::problem::Problem;

/// Evaluates a placement with [`Timeline`]. The value is infinite if calls wait for one another in a cycle.
/// The model does not include the uplinks of groups. O(pools in use · (operators + tensors) + operators log
/// operators + pins).
pub(super) fn evaluate(problem: &Problem, placement: &Placement) -> Evaluation {
    let calls = Calls::new(problem, placement);
    let mut timeline = Timeline::new(problem.graph());
    let value = calls.schedule(&mut timeline);
    let mut violations = Vec::new();
    let devices = calls.devices(&timeline, &mut violations);
    check_colocation(problem, placement, &mut violations);
    check_replicas(problem, &devices, &mut violations);
    check_device_counts(problem, &devices, &mut violations);
    if value.is_none() {
        violations.extend(calls.cycle(&timeline));
    }
    Evaluation {
        value: value.unwrap_or(f64::INFINITY),
        devices,
        uplinks: vec![[0.0; 2]; problem.cluster().group_count()],
        calls: if value.is_some() { calls.times(&timeline) } else { Vec::new() },
        violations,
    }
}

/// The calls of a placement.
struct Calls<'a> {
    problem: &'a Problem,
    placement: &'a Placement,
    used: Vec<DeviceId>,
    slot: Keyed<DeviceId, usize>,
    /// For every call, the index of its device in `used` and its number; sorted.
    numbers: Keyed<u32, (usize, u32)>,
}

impl<'a> Calls<'a> {
    fn new(problem: &'a Problem, placement: &'a Placement) -> Calls<'a> {
        let used = placement.used();
        let slot = slots(problem, &used);
        let mut calls = Calls { problem, placement, used, slot, numbers: Keyed::default() };
        let on_accelerators = problem.graph().operators().filter(|&op| !calls.is_host(calls.slot_of(op)));
        let mut numbers: Keyed<u32, (usize, u32)> =
            on_accelerators.map(|op| (calls.slot_of(op), placement.call_of(op))).collect();
        numbers.sort_unstable();
        numbers.dedup();
        calls.numbers = numbers;
        calls
    }

    fn slot_of(&self, op: OpId) -> usize {
        self.slot[self.placement.device_of(op)]
    }

    fn pool_of(&self, slot: usize) -> usize {
        self.problem.pool_of(self.used[slot])
    }

    fn is_host(&self, slot: usize) -> bool {
        self.problem.pools()[self.pool_of(slot)].host
    }

    /// Schedules the calls and the operators on hosts. Returns the value; `None` if there is a cycle.
    fn schedule(&self, timeline: &mut Timeline) -> Option<f64> {
        let mut calls: Vec<Call> = Vec::with_capacity(self.numbers.len());
        for (index, &(slot, _)) in self.numbers.enumerate() {
            let same = index.checked_sub(1).filter(|&before| self.numbers[before].0 == slot);
            calls.push(Call { pool: self.pool_of(slot) as u32, after: same });
        }
        let sites = self.problem.graph().operators().map(|op| match self.slot_of(op) {
            slot if self.is_host(slot) => Site::Host(self.pool_of(slot) as u32),
            slot => {
                let found = self.numbers.binary_search(&(slot, self.placement.call_of(op)));
                Site::Call(found.expect("every call is listed") as u32)
            }
        });
        let sites: Vec<Site> = sites.collect();
        let mut pools: Vec<usize> = (0..self.used.len()).map(|slot| self.pool_of(slot)).collect();
        pools.sort_unstable();
        pools.dedup();
        timeline.schedule(&Offload::of_pools(self.problem, &pools), &sites, &calls)
    }

    /// The devices in use with their loads. Checks support, memory and the number of calls.
    fn devices(&self, timeline: &Timeline, violations: &mut Vec<Violation>) -> Vec<DeviceLoad> {
        let (graph, cluster) = (self.problem.graph(), self.problem.cluster());
        let mut devices: Vec<DeviceLoad> =
            self.used.iter().map(|&device| DeviceLoad::new(self.placement, device)).collect();
        for op in graph.operators() {
            let slot = self.slot_of(op);
            match self.problem.seconds(op, self.pool_of(slot)) {
                Some(seconds) => devices[slot].sums[0].compute += seconds,
                None => violations.push(Violation::Unsupported {
                    operator: graph.operator(op).name.clone(),
                    device: cluster.device_name(self.used[slot]),
                }),
            }
        }
        for (&(slot, _), sums) in self.numbers.iter().zip(timeline.calls()) {
            devices[slot].sums[0].sent += sums.sent;
            devices[slot].sums[0].received += sums.received;
        }
        let bytes = super::device_bytes(self.problem, self.used.len(), |op| self.slot_of(op));
        for (slot, device) in devices.iter_mut().enumerate() {
            device.memory_bytes = bytes[slot].total(1);
            let PassSums { compute, sent, received, .. } = device.sums[0];
            device.pass_loads[0] = compute + sent + received;
            check_memory(self.problem, device, violations);
            let (calls, limit) = (self.count(slot), self.problem.objective().calls());
            if calls > limit {
                let device = cluster.device_name(device.device);
                violations.push(Violation::Calls { device, calls, most: limit });
            }
        }
        devices
    }

    /// Number of calls of a device.
    fn count(&self, slot: usize) -> u32 {
        let before = |next: usize| self.numbers.partition_point(|number| number.0 < next);
        (before(slot + 1) - before(slot)) as u32
    }

    /// The violation of a call that waits forever.
    fn cycle(&self, timeline: &Timeline) -> Option<Violation> {
        let stuck = self.numbers.ids().find(|&call| timeline.is_stuck(call))?;
        Some(Violation::CallOrder {
            device: self.problem.cluster().device_name(self.used[self.numbers[stuck].0]),
            operator: self.problem.graph().operator(timeline.members(stuck).last()?).name.clone(),
        })
    }

    /// Start and finish of the calls, ordered by start.
    fn times(&self, timeline: &Timeline) -> Vec<CallTimes> {
        let timed = self.numbers.iter().zip(timeline.calls()).map(|(&(slot, call), sums)| CallTimes {
            device: self.used[slot],
            call,
            start: sums.start,
            finish: sums.finish(),
        });
        let mut times: Vec<CallTimes> = timed.collect();
        times.sort_by(|a, b| a.start.total_cmp(&b.start).then(a.device.cmp(&b.device)));
        times
    }
}
