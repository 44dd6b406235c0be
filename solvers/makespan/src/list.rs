//! Common parts of list schedulers, which add one operator after the other to a partial schedule.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::{Graph, OpId};
use stagewright_core::ids::Keyed;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Solution, SolveError, Solver, Stop};

use super::partial_schedule::PartialSchedule;
use super::schedule::{Best, Evaluator, solution, solve_instance};

/// Fractions of the memory that a partial schedule may fill, tried in turn until the simulator finds that everything
/// fits: a partial schedule only estimates the memory in use.
const SHARES: [f64; 6] = [1.0, 0.9, 0.8, 0.65, 0.5, 0.3];
/// Operators between clock checks.
pub(super) const BETWEEN_CHECKS: usize = 256;

/// Fills a partial schedule; `None` if stopped.
pub(super) type Fill = fn(&mut PartialSchedule<'_, '_>, &Stop) -> Option<()>;

/// A list scheduler.
#[derive(Debug)]
pub struct ListScheduler {
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    pub(super) fill: Fill,
    /// Whether it visits every operator once, so that the first schedule is completed regardless of the deadline.
    pub(super) is_one_pass: bool,
}

impl ListScheduler {
    /// The best schedule: one that fits, otherwise the one that lacks the least memory.
    pub(super) fn best(&self, evaluator: &mut Evaluator<'_, '_>, stop: &Stop) -> Option<Best> {
        let mut best: Option<Best> = None;
        for share in SHARES {
            let mut partial = PartialSchedule::new(evaluator.instance(), share);
            let is_patient = self.is_one_pass && best.is_none();
            let stop = if is_patient { &stop.without_deadline() } else { stop };
            if (self.fill)(&mut partial, stop).is_none() {
                break;
            }
            best = Best::better_of(best, evaluator, partial.schedule());
            if best.as_ref().is_some_and(|best| best.score.fits()) {
                break;
            }
        }
        best
    }
}

impl Solver for ListScheduler {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn unsupported(&self, objective: &Objective) -> Option<&'static str> {
        crate::unsupported(objective)
    }

    fn solve(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution, SolveError> {
        solve_instance(self, problem, |instance, bound| {
            let best = self.best(&mut Evaluator::new(instance), context.stop());
            solution(self.name, instance, best, bound, context)
        })
    }
}

/// Adds operators in an order, each on the device of minimum cost; ties go to the first device.
pub(super) fn fill_in_order(
    partial: &mut PartialSchedule<'_, '_>,
    order: &[OpId],
    stop: &Stop,
    mut cost: impl FnMut(&mut PartialSchedule<'_, '_>, OpId, DeviceId) -> f64,
) -> Option<()> {
    let mut devices = Vec::new();
    for (at, &op) in order.iter().enumerate() {
        if at.is_multiple_of(BETWEEN_CHECKS) && stop.reason().is_some() {
            return None;
        }
        let device = cheapest(partial, op, &mut devices, &mut cost)?;
        partial.add(op, device);
    }
    Some(())
}

/// The cheapest device among those that an operator may be added to.
pub(super) fn cheapest(
    partial: &mut PartialSchedule<'_, '_>,
    op: OpId,
    devices: &mut Vec<DeviceId>,
    cost: &mut impl FnMut(&mut PartialSchedule<'_, '_>, OpId, DeviceId) -> f64,
) -> Option<DeviceId> {
    partial.candidates(op, devices);
    let mut best: Option<(f64, DeviceId)> = None;
    for &device in &*devices {
        let cost = cost(partial, op, device);
        if best.is_none_or(|(least, _)| cost < least) {
            best = Some((cost, device));
        }
    }
    best.map(|(_, device)| device)
}

/// Operators whose producers have all been taken; the highest priority first, ties by lowest index.
#[derive(Debug)]
pub(super) struct Ready<'a> {
    graph: &'a Graph,
    priority: &'a [f64],
    waits: Keyed<OpId, usize>,
    heap: BinaryHeap<Waiting>,
}

#[derive(Debug, PartialEq)]
struct Waiting {
    priority: f64,
    op: OpId,
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> Ordering {
        self.priority.total_cmp(&other.priority).then(other.op.cmp(&self.op))
    }
}

impl<'a> Ready<'a> {
    /// Starts with the operators without producers.
    pub(super) fn new(graph: &'a Graph, priority: &'a [f64]) -> Ready<'a> {
        let waits = graph.operators().map(|op| graph.predecessors(op).len()).collect();
        let mut ready = Ready { graph, priority, waits, heap: BinaryHeap::new() };
        for op in graph.operators().filter(|&op| graph.predecessors(op).is_empty()) {
            ready.push(op);
        }
        ready
    }

    fn push(&mut self, op: OpId) {
        self.heap.push(Waiting { priority: self.priority[op.index()], op });
    }

    /// The next operator.
    pub(super) fn pop(&mut self) -> Option<OpId> {
        self.heap.pop().map(|waiting| waiting.op)
    }

    /// Marks `op` as taken; operators that waited only for it become ready.
    pub(super) fn took(&mut self, op: OpId) {
        for &next in self.graph.successors(op) {
            self.waits[next] -= 1;
            if self.waits[next] == 0 {
                self.push(next);
            }
        }
    }
}

/// The topological order that always takes the ready operator of highest priority. O((operators + edges) log
/// operators).
pub(super) fn ready_order(graph: &Graph, priority: &[f64]) -> Vec<OpId> {
    let mut ready = Ready::new(graph, priority);
    let mut order = Vec::with_capacity(graph.operator_count());
    while let Some(op) = ready.pop() {
        order.push(op);
        ready.took(op);
    }
    order
}
