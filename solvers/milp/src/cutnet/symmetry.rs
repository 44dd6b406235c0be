//! Symmetry breaking for identical devices: one of every n! equivalent plans is left.
//!
//! The heaviest units are the leaders, in this order. Renaming the devices of a pool in the order in which leaders use
//! them turns every plan into one of equal value in which the k-th leader is on one of the first k devices.

use stagewright_core::contract::Units;
use stagewright_core::problem::Problem;

use super::model::Domains;

/// Leaders of a problem, heaviest first: as many as there are devices.
pub fn leaders(problem: &Problem, units: &Units) -> Vec<u32> {
    let devices: usize = problem.pools().iter().map(|pool| pool.devices.len()).sum();
    let weight = |unit: u32| {
        let on_pools = (0..units.pools()).filter_map(|pool| units.seconds(unit as usize, pool));
        on_pools.fold(0.0, f64::max)
    };
    let mut leaders: Vec<u32> = (0..units.len() as u32).collect();
    let weights: Vec<f64> = leaders.iter().map(|&unit| weight(unit)).collect();
    leaders.sort_by(|&a, &b| weights[b as usize].total_cmp(&weights[a as usize]).then(a.cmp(&b)));
    leaders.truncate(devices);
    leaders
}

/// Removes from the leaders' domains the devices that renaming makes redundant.
pub fn restrict(problem: &Problem, leaders: &[u32], domains: &mut Domains) {
    let mut position = vec![0; problem.cluster().device_count()];
    for pool in problem.pools() {
        for (at, device) in pool.devices.iter().enumerate() {
            position[device.index()] = at;
        }
    }
    for (rank, &leader) in leaders.iter().enumerate() {
        domains[leader as usize].retain(|&device| position[device as usize] <= rank);
    }
}

/// The plan with the devices of each pool renamed in the order in which leaders use them.
pub fn canonical(problem: &Problem, leaders: &[u32], device_of: &[u32]) -> Vec<u32> {
    let devices = problem.cluster().device_count();
    let mut name: Vec<u32> = (0..devices as u32).collect();
    for pool in problem.pools() {
        let members: Vec<u32> = pool.devices.iter().map(|device| device.index() as u32).collect();
        let mut seen: Vec<u32> = Vec::new();
        let led = leaders.iter().map(|&leader| device_of[leader as usize]);
        for device in led.chain(members.iter().copied()) {
            if members.contains(&device) && !seen.contains(&device) {
                seen.push(device);
            }
        }
        for (&from, &to) in seen.iter().zip(&members) {
            name[from as usize] = to;
        }
    }
    device_of.iter().map(|&device| name[device as usize]).collect()
}
