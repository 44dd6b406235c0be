//! METIS as a partitioner of weighted graphs: recursive multilevel bisection.
//!
//! Karypis and Kumar, "A fast and high quality multilevel scheme for partitioning irregular graphs", SIAM
//! Journal on Scientific Computing 20(1), 1998. The recursion is ours, since METIS's own continues into
//! halves without a node and reports that on standard output; every graph passed to it here has more than two
//! nodes and two parts.
//!
//! METIS counts in 32 bits: weights are scaled so that their sums stay below 2²⁹, and a weight of zero
//! becomes 1. It draws from the generator of the C library, which is shared by the process. Since calls are
//! serialised and each is seeded, the parts are a function of graph and seed on a given platform. During a
//! call, METIS handles SIGABRT and SIGTERM.

use std::sync::{Mutex, PoisonError};

use metis::option::Seed;
use metis::{Graph, Idx};
use stagewright_core::contraction::UnitId;
use stagewright_core::csr::Csr;
use stagewright_core::ids::Keyed;

/// Cargo feature that this build lacks: none.
pub(in super::super) const MISSING_FEATURE: Option<&str> = None;

/// Scaled total weight of all nodes, and of all edges.
const SCALE: f64 = (1u32 << 28) as f64;

/// Place of a node outside the current half.
const OUTSIDE: Idx = -1;

/// An undirected graph, with the neighbours of each node and the weights of the edges to them.
#[derive(Debug, Clone)]
pub(in super::super) struct WeightedGraph {
    nodes: Keyed<UnitId, f64>,
    neighbours: Csr<(UnitId, f64)>,
}

impl WeightedGraph {
    /// The graph of the node weights and of the edges (from, to, weight) without loops; parallel edges are
    /// summed.
    pub(in super::super) fn new(nodes: Keyed<UnitId, f64>, edges: &[(UnitId, UnitId, f64)]) -> WeightedGraph {
        let mut ends: Vec<(UnitId, UnitId, f64)> =
            edges.iter().flat_map(|&(from, to, weight)| [(from, to, weight), (to, from, weight)]).collect();
        // Stable, so that parallel edges are summed in one order.
        ends.sort_by_key(|&(from, to, _)| (from, to));
        ends.dedup_by(|next, kept| {
            let parallel = (next.0, next.1) == (kept.0, kept.1);
            if parallel {
                kept.2 += next.2;
            }
            parallel
        });
        let ends = ends.into_iter().map(|(from, to, weight)| (from, (to, weight)));
        WeightedGraph { neighbours: Csr::from_sorted(nodes.len(), ends), nodes }
    }

    /// Assigns each node to one of the parts, which have nearly equal weight and few edges between them. A
    /// part may stay empty if a single node outweighs its share.
    ///
    /// # Errors
    /// If the graph has more edges than METIS can count, or METIS is out of memory.
    pub(in super::super) fn partition(
        &self,
        parts: usize,
        seed: u64,
    ) -> Result<Keyed<UnitId, usize>, String> {
        let mut part_of = Keyed::filled(0, self.nodes.len());
        let mut open = vec![(self.nodes.ids().collect::<Vec<UnitId>>(), 0, parts)];
        // Place of a node in the current half.
        let mut place = Keyed::filled(OUTSIDE, self.nodes.len());
        while let Some((nodes, first, parts)) = open.pop() {
            if parts <= 1 {
                nodes.iter().for_each(|&node| part_of[node] = first);
            } else if nodes.len() <= parts {
                nodes.iter().zip(first..).for_each(|(&node, part)| part_of[node] = part);
            } else {
                let less = parts / 2;
                let halves = self.bisect(&nodes, &mut place, (less, parts), seed);
                let (left, right) = halves.map_err(|error| format!("METIS failed: {error}"))?;
                open.push((left, first, less));
                open.push((right, first + less, parts - less));
            }
        }
        Ok(part_of)
    }

