//! Upward and downward ranks: longest paths to the end and from the beginning of a step, with mean costs.
//!
//! The upward rank of an operator (Topcuoglu, Hariri and Wu, 2002) is the length of the longest path from it
//! to the end, its own mean seconds included, where every tensor on the path takes its mean seconds; the
//! downward rank is the length of the longest path from the beginning to it.

use stagewright_core::graph::OpId;

use super::instance::Instance;

/// The upward rank of every operator, including its own seconds. O(edges).
pub fn upward(instance: &Instance<'_>) -> Vec<f64> {
    let graph = instance.graph();
    let mut rank = vec![0.0f64; graph.operator_count()];
    for &op in graph.topological().iter().rev() {
        let mut after = 0.0f64;
        for &tensor in graph.outputs(op) {
            let readers = graph.consumers(tensor).iter().map(|reader| rank[reader.index()]);
            if let Some(largest) = readers.max_by(f64::total_cmp) {
                after = after.max(instance.mean_transfer(tensor) + largest);
            }
        }
        rank[op.index()] = instance.mean_seconds(op) + after;
    }
    rank
}

/// The downward rank of every operator, excluding its own seconds. O(edges).
pub fn downward(instance: &Instance<'_>) -> Vec<f64> {
    let graph = instance.graph();
    let mut rank = vec![0.0f64; graph.operator_count()];
    for &op in graph.topological() {
        let before = |&tensor| {
            let producer = graph.producer(tensor);
            rank[producer.index()] + instance.mean_seconds(producer) + instance.mean_transfer(tensor)
        };
        rank[op.index()] = graph.inputs(op).iter().map(before).fold(0.0, f64::max);
    }
    rank
}

/// All operators by decreasing rank, ties in topological order. If the rank never rises along an edge, the
/// order is topological.
pub fn falling(instance: &Instance<'_>, rank: &[f64]) -> Vec<OpId> {
    let mut order = instance.graph().topological().to_vec();
    order.sort_by(|a, b| rank[b.index()].total_cmp(&rank[a.index()]));
    order
}
