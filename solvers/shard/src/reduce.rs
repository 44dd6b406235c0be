//! Reductions that keep every optimal plan: strategies without an allowed partner are removed, a node whose strategy
//! follows from that of a neighbour is merged into the neighbour, and nodes with one strategy are folded into their
//! neighbours.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use stagewright_core::solver::Stop;

use crate::network::{Edge, Matrices, Matrix, Network, Node, Part, is_separable};

/// A smaller network with the same plans of finite cost.
#[derive(Debug)]
pub(crate) struct Reduced {
    /// The smaller network, in which the cost of a pair that is not allowed exceeds the cost of every plan.
    pub(crate) network: Network,
    /// The cost of a pair that is not allowed.
    pub(crate) forbidden: f64,
    /// Origin of the strategy of each original node.
    origins: Vec<Origin>,
    /// Merged nodes, each with the node that it was merged into, in order.
    pub(crate) merged: Vec<[u32; 2]>,
    /// The original node of every node of the smaller network.
    pub(crate) originals: Vec<u32>,
    /// The original point of every point of the smaller network.
    pub(crate) points: Vec<u32>,
}

#[derive(Debug, Clone)]
enum Origin {
    Fixed(u32),
    /// A node of the smaller network, and the original strategy for each of its strategies.
    Node(u32, Vec<u32>),
}

impl Reduced {
    /// The original strategies of a choice in the smaller network.
    pub(crate) fn lift(&self, choice: &[u32]) -> Vec<u32> {
        let strategy = |origin: &Origin| match origin {
            Origin::Fixed(strategy) => *strategy,
            Origin::Node(node, strategies) => strategies[choice[*node as usize] as usize],
        };
        self.origins.iter().map(strategy).collect()
    }

    /// The choice in the smaller network for original strategies; `None` if a reduction removed one of them.
    pub(crate) fn restrict(&self, strategies: &[u32]) -> Option<Vec<u32>> {
        // A node has the strategies of its original node, which determine those of the nodes merged into it.
        let strategy = |&original: &u32| match &self.origins[original as usize] {
            Origin::Fixed(_) => None,
            Origin::Node(_, mapped) => mapped
                .iter()
                .position(|&other| other == strategies[original as usize])
                .map(|index| index as u32),
        };
        let choice: Vec<u32> = self.originals.iter().map(strategy).collect::<Option<_>>()?;
        (self.lift(&choice) == strategies).then_some(choice)
    }
}

/// Maximum number of entries of the matrices of a merged node, unless the merge adds none.
const MAX_ENTRIES: usize = 1 << 22;

/// Reduces a network; `None` if it has no plan. Once stopped, it merges no more nodes. O(entries of all matrices ·
/// strategies) without merges; every merge copies the matrices of one node.
pub(crate) fn reduce(network: &Network, stop: &Stop) -> Option<Reduced> {
    let mut work = Work::new(network);
    work.propagate(stop);
    work.finish(network)
}

/// The matrices of a network during the reduction.
struct Work {
    /// Costs by node and strategy; infinite once a strategy is not allowed.
    cost: Vec<Vec<f64>>,
    /// For every node, the edge to each of its neighbours.
    adjacent: Vec<BTreeMap<u32, u32>>,
    /// The ends of every edge, and its costs, with one row for each strategy of the first end; the costs are empty once
    /// the edge is removed.
    edges: Vec<([u32; 2], Vec<f64>)>,
    queue: VecDeque<u32>,
    is_queued: Vec<bool>,
    /// The original nodes merged into each node, each with its strategy for every strategy of the node; empty once the
    /// node itself is merged.
    members: Vec<Vec<(u32, Vec<u32>)>>,
    merged: Vec<[u32; 2]>,
}

impl Work {
    fn new(network: &Network) -> Work {
        let count = network.nodes.len();
        let mut work = Work {
            cost: network.nodes.iter().map(|node| node.cost.clone()).collect(),
            adjacent: vec![BTreeMap::new(); count],
            edges: Vec::with_capacity(network.edges.len()),
            queue: VecDeque::new(),
            is_queued: Vec::new(),
            members: (0..count)
                .map(|node| vec![(node as u32, (0..network.count(node) as u32).collect())])
                .collect(),
            merged: Vec::new(),
        };
        for Edge { ends, matrix } in &network.edges {
            work.add(*ends, |first, second| matrix.by_first[first * matrix.columns + second]);
        }
        work
    }

    fn count(&self, node: u32) -> usize {
        self.cost[node as usize].len()
    }

    fn is_allowed(&self, node: u32, strategy: usize) -> bool {
        self.cost[node as usize][strategy].is_finite()
    }

