//! A network in which a cut divides some units and pays for the nets that it divides.

use stagewright_core::contract::Units;
use stagewright_core::solver::Stop;

use crate::flow::{Network, SINK, SOURCE, UNCUTTABLE, add_ordered_net};

/// Units of capacity that all weights and nets of a region sum to, about.
const QUANTA: f64 = (1u64 << 40) as f64;
/// Most that a price of weight may be, in seconds of cut per second of weight. Beyond it nothing is gained, and sums of
/// capacities could leave their range.
pub(super) const HIGHEST_PRICE: f64 = 64.0;
/// The node of a unit that is not in the region.
const ABSENT: u32 = u32::MAX;

/// Where a unit lies before the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Before the boundary.
    Inside,
    /// After it.
    Outside,
    /// On either side.
    Free,
    /// Not in the region: it has no say.
    Absent,
}

/// The network.
#[derive(Debug)]
pub(super) struct Region<'a> {
    units: &'a Units,
    network: Network,
    node_of: Vec<u32>,
    /// Seconds of one unit of capacity.
    quantum: f64,
}

/// The cheapest division of a region.
#[derive(Debug)]
pub(super) struct Division {
    /// What the divided nets cost, and the charges of units.
    pub(super) seconds: f64,
    source_side: Vec<bool>,
    node_of: Vec<u32>,
}

impl Division {
    /// Whether a unit lies before the boundary.
    pub(super) fn is_inside(&self, unit: u32) -> bool {
        let node = self.node_of[unit as usize];
        node != ABSENT && self.source_side[node as usize]
    }
}

impl<'a> Region<'a> {
    /// Units and what keeps their order: with a unit, all that must not come after it lies before the boundary. `scale`
    /// is about the seconds of all weights and nets.
    pub(super) fn new(units: &'a Units, side: impl Fn(usize) -> Side, scale: f64) -> Region<'a> {
        let mut network = Network::new();
        let node_of: Vec<u32> = (0..units.len())
            .map(|unit| match side(unit) {
                Side::Inside => SOURCE,
                Side::Outside => SINK,
                Side::Free => network.node(),
                Side::Absent => ABSENT,
            })
            .collect();
        let is_free = |node: u32| node > SINK && node != ABSENT;
        for (unit, &node) in node_of.iter().enumerate().filter(|&(_, &node)| is_free(node)) {
            for &before in units.predecessors(unit) {
                let before = node_of[before as usize];
                if is_free(before) {
                    network.arc(node, before, UNCUTTABLE, 0);
                }
            }
        }
        Region { units, network, node_of, quantum: scale / QUANTA }
    }

    /// Charges for weight: a positive price for what free units leave outside, a negative one for what they bring inside.
    pub(super) fn charge(&mut self, weight: &[f64], price: f64) {
        if price == 0.0 {
            return;
        }
        for (&node, &weight) in self.node_of.iter().zip(weight) {
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

    /// Adds a net with pins in the region, and what dividing it costs. Nothing is added where no cut can.
    pub(super) fn add_net(&mut self, pins: &[u32], seconds: f64) {
        let capacity = self.capacity(seconds);
        let node_of = &self.node_of;
        add_ordered_net(&mut self.network, self.units, pins, |pin| node_of[pin as usize], capacity);
    }

    /// The cheapest division; none where the time ran out.
    pub(super) fn divide(self, stop: &Stop) -> Option<Division> {
        let cut = self.network.minimum_cut(stop)?;
        let seconds = cut.value as f64 * self.quantum;
        Some(Division { seconds, source_side: cut.source_side, node_of: self.node_of })
    }
}
