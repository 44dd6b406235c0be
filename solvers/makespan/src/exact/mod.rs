//! Branch and bound over placements and orders: the optimum of small steps, with its proof.
//!
//! A node of the tree holds the devices that remain for every colocation class, and pairs of operators on one device
//! whose order is decided. The bound of a node is that of [`Reach`] by device under these decisions: the longest path
//! through an operator, each device with the operators that are decided to run on it (Jackson's preemptive schedule,
//! Carlier 1982), and the energy of all operators. A device is excluded for a class if some path through an operator of
//! the class on this device would be as long as the best known step. For two operators on one device, the order that
//! would take too long is excluded (immediate selection, Carlier and Pinson, "An algorithm for solving the job-shop
//! problem", Management Science 1989). So are devices whose memory does not hold what is decided to be there. This repeats
//! until nothing changes. A node then branches on the device of a class. Once all devices are decided, the schedules of
//! that placement have a search tree of their own (`orders.rs`). It is left after some simulations, and taken up again
//! with more of them when all other nodes are done, so that no placement takes all of the time.
//!
//! *Exactness.* The simulator starts a ready operator as soon as its device is free, so its schedules are a subset of
//! those that the bounds admit. The tree loses no placement that has a better schedule, and the tree of a placement no
//! schedule.
//!
//! The destructive bound is computed before the tree is searched, also for graphs that are too large for the tree.
//!
//! The empty devices of a pool count as one choice. At one instant the simulator serves devices in the order of their
//! numbers, so the schedules of a placement are searched under every numbering if the numbers can matter.

mod node;
mod orders;
mod tree;

use stagewright_core::bound::makespan::{Reach, can_run};
use stagewright_core::bound::{Bound, Destructive, LowerBound, established_by, strongest_before};
use stagewright_core::objective::Objective;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Capabilities, Context, Event, Result, Solution, Solver, Status};
use stagewright_core::tolerance;

use super::annealing::ANNEALING;
use super::instance::Instance;
use super::schedule::{Best, Evaluator, Schedule, solution, solve_instance};
use tree::{Outcome, Tree};

/// Share of the time for annealing, which finds the first plan.
const START_SHARE: f64 = 0.2;

/// Share of the remaining time for the destructive bound if the tree is searched; otherwise it may take all of it.
const BOUND_SHARE: f64 = 0.25;

/// Number of simulations of annealing if there is no time limit.
const START_SIMULATIONS: u64 = 1 << 12;

/// Name of the bound's source if the bound is the lowest one of the open nodes.
const OPEN: &str = "branch-and-bound";

/// Maximum number of devices that the tree branches on.
const MAX_DEVICES: usize = 64;

/// Maximum number of operators of a graph whose tree is searched, and maximum of that number times the square of the
/// number of devices: beyond it, a node takes tens of milliseconds.
const MAX_OPERATORS: usize = 1000;
const MAX_NODE_WORK: usize = 1 << 18;

/// Branch and bound over placements and orders.
#[derive(Debug, Clone, Copy)]
pub struct Exact {
    /// Maximum number of nodes if there is no time limit.
    pub untimed_nodes: u64,
}

impl Exact {
    /// Searches until the proof, unless a limit is given.
    pub const UNLIMITED: Exact = Exact { untimed_nodes: u64::MAX };

    /// Searches a part of the tree if there is no time limit.
    pub const BUDGETED: Exact = Exact { untimed_nodes: 1 << 14 };
}

