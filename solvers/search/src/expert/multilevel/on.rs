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

/// Scaled total weight of all nodes, and of all edges.
const SCALE: f64 = (1u32 << 28) as f64;

/// Place of a node outside the current half.
const OUTSIDE: u32 = u32::MAX;

/// An undirected graph: node v has the neighbours `edges[offsets[v]..offsets[v + 1]]`, each with a weight.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct WeightedGraph {
    nodes: Vec<f64>,
    offsets: Vec<usize>,
    edges: Vec<(u32, f64)>,
}

impl WeightedGraph {
    /// The graph of the node weights and of the edges (from, to, weight) without loops; parallel edges are
    /// summed.
    pub(in super::super) fn new(nodes: Vec<f64>, edges: &[(u32, u32, f64)]) -> WeightedGraph {
        let mut ends: Vec<(u32, u32, f64)> =
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
        let mut offsets = vec![0; nodes.len() + 1];
        for &(from, _, _) in &ends {
            offsets[from as usize + 1] += 1;
        }
        for node in 0..nodes.len() {
            offsets[node + 1] += offsets[node];
        }
        let edges = ends.into_iter().map(|(_, to, weight)| (to, weight)).collect();
        WeightedGraph { nodes, offsets, edges }
    }

    fn neighbours(&self, node: u32) -> &[(u32, f64)] {
        &self.edges[self.offsets[node as usize]..self.offsets[node as usize + 1]]
    }

    /// Assigns each node to one of the parts, which have nearly equal weight and few edges between them. A
    /// part may stay empty if a single node outweighs its share.
    ///
    /// # Errors
    /// If the graph has more edges than METIS can count, or METIS is out of memory.
    pub(in super::super) fn partition(&self, parts: u32, seed: u64) -> Result<Vec<u32>, String> {
        let mut part_of = vec![0; self.nodes.len()];
        let mut open = vec![((0..self.nodes.len() as u32).collect::<Vec<u32>>(), 0, parts)];
        // Place of a node in the current half.
        let mut place = vec![OUTSIDE; self.nodes.len()];
        while let Some((nodes, first, parts)) = open.pop() {
            if parts <= 1 {
                nodes.iter().for_each(|&node| part_of[node as usize] = first);
            } else if nodes.len() <= parts as usize {
                nodes.iter().zip(first..).for_each(|(&node, part)| part_of[node as usize] = part);
            } else {
                let less = parts / 2;
                let halves = self.bisect(&nodes, &mut place, (less, parts), seed);
                let (left, right) = halves.map_err(|error| format!("METIS made no partition: {error}"))?;
                open.push((left, first, less));
                open.push((right, first + less, parts - less));
            }
        }
        Ok(part_of)
    }

    /// Splits more than two nodes so that the first half has `share.0` of `share.1` parts of the weight.
    fn bisect(
        &self,
        nodes: &[u32],
        place: &mut [u32],
        share: (u32, u32),
        seed: u64,
    ) -> Result<(Vec<u32>, Vec<u32>), metis::Error> {
        for (at, &node) in nodes.iter().enumerate() {
            place[node as usize] = at as u32;
        }
        let mut offsets: Vec<Idx> = vec![0];
        let (mut neighbours, mut edge_weights) = (Vec::new(), Vec::new());
        for &node in nodes {
            for &(other, weight) in self.neighbours(node) {
                if place[other as usize] != OUTSIDE {
                    neighbours.push(place[other as usize] as Idx);
                    edge_weights.push(weight);
                }
            }
            offsets.push(Idx::try_from(neighbours.len()).map_err(|_| metis::Error::Input)?);
        }
        nodes.iter().for_each(|&node| place[node as usize] = OUTSIDE);
        let node_weights = scaled(nodes.iter().map(|&node| self.nodes[node as usize]).collect());
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

    fn cut(graph: &WeightedGraph, part_of: &[u32]) -> f64 {
        let both: f64 = (0..part_of.len() as u32)
            .flat_map(|node| graph.neighbours(node).iter().map(move |&(other, weight)| (node, other, weight)))
            .filter(|&(node, other, _)| part_of[node as usize] != part_of[other as usize])
            .map(|(_, _, weight)| weight)
            .sum();
        both / 2.0
    }

    #[test]
    fn cliques_with_weak_links_are_found() {
        let mut edges = Vec::new();
        for clique in 0..4u32 {
            for one in 0..5 {
                edges.extend((0..one).map(|other| (5 * clique + one, 5 * clique + other, 1.0)));
            }
            edges.push((5 * clique, 5 * ((clique + 1) % 4) + 1, 1e-3));
        }
        let graph = WeightedGraph::new(vec![1.0; 20], &edges);
        let part_of = graph.partition(4, 0).expect("a partition");
        assert!((cut(&graph, &part_of) - 4e-3).abs() < 1e-12, "{part_of:?}");
    }

    #[test]
    fn a_path_is_cut_once_for_each_further_part() {
        let edges: Vec<_> = (1..12).map(|node| (node - 1, node, 1.0)).collect();
        let graph = WeightedGraph::new(vec![1.0; 12], &edges);
        let part_of = graph.partition(3, 0).expect("a partition");
        assert_eq!(cut(&graph, &part_of), 2.0);
        for part in 0..3 {
            assert_eq!(part_of.iter().filter(|&&of| of == part).count(), 4, "{part_of:?}");
        }
    }

    #[test]
    fn any_graph_is_partitioned_the_same_way_twice() {
        for number in 0..2000 {
            let mut rng = seed::stream(0x9A27, number);
            let count = rng.random_range(0..30u32);
            let nodes = (0..count).map(|_| 10f64.powi(rng.random_range(-12..12))).collect();
            let mut edges = Vec::new();
            for to in 1..count {
                for from in 0..to {
                    if rng.random_bool(0.2) {
                        edges.push((from, to, if rng.random_bool(0.2) { 0.0 } else { rng.random() }));
                    }
                }
            }
            let graph = WeightedGraph::new(nodes, &edges);
            let parts = rng.random_range(1..12);
            let part_of = graph.partition(parts, number).expect("a partition");
            assert!(part_of.len() == count as usize && part_of.iter().all(|&part| part < parts));
            assert_eq!(graph.partition(parts, number), Ok(part_of), "{number}");
        }
    }
}
