//! The bottleneck load, which is the time per sample of a full pipeline; under a schedule, the time of an iteration
//! with these loads.

use super::constraint::{
    check_colocation, check_convexity, check_device_counts, check_order, check_pools, check_replicas,
};
use super::{DeviceLoad, Evaluation, Violation, slots};
use crate::document::{Pass, Split};
use crate::graph::OpId;
use crate::objective::Objective;
use crate::placement::Placement;
use crate::problem::Problem;
use crate::schedule::{StageTimes, iteration};
use crate::tolerance;

/// Evaluates a placement, in O(operators + pins log devices).
pub(super) fn evaluate(problem: &Problem, placement: &Placement) -> Evaluation {
    let objective = problem.objective();
    let used = placement.used();
    let slot = slots(problem, &used);
    let slot_of = |op| slot[placement.device_of(op)];

    let mut devices: Vec<DeviceLoad> =
        used.iter().map(|&device| DeviceLoad::new(placement, device)).collect();
    let mut uplinks = vec![[0.0; 2]; problem.cluster().group_count()];
    let mut violations = Vec::new();
    let deferred = add_compute(problem, slot_of, &mut devices, &mut violations);
    add_transfers(problem, slot_of, &mut devices, &mut uplinks);
    add_gradients(problem, slot_of, &mut devices, &mut uplinks);
    let bytes = super::device_bytes(problem, used.len(), slot_of);
    let stages = used.len() as u32;
    for (index, device) in devices.iter_mut().enumerate() {
        device.memory_bytes = bytes[index].total(objective.in_flight_of(stages - index as u32, stages));
        combine(problem, device, bytes[index].synchronised, deferred[index]);
        check_memory(problem, device, &mut violations);
    }

    check_colocation(problem, placement, &mut violations);
    check_replicas(problem, &devices, &mut violations);
    check_device_counts(problem, &devices, &mut violations);
    check_pools(problem, &devices, &mut violations);
    match objective.rules().split {
        Split::Contiguous => check_order(problem, placement, &slot, &mut violations),
        Split::Convex => check_convexity(problem, placement, &used, &mut violations),
        Split::Free => {}
    }
    let value = match objective.times_iteration() {
        true => iterate(objective, &devices, &uplinks),
        false => slowest(&devices, &uplinks).iter().sum(),
    };
    Evaluation { value, devices, uplinks, calls: Vec::new(), violations }
}

/// Adds the compute of every operator. Returns the seconds of deferred weight gradients per device.
fn add_compute(
    problem: &Problem,
    slot_of: impl Fn(OpId) -> usize,
    devices: &mut [DeviceLoad],
    violations: &mut Vec<Violation>,
) -> Vec<f64> {
    let graph = problem.graph();
    let separate = problem.objective().passes() == 2;
    let mut deferred = vec![0.0; devices.len()];
    for op in graph.operators() {
        let slot = slot_of(op);
        let document = graph.operator(op);
        let pass = usize::from(separate && document.pass != Pass::Forward);
        match problem.seconds(op, problem.pool_of(devices[slot].device)) {
            Some(seconds) => {
                devices[slot].sums[pass].compute += seconds;
                if problem.is_deferred(op) {
                    deferred[slot] += seconds;
                }
            }
            None => violations.push(Violation::Unsupported {
                operator: document.name.clone(),
                device: problem.cluster().device_name(devices[slot].device),
            }),
        }
    }
    deferred
}

/// Adds the transfers of every tensor to the devices of its pins and to the uplinks that it crosses.
fn add_transfers(
    problem: &Problem,
    slot_of: impl Fn(OpId) -> usize,
    devices: &mut [DeviceLoad],
    uplinks: &mut [[f64; 2]],
) {
    let (graph, cluster) = (problem.graph(), problem.cluster());
    let separate = problem.objective().passes() == 2;
    let mut places = Vec::new();
    for tensor in graph.tensors() {
        list_places(graph.pins(tensor), &slot_of, &mut places);
        if places.len() < 2 {
            continue;
        }
        let producer = slot_of(graph.producer(tensor));
        let pass = usize::from(separate && !graph.is_forward(graph.producer(tensor)));
        for &slot in &places {
            let seconds = problem.costs().transfer(tensor, cluster.kind_of(devices[slot].device));
            let sums = &mut devices[slot].sums[pass];
            if slot == producer { sums.sent += seconds } else { sums.received += seconds }
        }
        for group in crossed(problem, devices, &places) {
            uplinks[group][pass] += problem.costs().uplink(tensor, group);
        }
    }
}

