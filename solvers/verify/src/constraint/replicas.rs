//! The replicas of a stage on devices that no pin tells apart.
//!
//! A stage names one device; its further replicas are devices of the same kind, and which they are is not
//! said. An operator pinned to some devices of a kind must not reach the others by replication, nor must a
//! device that is set aside by a pin be taken for something else. So the devices of a kind fall into pools,
//! two devices being in one pool iff every pin allows both or neither, and a stage draws all its replicas
//! from the pool of the device it names. Since stages name different devices, they can do so iff no pool is
//! overdrawn.

use std::collections::BTreeMap;

use super::Placed;
use crate::read::Problem;
use crate::violation::{Findings, Subject, ViolationKind};

/// Devices that stages take from one pool.
#[derive(Default)]
struct Pool {
    /// Devices in all; for the one that no pin names, what the others leave of the kind.
    count: u64,
    taken: u64,
    first_user: Option<usize>,
}

/// Reports the pools that are overdrawn. A pool that is a whole kind is left to the placement constraint.
/// O(n log n) for n devices in the plan and in all pins.
pub(crate) fn check(problem: &Problem, placed: &Placed, findings: &mut Findings) {
    let singled_out = problem.pins.singling_out();
    let mut pools: BTreeMap<(usize, &[usize]), Pool> = BTreeMap::new();
    let mut unnamed: Vec<u64> =
        problem.cluster.kinds.iter().map(|kind| u64::from(kind.document.count)).collect();
    for (&(kind, _), operators) in &singled_out {
        pools.entry((kind, operators.as_slice())).or_default().count += 1;
        unnamed[kind] -= 1;
    }
    for (kind, &count) in unnamed.iter().enumerate() {
        pools.entry((kind, &[])).or_default().count = count;
    }
    for (position, device) in placed.devices.iter().enumerate() {
        if device.operators.is_empty() {
            continue;
        }
        let operators = singled_out.get(&(device.kind, device.number)).map_or(&[][..], Vec::as_slice);
        let pool = pools.entry((device.kind, operators)).or_default();
        pool.taken += u64::from(device.document.replicas);
        pool.first_user.get_or_insert(position);
    }
    for ((kind, _), pool) in pools {
        let kind = problem.cluster.kinds[kind].document;
        let Some(first) = pool.first_user else { continue };
        if pool.taken > pool.count && pool.count < u64::from(kind.count) {
            let name = placed.name(first);
            findings.push(ViolationKind::Replicas, Subject::Device(name.to_owned()), || {
                format!(
                    "the stages on {name:?} and on devices like it take {} devices, replicas included, but there \
                     are {}: pins tell the others of kind {:?} apart",
                    pool.taken, pool.count, kind.name,
                )
            });
        }
    }
}
