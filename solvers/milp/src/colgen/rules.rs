//! What a node of the search forbids: rules on columns, by which a partition is narrowed down.
//!
//! The columns of a node are those of the problem that every rule admits. There are three kinds of rules.
//!
//! - **Pairs.** Two units are *together*: a column holds both or neither; or *apart*: it holds one of them at
//!   most (Ryan and Foster, "An integer programming approach to scheduling", 1981). In every partition into
//!   columns a pair is either together or apart, so the two rules split a node's partitions in two.
//! - **Bars.** A column of some kind does not hold some unit. Where there are several kinds, a unit is barred
//!   either from one of them or from all others.
//! - **Placed columns.** Some columns are part of the partition; the others hold none of their units and
//!   share the devices that are left. Diving places columns.
//!
//! Every rule only takes columns away, so whatever bounds the columns of the problem bounds those of a node.
//! Pricing carries pairs as state: the decision on the first of the two units is remembered until the last
//! ([`super::states`]); bars and placed columns forbid a decision where it is met.

use std::sync::Arc;

use super::kind::Kind;

/// A set that one stage can hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its kind.
    pub kind: usize,
    /// Ascending.
    pub units: Arc<[u32]>,
    /// The least threshold at which it is a column.
    pub needs: f64,
}

impl Column {
    /// Whether it holds a unit. O(log units).
    pub fn holds(&self, unit: u32) -> bool {
        self.units.binary_search(&unit).is_ok()
    }
}

/// Two units, together or apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The units.
    pub units: [u32; 2],
    /// Whether a column holds both or neither; else it holds one at most.
    pub together: bool,
}

/// A unit that columns of a kind do not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bar {
    /// The kind.
    pub kind: usize,
    /// The unit.
    pub unit: u32,
}

/// The rules of a node; none at the root.
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
    /// Whether a column is one of the node's. O(rules · log units).
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

    /// Per unit whether it is in a placed column.
    pub fn is_placed(&self, units: usize) -> Vec<bool> {
        let mut placed = vec![false; units];
        for &unit in self.placed.iter().flat_map(|column| column.units.iter()) {
            placed[unit as usize] = true;
        }
        placed
    }

    /// The devices of each pool that placed columns leave.
    pub fn devices_left(&self, devices: &[u32], kinds: &[Kind]) -> Vec<u32> {
        let mut left = devices.to_vec();
        for kind in self.placed.iter().map(|column| &kinds[column.kind]) {
            left[kind.pool] = left[kind.pool].saturating_sub(kind.replicas);
        }
        left
    }

    /// The kinds with what bars and placed columns forbid.
    pub fn narrow(&self, kinds: &[Kind]) -> Vec<Kind> {
        let mut kinds = kinds.to_vec();
        for bar in &self.bars {
            kinds[bar.kind].allowed[bar.unit as usize] = false;
        }
        for &unit in self.placed.iter().flat_map(|column| column.units.iter()) {
            kinds.iter_mut().for_each(|kind| kind.allowed[unit as usize] = false);
        }
        kinds
    }
}
