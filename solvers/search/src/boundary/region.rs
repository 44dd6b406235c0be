//! A network in which a cut divides some units and pays for the nets that it divides.

use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::ids::Keyed;
use stagewright_core::solver::Stop;

use crate::flow::{Network, NodeId, SINK, SOURCE, UNCUTTABLE, add_ordered_net};

/// Approximate number of capacity units that represent the sum of all weights and nets of a region.
const QUANTA: f64 = (1u64 << 40) as f64;
/// Maximum price of weight, in seconds of cut per second of weight. Higher prices gain nothing, and sums of capacities
/// could overflow.
pub(super) const HIGHEST_PRICE: f64 = 64.0;
/// Node of a unit outside the region.
const ABSENT: NodeId = NodeId(u32::MAX);

/// Position of a unit before the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The unit is before the boundary.
    Inside,
    /// The unit is after the boundary.
    Outside,
    /// The unit may be on either side: the cut decides.
    Free,
    /// The unit is not in the region: ignored.
    Absent,
}

/// A network over the free units.
#[derive(Debug)]
pub(super) struct Region<'a> {
    units: &'a Units,
    network: Network,
    node_of: Keyed<UnitId, NodeId>,
    /// Seconds of one unit of capacity.
    quantum: f64,
}

/// The cheapest division of a region.
#[derive(Debug)]
pub(super) struct Division {
    /// Cost of the divided nets plus the charges of units.
    pub(super) seconds: f64,
    source_side: Keyed<NodeId, bool>,
    node_of: Keyed<UnitId, NodeId>,
}

impl Division {
    /// Whether a unit is before the boundary.
    pub(super) fn is_inside(&self, unit: UnitId) -> bool {
        let node = self.node_of[unit];
        node != ABSENT && self.source_side[node]
    }
}

impl<'a> Region<'a> {
    /// A network of units and their precedence: all predecessors of a unit before the boundary are before it too.
    /// `scale` is roughly the sum of all weights and nets in seconds.
    pub(super) fn new(units: &'a Units, side: impl Fn(UnitId) -> Side, scale: f64) -> Region<'a> {
        let mut network = Network::new();
        let node_of: Keyed<UnitId, NodeId> = units
            .ids()
            .map(|unit| match side(unit) {
                Side::Inside => SOURCE,
                Side::Outside => SINK,
                Side::Free => network.node(),
                Side::Absent => ABSENT,
            })
            .collect();
        let is_free = |node: NodeId| node > SINK && node != ABSENT;
        for (unit, &node) in node_of.enumerate().filter(|&(_, &node)| is_free(node)) {
            for &before in units.predecessors(unit) {
                let before = node_of[before];
                if is_free(before) {
                    network.arc(node, before, UNCUTTABLE, 0);
                }
            }
        }
        Region { units, network, node_of, quantum: scale / QUANTA }
    }

    /// Adds charges for weight: a positive price charges for the weight of free units outside, a negative one for the
    /// weight of free units inside.
    pub(super) fn charge(&mut self, weight: &Keyed<UnitId, f64>, price: f64) {
        if price == 0.0 {
            return;
        }
        for (&node, &weight) in self.node_of.iter().zip(weight.iter()) {
            if node > SINK && node != ABSENT {
                let charge = self.capacity(price.abs() * weight);
                let (tail, head) = if price > 0.0 { (SOURCE, node) } else { (node, SINK) };
                self.network.arc(tail, head, charge, 0);
            }
        }
    }

    /// Seconds as capacity, rounded down.
    fn capacity(&self, seconds: f64) -> i64 {
        (seconds / self.quantum) as i64
    }

    /// Adds a net with pins in the region and the cost of dividing it. Nothing is added if no cut can divide it.
    pub(super) fn add_net(&mut self, pins: &[UnitId], seconds: f64) {
        let capacity = self.capacity(seconds);
        let node_of = &self.node_of;
        add_ordered_net(&mut self.network, self.units, pins, |pin| node_of[pin], capacity);
    }

    /// The cheapest division; `None` if stopped.
    pub(super) fn divide(self, stop: &Stop) -> Option<Division> {
        let cut = self.network.minimum_cut(stop)?;
        let seconds = cut.value as f64 * self.quantum;
        Some(Division { seconds, source_side: cut.source_side, node_of: self.node_of })
    }
}
