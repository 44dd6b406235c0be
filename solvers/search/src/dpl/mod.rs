//! DPL: the best contiguous split that respects a linear order, over several orders.
//!
//! Each order costs milliseconds and the best over a few is within 1% of optimal on every published instance, so
//! this is the upper bound that the exact splitter starts from, and the answer where the lattice of ideals is
//! too large. The plain orders come first; then the best order is perturbed a fixed number of times (a local
//! search over orders: some units are moved, the order is repaired, and what is no worse is kept).

mod chain;
mod room;

use rand::{Rng, RngExt};
use stagewright_core::bound::strongest;
use stagewright_core::contract::Units;
use stagewright_core::document::{ObjectiveKind, Schedule, Split};
use stagewright_core::objective::Objective;
use stagewright_core::placement::{Placement, StageAssignment};
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Capabilities, Context, Event, Plan, Solution, SolveError, Solver, Stop};

pub use chain::{best_stages, stage_loads};
pub use room::Room;

use crate::order;
use crate::usage::UsageSpace;

/// Interval loads that the local search over orders may compute, about a second's worth.
const PERTURBATION_WORK: usize = 20_000_000;
/// Most perturbed orders.
const PERTURBATIONS: usize = 64;

/// The DP over linear orders as a solver.
#[derive(Debug, Clone, Copy, Default)]
pub struct Dpl;

/// What the throughput of a contiguous split lacks for an objective, if anything: shared by the DPs.
pub fn missing_for_contiguous_dp(objective: &Objective) -> Option<&'static str> {
    if objective.kind != ObjectiveKind::Throughput {
        Some("objectives other than throughput")
    } else if objective.split != Split::Contiguous {
        Some("splits other than contiguous")
    } else if matches!(objective.schedule, Schedule::Interleaved | Schedule::ZeroBubble) {
        Some("schedules other than gpipe and 1f1b")
    } else {
        None
    }
}

impl Solver for Dpl {
    fn name(&self) -> &'static str {
        "dpl"
    }

    fn summary(&self) -> &'static str {
        "exact dynamic program over several linear orders (contiguous throughput, upper bound)"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { missing: missing_for_contiguous_dp, exact: false, deterministic_across_threads: true }
    }

    fn solve(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution, SolveError> {
        SolveError::check(self, problem)?;
        let units = Units::new(problem);
        let bound = strongest(problem);
        let room = Room::new(problem, &units, context.limits.memory);
        let best = over_orders(problem, &units, &room, Effort::Thorough, context)?;
        let stop = context.stop().reason();
        let no_plan = "no linear order that was tried has a split that fits";
        Ok(room.solution(self.name(), best, bound, stop, no_plan))
    }
}

/// How much to spend on orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// The plain orders.
    Plain,
    /// The plain orders, then perturbations of the best.
    Thorough,
}

/// The best plan over the warm start, the plain orders and, if asked, perturbed ones. None where none fits.
/// Where the memory limit has no room for every use of the devices, the orders are split over fewer (see
/// [`Room`]).
///
/// # Errors
/// A broken invariant.
pub fn best_over_orders(
    problem: &Problem,
    units: &Units,
    effort: Effort,
    context: &mut Context<'_>,
) -> Result<Option<Plan>, SolveError> {
    let room = Room::new(problem, units, context.limits.memory);
    over_orders(problem, units, &room, effort, context)
}

