//! Branch and bound over the strategies of a reduced problem, with Lagrangian bounds.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use rayon::prelude::*;
use stagewright_core::solver::Stop;
use stagewright_core::tolerance::OPTIMAL_RELATIVE;

use crate::dual::{Ascent, Dual, Effort, Multipliers};
use crate::improve::State;
use crate::network::Adjacency;
use crate::reduce::Reduced;

/// Number of tree nodes that are bounded together, whatever the number of threads.
const BATCH: usize = 8;
/// Iterations of the ascent for a first plan, and iterations without progress before its steps shrink. Then the same
/// for the ascent at the root, and for those below it.
pub(crate) const FOR_A_PLAN: [u64; 2] = [300, 20];
pub(crate) const AT_ROOT: [u64; 2] = [100_000, 50];
const BELOW: [u64; 2] = [200, 6];

/// A node of the tree.
#[derive(Debug, Clone)]
struct OpenNode {
    bound: f64,
    depth: u32,
    /// Whether each strategy is allowed.
    allowed: Arc<Vec<bool>>,
    multipliers: Arc<CountedMultipliers>,
}

/// Multipliers whose bytes are included in `total` as long as they exist.
#[derive(Debug)]
struct CountedMultipliers {
    multipliers: Multipliers,
    bytes: usize,
    total: Arc<AtomicUsize>,
}

impl CountedMultipliers {
    fn new(multipliers: Multipliers, total: &Arc<AtomicUsize>) -> CountedMultipliers {
        let bytes = multipliers.bytes();
        total.fetch_add(bytes, Relaxed);
        CountedMultipliers { multipliers, bytes, total: total.clone() }
    }
}

impl Drop for CountedMultipliers {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Relaxed);
    }
}

impl PartialEq for OpenNode {
    fn eq(&self, other: &OpenNode) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for OpenNode {}

impl PartialOrd for OpenNode {
    fn partial_cmp(&self, other: &OpenNode) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OpenNode {
    /// Orders nodes by descending bound, then by ascending depth: the maximum has the lowest bound.
    fn cmp(&self, other: &OpenNode) -> Ordering {
        other.bound.total_cmp(&self.bound).then(self.depth.cmp(&other.depth))
    }
}

/// A plan of the reduced problem.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) cost: f64,
    pub(crate) choice: Vec<u32>,
}

/// A search.
pub(crate) struct Tree<'r> {
    reduced: &'r Reduced,
    adjacent: Adjacency,
    dual: Dual<'r>,
    open: BinaryHeap<OpenNode>,
    best: Option<Plan>,
    /// The strongest bound of the root, with its multipliers.
    root: Ascent,
    /// Iterations at the root, and iterations without progress before the steps shrink.
    at_root: [u64; 2],
    held: Arc<AtomicUsize>,
    memory: Option<usize>,
    /// Number of tree nodes that were bounded.
    pub(crate) bounded: u64,
}

/// Result of bounding a node of the tree.
enum Branches {
    /// The subtree has no plan that is better than the best.
    None,
    /// One strategy for every node of the problem.
    Decided(Vec<u32>),
    Two([OpenNode; 2]),
}

/// Result of the dual ascent of a node of the tree.
struct Bounded {
    ascent: Ascent,
    children: Vec<OpenNode>,
    plan: Option<Plan>,
}

