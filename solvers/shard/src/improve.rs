//! Repair of choices that exceed the limit, and descent by changing one strategy at a time.

use std::collections::VecDeque;

use stagewright_core::solver::Stop;

use crate::network::{Adjacency, Network, Part};

/// Maximum number of rounds that repair a choice, per node.
const MAX_REPAIRS: usize = 2;

/// Reciprocal of the share of the changes at a point that are made before their prices are recomputed.
const BATCHES: usize = 32;

/// A choice with its usage.
#[derive(Debug, Clone)]
pub(crate) struct State<'n> {
    network: &'n Network,
    adjacent: &'n Adjacency,
    stop: &'n Stop,
    pub(crate) choice: Vec<u32>,
    pub(crate) usage: Vec<f64>,
    spare: Vec<f64>,
}

impl<'n> State<'n> {
    pub(crate) fn new(network: &'n Network, adjacent: &'n Adjacency, stop: &'n Stop) -> State<'n> {
        State { network, adjacent, stop, choice: Vec::new(), usage: Vec::new(), spare: Vec::new() }
    }

    pub(crate) fn set(&mut self, choice: &[u32]) {
        self.choice.clear();
        self.choice.extend_from_slice(choice);
        self.network.usage(choice, &mut self.usage);
    }

    /// Whether no point exceeds the limit.
    pub(crate) fn fits(&self) -> bool {
        self.usage.iter().all(|&usage| usage <= self.network.limit)
    }

    /// Writes to `spare` the cost of every strategy of a node, given the choices of its neighbours.
    fn costs(&mut self, node: usize) {
        self.spare.clear();
        self.spare.extend_from_slice(&self.network.nodes[node].cost);
        for &(other, edge) in self.adjacent.of(node) {
            let row = self.network.row(edge, node as u32, self.choice[other as usize] as usize);
            self.spare.iter_mut().zip(row).for_each(|(sum, cost)| *sum += cost);
        }
    }

    /// Makes a change unless some point whose usage it raises would then exceed the limit.
    fn change_if_fits(&mut self, node: usize, to: usize) -> bool {
        let from = self.choice[node] as usize;
        self.change(node, to);
        // Parts of a node may overlap, so all of them change before any point is checked.
        let fits = self.network.nodes[node].parts.iter().all(|part| {
            let [first, last] = part.span.map(|point| point as usize);
            part.usage[to] <= part.usage[from]
                || self.usage[first..last].iter().all(|&usage| usage <= self.network.limit)
        });
        if !fits {
            self.change(node, from);
        }
        fits
    }

    fn change(&mut self, node: usize, to: usize) {
        let from = self.choice[node] as usize;
        for part in &self.network.nodes[node].parts {
            let more = part.usage[to] - part.usage[from];
            let [first, last] = part.span.map(|point| point as usize);
            if more != 0.0 {
                self.usage[first..last].iter_mut().for_each(|usage| *usage += more);
            }
        }
        self.choice[node] = to as u32;
    }

    /// Changes strategies until no point exceeds the limit. At the point with the largest excess, it makes the change
    /// that costs the least per unit of usage saved. Returns whether that succeeds. O(changes · size of the network).
    pub(crate) fn repair(&mut self) -> bool {
        for _ in 0..=MAX_REPAIRS * self.choice.len() {
            if self.stop.reason().is_some() {
                return self.fits();
            }
            let (point, excess) = self
                .usage
                .iter()
                .map(|usage| usage - self.network.limit)
                .enumerate()
                .fold((0, 0.0), |worst, point| if point.1 > worst.1 { point } else { worst });
            if excess <= 0.0 {
                return true;
            }
            let mut changes: Vec<(f64, usize, usize)> = Vec::new();
            for node in 0..self.choice.len() {
                let live = |part: &&Part| part.span[0] as usize <= point && point < part.span[1] as usize;
                let usage = |to: usize| -> f64 {
                    self.network.nodes[node].parts.iter().filter(live).map(|part| part.usage[to]).sum()
                };
                let from = self.choice[node] as usize;
                let now = usage(from);
                if now <= 0.0 {
                    continue;
                }
                let less: Vec<(usize, f64)> = (0..self.network.count(node))
                    .map(|to| (to, now - usage(to)))
                    .filter(|less| less.1 > 0.0)
                    .collect();
                self.costs(node);
                let price =
                    |&(to, less): &(usize, f64)| (self.spare[to] - self.spare[from]) / less.min(excess);
                changes.extend(less.iter().map(|change| (price(change), node, change.0)));
            }
            changes.sort_by(|a, b| a.0.total_cmp(&b.0));
            // The first changes hardly alter the prices of those that follow.
            let mut left = 1 + changes.len() / BATCHES;
            let mut changed = usize::MAX;
            for (_, node, to) in changes {
                if left == 0 || self.usage[point] <= self.network.limit {
                    break;
                }
                if node != changed && self.change_if_fits(node, to) {
                    changed = node;
                    left -= 1;
                }
            }
            if changed == usize::MAX {
                return false;
            }
        }
        false
    }

    /// Changes single strategies as long as that costs less and fits, until the stop. Returns the cost. O(changes ·
    /// size of the network).
    pub(crate) fn descend(&mut self) -> f64 {
        let mut waiting: VecDeque<usize> = (0..self.choice.len()).collect();
        let mut waits = vec![true; self.choice.len()];
        while let Some(node) = waiting.pop_front()
            && self.stop.reason().is_none()
        {
            waits[node] = false;
            self.costs(node);
            let from = self.choice[node] as usize;
            let mut better: Vec<usize> =
                (0..self.spare.len()).filter(|&to| self.spare[to] < self.spare[from]).collect();
            better.sort_by(|&a, &b| self.spare[a].total_cmp(&self.spare[b]));
            if better.into_iter().any(|to| self.change_if_fits(node, to)) {
                for &(other, _) in self.adjacent.of(node) {
                    if !std::mem::replace(&mut waits[other as usize], true) {
                        waiting.push_back(other as usize);
                    }
                }
            }
        }
        self.network.cost(&self.choice)
    }
}