/// Adds the synchronisation of gradients of shared parameters to the devices of the readers and to the uplinks.
fn add_gradients(
    problem: &Problem,
    slot_of: impl Fn(OpId) -> usize,
    devices: &mut [DeviceLoad],
    uplinks: &mut [[f64; 2]],
) {
    let (graph, cluster) = (problem.graph(), problem.cluster());
    let pass = problem.objective().passes() - 1;
    let mut places = Vec::new();
    for parameter in 0..graph.parameters().len() {
        list_places(graph.readers(parameter), &slot_of, &mut places);
        if places.len() < 2 {
            continue;
        }
        for &slot in &places {
            let seconds = problem.costs().gradient(parameter, cluster.kind_of(devices[slot].device));
            devices[slot].sums[pass].synchronised += seconds;
        }
        for group in crossed(problem, devices, &places) {
            uplinks[group][pass] += problem.costs().gradient_uplink(parameter, group);
        }
    }
}

/// Lists the devices of the operators `ops`, each once, in ascending order.
fn list_places(ops: &[OpId], slot_of: impl Fn(OpId) -> usize, places: &mut Vec<usize>) {
    places.clear();
    places.extend(ops.iter().map(|&op| slot_of(op)));
    places.sort_unstable();
    places.dedup();
}

/// Computes the loads of a device from its sums, and under a schedule the times of its stage.
fn combine(problem: &Problem, device: &mut DeviceLoad, parameter_bytes: f64, deferred: f64) {
    let objective = problem.objective();
    let pool = &problem.pools()[problem.pool_of(device.device)];
    for pass in 0..objective.passes() {
        device.pass_loads[pass] = objective.rules().load(&device.sums[pass], device.replicas);
    }
    let synchronised = pool.synchronisation(parameter_bytes, device.replicas);
    let last = objective.passes() - 1;
    device.pass_loads[last] += synchronised;
    device.synchronised = device.sums[last].synchronised + synchronised;
    if objective.times_iteration() {
        device.times = StageTimes::new(objective, &device.sums, deferred, device.replicas, synchronised);
        device.pass_loads = [device.times.forward, device.times.backward + device.times.weight];
    }
}

/// Checks that the bytes of a device fit into its memory.
pub(super) fn check_memory(problem: &Problem, device: &DeviceLoad, violations: &mut Vec<Violation>) {
    let limit = problem.pools()[problem.pool_of(device.device)].memory;
    if !tolerance::fits(device.memory_bytes, limit) {
        let name = problem.cluster().device_name(device.device);
        violations.push(Violation::Memory { device: name, bytes: device.memory_bytes, limit });
    }
}

/// Iteration time. An uplink is a resource like a device, and carries its load once per microbatch.
fn iterate(objective: &Objective, devices: &[DeviceLoad], uplinks: &[[f64; 2]]) -> f64 {
    let stages: Vec<StageTimes> = devices.iter().map(|device| device.times).collect();
    let microbatches = f64::from(objective.rules().microbatches);
    let carried = uplinks.iter().map(|load| microbatches * (load[0] + load[1])).fold(0.0, f64::max);
    iteration(objective.rules().schedule, &stages, objective.rules().microbatches).max(carried)
}

/// The largest load; with separate passes, the largest forward load and the largest backward load.
pub(super) fn slowest(devices: &[DeviceLoad], uplinks: &[[f64; 2]]) -> [f64; 2] {
    [0, 1].map(|pass| {
        let loads = devices.iter().map(|device| device.pass_loads[pass]);
        loads.chain(uplinks.iter().map(|uplink| uplink[pass])).fold(0.0, f64::max)
    })
}

/// The groups whose uplinks a tensor, or the gradient of a shared parameter, crosses, ascending: those that have pins
/// both inside and outside. O(places log places), independent of the number of groups.
pub(super) fn crossed(
    problem: &Problem,
    devices: &[DeviceLoad],
    places: &[usize],
) -> impl Iterator<Item = usize> {
    let group_of =
        |&slot: &usize| problem.cluster().group_of_kind(problem.cluster().kind_of(devices[slot].device));
    let mut groups: Vec<usize> = places.iter().filter_map(group_of).collect();
    groups.sort_unstable();
    let is_inside = groups.len() == places.len() && groups.first() == groups.last();
    groups.dedup();
    groups.into_iter().filter(move |_| !is_inside)
}
