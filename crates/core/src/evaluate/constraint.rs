//! Constraints on placements.

use std::collections::BTreeMap;

use super::{DeviceLoad, Violation};
use crate::cluster::DeviceId;
use crate::graph::OpId;
use crate::ids::Keyed;
use crate::placement::Placement;
use crate::problem::Problem;

pub(super) fn check_colocation(problem: &Problem, placement: &Placement, violations: &mut Vec<Violation>) {
    let graph = problem.graph();
    for class in graph.class_ids() {
        let members = graph.class(class);
        let first = members[0];
        if let Some(&second) =
            members.iter().find(|&&op| placement.device_of(op) != placement.device_of(first))
        {
            violations.push(Violation::Colocation {
                first: graph.operator(first).name.clone(),
                second: graph.operator(second).name.clone(),
            });
        }
    }
}

pub(super) fn check_replicas(problem: &Problem, devices: &[DeviceLoad], violations: &mut Vec<Violation>) {
    let max_replicas = problem.objective().rules().max_replicas;
    for &DeviceLoad { device, replicas, .. } in devices {
        if replicas == 0 || replicas > max_replicas {
            let device = problem.cluster().device_name(device);
            violations.push(Violation::Replicas { device, replicas, most: max_replicas });
        }
    }
}

pub(super) fn check_device_counts(
    problem: &Problem,
    devices: &[DeviceLoad],
    violations: &mut Vec<Violation>,
) {
    let mut used: BTreeMap<usize, u64> = BTreeMap::new();
    for device in devices {
        *used.entry(problem.cluster().kind_of(device.device)).or_default() += u64::from(device.replicas);
    }
    for (kind, used) in used {
        let spec = problem.cluster().kind(kind);
        if used > u64::from(spec.count) {
            violations.push(Violation::Devices { kind: spec.name.clone(), used, count: spec.count });
        }
    }
}

/// Checks that replicas fit into their pools. The replicas of a stage are in the pool of its named device. A placement
/// does not name the replicas, so the rule holds iff no pool is overdrawn. If a pool is a whole kind,
/// [`check_device_counts`] covers it.
pub(super) fn check_pools(problem: &Problem, devices: &[DeviceLoad], violations: &mut Vec<Violation>) {
    let mut stages: BTreeMap<usize, Vec<&DeviceLoad>> = BTreeMap::new();
    for device in devices {
        stages.entry(problem.pool_of(device.device)).or_default().push(device);
    }
    for (pool, stages) in stages {
        let spec = &problem.pools()[pool];
        let used = stages.iter().map(|stage| u64::from(stage.replicas)).sum();
        if used > u64::from(spec.count()) && spec.count() < problem.cluster().kind(spec.kind).count {
            let names = stages.iter().map(|stage| problem.cluster().device_name(stage.device));
            let devices = names.collect::<Vec<_>>().join(", ");
            violations.push(Violation::Pool { devices, used, count: spec.count() });
        }
    }
}

pub(super) fn check_order(
    problem: &Problem,
    placement: &Placement,
    slot: &Keyed<DeviceId, usize>,
    violations: &mut Vec<Violation>,
) {
    let graph = problem.graph();
    for (before, after) in graph.stage_precedences() {
        if slot[placement.device_of(before)] > slot[placement.device_of(after)] {
            // Backward tensors go to earlier stages.
            let (producer, consumer) =
                if graph.is_forward(before) { (before, after) } else { (after, before) };
            violations.push(Violation::Order {
                producer: graph.operator(producer).name.clone(),
                consumer: graph.operator(consumer).name.clone(),
            });
        }
    }
}

/// Checks that splits are convex, in one sweep in topological order for every 64 devices. A device is in the set `left`
/// of an operator if a forward path that has left the device reaches the operator. O(devices / 64 · (operators +
/// edges)).
pub(super) fn check_convexity(
    problem: &Problem,
    placement: &Placement,
    used: &[DeviceId],
    violations: &mut Vec<Violation>,
) {
    let graph = problem.graph();
    for devices in used.chunks(u64::BITS as usize) {
        let mut bit_of = Keyed::filled(0u64, problem.cluster().device_count());
        devices.iter().enumerate().for_each(|(bit, &device)| bit_of[device] = 1 << bit);
        let mut left = Keyed::filled(0u64, graph.operator_count());
        let mut back_at: Vec<Option<OpId>> = vec![None; devices.len()];
        for &op in graph.topological().iter().filter(|&&op| graph.is_forward(op)) {
            let here = placement.device_of(op);
            if left[op] & bit_of[here] != 0 {
                back_at[bit_of[here].trailing_zeros() as usize].get_or_insert(op);
            }
            for &next in graph.successors(op).iter().filter(|&&next| graph.is_forward(next)) {
                let leaves = if placement.device_of(next) == here { 0 } else { bit_of[here] };
                left[next] |= left[op] | leaves;
            }
        }
        let broken = devices.iter().zip(back_at).filter_map(|(&device, op)| Some((device, op?)));
        violations.extend(broken.map(|(device, op)| Violation::Convexity {
            device: problem.cluster().device_name(device),
            operator: graph.operator(op).name.clone(),
        }));
    }
}