impl<'r> Tree<'r> {
    /// A search whose root starts from the given multipliers. It stores multipliers of open nodes up to `memory` bytes,
    /// and starts with the best plan known, if any.
    pub(crate) fn new(
        dual: Dual<'r>,
        root: Multipliers,
        best: Option<Plan>,
        at_root: [u64; 2],
        memory: Option<u64>,
    ) -> Tree<'r> {
        let reduced = dual.reduced();
        let strategies = dual.elimination().offsets.last().copied().unwrap_or(0) as usize;
        let held = Arc::new(AtomicUsize::new(0));
        let open = OpenNode {
            bound: f64::NEG_INFINITY,
            depth: 0,
            allowed: Arc::new(vec![true; strategies]),
            multipliers: Arc::new(CountedMultipliers::new(root.clone(), &held)),
        };
        Tree {
            reduced,
            adjacent: Adjacency::new(&reduced.network),
            dual,
            open: BinaryHeap::from([open]),
            best,
            root: Ascent { bound: f64::NEG_INFINITY, multipliers: root },
            at_root,
            held,
            memory: memory.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
            bounded: 0,
        }
    }

    /// The best plan.
    pub(crate) fn best(&self) -> Option<&Plan> {
        self.best.as_ref()
    }

    /// The strongest bound of the root, with its multipliers.
    pub(crate) fn root(&self) -> &Ascent {
        &self.root
    }

    /// The object that computes the bounds of this search.
    pub(crate) fn dual(&mut self) -> &mut Dual<'r> {
        &mut self.dual
    }

    /// The cost of the best plan; if there is no plan, a cost above that of any plan.
    fn upper(&self) -> f64 {
        self.best.as_ref().map_or(self.reduced.forbidden, |best| best.cost)
    }

    /// Lowest bound of the open nodes, but at most the cost of the best plan; if there is neither, infinity.
    pub(crate) fn bound(&self) -> f64 {
        let best = self.best.as_ref().map_or(f64::INFINITY, |best| best.cost);
        self.open.peek().map_or(best, |open| open.bound.min(best))
    }

    /// Bounds a batch of open nodes, starting with the root. Returns false if no open node is left.
    pub(crate) fn step(&mut self, stop: &Stop) -> bool {
        let upper = self.upper();
        let mut batch = Vec::with_capacity(BATCH);
        while batch.len() < BATCH
            && let Some(open) = self.open.pop()
        {
            if is_open(open.bound, upper) {
                batch.push(open);
            }
        }
        let stores = self.memory.is_none_or(|memory| self.held.load(Relaxed) < memory);
        let work = |dual: &mut Dual<'r>, open: &OpenNode| self.bounded(dual, open, upper, stores, stop);
        let results: Vec<Bounded> = match &batch[..] {
            [open] => vec![work(&mut self.dual.clone(), open)],
            _ => batch.par_iter().map_init(|| self.dual.clone(), work).collect(),
        };
        for (open, result) in batch.into_iter().zip(results) {
            let is_cut_off = stop.reason().is_some();
            self.bounded += 1;
            if let Some(plan) = result.plan.filter(|plan| plan.cost < self.upper()) {
                self.best = Some(plan);
            }
            if is_cut_off {
                self.open.push(OpenNode { bound: result.ascent.bound.max(open.bound), ..open.clone() });
            } else {
                self.open.extend(result.children);
            }
            if open.depth == 0 && result.ascent.bound > self.root.bound {
                self.root = result.ascent;
            }
        }
        let upper = self.upper();
        if self.open.peek().is_some_and(|open| !is_open(open.bound, upper)) {
            self.open.clear();
        }
        !self.open.is_empty()
    }

    /// Bounds an open node and branches on it.
    fn bounded(
        &self,
        dual: &mut Dual<'r>,
        open: &OpenNode,
        mut upper: f64,
        stores: bool,
        stop: &Stop,
    ) -> Bounded {
        let network = &self.reduced.network;
        let mut plan: Option<Plan> = None;
        let mut state = State::new(network, &self.adjacent, stop);
        let mut seen = Seen::new(open.allowed.len());
        let offsets = dual.elimination().offsets.clone();
        let [iterations, patience] = if open.depth == 0 { self.at_root } else { BELOW };
        let mut attempts = Attempts::new();
        let ascent = dual.ascend(
            open.multipliers.multipliers.clone(),
            &open.allowed,
            Effort { iterations, patience, stop },
            |choice| {
                seen.add(offsets.iter().zip(choice).map(|(first, strategy)| (first + strategy) as usize));
                let cost = network.cost(choice);
                state.set(choice);
                let fits = state.fits();
                if (cost < upper && fits) || (!fits && attempts.next() && state.repair()) {
                    let cost = state.descend();
                    if cost < upper {
                        upper = cost;
                        plan = Some(Plan { cost, choice: state.choice.clone() });
                    }
                }
                threshold(upper)
            },
        );
        let bound = ascent.bound.max(open.bound);
        let branches = match is_open(bound, upper) && stop.reason().is_none() {
            true => self.branches(dual, open, &ascent.multipliers, [bound, upper], stores, &seen.weights),
            false => Branches::None,
        };
        let children = match branches {
            Branches::None => Vec::new(),
            Branches::Two(children) => children.into(),
            Branches::Decided(choice) => {
                state.set(&choice);
                let cost = network.cost(&choice);
                if state.fits() && cost < upper {
                    plan = Some(Plan { cost, choice });
                }
                Vec::new()
            }
        };
        Bounded { ascent, children, plan }
    }

    /// Removes the strategies that the bound excludes, and branches on whether one node takes one of its strategies.
    fn branches(
        &self,
        dual: &mut Dual<'r>,
        open: &OpenNode,
        multipliers: &Multipliers,
        [bound, upper]: [f64; 2],
        stores: bool,
        seen: &[f64],
    ) -> Branches {
        let mut rises = Vec::new();
        let mut allowed = (*open.allowed).clone();
        let explicit = dual.reduced_costs(multipliers, &allowed, &mut rises);
        for (allowed, rise) in allowed.iter_mut().zip(&rises) {
            *allowed = *allowed && is_open(explicit + rise, upper);
        }
        let network = &self.reduced.network;
        let offsets = &dual.elimination().offsets;
        let range = |node: usize| offsets[node] as usize..offsets[node + 1] as usize;
        let mut best: Option<(f64, usize, usize)> = None;
        for node in 0..network.nodes.len() {
            let left = || range(node).filter(|&index| allowed[index]);
            let Some(chosen) = left().rev().max_by(|&a, &b| seen[a].total_cmp(&seen[b])) else {
                return Branches::None;
            };
            if left().nth(1).is_none() {
                continue;
            }
            // A node whose strategy changes from choice to choice together with many others; failing that, one
            // whose usage may matter.
            let total: f64 = seen[range(node)].iter().sum();
            let ambiguity = 1.0 - seen[chosen] / total.max(1.0);
            let usage = if network.nodes[node].parts.is_empty() { 0.0 } else { 1e-6 };
            let score = ambiguity * (1.0 + self.adjacent.of(node).len() as f64) + usage;
            if best.is_none_or(|best| score > best.0) {
                best = Some((score, node, chosen));
            }
        }
        let Some((_, node, chosen)) = best else {
            let strategy = |node| range(node).position(|index| allowed[index]).unwrap_or(0) as u32;
            return Branches::Decided((0..network.nodes.len()).map(strategy).collect());
        };
        let multipliers = match stores {
            true => Arc::new(CountedMultipliers::new(multipliers.clone(), &self.held)),
            false => open.multipliers.clone(),
        };
        let child = |takes: bool| {
            let mut allowed = allowed.clone();
            for index in range(node) {
                allowed[index] &= (index == chosen) == takes;
            }
            OpenNode {
                bound,
                depth: open.depth + 1,
                allowed: Arc::new(allowed),
                multipliers: multipliers.clone(),
            }
        };
        Branches::Two([child(true), child(false)])
    }
}

