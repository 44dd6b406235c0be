//! The latency of one sample through offloaded calls.

use super::constraint::{check_colocation, check_device_counts, check_replicas};
use super::{CallTimes, DeviceLoad, Evaluation, Violation, slots};
use crate::meter::PassSums;
use crate::offload::{Call, Offload, Site, Timeline};
use crate::placement::Placement;
use crate::problem::Problem;
use crate::tolerance;

/// Evaluates a placement with [`Timeline`]. The value is infinite if calls wait for one another in a cycle.
/// The model does not include the uplinks of groups. O(pools in use · (operators + tensors) + operators log
/// operators + pins).
pub(super) fn evaluate(problem: &Problem, placement: &Placement) -> Evaluation {
    let (graph, cluster) = (problem.graph(), problem.cluster());
    let used = placement.used();
    let slot = slots(problem, &used);
    let is_host = |at: usize| problem.pools()[problem.pool_of(used[at])].host;
    let slot_of = |op| slot[placement.device_of(op).index()] as usize;

    // The calls by device and number.
    let on_accelerators = graph.operators().filter(|&op| !is_host(slot_of(op)));
    let mut numbers: Vec<(usize, u32)> =
        on_accelerators.map(|op| (slot_of(op), placement.call_of(op))).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut calls: Vec<Call> = Vec::with_capacity(numbers.len());
    for (at, &(slot, _)) in (0u32..).zip(&numbers) {
        let same = at.checked_sub(1).filter(|&before| numbers[before as usize].0 == slot);
        calls.push(Call { pool: problem.pool_of(used[slot]) as u32, after: same });
    }
    let sites = graph.operators().map(|op| match slot_of(op) {
        at if is_host(at) => Site::Host(problem.pool_of(used[at]) as u32),
        at => {
            let found = numbers.binary_search(&(at, placement.call_of(op)));
            Site::Call(found.expect("every call is listed") as u32)
        }
    });
    let sites: Vec<Site> = sites.collect();
    let mut timeline = Timeline::new(graph);
    let mut pools: Vec<usize> = used.iter().map(|&device| problem.pool_of(device)).collect();
    pools.sort_unstable();
    pools.dedup();
    let value = timeline.schedule(&Offload::of_pools(problem, &pools), &sites, &calls);

    let mut violations = Vec::new();
    let mut devices: Vec<DeviceLoad> =
        used.iter().map(|&device| DeviceLoad::new(placement, device)).collect();
    for op in graph.operators() {
        let (at, document) = (slot_of(op), graph.operator(op));
        match problem.seconds(op, problem.pool_of(used[at])) {
            Some(seconds) => devices[at].sums[0].compute += seconds,
            None => violations.push(Violation::Unsupported {
                operator: document.name.clone(),
                device: cluster.device_name(used[at]),
            }),
        }
    }
    for (&(at, _), sums) in numbers.iter().zip(timeline.calls()) {
        devices[at].sums[0].sent += sums.sent;
        devices[at].sums[0].received += sums.received;
    }
    let bytes = super::device_bytes(problem, used.len(), slot_of);
    for (at, device) in devices.iter_mut().enumerate() {
        device.memory_bytes = bytes[at].total(1);
        let PassSums { compute, sent, received, .. } = device.sums[0];
        device.pass_loads[0] = compute + sent + received;
        let memory = problem.pools()[problem.pool_of(device.device)].memory;
        if !tolerance::fits(device.memory_bytes, memory) {
            violations.push(Violation::Memory {
                device: cluster.device_name(device.device),
                bytes: device.memory_bytes,
                limit: memory,
            });
        }
        let first = numbers.partition_point(|number| number.0 < at);
        let count = numbers[first..].partition_point(|number| number.0 == at) as u32;
        if count > problem.objective().calls {
            let (device, most) = (cluster.device_name(device.device), problem.objective().calls);
            violations.push(Violation::Calls { device, calls: count, most });
        }
    }
    check_colocation(problem, placement, &mut violations);
    check_replicas(problem, &devices, &mut violations);
    check_device_counts(problem, &devices, &mut violations);
    if value.is_none() {
        violations.extend(call_order(problem, &timeline, &numbers, &used));
    }
    let mut times: Vec<CallTimes> = numbers
        .iter()
        .zip(timeline.calls())
        .filter(|_| value.is_some())
        .map(|(&(at, call), sums)| CallTimes {
            device: used[at],
            call,
            start: sums.start,
            finish: sums.finish(),
        })
        .collect();
    times.sort_by(|a, b| a.start.total_cmp(&b.start).then(a.device.cmp(&b.device)));
    Evaluation {
        value: value.unwrap_or(f64::INFINITY),
        devices,
        uplinks: vec![[0.0; 2]; cluster.group_count()],
        calls: times,
        violations,
    }
}

/// The violation of a call that waits forever.
fn call_order(
    problem: &Problem,
    timeline: &Timeline,
    numbers: &[(usize, u32)],
    used: &[crate::cluster::DeviceId],
) -> Option<Violation> {
    let stuck = (0..numbers.len()).find(|&call| timeline.is_stuck(call))?;
    Some(Violation::CallOrder {
        device: problem.cluster().device_name(used[numbers[stuck].0]),
        operator: problem.graph().operator(timeline.members(stuck).last()?).name.clone(),
    })
}
