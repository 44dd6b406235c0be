//! The nets of a problem as arcs of a network in which a cut pays for every net that it divides.

use rustc_hash::FxHashMap;
use stagewright_core::contract::Units;

use super::flow::{Network, SINK, UNCUTTABLE};

/// Nets with the same pins as one, at the least time of any pool.
#[derive(Debug)]
pub(super) struct MergedNets {
    /// One of the nets that have these pins.
    pub(super) representative: Vec<usize>,
    /// Seconds to move all of them once, on the kind of device where that takes least.
    pub(super) seconds: Vec<f64>,
}

impl MergedNets {
    pub(super) fn new(units: &Units) -> MergedNets {
        let mut place: FxHashMap<&[u32], usize> = FxHashMap::default();
        let mut merged = MergedNets { representative: Vec::new(), seconds: Vec::new() };
        for net in 0..units.nets().len() {
            let pools = 0..units.pools();
            let seconds = pools.map(|pool| units.transfer(net, pool)).fold(f64::INFINITY, f64::min);
            if seconds > 0.0 && seconds.is_finite() {
                let at = *place.entry(units.pins(net)).or_insert_with(|| {
                    merged.representative.push(net);
                    merged.seconds.push(0.0);
                    merged.representative.len() - 1
                });
                merged.seconds[at] += seconds;
            }
        }
        merged
    }

    pub(super) fn len(&self) -> usize {
        self.seconds.len()
    }
}

/// Adds a net with some pins to a network; `node_of` says where a unit is, the source and the sink included. Nothing
/// is added where no cut divides it.
pub(super) fn add_net(
    network: &mut Network,
    units: &Units,
    pins: &[u32],
    node_of: impl Fn(u32) -> u32,
    capacity: i64,
) {
    let (Some(&first), Some(&last)) = (pins.first(), pins.last()) else { return };
    let side = node_of(first);
    if capacity == 0 || (side <= SINK && pins.iter().all(|&pin| node_of(pin) == side)) {
        return;
    }
    // A pin that comes before all others is on the side of the source whenever any of them is, and a pin that comes
    // after all others on the side of the sink: then one way to cross is enough.
    let before = |one: u32, other: u32| units.predecessors(other as usize).binary_search(&one).is_ok();
    let begins = pins[1..].iter().all(|&pin| before(first, pin));
    match pins {
        [_, _] => {
            let back = if begins { 0 } else { capacity };
            network.arc(node_of(first), node_of(last), capacity, back);
        }
        [_, readers @ ..] if begins => {
            let middle = network.node();
            network.arc(node_of(first), middle, capacity, 0);
            for &pin in readers {
                network.arc(middle, node_of(pin), UNCUTTABLE, 0);
            }
        }
        [writers @ .., _] if writers.iter().all(|&pin| before(pin, last)) => {
            let middle = network.node();
            for &pin in writers {
                network.arc(node_of(pin), middle, UNCUTTABLE, 0);
            }
            network.arc(middle, node_of(last), capacity, 0);
        }
        _ => {
            let (entry, exit) = (network.node(), network.node());
            network.arc(entry, exit, capacity, 0);
            for &pin in pins {
                network.arc(node_of(pin), entry, UNCUTTABLE, 0);
                network.arc(exit, node_of(pin), UNCUTTABLE, 0);
            }
        }
    }
}
