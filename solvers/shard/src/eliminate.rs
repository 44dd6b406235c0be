//! Elimination of nodes with at most two neighbours, at given costs.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::network::{Matrix, Network};

/// Maximum number of triples of strategies: a node with two neighbours is not eliminated if it and they have more.
const MAX_TRIPLES: usize = 20_000;

/// The order of elimination, and the cost tables that it creates between the remaining nodes.
#[derive(Debug, Clone)]
pub(crate) struct Elimination {
    steps: Vec<Step>,
    pub(crate) edges: Vec<Edge>,
    /// Costs of the edges that have a table of their own, by the strategies of the first and of the second end.
    tables: [Vec<f64>; 2],
    /// The remaining nodes, ascending.
    pub(crate) core: Vec<u32>,
    /// The neighbours of every remaining node, each with the edge to it, ascending.
    pub(crate) adjacent: Vec<Vec<(u32, u32)>>,
    /// Index of the first strategy of every node in the list of all strategies.
    pub(crate) offsets: Vec<u32>,
    spare: Vec<f64>,
}

#[derive(Debug, Clone, Copy)]
struct Step {
    node: u32,
    /// The neighbours, each with the edge to it.
    neighbours: [Option<(u32, u32)>; 2],
    /// The edge between the neighbours, if there are two.
    between: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct Edge {
    pub(crate) ends: [u32; 2],
    matrix: Option<Arc<Matrix>>,
    /// Offset of the table of the edge, if it has one.
    table: Option<usize>,
}

/// The graph during the elimination.
struct Graph<'n> {
    network: &'n Network,
    edges: Vec<Edge>,
    /// For every node, the edge to each of its neighbours.
    adjacent: Vec<BTreeMap<u32, u32>>,
    /// Number of entries of all tables.
    size: usize,
}

impl Graph<'_> {
    fn new(network: &Network) -> Graph<'_> {
        let mut edges: Vec<Edge> = Vec::with_capacity(network.edges.len());
        let mut adjacent: Vec<BTreeMap<u32, u32>> = vec![BTreeMap::new(); network.nodes.len()];
        for edge in &network.edges {
            let [first, second] = edge.ends;
            adjacent[first as usize].insert(second, edges.len() as u32);
            adjacent[second as usize].insert(first, edges.len() as u32);
            edges.push(Edge { ends: edge.ends, matrix: Some(edge.matrix.clone()), table: None });
        }
        Graph { network, edges, adjacent, size: 0 }
    }

    /// Eliminates a node with at most two neighbours; `None` if their strategies form too many triples.
    fn eliminate(&mut self, node: u32) -> Option<Step> {
        let mut found = self.adjacent[node as usize].iter().map(|(&other, &edge)| (other, edge));
        let neighbours = [found.next(), found.next()];
        let between = match neighbours {
            [Some((left, _)), Some((right, _))] => self.join(node, left.min(right), left.max(right))?,
            _ => u32::MAX,
        };
        for (other, _) in neighbours.into_iter().flatten() {
            self.adjacent[other as usize].remove(&node);
        }
        Some(Step { node, neighbours, between })
    }

    /// The edge between the two neighbours of a node, which gets a table; `None` if the strategies form too many
    /// triples.
    fn join(&mut self, node: u32, first: u32, second: u32) -> Option<u32> {
        let pairs = self.network.count(first as usize) * self.network.count(second as usize);
        if pairs.saturating_mul(self.network.count(node as usize)) > MAX_TRIPLES {
            return None;
        }
        let next = self.edges.len() as u32;
        let between = *self.adjacent[first as usize].entry(second).or_insert(next);
        self.adjacent[second as usize].insert(first, between);
        if between == next {
            self.edges.push(Edge { ends: [first, second], matrix: None, table: None });
        }
        let table = &mut self.edges[between as usize].table;
        if table.is_none() {
            *table = Some(self.size);
            self.size += pairs;
        }
        Some(between)
    }
}

impl Elimination {
    /// Decides the order of elimination: nodes with one neighbour come first.
    pub(crate) fn new(network: &Network) -> Elimination {
        let count = network.nodes.len();
        let mut graph = Graph::new(network);
        let mut is_gone = vec![false; count];
        let mut steps = Vec::new();
        for max_degree in [1, 2] {
            let mut waiting: Vec<u32> = (0..count as u32).rev().collect();
            while let Some(node) = waiting.pop() {
                if is_gone[node as usize] || graph.adjacent[node as usize].len() > max_degree {
                    continue;
                }
                let Some(step) = graph.eliminate(node) else { continue };
                waiting.extend(step.neighbours.into_iter().flatten().map(|(other, _)| other));
                is_gone[node as usize] = true;
                steps.push(step);
            }
        }
        let core = (0..count as u32).filter(|&node| !is_gone[node as usize]).collect();
        let left = |(node, adjacent): (usize, BTreeMap<u32, u32>)| match is_gone[node] {
            true => Vec::new(),
            false => adjacent.into_iter().collect(),
        };
        let mut offsets = vec![0];
        for node in &network.nodes {
            offsets.push(offsets[offsets.len() - 1] + node.cost.len() as u32);
        }
        Elimination {
            steps,
            edges: graph.edges,
            tables: [vec![0.0; graph.size], vec![0.0; graph.size]],
            core,
            adjacent: graph.adjacent.into_iter().enumerate().map(left).collect(),
            offsets,
            spare: Vec::new(),
        }
    }

    /// The eliminated nodes, in order.
    pub(crate) fn eliminated(&self) -> impl Iterator<Item = u32> {
        self.steps.iter().map(|step| step.node)
    }

