//! Branching rules: constraints of a node of the search on its columns, which narrow down the partitions.
//!
//! The columns of a node are the columns of the problem that satisfy all its rules. There are three kinds of
//! rules.
//!
//! - **Pairs.** Two units are *together* if a column holds both or neither, and *apart* if it holds at most one of them
//!   (Ryan and Foster, "An integer programming approach to scheduling", 1981). In every partition into columns a pair
//!   is either together or apart, so the two rules split a node's partitions in two.
//! - **Bars.** A column of a given kind does not hold a given unit. With several kinds, a unit is barred either from
//!   one kind or from all others.
//! - **Placed columns.** Some columns are part of the partition; the other columns hold none of their units and share
//!   the remaining devices. Diving places columns.
//!
//! Rules only remove columns, so a bound on the columns of the problem also bounds the columns of a node. Pricing
//! carries pairs as state: the decision on the first unit of a pair is remembered until the decision on the last
//! ([`super::states`]); bars and placed columns forbid a decision directly.

use std::sync::Arc;

use stagewright_core::contraction::UnitId;
use stagewright_core::ids::Keyed;

use super::kind::Kind;

/// A set that one stage can hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Index of the kind of the column.
    pub kind: usize,
    /// Units of the column, ascending.
    pub units: Arc<[UnitId]>,
    /// Minimum threshold at which the set is a column.
    pub needs: f64,
}

impl Column {
    /// Whether the column holds a unit. O(log units).
    pub fn holds(&self, unit: UnitId) -> bool {
        self.units.binary_search(&unit).is_ok()
    }
}

/// Two units, together or apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The units.
    pub units: [UnitId; 2],
    /// Whether a column holds both or neither; otherwise it holds at most one.
    pub together: bool,
}

/// A unit barred from the columns of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bar {
    /// The kind.
    pub kind: usize,
    /// The unit.
    pub unit: UnitId,
}

/// Rules of a node; empty at the root.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rules {
    /// Units together or apart.
    pub pairs: Vec<Pair>,
    /// Units barred from kinds.
    pub bars: Vec<Bar>,
    /// Columns that are part of the partition.
    pub placed: Vec<Column>,
}

impl Rules {
    /// Whether a column satisfies all rules. O(rules · log units).
    pub fn admit(&self, column: &Column) -> bool {
        let by_pair = |pair: &Pair| match pair.units.map(|unit| column.holds(unit)) {
            [true, true] => pair.together,
            [false, false] => true,
            _ => !pair.together,
        };
        self.pairs.iter().all(by_pair)
            && self.bars.iter().all(|bar| bar.kind != column.kind || !column.holds(bar.unit))
            && !self.placed.iter().any(|placed| placed.units.iter().any(|&unit| column.holds(unit)))
    }

    /// For each unit, whether it is in a placed column.
    pub fn is_placed(&self, units: usize) -> Keyed<UnitId, bool> {
        let mut placed = Keyed::filled(false, units);
        for &unit in self.placed.iter().flat_map(|column| column.units.iter()) {
            placed[unit] = true;
        }
        placed
    }

    /// Number of devices of each pool that the placed columns do not take.
    pub fn devices_left(&self, devices: &[u32], kinds: &[Kind]) -> Vec<u32> {
        let mut left = devices.to_vec();
        for kind in self.placed.iter().map(|column| &kinds[column.kind]) {
            left[kind.pool] = left[kind.pool].saturating_sub(kind.replicas);
        }
        left
    }

    /// The kinds, restricted by bars and placed columns.
    pub fn narrow(&self, kinds: &[Kind]) -> Vec<Kind> {
        let mut kinds = kinds.to_vec();
        for bar in &self.bars {
            kinds[bar.kind].allowed[bar.unit] = false;
        }
        for &unit in self.placed.iter().flat_map(|column| column.units.iter()) {
            kinds.iter_mut().for_each(|kind| kind.allowed[unit] = false);
        }
        kinds
    }
}
