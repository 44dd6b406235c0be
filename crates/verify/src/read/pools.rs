//! Pools: the devices of a kind that no pin distinguishes.
//!
//! Two devices are in one pool iff they are of one kind and every pin allows both or neither. A kind whose devices no
//! pin names is one pool of any size.

use std::collections::BTreeMap;

use super::{Cluster, Pins};

/// A pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pool {
    pub(crate) kind: usize,
    /// Number of the pool's first device.
    pub(crate) first: u32,
    /// Number of devices; may be zero.
    pub(crate) count: u32,
}

/// The pools of a problem: first, for each kind by its index, the devices that pins don't single out; then the others.
#[derive(Debug)]
pub(crate) struct Pools {
    list: Vec<Pool>,
    singled_out: BTreeMap<(usize, u32), usize>,
}

impl Pools {
    /// Computes the pools. O(n log n) for n kinds and devices listed in pins.
    pub(crate) fn new(cluster: &Cluster, pins: &Pins) -> Pools {
        let kinds = cluster.kinds.iter().enumerate();
        let mut list: Vec<Pool> =
            kinds.map(|(kind, spec)| Pool { kind, first: 0, count: spec.document.count }).collect();
        let mut singled_out = BTreeMap::new();
        let mut of_pins: BTreeMap<(usize, Vec<usize>), usize> = BTreeMap::new();
        for ((kind, number), operators) in pins.singling_out() {
            let rest = &mut list[kind];
            rest.count -= 1;
            // Numbers ascend, so the rest begins with the first number that is not listed.
            rest.first += u32::from(rest.first == number);
            let pool = *of_pins.entry((kind, operators)).or_insert_with(|| {
                list.push(Pool { kind, first: number, count: 0 });
                list.len() - 1
            });
            list[pool].count += 1;
            singled_out.insert((kind, number), pool);
        }
        Pools { list, singled_out }
    }

    /// The pools.
    pub(crate) fn list(&self) -> &[Pool] {
        &self.list
    }

    /// The pool of a device, by its kind and number.
    pub(crate) fn find(&self, kind: usize, number: u32) -> usize {
        self.singled_out.get(&(kind, number)).copied().unwrap_or(kind)
    }
}
