//! Refutation of a target: a search tree over the pairs of neighbours that share a device.

use rustc_hash::{FxHashMap, FxHashSet};

use super::Reach;
use super::arcs::Arcs;
use super::capacity::Columns;
use super::energetic::energy;
use super::one_machine::{Job, Machine, longest_class};
use crate::graph::{ClassId, OpId};
use crate::problem::Problem;
use crate::stop::Stop;

/// Weight of the smaller class's seconds in the choice of the arc to branch on: large classes on one device raise the
/// bound of [`OneMachine`](super::OneMachine), small ones hardly do.
const CLASS_WEIGHT: f64 = 0.5;

/// A search for a contradiction in the assumption that the step is shorter than `target`.
///
/// A node of the tree has decided of some arcs that their ends are on one device, and of others that they are on
/// different ones. The former are colocation classes of its problem; over the latter, tensors are always transferred.
/// The node is refuted if [`OneMachine`](super::OneMachine) or [`Energetic`](super::Energetic) reaches the target. The
/// ends of an arc must be together if the bound of a class of theirs reaches the target with the transfer over it.
/// Otherwise the node branches on an arc, first with its ends apart. This is the tree of Zykov for the colouring of a
/// graph, which contracts two vertices or joins them.
///
/// Devices are never named, so devices that are alike cost no repetition.
pub(super) struct Refutation<'a> {
    pub(super) target: f64,
    /// Maximum number of nodes.
    pub(super) most: usize,
    pub(super) nodes: usize,
    pub(super) stop: &'a Stop,
}

impl Refutation<'_> {
    /// Whether no schedule of a problem is shorter than the target; `false` if that remains open.
    pub(super) fn succeeds(&mut self, problem: &Problem) -> bool {
        self.refutes(Node { problem: problem.clone(), apart: Vec::new() })
    }

    fn refutes(&mut self, mut node: Node) -> bool {
        loop {
            self.nodes += 1;
            if self.nodes > self.most || self.stop.reason().is_some() {
                return false;
            }
            let Some(reach) = Reach::with_apart(&node.problem, node.apart.clone()) else { return true };
            if longest_class(&node.problem, &reach) >= self.target
                || energy(&reach, &Columns::new(&reach)).is_some_and(|energy| energy >= self.target)
            {
                return true;
            }
            let Examined { together, next } = self.examine(&node, &reach);
            if !together.is_empty() {
                node.join(together);
                continue;
            }
            let Some((arc, ends)) = next else { return false };
            let mut child = node.clone();
            child.separate(arc, reach.arcs().len());
            if !self.refutes(child) {
                return false;
            }
            node.join(vec![ends]);
        }
    }

    /// The bounds of the classes at both ends of every open arc, if its ends are on different devices.
    fn examine(&self, node: &Node, reach: &Reach<'_>) -> Examined {
        let problem = &node.problem;
        let graph = problem.graph();
        let class = |op: OpId| graph.class(graph.class_of(op));
        let least = |&op: &OpId| {
            let pools = 0..problem.pools().len();
            pools.map(|pool| reach.seconds(op, pool)).fold(f64::INFINITY, f64::min)
        };
        let mut machine = Machine::default();
        let mut examined = Examined::default();
        let mut best = f64::NEG_INFINITY;
        for (arc, ends) in reach.arcs() {
            let [from, to] = ends;
            if graph.class_of(from) == graph.class_of(to) || node.is_apart(arc) {
                continue;
            }
            let pools = 0..problem.pools().len();
            let (mut with_head, mut with_tail) = (0.0, 0.0);
            if pools.clone().any(|pool| reach.arrival(arc, pool) > reach.head(to, pool)) {
                with_head = machine.of_class(problem, class(to), |op, pool| {
                    let job = Job::new(reach, op, pool);
                    if op == to { Job { head: job.head.max(reach.arrival(arc, pool)), ..job } } else { job }
                });
            }
            if pools.clone().any(|pool| reach.departure(arc, pool) > reach.tail(from, pool)) {
                with_tail = machine.of_class(problem, class(from), |op, pool| {
                    let job = Job::new(reach, op, pool);
                    if op == from {
                        Job { tail: job.tail.max(reach.departure(arc, pool)), ..job }
                    } else {
                        job
                    }
                });
            }
            let apart = f64::max(with_head, with_tail);
            if apart >= self.target {
                examined.together.push(ends);
            }
            let [smaller, other] = ends.map(|op| class(op).iter().map(least).sum::<f64>());
            let score = apart + CLASS_WEIGHT * f64::min(smaller, other);
            if score > best {
                best = score;
                examined.next = Some((arc, ends));
            }
        }
        examined
    }
}

/// What follows from the bounds of single arcs.
#[derive(Default)]
struct Examined {
    /// Pairs that must be on one device.
    together: Vec<[OpId; 2]>,
    /// The arc to branch on, if any is open, and its ends.
    next: Option<(u32, [OpId; 2])>,
}

/// What is decided.
#[derive(Clone)]
struct Node {
    /// Operators that are together are colocated.
    problem: Problem,
    /// By arc, whether its ends are on different devices; empty if no arc's are.
    apart: Vec<bool>,
}

impl Node {
    fn is_apart(&self, arc: u32) -> bool {
        self.apart.get(arc as usize).is_some_and(|&apart| apart)
    }

    /// Decides that the ends of an arc are on different devices.
    fn separate(&mut self, arc: u32, arcs: usize) {
        self.apart.resize(arcs, false);
        self.apart[arc as usize] = true;
        self.close();
    }

    /// Decides that the operators of every pair are on one device.
    fn join(&mut self, pairs: Vec<[OpId; 2]>) {
        self.problem = self.problem.colocated(pairs);
        self.close();
    }

    /// Adds what the decisions imply: all arcs between two classes that are apart are; and of two devices, classes that
    /// are not on the one are on the other.
    fn close(&mut self) {
        if self.apart.is_empty() {
            return;
        }
        let graph = self.problem.graph();
        let arcs = Arcs::new(graph);
        let decided: Vec<[OpId; 2]> = (0..self.apart.len() as u32)
            .filter(|&arc| self.is_apart(arc))
            .map(|arc| arcs.ends(arc))
            .collect();
        if self.problem.cluster().device_count() == 2 {
            let mut opposite: FxHashMap<ClassId, OpId> = FxHashMap::default();
            let both_ways = decided.iter().flat_map(|&[a, b]| [[a, b], [b, a]]);
            let same = both_ways.map(|[a, b]| [*opposite.entry(graph.class_of(a)).or_insert(b), b]);
            let same: Vec<[OpId; 2]> =
                same.filter(|&[a, b]| graph.class_of(a) != graph.class_of(b)).collect();
            if !same.is_empty() {
                return self.join(same);
            }
        }
        let classes = |ends: [OpId; 2]| {
            let [a, b] = ends.map(|op| graph.class_of(op));
            [a.min(b), a.max(b)]
        };
        let pairs: FxHashSet<[ClassId; 2]> = decided.into_iter().map(classes).collect();
        for (arc, apart) in (0..).zip(&mut self.apart) {
            *apart = pairs.contains(&classes(arcs.ends(arc)));
        }
    }
}