    /// The cost of a strategy at one end of an edge with a strategy at the other end.
    fn pair(&self, edge: u32, node: u32, strategy: usize, other_at: usize) -> f64 {
        let ([first, second], costs) = &self.edges[edge as usize];
        let columns = self.count(*second);
        if *first == node {
            costs[strategy * columns + other_at]
        } else {
            costs[other_at * columns + strategy]
        }
    }

    fn enqueue(&mut self, edge: u32) {
        if !std::mem::replace(&mut self.is_queued[edge as usize], true) {
            self.queue.push_back(edge);
        }
    }

    /// Adds costs for the pairs of strategies of two nodes.
    fn add(&mut self, ends: [u32; 2], cost: impl Fn(usize, usize) -> f64) {
        let [rows, columns] = ends.map(|node| self.count(node));
        let pairs = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        let edge = match self.adjacent[ends[0] as usize].get(&ends[1]) {
            Some(&edge) => {
                let (known, costs) = &mut self.edges[edge as usize];
                for (row, column) in pairs {
                    let index = if *known == ends { row * columns + column } else { column * rows + row };
                    costs[index] += cost(row, column);
                }
                edge
            }
            None => {
                let edge = self.edges.len() as u32;
                self.edges.push((ends, pairs.map(|(row, column)| cost(row, column)).collect()));
                self.is_queued.push(false);
                self.adjacent[ends[0] as usize].insert(ends[1], edge);
                self.adjacent[ends[1] as usize].insert(ends[0], edge);
                edge
            }
        };
        self.enqueue(edge);
    }

    /// Removes strategies without a partner and merges nodes, until neither is possible.
    fn propagate(&mut self, stop: &Stop) {
        while let Some(edge) = self.queue.pop_front() {
            self.is_queued[edge as usize] = false;
            let (ends, costs) = &self.edges[edge as usize];
            if costs.is_empty() {
                continue;
            }
            let [first, second] = *ends;
            for [node, other] in [[first, second], [second, first]] {
                self.remove_unmatched(edge, node, other);
            }
            if stop.reason().is_some() {
                continue;
            }
            // If each end determines the other, the end with fewer matrices to copy is merged into the other.
            let degree = |node: u32| self.adjacent[node as usize].len();
            let [more, fewer] =
                if degree(first) < degree(second) { [second, first] } else { [first, second] };
            for [node, other] in [[more, fewer], [fewer, more]] {
                if let Some(partner) = self.partners(edge, node, other)
                    && self.may_merge(node, other)
                {
                    self.merge(edge, node, other, &partner);
                    break;
                }
            }
        }
    }

    fn remove_unmatched(&mut self, edge: u32, node: u32, other: u32) {
        let mut is_changed = false;
        for strategy in 0..self.count(node) {
            let matches = |other_at| {
                self.is_allowed(other, other_at) && self.pair(edge, node, strategy, other_at).is_finite()
            };
            if self.is_allowed(node, strategy) && !(0..self.count(other)).any(matches) {
                self.cost[node as usize][strategy] = f64::INFINITY;
                is_changed = true;
            }
        }
        if is_changed {
            for edge in self.adjacent[node as usize].values().copied().collect::<Vec<_>>() {
                self.enqueue(edge);
            }
        }
    }

    /// For every strategy of a node, the strategy of its neighbour; `None` unless every allowed strategy allows only
    /// one.
    fn partners(&self, edge: u32, node: u32, other: u32) -> Option<Vec<usize>> {
        let partner = |strategy| {
            if !self.is_allowed(node, strategy) {
                return Some(0);
            }
            let matches = |&other_at: &usize| {
                self.is_allowed(other, other_at) && self.pair(edge, node, strategy, other_at).is_finite()
            };
            let mut matching = (0..self.count(other)).filter(matches);
            let partner = matching.next()?;
            matching.next().is_none().then_some(partner)
        };
        (0..self.count(node)).map(partner).collect()
    }

    /// Whether the matrices stay small if `other` is merged into `node`.
    fn may_merge(&self, node: u32, other: u32) -> bool {
        let near = self.adjacent[other as usize].keys().map(|&near| self.count(near)).sum::<usize>();
        self.count(node) <= self.count(other) || self.count(node).saturating_mul(near) <= MAX_ENTRIES
    }

