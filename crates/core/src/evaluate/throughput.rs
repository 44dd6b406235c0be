//! The bottleneck load: time per sample of a full pipeline. Under a schedule, the time of an iteration with
//! these loads.

use super::constraint::{
    check_colocation, check_convexity, check_device_counts, check_order, check_pools, check_replicas,
};
use super::{DeviceLoad, Evaluation, Violation, slots};
use crate::document::{Pass, Split};
use crate::objective::Objective;
use crate::placement::Placement;
use crate::problem::Problem;
use crate::schedule::{StageTimes, iteration};
use crate::tolerance;

/// Evaluates a placement, in O(operators + pins log devices).
pub(super) fn evaluate(problem: &Problem, placement: &Placement) -> Evaluation {
    let graph = problem.graph();
    let cluster = problem.cluster();
    let used = placement.used();
    let slot = slots(problem, &used);
    let slot_of = |op| slot[placement.device_of(op).index()] as usize;

    let objective = problem.objective();
    let separate = objective.passes() == 2;
    let mut devices: Vec<DeviceLoad> =
        used.iter().map(|&device| DeviceLoad::new(placement, device)).collect();
    let mut violations = Vec::new();
    let mut put_off = vec![0.0; used.len()];
    let bytes = super::device_bytes(problem, used.len(), slot_of);
    for op in graph.operators() {
        let at = slot_of(op);
        let document = graph.operator(op);
        let pass = usize::from(separate && document.pass != Pass::Forward);
        match problem.seconds(op, problem.pool_of(devices[at].device)) {
            Some(seconds) => {
                devices[at].sums[pass].compute += seconds;
                if problem.is_put_off(op) {
                    put_off[at] += seconds;
                }
            }
            None => violations.push(Violation::Unsupported {
                operator: document.name.clone(),
                device: cluster.device_name(devices[at].device),
            }),
        }
    }

    let mut uplinks = vec![[0.0; 2]; cluster.group_count()];
    let mut places: Vec<usize> = Vec::new();
    for tensor in graph.tensors() {
        places.clear();
        places.extend(graph.pins(tensor).iter().map(|&op| slot_of(op)));
        let producer = places[0];
        places.sort_unstable();
        places.dedup();
        if places.len() < 2 {
            continue;
        }
        let pass = usize::from(separate && !graph.is_forward(graph.producer(tensor)));
        for &at in &places {
            let seconds = problem.costs().transfer(tensor, cluster.kind_of(devices[at].device));
            let sums = &mut devices[at].sums[pass];
            if at == producer { sums.sent += seconds } else { sums.received += seconds }
        }
        for group in crossed(problem, &devices, &places) {
            uplinks[group][pass] += problem.costs().uplink(tensor, group);
        }
    }
    for parameter in 0..graph.parameters().len() {
        places.clear();
        places.extend(graph.readers(parameter).iter().map(|&op| slot_of(op)));
        places.sort_unstable();
        places.dedup();
        if places.len() < 2 {
            continue;
        }
        let pass = objective.passes() - 1;
        for &at in &places {
            let seconds = problem.costs().gradient(parameter, cluster.kind_of(devices[at].device));
            devices[at].sums[pass].synchronised += seconds;
        }
        for group in crossed(problem, &devices, &places) {
            uplinks[group][pass] += problem.costs().gradient_uplink(parameter, group);
        }
    }

    let stages = used.len() as u32;
    for (at, device) in devices.iter_mut().enumerate() {
        let pool = &problem.pools()[problem.pool_of(device.device)];
        let in_flight = objective.in_flight_of(stages - at as u32, stages);
        device.memory_bytes = bytes[at].total(in_flight);
        for pass in 0..objective.passes() {
            device.pass_loads[pass] = objective.load(&device.sums[pass], device.replicas);
        }
        let synchronised = pool.synchronisation(bytes[at].synchronised, device.replicas);
        let last = objective.passes() - 1;
        device.pass_loads[last] += synchronised;
        device.synchronised = device.sums[last].synchronised + synchronised;
        if objective.times_iteration() {
            device.times =
                StageTimes::of(objective, &device.sums, put_off[at], device.replicas, synchronised);
            device.pass_loads = [device.times.forward, device.times.backward + device.times.weight];
        }
        if !tolerance::fits(device.memory_bytes, pool.memory) {
            violations.push(Violation::Memory {
                device: cluster.device_name(device.device),
                bytes: device.memory_bytes,
                limit: pool.memory,
            });
        }
    }
    check_colocation(problem, placement, &mut violations);
    check_replicas(problem, &devices, &mut violations);
    check_device_counts(problem, &devices, &mut violations);
    check_pools(problem, &devices, &mut violations);
    match objective.split {
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

/// Iteration time. An uplink is a resource like a device and carries its load once per microbatch.
fn iterate(objective: &Objective, devices: &[DeviceLoad], uplinks: &[[f64; 2]]) -> f64 {
    let stages: Vec<StageTimes> = devices.iter().map(|device| device.times).collect();
    let microbatches = f64::from(objective.microbatches);
    let carried = uplinks.iter().map(|load| microbatches * (load[0] + load[1])).fold(0.0, f64::max);
    iteration(objective.schedule, &stages, objective.microbatches).max(carried)
}

/// The largest load, or the largest forward load and the largest backward load.
pub(super) fn slowest(devices: &[DeviceLoad], uplinks: &[[f64; 2]]) -> [f64; 2] {
    [0, 1].map(|pass| {
        let loads = devices.iter().map(|device| device.pass_loads[pass]);
        loads.chain(uplinks.iter().map(|uplink| uplink[pass])).fold(0.0, f64::max)
    })
}

/// The groups whose uplink a tensor, or the gradient of a shared parameter, crosses: those with pins on both sides.
pub(super) fn crossed(
    problem: &Problem,
    devices: &[DeviceLoad],
    places: &[usize],
) -> impl Iterator<Item = usize> {
    let group_of =
        |&at: &usize| problem.cluster().group_of_kind(problem.cluster().kind_of(devices[at].device));
    (0..problem.cluster().group_count()).filter(move |&group| {
        let inside = places.iter().filter(|at| group_of(at) == Some(group)).count();
        0 < inside && inside < places.len()
    })
}
