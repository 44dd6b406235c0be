//! A problem in the form that the algorithms use: costs as floating-point numbers, usage at numbered points in time.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::problem::Problem;

/// Costs of the pairs of strategies of two nodes. A pair that is not allowed has infinite cost, or in a reduced network a
/// cost above that of any plan.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Matrix {
    /// Number of strategies of the second node.
    pub(crate) columns: usize,
    /// Costs with one row for each strategy of the first node.
    pub(crate) by_first: Vec<f64>,
    /// Costs with one row for each strategy of the second node.
    pub(crate) by_second: Vec<f64>,
}

impl Matrix {
    pub(crate) fn new(columns: usize, by_first: Vec<f64>) -> Matrix {
        let by_second =
            (0..columns).flat_map(|column| by_first.iter().skip(column).step_by(columns).copied()).collect();
        Matrix { columns, by_first, by_second }
    }

    pub(crate) fn rows(&self) -> usize {
        self.by_first.len() / self.columns
    }
}

/// Usage of a node while it is live.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    /// Half-open range of the points at which the node is live.
    pub(crate) span: [u32; 2],
    /// Usage for each strategy.
    pub(crate) usage: Vec<f64>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Node {
    /// Cost of each strategy.
    pub(crate) cost: Vec<f64>,
    pub(crate) parts: Vec<Part>,
}

#[derive(Debug, Clone)]
pub(crate) struct Edge {
    pub(crate) ends: [u32; 2],
    pub(crate) matrix: Arc<Matrix>,
}

/// Nodes, edges, and points in time, each with the usage that no choice changes. A reduced network has at most one edge
/// between two nodes, with the smaller node first, and its edges are sorted by their ends.
#[derive(Debug, Clone, Default)]
pub(crate) struct Network {
    pub(crate) nodes: Vec<Node>,
    pub(crate) edges: Vec<Edge>,
    /// Usage at every point that no choice changes.
    pub(crate) base: Vec<f64>,
    pub(crate) limit: f64,
    pub(crate) constant: f64,
}

/// Matrices without duplicates.
#[derive(Debug, Default)]
pub(crate) struct Matrices(FxHashMap<(usize, Vec<u64>), Arc<Matrix>>);

impl Matrices {
    pub(crate) fn get(&mut self, columns: usize, by_first: Vec<f64>) -> Arc<Matrix> {
        let key = (columns, by_first.iter().map(|cost| cost.to_bits()).collect());
        self.0.entry(key).or_insert_with(|| Arc::new(Matrix::new(columns, by_first))).clone()
    }
}

/// Whether every cost is the sum of a term of its row and a term of its column.
pub(crate) fn is_separable(columns: usize, by_first: &[f64]) -> bool {
    let Some(first) = by_first.get(..columns) else { return true };
    by_first.chunks_exact(columns).all(|row| {
        let mut pairs = row.iter().zip(first);
        // Differences of integers are exact even where their sums may not be.
        pairs.all(|(&cost, &at_first)| cost.is_finite() && cost - row[0] == at_first - first[0])
    })
}

