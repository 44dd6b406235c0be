//! Minimum cuts: push-relabel with the highest label first (Goldberg and Tarjan 1988; Cherkassky and Goldberg 1997).
//!
//! [`MergedNets`] and the functions beside it add nets to a network, so that a cut pays for every net it divides.
//!
//! Capacities are integers, so a cut's value is exact and a bound derived from it is valid. Only the first phase is
//! run: it finds the minimum cut, and no flow is needed. petgraph's maximum flow clears arrays of the graph's size for
//! every augmenting path, which is infeasible for the networks here.

mod nets;

pub(crate) use nets::{MergedNets, add_net, add_ordered_net};

use stagewright_core::id;
use stagewright_core::ids::Keyed;
use stagewright_core::solver::Stop;

id! {
    /// Index of a node of a network.
    pub(crate) NodeId;
}

/// A capacity above the value of every cut that has no arc of this capacity.
pub(crate) const UNCUTTABLE: i64 = i64::MAX;

/// The source.
pub(crate) const SOURCE: NodeId = NodeId(0);
/// The sink.
pub(crate) const SINK: NodeId = NodeId(1);

/// A network under construction. Nodes 0 and 1 are the source and the sink.
#[derive(Debug)]
pub(crate) struct Network {
    nodes: usize,
    /// Tail, head, forward and backward capacity.
    arcs: Vec<(NodeId, NodeId, i64, i64)>,
}

/// A minimum cut.
#[derive(Debug)]
pub(crate) struct MinimumCut {
    /// Value of the cut: the flow into the sink.
    pub(crate) value: i64,
    /// Whether each node is on the source side.
    pub(crate) source_side: Keyed<NodeId, bool>,
}

impl Network {
    /// A network of a source and a sink.
    pub(crate) fn new() -> Network {
        Network { nodes: 2, arcs: Vec::new() }
    }

    /// Adds a node.
    pub(crate) fn node(&mut self) -> NodeId {
        self.nodes += 1;
        NodeId::new(self.nodes - 1)
    }

    /// Adds an arc with a capacity in either direction.
    pub(crate) fn arc(&mut self, tail: NodeId, head: NodeId, forth: i64, back: i64) {
        self.arcs.push((tail, head, forth, back));
    }

    /// The minimum cut, in O(nodes² · √arcs), far less on nearly planar networks; `None` if stopped.
    pub(crate) fn minimum_cut(&self, stop: &Stop) -> Option<MinimumCut> {
        Preflow::new(self).run(stop)
    }
}

struct Preflow {
    /// Number of nodes, and label of the nodes that cannot reach the sink.
    nodes: u32,
    /// First residual arc of each node, and the end.
    first: Keyed<NodeId, u32>,
    head: Keyed<u32, NodeId>,
    residual: Keyed<u32, i64>,
    /// The opposite residual arc.
    reverse: Keyed<u32, u32>,
    excess: Keyed<NodeId, i64>,
    label: Keyed<NodeId, u32>,
    current: Keyed<NodeId, u32>,
    /// Nodes with positive excess, by label.
    active: Keyed<u32, Vec<NodeId>>,
    highest: u32,
    /// Number of nodes by label, for the gap heuristic.
    population: Keyed<u32, u32>,
    work: usize,
}

