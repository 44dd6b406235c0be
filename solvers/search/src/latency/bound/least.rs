//! The minimum load of a call that directly follows an ideal and contains a node.

use stagewright_core::solver::Stop;
use stagewright_core::tolerance;

use super::ideals::Ideals;
use super::nodes::{Accelerator, Nodes};
use stagewright_core::bits;

/// Maximum number of entries of a table, at 16 bytes each.
const MAX_ENTRIES: usize = 1 << 25;

/// Rows by ideal J: for each node outside J the minimum load of a set I \ J that contains it and fits, with I an ideal;
/// nodes without such a set are left out.
pub(super) struct Least {
    offsets: Vec<usize>,
    entries: Vec<(u32, f64)>,
}

impl Least {
    /// Tries all pairs of ideals whose difference fits and is supported. Loads are sums of non-negative terms, so their
    /// rounding is relative. `None` if stopped, or if that takes more than `steps`, from which the steps used are
    /// subtracted, or too many entries.
    ///
    /// The compute of a set and its inputs only grow as nodes are added; its outputs are summed from scratch.
    pub(super) fn of(
        nodes: &Nodes,
        ideals: &Ideals,
        accelerator: &Accelerator,
        steps: &mut u64,
        stop: &Stop,
    ) -> Option<Least> {
        let mut table = Least { offsets: vec![0], entries: Vec::new() };
        let mut walk = Walk::new(nodes, ideals, accelerator);
        for from in 0..ideals.len() {
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
    pub(super) fn row(&self, ideal: usize) -> &[(u32, f64)] {
        &self.entries[self.offsets[ideal]..self.offsets[ideal + 1]]
    }
}

struct Walk<'a> {
    nodes: &'a Nodes,
    ideals: &'a Ideals,
    accelerator: &'a Accelerator,
    /// The ideal from which each ideal was reached last.
    seen: Vec<u32>,
    /// Compute and inputs.
    grown: Vec<f64>,
    bytes: Vec<f64>,
    /// Load, then the minimum load over the set and all sets that contain it.
    least: Vec<f64>,
    /// Ideals reached, the smaller ones first.
    order: Vec<u32>,
    by_node: Vec<f64>,
    /// Steps to visit the inputs of a node.
    effort: Vec<u64>,
    /// Number of operators, tensors and readers visited.
    steps: u64,
}

/// The nodes of a minimum-load call directly after an ideal that contains a node.
pub(super) fn lightest(
    nodes: &Nodes,
    ideals: &Ideals,
    accelerator: &Accelerator,
    from: usize,
    node: usize,
) -> Option<Vec<usize>> {
    let mut walk = Walk::new(nodes, ideals, accelerator);
    walk.all_above(from);
    let holding = walk.order.iter().filter(|&&at| bits::contains(ideals.set(at as usize), node));
    let best = holding.min_by(|&&a, &&b| walk.least[a as usize].total_cmp(&walk.least[b as usize]))?;
    let (below, set) = (ideals.set(from), ideals.set(*best as usize));
    let inside = |&node: &usize| bits::contains(set, node) && !bits::contains(below, node);
    Some((0..nodes.len()).filter(inside).collect())
}

impl<'a> Walk<'a> {
    fn new(nodes: &'a Nodes, ideals: &'a Ideals, accelerator: &'a Accelerator) -> Walk<'a> {
        let readers = |&net: &u32| 1 + nodes.nets[net as usize].consumers.len() as u64;
        Walk {
            effort: nodes.inputs.iter().map(|inputs| 1 + inputs.iter().map(readers).sum::<u64>()).collect(),
            steps: 0,
            nodes,
            ideals,
            accelerator,
            seen: vec![u32::MAX; ideals.len()],
            grown: vec![0.0; ideals.len()],
            bytes: vec![0.0; ideals.len()],
            least: vec![0.0; ideals.len()],
            order: Vec::new(),
            by_node: vec![f64::INFINITY; nodes.len()],
        }
    }

    fn all_above(&mut self, from: usize) {
        self.order.clear();
        self.order.push(from as u32);
        (self.seen[from], self.grown[from], self.bytes[from]) = (from as u32, 0.0, 0.0);
        self.least[from] = f64::INFINITY;
        let below = self.ideals.set(from);
        let mut next = 0;
        while let Some(&at) = self.order.get(next) {
            let at = at as usize;
            next += 1;
            for &cover in self.ideals.covers(at) {
                let (node, to) = (cover.node as usize, cover.ideal as usize);
                if self.seen[to] == from as u32 {
                    continue;
                }
                let bytes = self.bytes[at] + self.nodes.bytes[node];
                let seconds = self.accelerator.seconds[node];
                // Lowered, since the bytes may be summed in another order elsewhere.
                let fits = tolerance::fits(tolerance::round_down(bytes), self.accelerator.memory);
                if seconds.is_nan() || !fits {
                    continue;
                }
                let grown = self.grown[at] + seconds + self.received(below, at, node);
                (self.seen[to], self.grown[to], self.bytes[to]) = (from as u32, grown, bytes);
                let sent =
                    self.ideals.open(to).iter().filter(|&&net| {
                        !bits::contains(below, self.nodes.nets[net as usize].producer as usize)
                    });
                self.least[to] =
                    grown + sent.map(|&net| self.accelerator.transfer[net as usize]).sum::<f64>();
                self.steps += self.effort[node] + self.ideals.open(to).len() as u64;
                self.order.push(to as u32);
            }
        }
    }

    /// Transfers of the inputs of a node that are produced in `below` and not read by the rest of the ideal `at`.
    fn received(&self, below: &[u64], at: usize, node: usize) -> f64 {
        let inside = self.ideals.set(at);
        let fresh = self.nodes.inputs[node].iter().filter(|&&net| {
            let net = &self.nodes.nets[net as usize];
            let here =
                |&node: &u32| bits::contains(inside, node as usize) && !bits::contains(below, node as usize);
            bits::contains(below, net.producer as usize) && !net.consumers.iter().any(here)
        });
        fresh.map(|&net| self.accelerator.transfer[net as usize]).sum()
    }

    /// Collects the minimum loads by node: on the way to every set with a node, some cover adds the node.
    fn collect(&mut self, entries: &mut Vec<(u32, f64)>) {
        let from = self.order[0];
        let mut touched = Vec::new();
        for &at in self.order.iter().rev() {
            let mut least = self.least[at as usize];
            for &cover in self.ideals.covers(at as usize) {
                if self.seen[cover.ideal as usize] != from {
                    continue;
                }
                let above = self.least[cover.ideal as usize];
                least = least.min(above);
                let best = &mut self.by_node[cover.node as usize];
                if best.is_infinite() {
                    touched.push(cover.node);
                }
                *best = best.min(above);
            }
            self.least[at as usize] = least;
        }
        touched.sort_unstable();
        touched.dedup();
        entries.extend(
            touched
                .iter()
                .map(|&node| (node, std::mem::replace(&mut self.by_node[node as usize], f64::INFINITY))),
        );
    }
}
