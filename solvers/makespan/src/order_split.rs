//! Splits of linear orders.
//!
//! The operators form a line, each after its inputs; the line is cut into intervals, and each interval goes to a
//! device. The lines are those of other objectives (branches one after the other, branches side by side, the critical
//! path first), but a step under dataflow execution is not a pipeline: an interval pays for communication only if a
//! reader waits for it, and a device may have several intervals. The cuts are therefore found on the simulator.
//! Starting from intervals of equal work, assigned to the devices in turn, the search moves cuts by ever smaller steps
//! and changes the devices of intervals. It takes the first change that shortens the step.

use stagewright_core::bound::strongest_before;
use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::{ClassId, Graph, OpId};
use stagewright_core::ids::Keyed;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Event, Solution, SolveError, Solver, Stop};

use super::instance::Instance;
use super::list::ready_order;
use super::rank;
use super::schedule::{Best, Evaluator, Schedule, is_better, solution, solve_instance};
use super::search::most_simulations;

/// Maximum number of other devices tried for an interval.
const MAX_DEVICES: usize = 16;
/// Number of intervals per device.
const INTERVALS: [usize; 3] = [1, 2, 4];

/// The best split of a few linear orders.
#[derive(Debug, Clone, Copy, Default)]
pub struct OrderSplit;

/// A line of classes with its cuts.
#[derive(Debug, Clone)]
struct Split {
    /// Start of each interval, the first at zero.
    cuts: Vec<usize>,
    /// The device of each interval.
    homes: Vec<DeviceId>,
}

/// A line of classes with their work, and the corresponding queue order.
struct Line {
    classes: Vec<ClassId>,
    /// Mean seconds before each class, and in total.
    before: Vec<f64>,
    order: Vec<OpId>,
}

impl Line {
    /// The classes in the order of their first operators.
    fn new(instance: &Instance<'_>, order: Vec<OpId>) -> Line {
        let graph = instance.graph();
        let mut is_in = Keyed::filled(false, graph.class_count());
        let mut classes = Vec::with_capacity(graph.class_count());
        for &op in &order {
            let class = graph.class_of(op);
            if !std::mem::replace(&mut is_in[class], true) {
                classes.push(class);
            }
        }
        let mut before = vec![0.0];
        let mut sum = 0.0;
        for &class in &classes {
            sum += graph.class(class).iter().map(|&op| instance.mean_seconds(op)).sum::<f64>();
            before.push(sum);
        }
        Line { classes, before, order }
    }

    /// Intervals of equal work, on the devices in turn.
    fn equal(&self, intervals: usize, devices: usize) -> Split {
        let all = self.before.last().copied().unwrap_or(0.0);
        let cut = |index: usize| {
            let goal = all * index as f64 / intervals as f64;
            self.before.partition_point(|&before| before < goal).min(self.classes.len())
        };
        Split {
            cuts: (0..intervals).map(cut).collect(),
            homes: (0..intervals).map(|index| DeviceId::new(index % devices)).collect(),
        }
    }

    /// The schedule of a split. A class that cannot run on the device of its interval goes to the first that can run
    /// it.
    fn schedule(&self, split: &Split, instance: &Instance<'_>) -> Schedule {
        let graph = instance.graph();
        let mut device_of = vec![DeviceId(0); graph.operator_count()];
        for (index, &device) in split.homes.iter().enumerate() {
            let end = split.cuts.get(index + 1).copied().unwrap_or(self.classes.len());
            for &class in &self.classes[split.cuts[index].min(end)..end] {
                let homes = instance.homes_of_class(class);
                let home = if homes.contains(&device) { device } else { homes[0] };
                for op in graph.class(class) {
                    device_of[op.index()] = home;
                }
            }
        }
        Schedule::by_order(device_of, &self.order)
    }

