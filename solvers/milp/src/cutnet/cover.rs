//! Sets of units that no device of some memory holds.
//!
//! What a device needs in a graph of version 2 is no sum over units, so no row of an integer program says it. It only
//! grows with the set, though: a set that does not fit excludes all that contain it, which is the row of a cover, at most
//! all but one of its units on a device. Such rows are made of what the program chooses until it chooses a plan. A cover from
//! which no unit can be left out excludes most.

use stagewright_core::contract::Units;
use stagewright_core::problem::Problem;
use stagewright_core::tolerance;

/// Units that do not fit together into a memory, nor into a smaller one.
#[derive(Debug, Clone)]
pub struct Cover {
    /// The memory, in bytes.
    pub memory: f64,
    /// The units.
    pub units: Vec<u32>,
}

/// A minimal cover for every device that does not hold what is chosen for it: the device of every unit. O(n² pins) for
/// n units of such a device.
pub fn covers(problem: &Problem, units: &Units, device_of: &[u32]) -> Vec<Cover> {
    if units.bytes_are_sums() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for device in problem.cluster().devices() {
        let memory = problem.pools()[problem.pool_of(device)].memory;
        let fits = |set: &[u32]| {
            tolerance::fits(units.device_bytes(set.iter().map(|&unit| unit as usize)).total(1), memory)
        };
        let mut set: Vec<u32> =
            (0..units.len() as u32).filter(|&unit| device_of[unit as usize] == device.0).collect();
        if fits(&set) {
            continue;
        }
        for unit in set.clone() {
            let without: Vec<u32> = set.iter().copied().filter(|&other| other != unit).collect();
            if !fits(&without) {
                set = without;
            }
        }
        found.push(Cover { memory, units: set });
    }
    found
}
