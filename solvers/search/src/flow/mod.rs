//! Minimum cuts: push-relabel with the highest label first (Goldberg and Tarjan 1988; Cherkassky and Goldberg 1997).
//!
//! [`MergedNets`] and the functions beside it add nets to a network, so that a cut pays for every net it divides.
//!
//! Capacities are integers, so a cut's value is exact and a bound derived from it is valid. Only the first phase is
//! run: it finds the minimum cut, and no flow is needed. petgraph's maximum flow clears arrays of the graph's size for
//! every augmenting path, which is infeasible for the networks here.

mod nets;

pub(crate) use nets::{MergedNets, add_net, add_ordered_net};

use stagewright_core::solver::Stop;

/// A capacity above every cut without such an arc.
pub(crate) const UNCUTTABLE: i64 = i64::MAX;

/// The source.
pub(crate) const SOURCE: u32 = 0;
/// The sink.
pub(crate) const SINK: u32 = 1;

/// A network under construction. Nodes 0 and 1 are the source and the sink.
#[derive(Debug)]
pub(crate) struct Network {
    nodes: usize,
    /// Tail, head, forward and backward capacity.
    arcs: Vec<(u32, u32, i64, i64)>,
}

/// A minimum cut.
#[derive(Debug)]
pub(crate) struct MinimumCut {
    /// Value of the cut: the flow into the sink.
    pub(crate) value: i64,
    /// Whether each node is on the source side.
    pub(crate) source_side: Vec<bool>,
}

impl Network {
    /// A network of a source and a sink.
    pub(crate) fn new() -> Network {
        Network { nodes: 2, arcs: Vec::new() }
    }

    /// Adds a node.
    pub(crate) fn node(&mut self) -> u32 {
        self.nodes += 1;
        self.nodes as u32 - 1
    }

    /// Adds an arc with a capacity in either direction.
    pub(crate) fn arc(&mut self, tail: u32, head: u32, forth: i64, back: i64) {
        self.arcs.push((tail, head, forth, back));
    }

    /// The minimum cut, in O(nodes² · √arcs), far less on nearly planar networks; `None` if stopped.
    pub(crate) fn minimum_cut(&self, stop: &Stop) -> Option<MinimumCut> {
        Preflow::new(self).run(stop)
    }
}

struct Preflow {
    nodes: usize,
    /// First residual arc of each node.
    first: Vec<u32>,
    head: Vec<u32>,
    residual: Vec<i64>,
    /// The opposite residual arc.
    reverse: Vec<u32>,
    excess: Vec<i64>,
    label: Vec<u32>,
    current: Vec<u32>,
    /// Nodes with positive excess, by label.
    active: Vec<Vec<u32>>,
    highest: usize,
    /// Number of nodes by label, for the gap heuristic.
    population: Vec<u32>,
    work: usize,
}

impl Preflow {
    fn new(network: &Network) -> Preflow {
        let nodes = network.nodes;
        // Finite, so that sums of excesses stay in range.
        let finite = |capacity: i64| if capacity == UNCUTTABLE { 0 } else { capacity };
        let uncuttable =
            network.arcs.iter().map(|&(_, _, forth, back)| finite(forth) + finite(back)).sum::<i64>() + 1;
        let mut first = vec![0u32; nodes + 1];
        for &(tail, head, ..) in &network.arcs {
            first[tail as usize + 1] += 1;
            first[head as usize + 1] += 1;
        }
        for node in 0..nodes {
            first[node + 1] += first[node];
        }
        let size = 2 * network.arcs.len();
        let mut next: Vec<u32> = first[..nodes].to_vec();
        let mut head = vec![0u32; size];
        let mut residual = vec![0i64; size];
        let mut reverse = vec![0u32; size];
        for &(from, to, forth, back) in &network.arcs {
            let there = next[from as usize];
            next[from as usize] += 1;
            let here = next[to as usize];
            next[to as usize] += 1;
            head[there as usize] = to;
            head[here as usize] = from;
            residual[there as usize] = forth.min(uncuttable);
            residual[here as usize] = back.min(uncuttable);
            reverse[there as usize] = here;
            reverse[here as usize] = there;
        }
        Preflow {
            nodes,
            current: first[..nodes].to_vec(),
            first,
            head,
            residual,
            reverse,
            excess: vec![0; nodes],
            label: vec![0; nodes],
            active: vec![Vec::new(); nodes + 1],
            highest: 0,
            population: vec![0; nodes + 1],
            work: 0,
        }
    }

