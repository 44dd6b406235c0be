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

/// Weight of the smaller class's seconds in the choice of the arc to branch on. Merging large classes on one device
/// raises the bound of [`OneMachine`](super::OneMachine), merging small ones hardly does.
const CLASS_WEIGHT: f64 = 0.5;

/// A search for a contradiction in the assumption that the step is shorter than `target`.
///
/// At a node of the tree, some arcs are decided to have both ends on one device, and others to have them on different
/// devices. The former make colocation classes of the node's problem; over the latter, tensors are always transferred.
/// The node is refuted if [`OneMachine`](super::OneMachine) or [`Energetic`](super::Energetic) reaches the target. The
/// ends of an arc must be together if, with the transfer over the arc, the bound of either end's class reaches the
/// target. Otherwise the node branches on an arc, first with its ends apart. This is the tree of Zykov for the
/// colouring of a graph, which merges two vertices or adds an edge between them.
///
/// Devices are never named, so identical devices do not multiply the work.
pub(super) struct Refutation<'a> {
    pub(super) target: f64,
    pub(super) max_nodes: usize,
    pub(super) nodes: usize,
    pub(super) stop: &'a Stop,
}

impl Refutation<'_> {
    /// Whether every schedule of a problem takes at least the target; `false` also if that remains undecided.
    pub(super) fn succeeds(&mut self, problem: &Problem) -> bool {
        let mut trail: Vec<Decision> = Vec::new();
        // Alternatives still to be tried: the length of the trail at the branching, and the pair to put together.
        let mut alternatives: Vec<(usize, [OpId; 2])> = Vec::new();
        loop {
            if self.nodes == self.max_nodes || self.stop.reason().is_some() {
                return false;
            }
            self.nodes += 1;
            match self.examine(&Node::new(problem, &trail)) {
                Examined::Open => return false,
                Examined::Together(pairs) => trail.extend(pairs.into_iter().map(Decision::Together)),
                Examined::Branch(arc, ends) => {
                    alternatives.push((trail.len(), ends));
                    trail.push(Decision::Apart(arc));
                }
                Examined::Refuted => {
                    let Some((length, ends)) = alternatives.pop() else { return true };
                    trail.truncate(length);
                    trail.push(Decision::Together(ends));
                }
            }
        }
    }

    /// Computes the bounds of a node and, for every open arc, those of the classes at its ends if these were apart.
    fn examine(&self, node: &Node) -> Examined {
        let problem = &node.problem;
        let Some(reach) = Reach::with_apart(problem, node.apart.clone()) else { return Examined::Refuted };
        if longest_class(problem, &reach) >= self.target
            || energy(&reach, &Columns::new(&reach), self.stop).is_some_and(|energy| energy >= self.target)
        {
            return Examined::Refuted;
        }
        let graph = problem.graph();
        let class = |op: OpId| graph.class(graph.class_of(op));
        let least = |&op: &OpId| {
            let pools = 0..problem.pools().len();
            pools.map(|pool| reach.seconds(op, pool)).fold(f64::INFINITY, f64::min)
        };
        // On two devices, operators that are both separate from a third share a device, so separating ends matters even
        // if no transfer does.
        let are_two = problem.cluster().device_count() == 2;
        let mut machine = Machine::default();
        let mut together = Vec::new();
        let mut branch: Option<(f64, u32, [OpId; 2])> = None;
        for (arc, ends) in reach.arcs() {
            let [from, to] = ends.map(|op| graph.class_of(op));
            if from == to || node.apart[arc as usize] {
                continue;
            }
            let apart = apart(problem, &reach, &mut machine, arc, ends);
            if apart >= self.target {
                together.push(ends);
            }
            // On more devices, separating the ends changes no bound unless the transfer does.
            if apart > 0.0 || are_two {
                let [producing, reading] = ends.map(|op| class(op).iter().map(least).sum::<f64>());
                let score = apart + CLASS_WEIGHT * f64::min(producing, reading);
                if branch.is_none_or(|(best, ..)| score > best) {
                    branch = Some((score, arc, ends));
                }
            }
        }
        match branch {
            _ if !together.is_empty() => Examined::Together(together),
            Some((_, arc, ends)) => Examined::Branch(arc, ends),
            None => Examined::Open,
        }
    }
}

/// The larger bound of the classes at the two ends of an arc, given that the ends are apart; zero if the transfer
/// changes neither bound.
fn apart(problem: &Problem, reach: &Reach, machine: &mut Machine, arc: u32, [from, to]: [OpId; 2]) -> f64 {
    let graph = problem.graph();
    let class = |op: OpId| graph.class(graph.class_of(op));
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
            if op == from { Job { tail: job.tail.max(reach.departure(arc, pool)), ..job } } else { job }
        });
    }
    f64::max(with_head, with_tail)
}

/// Outcome of examining a node.
enum Examined {
    /// The bounds reach the target.
    Refuted,
    /// Pairs of operators that must be on one device.
    Together(Vec<[OpId; 2]>),
    /// The arc to branch on, and its ends.
    Branch(u32, [OpId; 2]),
    /// The bounds do not reach the target, not even with the ends of all open arcs apart.
    Open,
}

/// A decision of the tree.
#[derive(Debug, Clone, Copy)]
enum Decision {
    /// Two operators on one device.
    Together([OpId; 2]),
    /// The ends of an arc on different devices.
    Apart(u32),
}

/// A node of the tree, with the implications of its decisions: if one arc between two classes is apart, all are; and if
/// there are only two devices, classes that are both apart from a third are together.
struct Node {
    /// The problem, in which operators that are together are colocated.
    problem: Problem,
    /// Whether the ends of each arc are on different devices.
    apart: Vec<bool>,
}

impl Node {
    fn new(root: &Problem, trail: &[Decision]) -> Node {
        let arcs = Arcs::new(root.graph());
        let mut pairs = Vec::new();
        let mut separated = Vec::new();
        for decision in trail {
            match *decision {
                Decision::Together(pair) => pairs.push(pair),
                Decision::Apart(arc) => separated.push(arcs.ends(arc)),
            }
        }
        let mut problem = root.colocated(pairs.iter().copied());
        while root.cluster().device_count() == 2 {
            let graph = problem.graph();
            let mut opposite: FxHashMap<ClassId, OpId> = FxHashMap::default();
            let both_ways = separated.iter().flat_map(|&[a, b]| [[a, b], [b, a]]);
            let same = both_ways.map(|[a, b]| [*opposite.entry(graph.class_of(a)).or_insert(b), b]);
            let count = pairs.len();
            pairs.extend(same.filter(|&[a, b]| graph.class_of(a) != graph.class_of(b)));
            if pairs.len() == count {
                break;
            }
            problem = root.colocated(pairs.iter().copied());
        }
        let graph = problem.graph();
        let classes = |ends: [OpId; 2]| {
            let [a, b] = ends.map(|op| graph.class_of(op));
            [a.min(b), a.max(b)]
        };
        let separated: FxHashSet<[ClassId; 2]> = separated.into_iter().map(classes).collect();
        let is_apart = |arc: usize| separated.contains(&classes(arcs.ends(arc as u32)));
        let apart = (0..arcs.len()).map(is_apart).collect();
        Node { problem, apart }
    }
}
