//! The replicas of a stage are on devices that no pin distinguishes.
//!
//! A stage names one device; its further replicas are unnamed devices of the same kind. An operator pinned to
//! some devices of a kind must not reach the others by replication, and a device reserved by a pin must not
//! be taken for something else. So the devices of a kind are partitioned into pools: two devices are in one
//! pool iff every pin allows both or neither. A stage draws all its replicas from the pool of the device it
//! names. Since stages name different devices, this is possible iff no pool is overdrawn.

use super::Placed;
use crate::read::{Pools, Problem};
use crate::violation::{Findings, Subject, ViolationKind};

/// Reports the overdrawn pools. The placement constraint checks pools that are whole kinds. O(n log n) for n devices in
/// the plan and in all pins.
pub(crate) fn check(problem: &Problem, placed: &Placed, findings: &mut Findings) {
    let pools = Pools::new(&problem.cluster, &problem.pins);
    // Per pool, the number of devices that stages take, and the first of these stages.
    let mut taken: Vec<(u64, Option<usize>)> = vec![(0, None); pools.list().len()];
    for (position, device) in placed.devices.iter().enumerate() {
        if device.operators.is_empty() {
            continue;
        }
        let (taken, first) = &mut taken[pools.find(device.kind, device.number)];
        *taken += u64::from(device.document.replicas);
        first.get_or_insert(position);
    }
    for (pool, (taken, first)) in pools.list().iter().zip(taken) {
        let kind = problem.cluster.kinds[pool.kind].document;
        let Some(first) = first else { continue };
        if taken > u64::from(pool.count) && pool.count < kind.count {
            let name = placed.name(first);
            findings.push(ViolationKind::Replicas, Subject::Device(name.to_owned()), || {
                format!(
                    "the stages on {name:?} and on devices like it take {taken} devices, replicas included, but \
                     there are {}: pins separate the others of kind {:?}",
                    pool.count, kind.name,
                )
            });
        }
    }
}
