//! Branch and bound on the numbers of replicas of sizes, with prices at every node.

use std::collections::BinaryHeap;

use stagewright_core::document::{ServingCertificateDocument, ServingNodeDocument};
use stagewright_core::solver::Stop;

use crate::linear::{Relaxed, relaxed};
use crate::program::{Program, Ranges};
use crate::space::Space;

/// The most nodes of a tree.
const NODES: usize = 4000;

/// How far a number may be from a whole one.
const WHOLE: f64 = 1e-6;

/// Relative distance of a bound from a value at which both are the same.
const SAME: f64 = 5e-10;

/// A tree of branching.
pub(crate) struct Tree<'p> {
    program: &'p Program,
    nodes: Vec<Node>,
    /// Leaves that may still be divided, best bound first.
    open: BinaryHeap<Open>,
    /// The best whole numbers found at nodes, with their goal.
    pub(crate) best: Option<(f64, Vec<u64>)>,
}

struct Node {
    ranges: Ranges,
    prices: Vec<f64>,
    bound: f64,
    counts: Option<Vec<f64>>,
    children: Option<(usize, u64, [u32; 2])>,
}

/// A leaf in the queue.
struct Open {
    bound: f64,
    node: usize,
}

impl PartialEq for Open {
    fn eq(&self, other: &Open) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Open {}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Open) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Open {
    fn cmp(&self, other: &Open) -> std::cmp::Ordering {
        self.bound.total_cmp(&other.bound).then(other.node.cmp(&self.node))
    }
}

impl<'p> Tree<'p> {
    /// A tree whose root has all plans.
    pub(crate) fn new(program: &'p Program, space: &Space) -> Tree<'p> {
        let high: Vec<u64> = space.sizes.iter().map(|size| size.most).collect();
        let mut tree = Tree { program, nodes: Vec::new(), open: BinaryHeap::new(), best: None };
        tree.add(Ranges { low: vec![0; high.len()], high });
        tree
    }

    /// Ranges of the root.
    pub(crate) fn root(&self) -> &Ranges {
        &self.nodes[0].ranges
    }

    /// The weakest bound of all leaves.
    pub(crate) fn bound(&self) -> f64 {
        let leaves = self.nodes.iter().filter(|node| node.children.is_none());
        leaves.map(|node| node.bound).fold(f64::NEG_INFINITY, f64::max)
    }

    /// Divides leaves until the best bound is close enough to the best value, or a limit is reached.
    pub(crate) fn grow(
        &mut self,
        value: impl Fn(&Tree) -> f64,
        is_enough: impl Fn(f64, f64) -> bool,
        stop: &Stop,
    ) {
        while let Some(open) = self.open.pop() {
            let value = value(self);
            let is_same = open.bound <= value + SAME * value.abs();
            let is_limit = self.nodes.len() + 2 > NODES || stop.reason().is_some();
            if is_same || is_enough(value, open.bound) || is_limit {
                self.open.push(open);
                return;
            }
            // The bound of the tree stays that of a leaf which cannot be divided.
            let Some((size, most)) = self.branching(open.node) else { return };
            let mut ranges = self.nodes[open.node].ranges.clone();
            let high = std::mem::replace(&mut ranges.high[size], most);
            let below = self.add(ranges.clone());
            ranges.high[size] = high;
            ranges.low[size] = most + 1;
            let above = self.add(ranges);
            self.nodes[open.node].children = Some((size, most, [below as u32, above as u32]));
        }
    }

    /// The size whose number is farthest from a whole one, with the number rounded down; `None` if all numbers are whole.
    fn branching(&self, node: usize) -> Option<(usize, u64)> {
        let counts = self.nodes[node].counts.as_ref()?;
        let numbers = self.program.sizes.iter().map(|range| counts[range.clone()].iter().sum::<f64>());
        let distance = |number: f64| (number - number.round()).abs();
        let (size, number) =
            numbers.enumerate().filter(|(_, number)| distance(*number) > WHOLE).max_by(|left, right| {
                distance(left.1).total_cmp(&distance(right.1)).then(right.0.cmp(&left.0))
            })?;
        Some((size, number.floor() as u64))
    }

    /// Adds a node with its relaxation.
    fn add(&mut self, ranges: Ranges) -> usize {
        let index = self.nodes.len();
        let (prices, counts) = match relaxed(self.program, &ranges) {
            Some(Relaxed { counts, prices }) => (prices, Some(counts)),
            // Nothing is known but that every row is free.
            None => (vec![0.0; self.program.limits.len()], None),
        };
        let bound = self.program.bound(&prices, &ranges);
        if let Some(counts) = counts.as_ref().filter(|counts| counts.iter().all(|count| is_whole(*count))) {
            let whole: Vec<u64> = counts.iter().map(|count| count.round() as u64).collect();
            if let Some(goal) = self.program.goal(&whole)
                && self.best.as_ref().is_none_or(|(known, _)| goal > *known)
            {
                self.best = Some((goal, whole));
            }
        }
        self.open.push(Open { bound, node: index });
        self.nodes.push(Node { ranges, prices, bound, counts, children: None });
        index
    }

    /// The tree as evidence.
    pub(crate) fn certificate(&self, space: &Space) -> ServingCertificateDocument {
        let document = |node: &Node| match &node.children {
            Some((size, most, children)) => ServingNodeDocument::Branch {
                size: space.sizes[*size].key.clone(),
                most: *most,
                children: *children,
            },
            None => ServingNodeDocument::Leaf { prices: node.prices.clone() },
        };
        ServingCertificateDocument::Tree { nodes: self.nodes.iter().map(document).collect() }
    }
}

fn is_whole(number: f64) -> bool {
    (number - number.round()).abs() <= WHOLE
}