impl Preflow {
    fn new(network: &Network) -> Preflow {
        let nodes = network.nodes;
        // A finite stand-in for `UNCUTTABLE`, so that sums of excesses stay in range.
        let finite = |capacity: i64| if capacity == UNCUTTABLE { 0 } else { capacity };
        let uncuttable =
            network.arcs.iter().map(|&(_, _, forth, back)| finite(forth) + finite(back)).sum::<i64>() + 1;
        let mut first = vec![0u32; nodes + 1];
        for &(tail, head, ..) in &network.arcs {
            first[tail.index() + 1] += 1;
            first[head.index() + 1] += 1;
        }
        for node in 0..nodes {
            first[node + 1] += first[node];
        }
        let size = 2 * network.arcs.len();
        let current: Keyed<NodeId, u32> = first[..nodes].to_vec().into();
        let mut next = current.clone();
        let mut head = Keyed::filled(SOURCE, size);
        let mut residual = Keyed::filled(0i64, size);
        let mut reverse = Keyed::filled(0u32, size);
        for &(from, to, forth, back) in &network.arcs {
            let there = next[from];
            next[from] += 1;
            let here = next[to];
            next[to] += 1;
            head[there] = to;
            head[here] = from;
            residual[there] = forth.min(uncuttable);
            residual[here] = back.min(uncuttable);
            reverse[there] = here;
            reverse[here] = there;
        }
        Preflow {
            nodes: nodes as u32,
            current,
            first: first.into(),
            head,
            residual,
            reverse,
            excess: Keyed::filled(0, nodes),
            label: Keyed::filled(0, nodes),
            active: Keyed::filled(Vec::new(), nodes + 1),
            highest: 0,
            population: Keyed::filled(0, nodes + 1),
            work: 0,
        }
    }

    fn run(mut self, stop: &Stop) -> Option<MinimumCut> {
        for arc in self.first[SOURCE]..self.end(SOURCE) {
            let amount = self.residual[arc];
            self.push(SOURCE, arc, amount);
        }
        self.relabel_all();
        // Labels are recomputed whenever the work since the last recomputation equals the cost of one.
        let period = 6 * self.label.len() + self.head.len();
        loop {
            while self.highest > 0 && self.active[self.highest].is_empty() {
                self.highest -= 1;
            }
            let Some(node) = self.active[self.highest].pop() else { break };
            self.discharge(node);
            if self.work > period {
                if stop.reason().is_some() {
                    return None;
                }
                self.work = 0;
                self.relabel_all();
            }
        }
        // Nodes that cannot reach the sink are on the source side.
        self.relabel_all();
        let source_side = self.label.iter().map(|&label| label >= self.nodes).collect();
        Some(MinimumCut { value: self.excess[SINK], source_side })
    }

    /// The end of the residual arcs of a node.
    fn end(&self, node: NodeId) -> u32 {
        self.first[NodeId(node.0 + 1)]
    }

    fn push(&mut self, node: NodeId, arc: u32, amount: i64) {
        if amount == 0 {
            return;
        }
        let to = self.head[arc];
        self.residual[arc] -= amount;
        self.residual[self.reverse[arc]] += amount;
        self.excess[node] -= amount;
        let before = self.excess[to];
        self.excess[to] += amount;
        if before == 0 && to > SINK {
            self.activate(to);
        }
    }

    fn activate(&mut self, node: NodeId) {
        let label = self.label[node];
        if label < self.nodes {
            self.active[label].push(node);
            self.highest = self.highest.max(label);
        }
    }

    fn discharge(&mut self, node: NodeId) {
        while self.excess[node] > 0 {
            let end = self.end(node);
            while self.current[node] < end {
                let arc = self.current[node];
                self.work += 1;
                if self.residual[arc] > 0 && self.label[node] == self.label[self.head[arc]] + 1 {
                    self.push(node, arc, self.excess[node].min(self.residual[arc]));
                    if self.excess[node] == 0 {
                        return;
                    }
                }
                self.current[node] += 1;
            }
            if !self.relabel(node) {
                return;
            }
        }
    }

    /// Relabels a node to one above its lowest residual neighbour; returns whether it can still reach the sink.
    fn relabel(&mut self, node: NodeId) -> bool {
        let old = self.label[node];
        self.population[old] -= 1;
        if self.population[old] == 0 {
            // Gap: no node is left at this label, so no node above it reaches the sink. Only this node has excess up
            // there, since the highest label is processed first.
            self.label[node] = self.nodes;
            return false;
        }
        let mut lowest = self.nodes;
        for arc in self.first[node]..self.end(node) {
            if self.residual[arc] > 0 {
                lowest = lowest.min(self.label[self.head[arc]] + 1);
            }
        }
        self.work += (self.end(node) - self.first[node]) as usize;
        self.current[node] = self.first[node];
        self.label[node] = lowest;
        self.population[lowest] += 1;
        self.highest = self.highest.max(if lowest < self.nodes { lowest } else { 0 });
        lowest < self.nodes
    }

