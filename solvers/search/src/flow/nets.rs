//! Nets as arcs of a network in which a cut pays for every net that it divides.

use rustc_hash::FxHashMap;
use stagewright_core::contraction::{NetId, UnitId, Units};

use super::{Network, NodeId, SINK, SOURCE, UNCUTTABLE};

/// Nets merged by equal pins, with the minimum time over all pools; nets that cost nothing are dropped.
#[derive(Debug)]
pub(crate) struct MergedNets {
    /// For each merged net, one of its nets.
    pub(crate) representative: Vec<NetId>,
    /// Seconds to move all nets of a merged net once, each on the fastest kind of device for it.
    pub(crate) seconds: Vec<f64>,
}

impl MergedNets {
    pub(crate) fn new(units: &Units) -> MergedNets {
        let mut place: FxHashMap<&[UnitId], usize> = FxHashMap::default();
        let mut merged = MergedNets { representative: Vec::new(), seconds: Vec::new() };
        for net in units.nets().ids() {
            let pools = 0..units.pools();
            let seconds = pools.map(|pool| units.transfer(net, pool)).fold(f64::INFINITY, f64::min);
            if seconds > 0.0 && seconds.is_finite() {
                let index = *place.entry(units.pins(net)).or_insert_with(|| {
                    merged.representative.push(net);
                    merged.seconds.push(0.0);
                    merged.representative.len() - 1
                });
                merged.seconds[index] += seconds;
            }
        }
        merged
    }

    /// Number of nets.
    pub(crate) fn len(&self) -> usize {
        self.seconds.len()
    }
}

/// Adds a net to a network, given the nodes of its pins; the source and the sink may be among the nodes, also
/// repeatedly. A cut pays the capacity if it separates some of the nodes; nothing is added if no cut can separate them.
/// No arc out of the source or into the sink is uncuttable, so the flow stays within the sum of the capacities.
pub(crate) fn add_net(network: &mut Network, nodes: impl Iterator<Item = NodeId> + Clone, capacity: i64) {
    let Some(first) = nodes.clone().next() else { return };
    let mut others = nodes.clone().filter(|&node| node != first);
    let Some(second) = others.next() else { return };
    if capacity == 0 {
        return;
    }
    if others.all(|node| node == second) {
        network.arc(first, second, capacity, capacity);
        return;
    }
    let has_pin = |side: NodeId| nodes.clone().any(|node| node == side);
    let entry = if has_pin(SOURCE) { SOURCE } else { network.node() };
    let exit = if has_pin(SINK) { SINK } else { network.node() };
    network.arc(entry, exit, capacity, 0);
    for node in nodes.filter(|&node| node > SINK) {
        if entry != SOURCE {
            network.arc(node, entry, UNCUTTABLE, 0);
        }
        if exit != SINK {
            network.arc(exit, node, UNCUTTABLE, 0);
        }
    }
}

/// Adds a net with the given pins, with fewer arcs than [`add_net`], to a network whose cuts respect the order of the
/// units. `node_of` maps a unit to its node.
pub(crate) fn add_ordered_net(
    network: &mut Network,
    units: &Units,
    pins: &[UnitId],
    node_of: impl Fn(UnitId) -> NodeId + Copy,
    capacity: i64,
) {
    let (Some(&first), Some(&last)) = (pins.first(), pins.last()) else { return };
    if pins.iter().any(|&pin| node_of(pin) <= SINK) || capacity == 0 {
        add_net(network, pins.iter().map(|&pin| node_of(pin)), capacity);
        return;
    }
    // A pin before all others is on the source side whenever any other pin is, and a pin after all others is on the
    // sink side whenever any other pin is: the net can then be crossed in one direction only.
    let before = |first: UnitId, second: UnitId| units.predecessors(second).binary_search(&first).is_ok();
    let begins = pins[1..].iter().all(|&pin| before(first, pin));
    match pins {
        [_, _] if begins => {
            network.arc(node_of(first), node_of(last), capacity, 0);
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
        _ => add_net(network, pins.iter().map(|&pin| node_of(pin)), capacity),
    }
}
