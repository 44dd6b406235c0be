//! Common parts of list schedulers, which add one operator after the other to a partial schedule.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use stagewright_core::bound::strongest_before;
use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::{Graph, OpId};
use stagewright_core::ids::Keyed;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Plan, Solution, SolveError, Solver, Status, Stop};

use super::instance::Instance;
use super::partial_schedule::PartialSchedule;
use super::schedule::{Best, Evaluator, NOT_COMPLETED, NOT_FITTING, Schedule, solve_instance};

/// Fractions of the memory that a partial schedule may fill, tried in turn until the simulator finds that everything
/// fits: a partial schedule only estimates the memory in use.
const SHARES: [f64; 6] = [1.0, 0.9, 0.8, 0.65, 0.5, 0.3];
/// Share of the time after which a one-pass scheduler places the remaining operators without comparing devices.
const FILLING_SHARE: f64 = 0.6;
/// Maximum number of operators for which a second schedule is completed after the time limit.
const MAX_REPEATED: usize = 10_000;
/// Number of evaluations of a device for an operator between clock checks.
pub(super) const BETWEEN_CHECKS: usize = 256;

/// Fills a partial schedule; `None` if stopped.
pub(super) type Fill = fn(&mut PartialSchedule<'_, '_>, &Stop) -> Option<()>;

/// A list scheduler.
#[derive(Debug)]
pub struct ListScheduler {
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    pub(super) fill: Fill,
    /// Whether the scheduler visits every operator once. Its first schedule is then completed regardless of the limits,
    /// in a hurry once they apply.
    pub(super) is_one_pass: bool,
}

impl ListScheduler {
    /// The plan without a bound; `None` if evidently no plan exists or no schedule found fits. A one-pass scheduler
    /// completes its first schedule regardless of the limits.
    pub fn plan(&self, problem: &Problem, stop: &Stop) -> Option<Plan> {
        let instance = Instance::new(problem);
        if instance.impossible().is_some() {
            return None;
        }
        self.plan_of(&instance, stop).ok()
    }

    /// The plan of an instance, or the reason why there is none. One simulation suffices if the first schedule fits.
    fn plan_of(&self, instance: &Instance<'_>, stop: &Stop) -> Result<Plan, &'static str> {
        let [first, others @ ..] = SHARES;
        let schedule = self.schedule(instance, first, self.is_one_pass, stop).ok_or(NOT_COMPLETED)?;
        if let Ok(plan) = Plan::try_new(instance.problem(), schedule.placement()) {
            return Ok(plan);
        }
        if stop.reason().is_some() && instance.graph().operator_count() > MAX_REPEATED {
            return Err(NOT_FITTING);
        }
        let best = self.best_of(&mut Evaluator::without_tails(instance), &others, stop);
        let best = best.filter(|best| best.score.fits()).ok_or(NOT_FITTING)?;
        Plan::try_new(instance.problem(), best.schedule.placement()).map_err(|_| NOT_FITTING)
    }

    /// The best schedule found: one that fits, or otherwise the schedule with the smallest memory excess.
    pub(super) fn best(&self, evaluator: &mut Evaluator<'_, '_>, stop: &Stop) -> Option<Best> {
        self.best_of(evaluator, &SHARES, stop)
    }

    fn best_of(&self, evaluator: &mut Evaluator<'_, '_>, shares: &[f64], stop: &Stop) -> Option<Best> {
        let mut best: Option<Best> = None;
        for &share in shares {
            let in_any_case = self.is_one_pass && best.is_none();
            let Some(schedule) = self.schedule(evaluator.instance(), share, in_any_case, stop) else { break };
            best = Best::better_of(best, evaluator, schedule);
            if best.as_ref().is_some_and(|best| best.score.fits()) {
                break;
            }
        }
        best
    }

    /// A schedule whose devices may be filled to a share of their memory; `None` if a limit ends the scheduler, unless
    /// the schedule is to be completed in any case.
    fn schedule(
        &self,
        instance: &Instance<'_>,
        share: f64,
        in_any_case: bool,
        stop: &Stop,
    ) -> Option<Schedule> {
        let mut partial = PartialSchedule::new(instance, share);
        if !in_any_case {
            (self.fill)(&mut partial, stop)?;
            return Some(partial.schedule());
        }
        // The rest of the time is reserved for the simulation.
        let stop = stop.within(stop.remaining().map(|left| left.mul_f64(FILLING_SHARE)));
        partial.complete_in_a_hurry();
        (self.fill)(&mut partial, &stop)?;
        Some(partial.schedule())
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

    fn run(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution, SolveError> {
        solve_instance(self.name(), problem, |instance| {
            let plan = self.plan_of(instance, context.stop());
            let bound = strongest_before(problem, context.stop());
            let stop = context.stop().reason();
            Ok(match plan {
                Ok(plan) => {
                    let stop = context.end(plan.value(), bound.value);
                    Solution::with_plan(self.name, plan, bound, stop)
                }
                Err(why) => Solution::without_plan(self.name, Status::Unknown, bound, stop, why.into()),
            })
        })
    }
}

/// Adds operators in an order, each on the device of minimum cost; ties go to the first device. Once `stop` applies, a
/// schedule that is to be completed receives the remaining operators without a comparison of devices.
pub(super) fn fill_in_order(
    partial: &mut PartialSchedule<'_, '_>,
    order: &[OpId],
    stop: &Stop,
    mut cost: impl FnMut(&mut PartialSchedule<'_, '_>, OpId, DeviceId) -> f64,
) -> Option<()> {
    let mut devices = Vec::new();
    let mut looks = 0;
    let mut is_late = false;
    for &op in order {
        if looks >= BETWEEN_CHECKS && !is_late {
            looks = 0;
            is_late = stop.reason().is_some();
            if is_late && !partial.is_completed_in_a_hurry() {
                return None;
            }
        }
        let device = match is_late {
            true => partial.nearest(op)?,
            false => cheapest(partial, op, &mut devices, &mut cost)?,
        };
        looks += partial.instance().homes(op).len();
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