    /// Hill climbing from a split: moves cuts and changes devices; returns the best schedule.
    fn climb(
        &self,
        mut split: Split,
        evaluator: &mut Evaluator<'_, '_>,
        limit: u64,
        stop: &Stop,
    ) -> Option<Best> {
        let instance = evaluator.instance();
        let mut best = Best::better_of(None, evaluator, self.schedule(&split, instance))?;
        let mut step = (self.classes.len() / split.cuts.len().max(1)).max(1) / 2;
        loop {
            let mut is_new = false;
            for index in 0..split.cuts.len() {
                let devices = instance.device_count();
                let after = |by: usize| DeviceId::new((split.homes[index].index() + by) % devices);
                let mut tries: Vec<Split> = Vec::new();
                for home in (1..devices.min(MAX_DEVICES + 1)).map(after) {
                    let mut other = split.clone();
                    other.homes[index] = home;
                    tries.push(other);
                }
                for cut in [split.cuts[index].checked_sub(step), split.cuts[index].checked_add(step)] {
                    let low = if index > 0 { split.cuts[index - 1] } else { 0 };
                    let high = split.cuts.get(index + 1).copied().unwrap_or(self.classes.len());
                    if let Some(cut) = cut.filter(|&cut| index > 0 && step > 0 && (low..=high).contains(&cut))
                    {
                        let mut other = split.clone();
                        other.cuts[index] = cut;
                        tries.push(other);
                    }
                }
                for other in tries {
                    if stop.reason().is_some() || evaluator.runs >= limit {
                        return Some(best);
                    }
                    let schedule = self.schedule(&other, instance);
                    // A schedule that fits may be longer than one that does not.
                    let limit = if best.score.fits() { best.score.makespan } else { f64::INFINITY };
                    if let Some(score) = evaluator.score_below(&schedule, limit)
                        && is_better(score, best.score)
                    {
                        best = Best { score, schedule };
                        split = other;
                        is_new = true;
                    }
                }
            }
            match (is_new, step) {
                (false, 0 | 1) => return Some(best),
                (false, _) => step /= 2,
                (true, _) => {}
            }
        }
    }
}

/// Topological orders of the operators: branches one after the other, branches side by side, longest path to the end
/// first.
fn orders(instance: &Instance<'_>) -> Vec<Vec<OpId>> {
    let graph = instance.graph();
    let up = rank::upward(instance);
    let down: Vec<f64> = rank::downward(instance).iter().map(|down| -down).collect();
    let mut orders = vec![depth_first(graph), ready_order(graph, &down), rank::falling(instance, &up)];
    orders.dedup();
    orders
}

/// Depth first: the operator that became ready last is next.
fn depth_first(graph: &Graph) -> Vec<OpId> {
    let mut waits: Keyed<OpId, usize> = graph.operators().map(|op| graph.predecessors(op).len()).collect();
    let mut stack: Vec<OpId> = graph.operators().filter(|&op| waits[op] == 0).collect();
    stack.reverse();
    let mut order = Vec::with_capacity(graph.operator_count());
    while let Some(op) = stack.pop() {
        order.push(op);
        for &next in graph.successors(op).iter().rev() {
            waits[next] -= 1;
            if waits[next] == 0 {
                stack.push(next);
            }
        }
    }
    order
}

/// The schedules of the orders, each cut into one interval of equal work for every device.
pub(super) fn equal_cuts(instance: &Instance<'_>) -> Vec<Schedule> {
    let devices = instance.device_count();
    let schedule = |order: Vec<OpId>| {
        let line = Line::new(instance, order);
        line.schedule(&line.equal(devices, devices), instance)
    };
    orders(instance).into_iter().map(schedule).collect()
}

impl Solver for OrderSplit {
    fn name(&self) -> &'static str {
        "order-split"
    }

    fn summary(&self) -> &'static str {
        "splits of linear orders, cut on the simulator (makespan)"
    }

    fn unsupported(&self, objective: &Objective) -> Option<&'static str> {
        crate::unsupported(objective)
    }

    fn run(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution, SolveError> {
        solve_instance(self.name(), problem, |instance| {
            let mut evaluator = Evaluator::without_tails(instance);
            evaluator.find_tails(context.stop());
            let mut best: Option<Best> = None;
            let limit = most_simulations(instance, context);
            for order in orders(instance) {
                let line = Line::new(instance, order);
                for intervals in INTERVALS {
                    if best.is_some() && context.stop().reason().is_some() {
                        break;
                    }
                    let devices = instance.device_count();
                    let split = line.equal(intervals * devices, devices);
                    let found = line.climb(split, &mut evaluator, limit, context.stop());
                    if let Some(found) = found
                        && best.as_ref().is_none_or(|best| is_better(found.score, best.score))
                    {
                        if found.score.fits() {
                            context.emit(Event::Incumbent { value: found.score.makespan });
                        }
                        best = Some(found);
                    }
                }
            }
            let bound = strongest_before(problem, context.stop());
            solution(self.name(), instance, best, bound, context)
        })
    }
}
