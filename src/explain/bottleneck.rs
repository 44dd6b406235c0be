//! The bottleneck of a plan.

use serde::Serialize;

/// A resource, or a chain of activities, whose time determines the value of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bottleneck {
    /// Name of the resource: `device acc3`, `uplink of group rack0`, `critical path`.
    pub resource: String,
    /// Time of the bottleneck in seconds.
    pub seconds: f64,
    /// Breakdown of the time. Compute and communication combine as in the objective, by their sum or, if they overlap,
    /// by their maximum; the synchronisation of gradients is added to the result.
    pub parts: Vec<Part>,
    /// Longest items of the bottleneck, in descending order.
    pub items: Vec<Item>,
}

/// A share of a bottleneck.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// Name of the share: `compute`, `sent`, `received` and the like.
    pub name: &'static str,
    /// Seconds.
    pub seconds: f64,
}

/// An operator or a tensor in a bottleneck.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Item {
    /// Name of the operator or tensor.
    pub name: String,
    /// Role of the operator or tensor, and its source or destination.
    pub role: String,
    /// Seconds of the bottleneck that the operator or tensor accounts for.
    pub seconds: f64,
}

/// Maximum number of items of each sort that a bottleneck lists.
const KEPT: usize = 5;

/// The longest of the items.
pub(super) fn longest(mut items: Vec<Item>) -> Vec<Item> {
    items.retain(|item| item.seconds > 0.0);
    items.sort_by(|left, right| {
        right.seconds.total_cmp(&left.seconds).then_with(|| left.name.cmp(&right.name))
    });
    items.truncate(KEPT);
    items
}
