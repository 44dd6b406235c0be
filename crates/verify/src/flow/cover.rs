//! The cheapest cover of a layer: nodes that together serve more than a flow, each at its price by the number of its layers.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Partial covers after which a search gives up.
const LIMIT: usize = 2_000_000;

/// A cover that may lack members, ordered so that the one with the least estimate comes first.
struct Partial {
    /// Lower bound on the cost of a whole cover that has these members.
    estimate: f64,
    cost: f64,
    missing: f64,
    /// Members that may be added: this one and those after it.
    next: usize,
    members: u32,
}

impl PartialEq for Partial {
    fn eq(&self, other: &Partial) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Partial {}

impl PartialOrd for Partial {
    fn partial_cmp(&self, other: &Partial) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Partial {
    fn cmp(&self, other: &Partial) -> Ordering {
        other.estimate.total_cmp(&self.estimate)
    }
}

/// Cost of the cheapest cover of at least `fewest` members that serves more than `flow`; infinite if there is none, `None` if
/// it is not found within a limit. Members are pairs of a rate and a cost, and may occur any number of times. Best first.
pub(super) fn cheapest(members: &[(f64, f64)], flow: f64, fewest: u32) -> Option<f64> {
    let mut kept = members.to_vec();
    // Of members that serve no more at no less cost one suffices.
    kept.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.total_cmp(&b.1)));
    let mut least = f64::INFINITY;
    kept.retain(|&(_, cost)| {
        let is_cheaper = cost < least;
        least = cost.min(least);
        is_cheaper
    });
    let ratio = kept.iter().map(|(rate, cost)| cost / rate).fold(f64::INFINITY, f64::min);
    let mut open = BinaryHeap::new();
    open.push(Partial { estimate: 0.0, cost: 0.0, missing: flow, next: 0, members: 0 });
    let mut pushed = 0;
    while pushed < LIMIT {
        let Some(partial) = open.pop() else { return Some(f64::INFINITY) };
        if partial.missing < 0.0 && partial.members >= fewest {
            return Some(partial.cost);
        }
        for (index, &(rate, cost)) in kept.iter().enumerate().skip(partial.next) {
            let (cost, missing) = (partial.cost + cost, partial.missing - rate);
            let estimate = cost + ratio * missing.max(0.0);
            open.push(Partial { estimate, cost, missing, next: index, members: partial.members + 1 });
            pushed += 1;
        }
    }
    None
}
