//! The minimum load of a call that directly follows an ideal and contains a node.

use stagewright_core::bits;
use stagewright_core::ids::{Id, Keyed};
use stagewright_core::solver::Stop;
use stagewright_core::tolerance;

use super::ideals::{Cover, IdealId, Ideals};
use super::nodes::{Accelerator, NetId, NodeId, Nodes};

/// Maximum number of entries of a table, at 16 bytes each.
const MAX_ENTRIES: usize = 1 << 25;

/// Rows by ideal J: for each node outside J, the minimum load of a set I \ J that contains the node and fits, where I
/// is an ideal; nodes without such a set are left out.
pub(super) struct Least {
    offsets: Vec<usize>,
    entries: Vec<(NodeId, f64)>,
}

impl Least {
    /// Tries all pairs of ideals whose difference fits and is supported. Loads are sums of non-negative terms, so their
    /// rounding is relative. Subtracts the steps used from `steps`. `None` if stopped, if `steps` do not suffice, or if
    /// there are too many entries.
    ///
    /// The compute of a set and its inputs only grow as nodes are added; its outputs are summed from scratch.
    pub(super) fn new(
        nodes: &Nodes,
        ideals: &Ideals,
        accelerator: &Accelerator,
        steps: &mut u64,
        stop: &Stop,
    ) -> Option<Least> {
        let mut table = Least { offsets: vec![0], entries: Vec::new() };
        let mut walk = Walk::new(nodes, ideals, accelerator);
        for from in IdealId::first(ideals.len()) {
            if stop.reason().is_some() {
                return None;
            }
            walk.all_above(from);
            *steps = steps.checked_sub(std::mem::take(&mut walk.steps))?;
            walk.collect(&mut table.entries);
            if table.entries.len() > MAX_ENTRIES {
                return None;
            }
            table.offsets.push(table.entries.len());
        }
        Some(table)
    }

    /// The nodes that a call directly after an ideal can contain, with the minimum load for each.
    pub(super) fn row(&self, ideal: IdealId) -> &[(NodeId, f64)] {
        &self.entries[self.offsets[ideal.index()]..self.offsets[ideal.index() + 1]]
    }
}

struct Walk<'a> {
    nodes: &'a Nodes,
    ideals: &'a Ideals,
    accelerator: &'a Accelerator,
    /// `[ideal]`: the last ideal whose walk reached it.
    seen: Keyed<IdealId, IdealId>,
    /// `[ideal]`: compute and inputs of the set.
    grown: Keyed<IdealId, f64>,
    bytes: Keyed<IdealId, f64>,
    /// `[ideal]`: load of the set, later the minimum load over the set and all sets that contain it.
    least: Keyed<IdealId, f64>,
    /// Ideals reached, the smaller ones first.
    order: Vec<IdealId>,
    by_node: Keyed<NodeId, f64>,
    /// Number of steps to visit the inputs of a node.
    effort: Keyed<NodeId, u64>,
    /// Number of operators, tensors and readers visited.
    steps: u64,
}

/// The nodes of a call of minimum load that directly follows an ideal and contains a given node.
pub(super) fn lightest(
    nodes: &Nodes,
    ideals: &Ideals,
    accelerator: &Accelerator,
    from: IdealId,
    node: NodeId,
) -> Option<Vec<NodeId>> {
    let mut walk = Walk::new(nodes, ideals, accelerator);
    walk.all_above(from);
    let holding = walk.order.iter().filter(|&&ideal| bits::contains(ideals.set(ideal), node.index()));
    let best = holding.min_by(|&&a, &&b| walk.least[a].total_cmp(&walk.least[b]))?;
    let (below, set) = (ideals.set(from), ideals.set(*best));
    let inside = |&node: &NodeId| bits::contains(set, node.index()) && !bits::contains(below, node.index());
    Some(nodes.group.ids().filter(inside).collect())
}

impl<'a> Walk<'a> {
    fn new(nodes: &'a Nodes, ideals: &'a Ideals, accelerator: &'a Accelerator) -> Walk<'a> {
        let readers = |&net: &NetId| 1 + nodes.nets[net].consumers.len() as u64;
        Walk {
            effort: nodes.inputs.iter().map(|inputs| 1 + inputs.iter().map(readers).sum::<u64>()).collect(),
            steps: 0,
            nodes,
            ideals,
            accelerator,
            seen: Keyed::filled(IdealId(u32::MAX), ideals.len()),
            grown: Keyed::filled(0.0, ideals.len()),
            bytes: Keyed::filled(0.0, ideals.len()),
            least: Keyed::filled(0.0, ideals.len()),
            order: Vec::new(),
            by_node: Keyed::filled(f64::INFINITY, nodes.len()),
        }
    }

    fn all_above(&mut self, from: IdealId) {
        self.order.clear();
        self.order.push(from);
        (self.seen[from], self.grown[from], self.bytes[from]) = (from, 0.0, 0.0);
        self.least[from] = f64::INFINITY;
        let below = self.ideals.set(from);
        let mut next = 0;
        while let Some(&current) = self.order.get(next) {
            next += 1;
            for &Cover { node, ideal: to } in self.ideals.covers(current) {
                if self.seen[to] == from {
                    continue;
                }
                let bytes = self.bytes[current] + self.nodes.bytes[node];
                let seconds = self.accelerator.seconds[node];
                // The bytes are lowered, since they may be summed in another order elsewhere.
                let fits = tolerance::fits(tolerance::round_down(bytes), self.accelerator.memory);
                if seconds.is_nan() || !fits {
                    continue;
                }
                let grown = self.grown[current] + seconds + self.received(below, current, node);
                (self.seen[to], self.grown[to], self.bytes[to]) = (from, grown, bytes);
                let sent = self
                    .ideals
                    .open(to)
                    .iter()
                    .filter(|&&net| !bits::contains(below, self.nodes.nets[net].producer.index()));
                self.least[to] = grown + sent.map(|&net| self.accelerator.transfer[net]).sum::<f64>();
                self.steps += self.effort[node] + self.ideals.open(to).len() as u64;
                self.order.push(to);
            }
        }
    }

    /// Transfer time of the inputs of a node that are produced in `below` and not read by the rest of the ideal
    /// `ideal`.
    fn received(&self, below: &[u64], ideal: IdealId, node: NodeId) -> f64 {
        let inside = self.ideals.set(ideal);
        let fresh = self.nodes.inputs[node].iter().filter(|&&net| {
            let net = &self.nodes.nets[net];
            let here =
                |&node: &NodeId| bits::contains(inside, node.index()) && !bits::contains(below, node.index());
            bits::contains(below, net.producer.index()) && !net.consumers.iter().any(here)
        });
        fresh.map(|&net| self.accelerator.transfer[net]).sum()
    }

    /// Collects the minimum loads by node: on the way to every set that contains a node, some cover adds the node.
    fn collect(&mut self, entries: &mut Vec<(NodeId, f64)>) {
        let from = self.order[0];
        let mut touched = Vec::new();
        for &current in self.order.iter().rev() {
            let mut least = self.least[current];
            for &Cover { node, ideal } in self.ideals.covers(current) {
                if self.seen[ideal] != from {
                    continue;
                }
                let above = self.least[ideal];
                least = least.min(above);
                let best = &mut self.by_node[node];
                if best.is_infinite() {
                    touched.push(node);
                }
                *best = best.min(above);
            }
            self.least[current] = least;
        }
        touched.sort_unstable();
        touched.dedup();
        entries.extend(
            touched.iter().map(|&node| (node, std::mem::replace(&mut self.by_node[node], f64::INFINITY))),
        );
    }
}
