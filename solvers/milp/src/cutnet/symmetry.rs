//! Symmetry breaking for identical devices: leaves one of every n! equivalent plans.
//!
//! The heaviest units are the leaders, ordered by weight. Renaming the devices of a pool in the order in which leaders
//! use them turns every plan into a plan of equal value in which the k-th leader is on one of the first k devices.

use stagewright_core::cluster::DeviceId;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::ids::Keyed;
use stagewright_core::problem::Problem;

use super::model::Domains;

/// Leaders of a problem, heaviest first, one per device.
pub fn leaders(problem: &Problem, units: &Units) -> Vec<UnitId> {
    let devices: usize = problem.pools().iter().map(|pool| pool.devices.len()).sum();
    let weight = |unit: UnitId| {
        let on_pools = (0..units.pools()).filter_map(|pool| units.seconds(unit, pool));
        on_pools.fold(0.0, f64::max)
    };
    let mut leaders: Vec<UnitId> = units.ids().collect();
    let weights: Keyed<UnitId, f64> = leaders.iter().map(|&unit| weight(unit)).collect();
    leaders.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]).then(a.cmp(&b)));
    leaders.truncate(devices);
    leaders
}

/// Removes from the leaders' domains the devices that renaming makes redundant.
pub fn restrict(problem: &Problem, leaders: &[UnitId], domains: &mut Domains) {
    let mut position = Keyed::filled(0, problem.cluster().device_count());
    for pool in problem.pools() {
        for (index, &device) in pool.devices.iter().enumerate() {
            position[device] = index;
        }
    }
    for (rank, &leader) in leaders.iter().enumerate() {
        domains[leader].retain(|&device| position[device] <= rank);
    }
}

/// The plan with the devices of each pool renamed in the order in which leaders use them.
pub fn canonical(
    problem: &Problem,
    leaders: &[UnitId],
    device_of: &Keyed<UnitId, DeviceId>,
) -> Keyed<UnitId, DeviceId> {
    let mut name: Keyed<DeviceId, DeviceId> = problem.cluster().devices().collect();
    for pool in problem.pools() {
        let members = &pool.devices;
        let mut seen: Vec<DeviceId> = Vec::new();
        let led = leaders.iter().map(|&leader| device_of[leader]);
        for device in led.chain(members.iter().copied()) {
            if members.contains(&device) && !seen.contains(&device) {
                seen.push(device);
            }
        }
        for (&from, &to) in seen.iter().zip(members) {
            name[from] = to;
        }
    }
    device_of.iter().map(|&device| name[device]).collect()
}