    fn run(mut self, stop: &Stop) -> Option<MinimumCut> {
        let source = SOURCE as usize;
        for arc in self.first[source]..self.first[source + 1] {
            let amount = self.residual[arc as usize];
            self.push(SOURCE, arc, amount);
        }
        self.relabel_all();
        // Labels are recomputed whenever the work since the last time equals the cost of doing so.
        let period = 6 * self.nodes + self.head.len();
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
        let source_side = self.label.iter().map(|&label| label as usize >= self.nodes).collect();
        Some(MinimumCut { value: self.excess[SINK as usize], source_side })
    }

    fn push(&mut self, node: u32, arc: u32, amount: i64) {
        if amount == 0 {
            return;
        }
        let to = self.head[arc as usize];
        self.residual[arc as usize] -= amount;
        self.residual[self.reverse[arc as usize] as usize] += amount;
        self.excess[node as usize] -= amount;
        let before = self.excess[to as usize];
        self.excess[to as usize] += amount;
        if before == 0 && to > SINK {
            self.activate(to);
        }
    }

    fn activate(&mut self, node: u32) {
        let label = self.label[node as usize] as usize;
        if label < self.nodes {
            self.active[label].push(node);
            self.highest = self.highest.max(label);
        }
    }

    fn discharge(&mut self, node: u32) {
        let at = node as usize;
        while self.excess[at] > 0 {
            let end = self.first[at + 1];
            while self.current[at] < end {
                let arc = self.current[at];
                self.work += 1;
                if self.residual[arc as usize] > 0
                    && self.label[at] == self.label[self.head[arc as usize] as usize] + 1
                {
                    self.push(node, arc, self.excess[at].min(self.residual[arc as usize]));
                    if self.excess[at] == 0 {
                        return;
                    }
                }
                self.current[at] += 1;
            }
            if !self.relabel(at) {
                return;
            }
        }
    }

    /// Relabels a node to one above its lowest residual neighbour; returns whether it can still reach the sink.
    fn relabel(&mut self, at: usize) -> bool {
        let old = self.label[at] as usize;
        self.population[old] -= 1;
        if self.population[old] == 0 {
            // Gap: no node is left at this label, so no node above it reaches the sink. Only this node has excess up
            // there, since the highest label is processed first.
            self.label[at] = self.nodes as u32;
            return false;
        }
        let mut lowest = self.nodes as u32;
        for arc in self.first[at]..self.first[at + 1] {
            if self.residual[arc as usize] > 0 {
                lowest = lowest.min(self.label[self.head[arc as usize] as usize] + 1);
            }
        }
        self.work += (self.first[at + 1] - self.first[at]) as usize;
        self.current[at] = self.first[at];
        self.label[at] = lowest;
        self.population[lowest as usize] += 1;
        self.highest = self.highest.max(if (lowest as usize) < self.nodes { lowest as usize } else { 0 });
        (lowest as usize) < self.nodes
    }

    /// Sets all labels to the exact distances to the sink.
    fn relabel_all(&mut self) {
        let unreached = self.nodes as u32;
        self.label.fill(unreached);
        self.population.fill(0);
        self.current.copy_from_slice(&self.first[..self.nodes]);
        for queue in &mut self.active {
            queue.clear();
        }
        self.highest = 0;
        self.label[SINK as usize] = 0;
        let mut queue = vec![SINK];
        let mut next = 0;
        while next < queue.len() {
            let node = queue[next] as usize;
            next += 1;
            let label = self.label[node];
            self.population[label as usize] += 1;
            if node as u32 > SINK && self.excess[node] > 0 {
                self.activate(node as u32);
            }
            for arc in self.first[node]..self.first[node + 1] {
                let from = self.head[arc as usize];
                let back = self.reverse[arc as usize];
                if self.residual[back as usize] > 0
                    && self.label[from as usize] == unreached
                    && from != SOURCE
                {
                    self.label[from as usize] = label + 1;
                    queue.push(from);
                }
            }
        }
        self.label[SOURCE as usize] = unreached;
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
                let (tail, head) = (rng.random_range(0..nodes), rng.random_range(0..nodes));
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
                    let (from, to) = (NodeIndex::new(from as usize), NodeIndex::new(to as usize));
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
            assert!(cut.source_side[SOURCE as usize] && !cut.source_side[SINK as usize], "{number}");
            let paid: u64 = reference
                .edge_indices()
                .filter(|&edge| {
                    let (from, to) = reference.edge_endpoints(edge).expect("an edge of the graph");
                    cut.source_side[from.index()] && !cut.source_side[to.index()]
                })
                .map(|edge| reference[edge])
                .sum();
            assert_eq!(paid, flow, "{number}");
        }
        assert!(uncut < 1000, "{uncut} without a finite cut");
    }
}