    /// Merges `other` into `node`, whose strategy determines that of `other`.
    fn merge(&mut self, edge: u32, node: u32, other: u32, partner: &[usize]) {
        self.merged.push([node, other]);
        for (strategy, &other_at) in partner
            .iter()
            .enumerate()
            .filter(|&(strategy, _)| self.is_allowed(node, strategy))
            .collect::<Vec<_>>()
        {
            self.cost[node as usize][strategy] +=
                self.pair(edge, node, strategy, other_at) + self.cost[other as usize][other_at];
        }
        self.edges[edge as usize].1.clear();
        self.adjacent[node as usize].remove(&other);
        self.adjacent[other as usize].remove(&node);
        let columns = self.count(other);
        for (third, moved) in std::mem::take(&mut self.adjacent[other as usize]) {
            self.adjacent[third as usize].remove(&other);
            let (ends, costs) = &mut self.edges[moved as usize];
            let (ends, costs) = (*ends, std::mem::take(costs));
            let width = self.count(third);
            self.add([node, third], |strategy, third_at| match ends[0] == other {
                true => costs[partner[strategy] * width + third_at],
                false => costs[third_at * columns + partner[strategy]],
            });
        }
        for (member, strategies) in std::mem::take(&mut self.members[other as usize]) {
            self.members[node as usize]
                .push((member, partner.iter().map(|&strategy| strategies[strategy]).collect()));
        }
    }

    fn finish(self, network: &Network) -> Option<Reduced> {
        let count = self.cost.len();
        let kept: Vec<Vec<usize>> = (0..count as u32)
            .map(|node| match self.members[node as usize].is_empty() {
                true => Vec::new(),
                false => (0..self.count(node)).filter(|&strategy| self.is_allowed(node, strategy)).collect(),
            })
            .collect();
        if (0..count).any(|node| !self.members[node].is_empty() && kept[node].is_empty()) {
            return None;
        }
        let Kept { base, points, parts } = self.points(network, &kept)?;
        let mut reduced = Reduced {
            network: Network { base, limit: network.limit, constant: network.constant, ..Network::default() },
            forbidden: 0.0,
            origins: vec![Origin::Fixed(0); count],
            merged: Vec::new(),
            originals: Vec::new(),
            points,
        };
        let number = self.add_nodes(&mut reduced, &kept, parts);
        let edges = self.add_edges(&mut reduced, &kept, &number);
        reduced.merged = self.merged;
        reduced.with_edges(edges)
    }

    /// Adds the nodes with a choice of strategies, and the costs of those without one. Returns the new number of every
    /// node.
    fn add_nodes(
        &self,
        reduced: &mut Reduced,
        kept: &[Vec<usize>],
        mut parts: Vec<Vec<Part>>,
    ) -> Vec<Option<u32>> {
        let mut number = vec![None; kept.len()];
        for (node, kept) in kept.iter().enumerate() {
            match kept[..] {
                [] => {}
                [strategy] => {
                    reduced.network.constant += self.cost[node][strategy];
                    for (member, strategies) in &self.members[node] {
                        reduced.origins[*member as usize] = Origin::Fixed(strategies[strategy]);
                    }
                }
                _ => {
                    let new = reduced.network.nodes.len() as u32;
                    number[node] = Some(new);
                    for (member, strategies) in &self.members[node] {
                        let strategies = kept.iter().map(|&index| strategies[index]).collect();
                        reduced.origins[*member as usize] = Origin::Node(new, strategies);
                    }
                    let cost = kept.iter().map(|&index| self.cost[node][index]).collect();
                    reduced.network.nodes.push(Node { cost, parts: std::mem::take(&mut parts[node]) });
                    reduced.originals.push(node as u32);
                }
            }
        }
        number
    }

    /// Adds the costs of edges with an end that has no choice, and returns the other edges, sorted by their ends.
    fn add_edges(
        &self,
        reduced: &mut Reduced,
        kept: &[Vec<usize>],
        number: &[Option<u32>],
    ) -> Vec<([u32; 2], Vec<f64>)> {
        let mut edges = Vec::new();
        for (ends, costs) in self.edges.iter().filter(|(_, costs)| !costs.is_empty()) {
            let columns = self.cost[ends[1] as usize].len();
            let [first, second] = ends.map(|node| &kept[node as usize]);
            let cost = |row: usize, other_at: usize| costs[row * columns + other_at];
            match ends.map(|node| number[node as usize]) {
                [None, None] => reduced.network.constant += cost(first[0], second[0]),
                [None, Some(node)] => {
                    let added = second.iter().map(|&column| cost(first[0], column));
                    add(&mut reduced.network.nodes[node as usize].cost, added);
                }
                [Some(node), None] => {
                    let added = first.iter().map(|&row| cost(row, second[0]));
                    add(&mut reduced.network.nodes[node as usize].cost, added);
                }
                [Some(left), Some(right)] if left < right => {
                    let by_first = first.iter().flat_map(|&row| second.iter().map(move |&to| cost(row, to)));
                    edges.push(([left, right], by_first.collect::<Vec<f64>>()));
                }
                [Some(left), Some(right)] => {
                    let by_first = second.iter().flat_map(|&to| first.iter().map(move |&row| cost(row, to)));
                    edges.push(([right, left], by_first.collect::<Vec<f64>>()));
                }
            }
        }
        edges.sort_by_key(|edge| edge.0);
        edges
    }