/// How often each strategy was suggested; recent choices weigh more.
struct Seen {
    weights: Vec<f64>,
    weight: f64,
}

/// Weight of a choice relative to the one before it.
const GROWTH: f64 = 1.1;
/// The weight above which all weights are scaled down.
const LARGEST_WEIGHT: f64 = 1e100;

impl Seen {
    fn new(strategies: usize) -> Seen {
        Seen { weights: vec![0.0; strategies], weight: 1.0 }
    }

    fn add(&mut self, choice: impl Iterator<Item = usize>) {
        for index in choice {
            self.weights[index] += self.weight;
        }
        self.weight *= GROWTH;
        if self.weight > LARGEST_WEIGHT {
            self.weights.iter_mut().for_each(|weight| *weight /= self.weight);
            self.weight = 1.0;
        }
    }
}

/// Decides which of the choices that exceed the limit are repaired: fewer and fewer of them, and none of the first,
/// which were suggested before any point had a price.
#[derive(Debug)]
struct Attempts {
    seen: u64,
    next: u64,
}

impl Attempts {
    fn new() -> Attempts {
        Attempts { seen: 0, next: 5 }
    }

    fn next(&mut self) -> bool {
        self.seen += 1;
        let is_due = self.seen > self.next;
        if is_due {
            self.next = self.next + self.next / 2 + 5;
        }
        is_due
    }
}

/// The bound above which no plan is better than one of cost `upper`. Costs are integers, so a better plan costs at
/// least one less; and it must be better by more than the tolerance of an optimum.
fn threshold(upper: f64) -> f64 {
    upper - (upper * OPTIMAL_RELATIVE).max(1.0)
}

/// Whether a plan that costs at least `bound` may be better than one that costs `upper`.
fn is_open(bound: f64, upper: f64) -> bool {
    bound <= threshold(upper)
}
