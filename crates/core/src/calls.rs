//! Grouping of a placement's operators into calls.
//!
//! A split assigns every operator to a device. For its latency the operators of an accelerator must also be grouped
//! into calls, and the value depends on the grouping. [`assign`] groups them by one fixed rule, before a split is
//! evaluated and never during the evaluation.

use crate::document::ObjectiveKind;
use crate::graph::OpId;
use crate::id;
use crate::ids::Keyed;
use crate::placement::Placement;
use crate::problem::Problem;

/// Groups the operators of each accelerator into few calls with a greedy rule. First, hosts run every operator that is
/// ready. Then one accelerator runs, in one call, all of its operators that wait for no other device. An accelerator
/// that can thereby complete its operators comes first, otherwise the one with the largest call. The two steps repeat.
/// If a split allows one call per accelerator, as a contiguous split does, each accelerator gets one call.
///
/// For any placement the calls are convex and their dependencies are acyclic; there may be more calls than the
/// objective allows. O(accelerators in use · (operators + edges)).
pub fn assign(problem: &Problem, placement: &Placement) -> Placement {
    let graph = problem.graph();
    let device_of: Vec<_> = graph.operators().map(|op| placement.device_of(op)).collect();
    let mut rounds = Rounds::new(problem, placement);
    while rounds.run_hosts() || rounds.run_a_call() {}
    Placement::with_calls(device_of, rounds.call_of.into_vec())
}

/// Assigns calls if the objective is latency and the placement has no calls.
pub fn assign_if_missing(problem: &Problem, placement: Placement) -> Placement {
    if problem.objective().kind() != ObjectiveKind::Latency || placement.has_calls() {
        return placement;
    }
    assign(problem, &placement)
}

id! {
    /// Index of a device among those in use.
    QueueId;
}

struct Rounds<'p> {
    problem: &'p Problem,
    queue_of: Keyed<OpId, QueueId>,
    /// Whether a queue belongs to a host.
    host: Keyed<QueueId, bool>,
    /// Number of predecessors of each operator that have not run.
    waiting: Keyed<OpId, usize>,
    /// Ready operators of each device.
    ready: Keyed<QueueId, Vec<OpId>>,
    /// Number of operators of each device that have not run.
    left: Keyed<QueueId, usize>,
    calls: Keyed<QueueId, u32>,
    call_of: Keyed<OpId, u32>,
}

impl<'p> Rounds<'p> {
    fn new(problem: &'p Problem, placement: &Placement) -> Rounds<'p> {
        let graph = problem.graph();
        let mut used: Vec<_> = graph.operators().map(|op| placement.device_of(op)).collect();
        used.sort_unstable();
        used.dedup();
        let queue = |op| used.binary_search(&placement.device_of(op)).expect("every device in use is listed");
        let mut rounds = Rounds {
            problem,
            queue_of: graph.operators().map(|op| QueueId::new(queue(op))).collect(),
            host: used.iter().map(|&device| problem.pools()[problem.pool_of(device)].host).collect(),
            waiting: graph.operators().map(|op| graph.predecessors(op).len()).collect(),
            ready: Keyed::filled(Vec::new(), used.len()),
            left: Keyed::filled(0, used.len()),
            calls: Keyed::filled(0, used.len()),
            call_of: Keyed::filled(0, graph.operator_count()),
        };
        for op in graph.operators() {
            let queue = rounds.queue_of[op];
            rounds.left[queue] += 1;
            if rounds.waiting[op] == 0 {
                rounds.ready[queue].push(op);
            }
        }
        rounds
    }

    /// Runs all ready operators on hosts. Returns whether there were any.
    fn run_hosts(&mut self) -> bool {
        let mut any = false;
        for queue in self.ready.ids() {
            while let Some(op) = self.host[queue].then(|| self.ready[queue].pop()).flatten() {
                self.done(op, None);
                any = true;
            }
        }
        any
    }

    /// Runs one call. Returns whether any accelerator had ready operators.
    fn run_a_call(&mut self) -> bool {
        let mut best: Option<(QueueId, Vec<OpId>)> = None;
        for queue in self.ready.ids() {
            if self.ready[queue].is_empty() {
                continue;
            }
            let members = self.closure(queue);
            let complete = members.len() == self.left[queue];
            if complete || best.as_ref().is_none_or(|(_, largest)| members.len() > largest.len()) {
                best = Some((queue, members));
            }
            if complete {
                break;
            }
        }
        let Some((queue, members)) = best else { return false };
        self.ready[queue].clear();
        for op in members {
            self.call_of[op] = self.calls[queue];
            self.done(op, Some(queue));
        }
        self.calls[queue] += 1;
        true
    }

    /// All operators that a device can run next without waiting for another device.
    fn closure(&mut self, queue: QueueId) -> Vec<OpId> {
        let graph = self.problem.graph();
        let mut members = self.ready[queue].clone();
        let mut next_member = 0;
        while next_member < members.len() {
            for &next in graph.successors(members[next_member]) {
                if self.queue_of[next] == queue {
                    self.waiting[next] -= 1;
                    if self.waiting[next] == 0 {
                        members.push(next);
                    }
                }
            }
            next_member += 1;
        }
        // Nothing has run yet, so the counts are restored.
        for &op in &members {
            for &next in graph.successors(op) {
                if self.queue_of[next] == queue {
                    self.waiting[next] += 1;
                }
            }
        }
        members
    }

    /// Marks an operator as run. `within` is the device of its call, of which all members are already known.
    fn done(&mut self, op: OpId, within: Option<QueueId>) {
        self.left[self.queue_of[op]] -= 1;
        for &next in self.problem.graph().successors(op) {
            self.waiting[next] -= 1;
            let queue = self.queue_of[next];
            if self.waiting[next] == 0 && Some(queue) != within {
                self.ready[queue].push(next);
            }
        }
    }
}
