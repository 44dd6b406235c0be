//! Communication between sets of operators, as one edge for each pair of sets.

use stagewright_core::graph::ClassId;

use super::instance::Instance;

/// Source, target, and mean seconds of communication.
pub(super) type Edge<I> = (I, I, f64);

/// For each reader of each tensor, an edge from the colocation class of the producer to that of the reader.
pub(super) fn between_classes(instance: &Instance<'_>) -> Vec<Edge<ClassId>> {
    let graph = instance.graph();
    let mut edges = Vec::new();
    for tensor in graph.tensors() {
        let from = graph.class_of(graph.producer(tensor));
        let readers = graph.consumers(tensor).iter().map(|&op| graph.class_of(op));
        edges.extend(readers.map(|to| (from, to, instance.mean_transfer(tensor))));
    }
    edges
}

/// Sorts edges and merges parallel ones by adding their seconds. O(edges log edges).
pub(super) fn merge_parallel<I: Copy + Ord>(edges: &mut Vec<Edge<I>>) {
    // The sort is stable, so that sums do not depend on the sorting algorithm.
    edges.sort_by_key(|edge| (edge.0, edge.1));
    edges.dedup_by(|next, kept| {
        let is_parallel = (next.0, next.1) == (kept.0, kept.1);
        if is_parallel {
            kept.2 += next.2;
        }
        is_parallel
    });
}