    /// Sets all labels to the exact distances to the sink.
    fn relabel_all(&mut self) {
        let unreached = self.nodes;
        self.label.fill(unreached);
        self.population.fill(0);
        self.current.copy_from_slice(&self.first.as_slice()[..self.label.len()]);
        for queue in self.active.iter_mut() {
            queue.clear();
        }
        self.highest = 0;
        self.label[SINK] = 0;
        let mut queue = vec![SINK];
        let mut next = 0;
        while next < queue.len() {
            let node = queue[next];
            next += 1;
            let label = self.label[node];
            self.population[label] += 1;
            if node > SINK && self.excess[node] > 0 {
                self.activate(node);
            }
            for arc in self.first[node]..self.end(node) {
                let from = self.head[arc];
                let back = self.reverse[arc];
                if self.residual[back] > 0 && self.label[from] == unreached && from != SOURCE {
                    self.label[from] = label + 1;
                    queue.push(from);
                }
            }
        }
        self.label[SOURCE] = unreached;
    }
}

#[cfg(test)]
mod tests {
    use petgraph::algo::dinics;
    use petgraph::graph::{DiGraph, NodeIndex};
    use rand::RngExt;
    use stagewright_core::seed;

    use super::*;

    /// Finite stand-in for `UNCUTTABLE` in petgraph.
    const LARGE: i64 = 1 << 40;

    #[test]
    fn agrees_with_dinic_and_with_its_own_cut() {
        let never = Stop::new(None, Default::default());
        let mut uncut = 0;
        for number in 0..2000 {
            let mut rng = seed::stream(17, number);
            let nodes = if number % 20 == 0 { rng.random_range(24..150) } else { rng.random_range(2..24u32) };
            let mut network = Network::new();
            for _ in 2..nodes {
                network.node();
            }
            let mut reference: DiGraph<(), u64> = DiGraph::new();
            for _ in 0..nodes {
                reference.add_node(());
            }
            for _ in 0..rng.random_range(0..4 * nodes) {
                let (tail, head) = (NodeId(rng.random_range(0..nodes)), NodeId(rng.random_range(0..nodes)));
                if tail == head {
                    continue;
                }
                let mut capacity = || match rng.random_range(0..8) {
                    0 => UNCUTTABLE,
                    1..4 => 0,
                    _ => rng.random_range(1..50),
                };
                let (forth, back) = (capacity(), capacity());
                network.arc(tail, head, forth, back);
                for (from, to, capacity) in [(tail, head, forth), (head, tail, back)] {
                    let (from, to) = (NodeIndex::new(from.index()), NodeIndex::new(to.index()));
                    reference.add_edge(from, to, capacity.min(LARGE) as u64);
                }
            }
            let cut = network.minimum_cut(&never).expect("no limit");
            let (flow, _) = dinics(&reference, NodeIndex::new(0), NodeIndex::new(1));
            if flow >= LARGE as u64 {
                uncut += 1;
                continue;
            }
            assert_eq!(cut.value as u64, flow, "{number}");
            assert!(cut.source_side[SOURCE] && !cut.source_side[SINK], "{number}");
            let paid: u64 = reference
                .edge_indices()
                .filter(|&edge| {
                    let (from, to) = reference.edge_endpoints(edge).expect("an edge of the graph");
                    cut.source_side[NodeId::new(from.index())] && !cut.source_side[NodeId::new(to.index())]
                })
                .map(|edge| reference[edge])
                .sum();
            assert_eq!(paid, flow, "{number}");
        }
        assert!(uncut < 1000, "{uncut} without a finite cut");
    }
}