impl Solver for Exact {
    fn name(&self) -> &'static str {
        "exact"
    }

    fn summary(&self) -> &'static str {
        "branch and bound over placements and orders, for small graphs"
    }

    fn unsupported(&self, objective: &Objective) -> Option<&'static str> {
        crate::unsupported(objective)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { exact: true, starts_from_plan: true, depends_on_seed: true, ..Capabilities::default() }
    }

    fn run(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution> {
        solve_instance(self.name(), problem, |instance| {
            let mut bound = strongest_before(problem, context.stop());
            let infeasible = |bound: LowerBound, reason: &str| {
                Solution::without_plan(self.name(), Status::Infeasible, bound, None, reason.to_string())
            };
            if !can_run(problem) {
                return Ok(infeasible(bound, "an operator with its colocation class fits on no device"));
            }
            let mut evaluator = Evaluator::without_tails(instance);
            evaluator.find_tails(context.stop());
            let mut best = first(instance, &mut evaluator, context)?;
            let (operators, devices) = (problem.graph().operator_count(), problem.cluster().device_count());
            let is_small = (1..=MAX_OPERATORS).contains(&operators)
                && devices <= MAX_DEVICES
                && operators * devices * devices <= MAX_NODE_WORK;
            let incumbent = value(best.as_ref());
            if Destructive.applies(problem) && !context.is_enough(incumbent, bound.value) {
                let slice = context.time_slice(if is_small { BOUND_SHARE } else { 1.0 });
                let known = [bound.value, incumbent];
                let found = established_by(&Destructive, problem, slice.stop(), || {
                    Destructive.between(problem, known, slice.stop())
                });
                found.into_iter().for_each(|found| context.raise(&mut bound, found));
            }
            let is_enough = context.is_enough(value(best.as_ref()), bound.value);
            let reach = if is_enough || !is_small { None } else { Reach::by_device(problem) };
            let mut statistics = Vec::new();
            if let Some(reach) = reach {
                let mut tree = Tree::new(instance, evaluator, reach, best, &bound, context.stop().clone());
                let max_nodes =
                    if context.stop().remaining().is_some() { u64::MAX } else { self.untimed_nodes };
                let outcome = tree.run(max_nodes, context);
                statistics = vec![("nodes", tree.nodes)];
                best = tree.best;
                let proved = match outcome {
                    Outcome::Exhausted if value(best.as_ref()).is_infinite() => {
                        let reason = "every placement and order exceeds the memory of a device";
                        return Ok(Solution { statistics, ..infeasible(bound, reason) });
                    }
                    Outcome::Exhausted => {
                        (tolerance::round_down(value(best.as_ref())), LowerBound::EXHAUSTED)
                    }
                    Outcome::Open(least) => (tolerance::round_down(least), OPEN),
                };
                context
                    .raise(&mut bound, LowerBound { value: proved.0, source: proved.1, certificate: None });
            }
            let solution = solution(self.name(), instance, best, bound, context)?;
            Ok(Solution { statistics, ..solution })
        })
    }
}

/// Makespan of the best schedule; infinite if no schedule fits.
fn value(best: Option<&Best>) -> f64 {
    best.filter(|best| best.score.fits()).map_or(f64::INFINITY, |best| best.score.makespan)
}

/// The schedule to start from: the given one if it can run and fits, otherwise the result of annealing.
fn first(
    instance: &Instance<'_>,
    evaluator: &mut Evaluator<'_, '_>,
    context: &mut Context<'_>,
) -> Result<Option<Best>> {
    let mut scored = |placement: &Placement| {
        let schedule = Schedule::of_placement(instance, placement);
        instance.admits(&schedule.device_of).then(|| Best { score: evaluator.score(&schedule), schedule })
    };
    let given = context.warm_start.as_ref().and_then(&mut scored).filter(|best| best.score.fits());
    if given.is_some() {
        return Ok(given);
    }
    context.emit(Event::Phase { name: ANNEALING.name().into() });
    let mut slice = context.time_slice(START_SHARE);
    slice.warm_start = None;
    if slice.stop().remaining().is_none() {
        slice.limits.simulations.get_or_insert(START_SIMULATIONS);
    }
    let found = ANNEALING.solve(instance.problem(), &mut slice)?.plan;
    Ok(found.and_then(|plan| scored(&plan.placement)))
}
