//! The sets of units that may be peeled off from the end.

use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::id;
use stagewright_core::ids::{Keyed, places};

use crate::order;

id! {
    /// Index of a unit in a poset.
    pub(super) Position;
}

/// Units by position; all units after a unit in the pipeline have lower positions.
#[derive(Debug, Clone)]
pub struct Poset {
    /// The unit of each position.
    pub(super) unit_at: Keyed<Position, UnitId>,
    /// Number of positions that must be taken before each position.
    pub(super) waits_for: Keyed<Position, u32>,
    /// The positions that wait for each position, ascending.
    pub(super) frees: Keyed<Position, Vec<Position>>,
    /// For each number of units, whether a stage may end after it; empty if a stage may end after every number.
    is_cut: Vec<bool>,
}

impl Poset {
    /// All sets closed under successors. O(units + edges).
    pub fn of_units(units: &Units) -> Poset {
        let mut unit_at: Keyed<Position, UnitId> = order::depth_first(units).into();
        unit_at.reverse();
        let position: Keyed<_, Position> = places(&unit_at);
        let waits_for = unit_at.iter().map(|&unit| units.successors(unit).len() as u32).collect();
        let frees = unit_at.iter().map(|&unit| {
            let mut freed: Vec<Position> =
                units.predecessors(unit).iter().map(|&before| position[before]).collect();
            freed.sort_unstable();
            freed
        });
        Poset { frees: frees.collect(), waits_for, unit_at, is_cut: Vec::new() }
    }

    /// The suffixes of an order that begin at the given positions.
    pub fn of_order(order: &[UnitId], cuts: &[usize]) -> Poset {
        let count = order.len();
        let mut is_cut = vec![false; count + 1];
        for &cut in cuts {
            is_cut[count - cut] = true;
        }
        Poset {
            unit_at: order.iter().rev().copied().collect(),
            waits_for: (0..count).map(|index| u32::from(index > 0)).collect(),
            frees: (1..=count)
                .map(|next| if next < count { vec![Position::new(next)] } else { Vec::new() })
                .collect(),
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