    /// The points at which some choice of allowed strategies may exceed the limit; `None` if even the minimum usage
    /// exceeds it.
    fn points(&self, network: &Network, kept: &[Vec<usize>]) -> Option<Kept> {
        let points = network.base.len();
        let (mut least, mut largest) = (vec![0.0; points + 1], vec![0.0; points + 1]);
        let mut parts: Vec<Vec<Part>> = vec![Vec::new(); kept.len()];
        for (node, kept) in kept.iter().enumerate() {
            // Parts that cover the same points are merged.
            let mut by_span: BTreeMap<[u32; 2], Vec<f64>> = BTreeMap::new();
            for (member, strategies) in &self.members[node] {
                for part in &network.nodes[*member as usize].parts {
                    let sum = by_span.entry(part.span).or_insert_with(|| vec![0.0; kept.len()]);
                    for (sum, &strategy) in sum.iter_mut().zip(kept) {
                        *sum += part.usage[strategies[strategy] as usize];
                    }
                }
            }
            for (span, mut usage) in by_span {
                let low = usage.iter().copied().fold(f64::INFINITY, f64::min);
                let high = usage.iter().copied().fold(0.0, f64::max);
                let [first, last] = span.map(|point| point as usize);
                least[first] += low;
                least[last] -= low;
                largest[first] += high - low;
                largest[last] -= high - low;
                if high > low {
                    usage.iter_mut().for_each(|usage| *usage -= low);
                    parts[node].push(Part { span, usage });
                }
            }
        }
        let (mut low, mut high) = (0.0, 0.0);
        let (mut position, mut base, mut numbers) = (Vec::with_capacity(points + 1), Vec::new(), Vec::new());
        for point in 0..points {
            low += least[point];
            high += largest[point];
            position.push(base.len() as u32);
            let fixed = network.base[point] + low;
            if fixed > network.limit {
                return None;
            }
            if fixed + high > network.limit {
                base.push(fixed);
                numbers.push(point as u32);
            }
        }
        position.push(base.len() as u32);
        for parts in &mut parts {
            for part in parts.iter_mut() {
                part.span = part.span.map(|point| position[point as usize]);
            }
            parts.retain(|part| part.span[0] < part.span[1]);
        }
        Some(Kept { base, points: numbers, parts })
    }
}

/// The remaining points, and the parts of every node.
struct Kept {
    base: Vec<f64>,
    points: Vec<u32>,
    parts: Vec<Vec<Part>>,
}

impl Reduced {
    /// Adds the edges, and gives pairs that are not allowed a finite cost.
    fn with_edges(mut self, edges: Vec<([u32; 2], Vec<f64>)>) -> Option<Reduced> {
        let network = &mut self.network;
        let mut edges: Vec<_> = edges
            .into_iter()
            .filter_map(|(ends, costs)| {
                let columns = network.nodes[ends[1] as usize].cost.len();
                if !is_separable(columns, &costs) {
                    return Some((ends, columns, costs));
                }
                let [first, second] = ends.map(|node| node as usize);
                let least = |row: &[f64]| row.iter().copied().fold(f64::INFINITY, f64::min);
                let low = least(&costs[..columns]);
                add(&mut network.nodes[first].cost, costs.chunks_exact(columns).map(least));
                add(&mut network.nodes[second].cost, costs[..columns].iter().map(|cost| cost - low));
                None
            })
            .collect();
        let largest =
            |costs: &[f64]| costs.iter().copied().filter(|cost| cost.is_finite()).fold(0.0, f64::max);
        let of_nodes: f64 = network.nodes.iter().map(|node| largest(&node.cost)).sum();
        let of_edges: f64 = edges.iter().map(|(_, _, costs)| largest(costs)).sum();
        // More than twice the cost of any plan, so that rounding cannot confuse a forbidden pair with a plan.
        self.forbidden = 2.0 * (network.constant + of_nodes + of_edges) + 1.0;
        let mut matrices = Matrices::default();
        for (_, _, costs) in &mut edges {
            costs.iter_mut().for_each(|cost| *cost = cost.min(self.forbidden));
        }
        network.edges = edges
            .into_iter()
            .map(|(ends, columns, costs)| -> Edge {
                let matrix: Arc<Matrix> = matrices.get(columns, costs);
                Edge { ends, matrix }
            })
            .collect();
        network.constant.is_finite().then_some(self)
    }
}

fn add(sums: &mut [f64], added: impl Iterator<Item = f64>) {
    sums.iter_mut().zip(added).for_each(|(sum, added)| *sum += added);
}