impl Network {
    /// The network of a problem, with the time of every point. Costs of at least `cutoff` are not allowed. Points are
    /// the times at which the set of live nodes is maximal.
    pub(crate) fn new(problem: &Problem, cutoff: i64) -> (Network, Vec<i64>) {
        let document = problem.document();
        let cost = |&cost: &i64| if cost >= cutoff { f64::INFINITY } else { cost as f64 };
        let intervals = &document.nodes.intervals;
        let mut events: Vec<(i64, bool, usize)> = Vec::with_capacity(2 * intervals.len());
        for (node, &[start, end]) in intervals.iter().enumerate().filter(|(_, [start, end])| start < end) {
            events.extend([(start, true, node), (end, false, node)]);
        }
        // At the same time, ends precede starts.
        events.sort_unstable();
        let (mut spans, mut times, mut latest) = (vec![[0; 2]; intervals.len()], Vec::new(), None);
        for (time, begins, node) in events {
            if begins {
                spans[node][0] = times.len() as u32;
                latest = Some(time);
            } else {
                times.extend(latest.take());
                spans[node][1] = times.len() as u32;
            }
        }
        let nodes = spans
            .into_iter()
            .zip(document.nodes.costs.iter().zip(&document.nodes.usages))
            .map(|(span, (costs, usages))| {
                let usage = usages.iter().map(|&usage| usage as f64).collect();
                let parts = if span[0] < span[1] { vec![Part { span, usage }] } else { Vec::new() };
                Node { cost: costs.iter().map(cost).collect(), parts }
            })
            .collect();
        let mut matrices = Matrices::default();
        let edges =
            document.edges.nodes.iter().zip(&document.edges.costs).map(|(&[first, second], costs)| {
                let ends = [first as u32, second as u32];
                let columns = document.nodes.costs[second].len();
                let matrix = matrices.get(columns, costs.iter().map(cost).collect());
                Edge { ends, matrix }
            });
        let edges = edges.collect();
        let limit = document.usage_limit.map_or(f64::INFINITY, |limit| limit as f64);
        (Network { nodes, edges, base: vec![0.0; times.len()], limit, constant: 0.0 }, times)
    }

    /// Number of strategies of a node.
    pub(crate) fn count(&self, node: usize) -> usize {
        self.nodes[node].cost.len()
    }

    /// The cost of a choice. If the choice is not allowed, its cost is infinite, or in a reduced network above that of
    /// any plan.
    pub(crate) fn cost(&self, choice: &[u32]) -> f64 {
        let nodes = self.nodes.iter().zip(choice).map(|(node, &strategy)| node.cost[strategy as usize]);
        let edges = self.edges.iter().map(|edge| {
            let [first, second] = edge.ends.map(|node| choice[node as usize] as usize);
            edge.matrix.by_first[first * edge.matrix.columns + second]
        });
        self.constant + nodes.chain(edges).sum::<f64>()
    }

    /// The usage of a choice at every point.
    pub(crate) fn usage(&self, choice: &[u32], usage: &mut Vec<f64>) {
        usage.clear();
        usage.resize(self.base.len() + 1, 0.0);
        for (node, &strategy) in self.nodes.iter().zip(choice) {
            for part in &node.parts {
                let amount = part.usage[strategy as usize];
                usage[part.span[0] as usize] += amount;
                usage[part.span[1] as usize] -= amount;
            }
        }
        usage.pop();
        let mut sum = 0.0;
        for (usage, &base) in usage.iter_mut().zip(&self.base) {
            sum += *usage;
            *usage = sum + base;
        }
    }

    /// The costs of the strategies of a node, given the strategy `other` at the other end of an edge.
    pub(crate) fn row(&self, edge: u32, node: u32, other: usize) -> &[f64] {
        let Edge { ends, matrix } = &self.edges[edge as usize];
        match ends[0] == node {
            true => &matrix.by_second[other * matrix.rows()..][..matrix.rows()],
            false => &matrix.by_first[other * matrix.columns..][..matrix.columns],
        }
    }
}

/// The edges of every node.
#[derive(Debug, Clone)]
pub(crate) struct Adjacency(Vec<Vec<(u32, u32)>>);

impl Adjacency {
    pub(crate) fn new(network: &Network) -> Adjacency {
        let mut adjacent = vec![Vec::new(); network.nodes.len()];
        for (index, edge) in network.edges.iter().enumerate() {
            let [first, second] = edge.ends;
            adjacent[first as usize].push((second, index as u32));
            adjacent[second as usize].push((first, index as u32));
        }
        Adjacency(adjacent)
    }

    /// The neighbours of a node, each with the edge to it.
    pub(crate) fn of(&self, node: usize) -> &[(u32, u32)] {
        &self.0[node]
    }
}