    /// Splits more than two nodes so that the first half has `share.0` of `share.1` parts of the weight.
    fn bisect(
        &self,
        nodes: &[UnitId],
        place: &mut Keyed<UnitId, Idx>,
        share: (usize, usize),
        seed: u64,
    ) -> Result<(Vec<UnitId>, Vec<UnitId>), metis::Error> {
        for (position, &node) in (0..).zip(nodes) {
            place[node] = position;
        }
        let mut offsets: Vec<Idx> = vec![0];
        let (mut neighbours, mut edge_weights) = (Vec::new(), Vec::new());
        for &node in nodes {
            for &(other, weight) in self.neighbours.row(node) {
                if place[other] != OUTSIDE {
                    neighbours.push(place[other]);
                    edge_weights.push(weight);
                }
            }
            offsets.push(Idx::try_from(neighbours.len()).map_err(|_| metis::Error::Input)?);
        }
        nodes.iter().for_each(|&node| place[node] = OUTSIDE);
        let node_weights = scaled(nodes.iter().map(|&node| self.nodes[node]).collect());
        let edge_weights = scaled(edge_weights);
        let left = share.0 as f32 / share.1 as f32;
        let targets = [left, 1.0 - left];
        let mut halves = vec![0; nodes.len()];
        let graph = Graph::new(1, 2, &offsets, &neighbours)?
            .set_vwgt(&node_weights)
            .set_adjwgt(&edge_weights)
            .set_tpwgts(&targets)
            .set_option(Seed((seed % Idx::MAX as u64) as Idx));
        {
            static GENERATOR: Mutex<()> = Mutex::new(());
            let _alone = GENERATOR.lock().unwrap_or_else(PoisonError::into_inner);
            graph.part_recursive(&mut halves)?;
        }
        let half = |wanted: Idx| {
            let chosen = nodes.iter().zip(&halves).filter(|&(_, &half)| half == wanted);
            chosen.map(|(&node, _)| node).collect()
        };
        Ok((half(0), half(1)))
    }
}

/// Proportional integer weights of at least 1.
fn scaled(weights: Vec<f64>) -> Vec<Idx> {
    let total: f64 = weights.iter().sum();
    let factor = if total > 0.0 { SCALE / total } else { 0.0 };
    weights.into_iter().map(|weight| ((weight * factor).round() as Idx).max(1)).collect()
}

#[cfg(test)]
mod tests {
    use rand::RngExt;
    use stagewright_core::seed;

    use super::*;

    fn cut(graph: &WeightedGraph, part_of: &Keyed<UnitId, usize>) -> f64 {
        let both: f64 = part_of
            .ids()
            .flat_map(|node| {
                graph.neighbours.row(node).iter().map(move |&(other, weight)| (node, other, weight))
            })
            .filter(|&(node, other, _)| part_of[node] != part_of[other])
            .map(|(_, _, weight)| weight)
            .sum();
        both / 2.0
    }

    #[test]
    fn cliques_with_weak_links_are_found() {
        let mut edges = Vec::new();
        let node = |clique: u32, member: u32| UnitId(5 * (clique % 4) + member);
        for clique in 0..4 {
            for member in 0..5 {
                edges.extend((0..member).map(|other| (node(clique, member), node(clique, other), 1.0)));
            }
            edges.push((node(clique, 0), node(clique + 1, 1), 1e-3));
        }
        let graph = WeightedGraph::new(Keyed::filled(1.0, 20), &edges);
        let part_of = graph.partition(4, 0).expect("a partition");
        assert!((cut(&graph, &part_of) - 4e-3).abs() < 1e-12, "{part_of:?}");
    }

    #[test]
    fn a_path_is_cut_once_for_each_further_part() {
        let edges: Vec<_> = (1..12).map(|node| (UnitId(node - 1), UnitId(node), 1.0)).collect();
        let graph = WeightedGraph::new(Keyed::filled(1.0, 12), &edges);
        let part_of = graph.partition(3, 0).expect("a partition");
        assert_eq!(cut(&graph, &part_of), 2.0);
        for part in 0..3 {
            assert_eq!(part_of.iter().filter(|&&own_part| own_part == part).count(), 4, "{part_of:?}");
        }
    }

    #[test]
    fn any_graph_is_partitioned_the_same_way_twice() {
        for number in 0..2000 {
            let mut rng = seed::stream(0x9A27, number);
            let count = rng.random_range(0..30u32);
            let nodes = (0..count).map(|_| 10f64.powi(rng.random_range(-12..12))).collect();
            let mut edges = Vec::new();
            for to in (0..count).map(UnitId) {
                for from in (0..to.0).map(UnitId) {
                    if rng.random_bool(0.2) {
                        edges.push((from, to, if rng.random_bool(0.2) { 0.0 } else { rng.random() }));
                    }
                }
            }
            let graph = WeightedGraph::new(nodes, &edges);
            let parts = rng.random_range(1..12u32) as usize;
            let part_of = graph.partition(parts, number).expect("a partition");
            assert!(part_of.len() == graph.nodes.len() && part_of.iter().all(|&part| part < parts));
            assert_eq!(graph.partition(parts, number), Ok(part_of), "{number}");
        }
    }
}