fn over_orders(
    problem: &Problem,
    units: &Units,
    room: &Room,
    effort: Effort,
    context: &mut Context<'_>,
) -> Result<Option<Plan>, SolveError> {
    let mut best: Option<Plan> = None;
    if let Some(warm) = context.warm_start.clone()
        && let Ok(plan) = Plan::new(problem, warm)
    {
        keep_better(&mut best, plan, context);
    }
    if let Some(lack) = &room.lack {
        context.emit(Event::Phase { name: lack.clone() });
    }
    let Some(space) = &room.space else { return Ok(best) };
    let mut orders: Vec<Vec<u32>> = Vec::new();
    let mut best_order = Vec::new();
    for rule in order::PLAIN {
        if context.stop().reason().is_some() {
            return Ok(best);
        }
        let order = rule.order(problem, units);
        if orders.contains(&order) {
            continue;
        }
        context.emit(Event::Phase { name: format!("{} order", rule.name()) });
        if try_order(problem, units, &order, space, &mut best, context)? || best_order.is_empty() {
            best_order.clone_from(&order);
        }
        orders.push(order);
    }
    if effort == Effort::Plain || orders.is_empty() {
        return Ok(best);
    }
    context.emit(Event::Phase { name: "perturbed orders".into() });
    let count = units.len();
    // A chain has one order only.
    let rounds =
        if is_chain(units) { 0 } else { PERTURBATIONS.min(PERTURBATION_WORK / (count * count).max(1)) };
    let mut rng = seed::stream(context.seed, 0);
    for _ in 0..rounds {
        if context.stop().reason().is_some() {
            break;
        }
        let order = perturbed(units, &best_order, &mut rng);
        if try_order(problem, units, &order, space, &mut best, context)? {
            best_order = order;
        }
    }
    Ok(best)
}

/// Tries one order; true where it improves on the best.
fn try_order(
    problem: &Problem,
    units: &Units,
    order: &[u32],
    space: &UsageSpace,
    best: &mut Option<Plan>,
    context: &mut Context<'_>,
) -> Result<bool, SolveError> {
    let stop = context.stop().clone();
    let found = match best {
        Some(best) => best_stages(problem, units, order, space, best.value(), &stop),
        None => first_stages(problem, units, order, space, &stop),
    };
    let Some((_, stages)) = found else { return Ok(false) };
    let plan = plan_of(problem, units, &stages)?;
    Ok(keep_better(best, plan, context))
}

/// The best stages over an order when nothing is known to beat: the cost grows with the cap, so caps above the
/// closed-form bound come first. What is found below any cap is the best over the order.
pub fn first_stages(
    problem: &Problem,
    units: &Units,
    order: &[u32],
    space: &UsageSpace,
    stop: &Stop,
) -> Option<(f64, Vec<StageAssignment>)> {
    const MULTIPLES: [f64; 6] = [1.1, 1.3, 1.8, 3.0, 8.0, f64::INFINITY];
    let bound = strongest(problem).value;
    let multiples = MULTIPLES.iter().filter(|multiple| bound > 0.0 || multiple.is_infinite());
    multiples.take_while(|_| stop.reason().is_none()).find_map(|multiple| {
        let cap = if multiple.is_infinite() { f64::INFINITY } else { multiple * bound };
        best_stages(problem, units, order, space, cap, stop)
    })
}

fn keep_better(best: &mut Option<Plan>, plan: Plan, context: &mut Context<'_>) -> bool {
    let better = best.as_ref().is_none_or(|best| plan.value() < best.value());
    if better {
        context.emit(Event::Incumbent { value: plan.value() });
        *best = Some(plan);
    }
    better
}

/// The plan of some stages.
///
/// # Errors
/// A broken invariant: stages that are not feasible.
pub fn plan_of(problem: &Problem, units: &Units, stages: &[StageAssignment]) -> Result<Plan, SolveError> {
    Plan::new(problem, Placement::from_stages(problem, units, stages))
}

fn is_chain(units: &Units) -> bool {
    (1..units.len()).all(|unit| units.predecessors(unit).contains(&(unit as u32 - 1)))
}

/// Moves a few units of an order by up to an eighth of its length, and repairs it.
fn perturbed(units: &Units, order: &[u32], rng: &mut impl Rng) -> Vec<u32> {
    let count = order.len();
    let mut priority = vec![0.0; count];
    for (at, &unit) in order.iter().enumerate() {
        priority[unit as usize] = at as f64;
    }
    let reach = (count as f64 / 8.0).max(1.0);
    for _ in 0..rng.random_range(1..=3) {
        let unit = rng.random_range(0..count);
        priority[unit] += rng.random_range(-reach..reach);
    }
    order::by_priority(units, |unit| priority[unit])
}
