//! The sets of units that may be peeled off from the end.

use stagewright_core::contract::Units;

use crate::dpl::Positions;
use crate::order;

/// Units by position; all units after a unit in the pipeline have lower positions.
#[derive(Debug, Clone)]
pub struct Poset {
    /// The unit of each position.
    pub(super) unit_at: Vec<u32>,
    /// Number of positions that must be taken before each.
    pub(super) waits_for: Vec<u32>,
    /// The positions that wait for each, ascending.
    pub(super) frees: Vec<Vec<u32>>,
    /// Whether a stage may end after a number of units; if empty, after every number.
    is_cut: Vec<bool>,
}

impl Poset {
    /// All sets closed under successors. O(units + edges).
    pub fn of_units(units: &Units) -> Poset {
        let mut unit_at = order::depth_first(units);
        unit_at.reverse();
        let mut position = vec![0; units.len()];
        for (at, &unit) in (0..).zip(&unit_at) {
            position[unit as usize] = at;
        }
        let waits_for = unit_at.iter().map(|&unit| units.successors(unit as usize).len() as u32).collect();
        let frees = unit_at.iter().map(|&unit| {
            let mut freed: Vec<u32> =
                units.predecessors(unit as usize).iter().map(|&before| position[before as usize]).collect();
            freed.sort_unstable();
            freed
        });
        Poset { frees: frees.collect(), waits_for, unit_at, is_cut: Vec::new() }
    }

    /// The suffixes of an order that begin at the given positions.
    pub fn of_order(order: &[u32], positions: &Positions) -> Poset {
        let count = order.len() as u32;
        let mut is_cut = vec![false; order.len() + 1];
        for &at in positions.as_slice() {
            is_cut[order.len() - at as usize] = true;
        }
        Poset {
            unit_at: order.iter().rev().copied().collect(),
            waits_for: (0..count).map(|at| u32::from(at > 0)).collect(),
            frees: (0..count).map(|at| if at + 1 < count { vec![at + 1] } else { Vec::new() }).collect(),
            is_cut,
        }
    }

    /// Number of units.
    pub(super) fn len(&self) -> usize {
        self.unit_at.len()
    }

    /// Whether a set of `size` units may be a state.
    pub(super) fn is_state(&self, size: usize) -> bool {
        self.is_cut.is_empty() || self.is_cut[size]
    }
}
