//! What decides a value.

use serde::Serialize;

/// A resource, or a chain of activities, that takes as long as the value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bottleneck {
    /// What it is: `device acc3`, `uplink of group rack0`, `critical path`.
    pub resource: String,
    /// Seconds that it takes.
    pub seconds: f64,
    /// What of it takes how long. Compute and communication make up the whole as the objective has it: their sum, or
    /// the largest where one passes beside the other; the synchronisation of replicas comes on top.
    pub parts: Vec<Part>,
    /// What takes longest in it, the longest first.
    pub items: Vec<Item>,
}

/// A share of a bottleneck.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// `compute`, `sent`, `received` and the like.
    pub name: &'static str,
    /// Seconds.
    pub seconds: f64,
}

/// An operator or a tensor in a bottleneck.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Item {
    /// What it is called.
    pub name: String,
    /// What it is, and where it comes from or goes to.
    pub role: String,
    /// Seconds of the bottleneck that it takes.
    pub seconds: f64,
}

/// Items of each sort that are kept.
const KEPT: usize = 5;

/// The longest of them.
pub(super) fn longest(mut items: Vec<Item>) -> Vec<Item> {
    items.retain(|item| item.seconds > 0.0);
    items.sort_by(|one, other| other.seconds.total_cmp(&one.seconds).then_with(|| one.name.cmp(&other.name)));
    items.truncate(KEPT);
    items
}