    /// Number of strategies of a node.
    #[inline]
    pub(crate) fn count(&self, node: u32) -> usize {
        (self.offsets[node as usize + 1] - self.offsets[node as usize]) as usize
    }

    /// Positions of the strategies of a node in the list of all strategies.
    #[inline]
    pub(crate) fn range(&self, node: u32) -> std::ops::Range<usize> {
        self.offsets[node as usize] as usize..self.offsets[node as usize + 1] as usize
    }

    /// The costs of an edge, with a row for every strategy of `node`, which is one of its ends.
    #[inline]
    pub(crate) fn rows(&self, edge: u32, node: u32) -> &[f64] {
        let Edge { ends, matrix, table } = &self.edges[edge as usize];
        let is_first = ends[0] == node;
        match (table, matrix) {
            (Some(offset), _) => {
                &self.tables[usize::from(!is_first)][*offset..][..self.count(ends[0]) * self.count(ends[1])]
            }
            (None, Some(matrix)) => {
                if is_first {
                    &matrix.by_first
                } else {
                    &matrix.by_second
                }
            }
            (None, None) => &[],
        }
    }

    /// Eliminates the nodes, given the costs of all strategies, which it updates. Returns the sum of the minimum costs
    /// of the nodes that have no neighbour when they are eliminated. Each of the O(steps) takes one addition for every
    /// pair or triple of strategies of its nodes.
    pub(crate) fn run(&mut self, costs: &mut [f64], forbidden: f64) -> f64 {
        self.fill_tables();
        let mut sum = 0.0;
        let mut spare = std::mem::take(&mut self.spare);
        for index in 0..self.steps.len() {
            let Step { node, neighbours, between } = self.steps[index];
            let range = self.range(node);
            match neighbours {
                [Some((other, edge)), None] => {
                    let columns = self.count(other);
                    spare.clear();
                    spare.resize(columns, f64::INFINITY);
                    for (row, cost) in self.rows(edge, node).chunks_exact(columns).zip(&costs[range]) {
                        lower(&mut spare, row, *cost);
                    }
                    costs[self.range(other)].iter_mut().zip(&spare).for_each(|(sum, cost)| *sum += cost);
                }
                [Some((first, to_one)), Some((second, to_other))] => {
                    let (inner, columns) = (range.len(), self.count(second));
                    let size = self.count(first) * columns;
                    spare.clear();
                    spare.resize(size, f64::INFINITY);
                    let from_node = self.rows(to_other, node);
                    for (least, pairs) in
                        spare.chunks_exact_mut(columns).zip(self.rows(to_one, first).chunks_exact(inner))
                    {
                        for ((row, pair), cost) in
                            from_node.chunks_exact(columns).zip(pairs).zip(&costs[range.clone()])
                        {
                            lower(least, row, cost + pair);
                        }
                    }
                    let Edge { ends, table, .. } = &self.edges[between as usize];
                    let (start, rows) =
                        (table.expect("an edge between neighbours has a table"), self.count(first));
                    let [by_one, by_other] = &mut self.tables;
                    let [by_one, by_other] =
                        if ends[0] == first { [by_one, by_other] } else { [by_other, by_one] };
                    for (row, least) in spare.chunks_exact(columns).enumerate() {
                        for (column, &cost) in least.iter().enumerate() {
                            let cost = cost.min(forbidden);
                            by_one[start + row * columns + column] += cost;
                            by_other[start + column * rows + row] += cost;
                        }
                    }
                }
                _ => sum += costs[range].iter().copied().fold(f64::INFINITY, f64::min),
            }
        }
        self.spare = spare;
        sum
    }

    /// Fills every table with the costs of its edge.
    fn fill_tables(&mut self) {
        for edge in &self.edges {
            let Some(offset) = edge.table else { continue };
            let size = self.count(edge.ends[0]) * self.count(edge.ends[1]);
            match &edge.matrix {
                Some(matrix) => {
                    self.tables[0][offset..offset + size].copy_from_slice(&matrix.by_first);
                    self.tables[1][offset..offset + size].copy_from_slice(&matrix.by_second);
                }
                None => self.tables.iter_mut().for_each(|table| table[offset..offset + size].fill(0.0)),
            }
        }
    }

    /// Extends a choice for the remaining nodes to the eliminated ones, given the costs after
    /// [`run`](Elimination::run).
    pub(crate) fn complete(&self, costs: &[f64], choice: &mut [u32]) {
        let mut sums = Vec::new();
        for step in self.steps.iter().rev() {
            sums.clear();
            sums.extend_from_slice(&costs[self.range(step.node)]);
            for (other, edge) in step.neighbours.into_iter().flatten() {
                let row = &self.rows(edge, other)[choice[other as usize] as usize * sums.len()..];
                sums.iter_mut().zip(row).for_each(|(sum, cost)| *sum += cost);
            }
            choice[step.node as usize] = least(&sums).0 as u32;
        }
    }
}

/// Replaces every entry by the entry of a row plus a cost, where that is less.
#[inline]
pub(crate) fn lower(least: &mut [f64], row: &[f64], cost: f64) {
    for (least, pair) in least.iter_mut().zip(row) {
        let sum = cost + pair;
        *least = if sum < *least { sum } else { *least };
    }
}

/// Position and value of the first minimal entry.
#[inline]
pub(crate) fn least(entries: &[f64]) -> (usize, f64) {
    let mut best = (0, f64::INFINITY);
    for (index, &entry) in entries.iter().enumerate() {
        if entry < best.1 {
            best = (index, entry);
        }
    }
    best
}
