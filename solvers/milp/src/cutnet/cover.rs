//! Cover inequalities: sets of units that exceed the memory of a device.
//!
//! In a graph of version 2 the memory of a device is not a sum over units, so no row of an integer program expresses
//! it. The memory is monotone in the set, though: a set that does not fit excludes all its supersets. The corresponding
//! cover inequality says that not all units of the set are on one device. Such rows are separated from the choices of
//! the program until it chooses a plan. Minimal covers exclude the most.

use stagewright_core::cluster::DeviceId;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::ids::Keyed;
use stagewright_core::problem::Problem;
use stagewright_core::tolerance;

/// Units that together do not fit into a memory of this size, nor into a smaller one.
#[derive(Debug, Clone)]
pub struct Cover {
    /// The memory, in bytes.
    pub memory: f64,
    /// The units.
    pub units: Vec<UnitId>,
}

/// A minimal cover for every device whose units, by `device_of`, exceed its memory. O(n² pins) for n units on such a
/// device.
pub fn covers(problem: &Problem, units: &Units, device_of: &Keyed<UnitId, DeviceId>) -> Vec<Cover> {
    if units.bytes_are_sums() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for device in problem.cluster().devices() {
        let memory = problem.pools()[problem.pool_of(device)].memory;
        let fits = |set: &[UnitId]| tolerance::fits(units.device_bytes(set.iter().copied()).total(1), memory);
        let mut set: Vec<UnitId> = units.ids().filter(|&unit| device_of[unit] == device).collect();
        if fits(&set) {
            continue;
        }
        for unit in set.clone() {
            let without: Vec<UnitId> = set.iter().copied().filter(|&other| other != unit).collect();
            if !fits(&without) {
                set = without;
            }
        }
        found.push(Cover { memory, units: set });
    }
    found
}
