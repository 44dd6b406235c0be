//! Problems in which groups of operators have devices of their own.

use std::collections::{BTreeMap, BTreeSet};

use stagewright_core::cluster::DeviceId;
use stagewright_core::document::{PinTargets, PinsDocument};
use stagewright_core::graph::OpId;
use stagewright_core::problem::Problem;

/// Maximum number of choices of pools for all groups.
pub(super) const MOST_CHOICES: usize = 64;

/// The problems that result from reserving a device for each group, one for every choice of pools. Devices of a pool are
/// interchangeable, so the plans of these problems are, up to the names of devices, all plans in which every group is alone
/// on a device. Choices that a pin, an operator or the number of devices rules out are left out. Without groups, the problem
/// itself. `None` if there are more than [`MOST_CHOICES`] choices. O(pools^groups · operators · devices).
pub(super) fn reserved(problem: &Problem, groups: &[Vec<OpId>]) -> Option<Vec<Problem>> {
    if groups.is_empty() {
        return Some(vec![problem.clone()]);
    }
    let mut choices: Vec<Vec<DeviceId>> = vec![Vec::new()];
    for group in groups {
        let with_next = |taken: &Vec<DeviceId>| {
            let pools = problem.pools().iter().enumerate();
            let able = pools.filter(|&(pool, _)| group.iter().all(|&op| problem.seconds(op, pool).is_some()));
            let free =
                able.filter_map(|(_, pool)| pool.devices.iter().find(|device| !taken.contains(device)));
            free.map(|&device| [taken.as_slice(), &[device]].concat()).collect::<Vec<_>>()
        };
        choices = choices.iter().flat_map(with_next).collect();
        if choices.len() > MOST_CHOICES {
            return None;
        }
    }
    Some(choices.iter().filter_map(|devices| pinned(problem, groups, devices)).collect())
}

/// The problem in which each group is on its device and no other operator is; `None` if a pin excludes that.
fn pinned(problem: &Problem, groups: &[Vec<OpId>], devices: &[DeviceId]) -> Option<Problem> {
    let graph = problem.graph();
    let reserved: BTreeSet<DeviceId> = devices.iter().copied().collect();
    let own: BTreeMap<OpId, DeviceId> = groups
        .iter()
        .zip(devices)
        .flat_map(|(group, &device)| group.iter().map(move |&op| (op, device)))
        .collect();
    let mut pins = BTreeMap::new();
    for op in graph.operators() {
        let is_allowed = |device: &DeviceId| problem.pinned_to(op, problem.pool_of(*device));
        let targets: Vec<String> = match own.get(&op) {
            Some(device) => {
                Some(*device).filter(is_allowed).into_iter().map(|device| name(problem, device)).collect()
            }
            None => problem
                .cluster()
                .devices()
                .filter(|device| !reserved.contains(device))
                .filter(is_allowed)
                .map(|device| name(problem, device))
                .collect(),
        };
        if targets.is_empty() {
            return None;
        }
        pins.insert(graph.operator(op).name.clone(), PinTargets::Any(targets));
    }
    problem.with_pins(PinsDocument(pins)).ok()
}

fn name(problem: &Problem, device: DeviceId) -> String {
    problem.cluster().device_name(device)
}
