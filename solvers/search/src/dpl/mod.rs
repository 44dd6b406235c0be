//! DPL: the best contiguous split that respects a linear order, over several orders.
//!
//! Each order takes milliseconds, and the best over a few is within 1% of optimal on every published instance. The best
//! split over orders is therefore the upper bound that the exact splitter starts from, and the answer if the lattice of
//! ideals is too large. The plain orders come first; then the best order is perturbed a fixed number of times (a local
//! search over orders: some units are moved, the order is repaired, and the result is kept if it is no worse). An order
//! is split exactly unless it is so long that [`Positions`] leaves some cuts out. Minimum cuts then refine the
//! boundaries of the best plan and bound the cost of the boundaries (see [`crate::boundary`]).
//!
//! If a limit ends the search before it has a plan, the devices are filled one after the other (`fallback`).
//!
//! Under a pipeline schedule the orders are split by the program over labels of [`crate::pipeline`] instead.

mod boundaries;
mod chain;
mod fallback;
pub mod iterations;
mod positions;
mod room;

use rand::{Rng, RngExt};
use stagewright_core::bound::strongest_before;
use stagewright_core::cluster::DeviceId;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::document::{ObjectiveKind, Schedule, Split};
use stagewright_core::ids::Keyed;
use stagewright_core::objective::Objective;
use stagewright_core::placement::{Placement, StageAssignment};
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Capabilities, Context, Event, Plan, Result, Solution, Solver, Stop};

pub use boundaries::improve_boundaries;
pub use chain::{Line, best_stages, stage_loads};
pub use positions::Positions;
pub use room::Room;
pub(crate) use room::table_bytes;

use crate::order;
use crate::usage::UsageSpace;

/// Number of interval loads that the local search over orders may compute, which takes about a second.
const PERTURBATION_WORK: usize = 20_000_000;
/// Maximum number of perturbed orders.
const PERTURBATIONS: usize = 64;
/// Share of the remaining time for further orders; one in `RANDOM` of these is random.
const LASTING_SHARE: f64 = 0.3;
const RANDOM: usize = 3;
/// Maximum number of refinements near the cuts.
const REFINEMENTS: usize = 4;

/// The DP over linear orders as a solver.
#[derive(Debug, Clone, Copy, Default)]
pub struct Dpl;

/// First feature of an objective that the DPs for contiguous throughput lack, if any.
pub fn unsupported_for_contiguous_dp(objective: &Objective) -> Option<&'static str> {
    if objective.kind() != ObjectiveKind::Throughput {
        Some("objectives other than throughput")
    } else if objective.rules().split != Split::Contiguous {
        Some("splits other than contiguous")
    } else if objective.rules().schedule.has_chunks() {
        Some("several stages on a device")
    } else if objective.rules().schedule == Schedule::ZeroBubbleTwice {
        Some("iterations that overlap")
    } else if objective.rules().schedule == Schedule::ZeroBubble && objective.rules().max_replicas > 1 {
        Some("replicated stages under zero-bubble")
    } else {
        None
    }
}

impl Solver for Dpl {
    fn name(&self) -> &'static str {
        "dpl"
    }

    fn summary(&self) -> &'static str {
        "dynamic program over several linear orders (contiguous throughput and iterations, upper bound)"
    }

    fn unsupported(&self, objective: &Objective) -> Option<&'static str> {
        unsupported_for_contiguous_dp(objective)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { starts_from_plan: true, depends_on_seed: true, ..Capabilities::default() }
    }

    fn run(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution> {
        let units = Units::of(problem);
        let mut bound = strongest_before(problem, context.stop());
        let room = Room::new(problem, &units, context.limits.memory);
        let best = if problem.objective().times_iteration() {
            iterations::over_orders(problem, &units, &room, context)?
        } else {
            let mut best = over_orders(problem, &units, &room, OrderEffort::Thorough, context)?;
            improve_boundaries(problem, &units, &room, &mut best, &mut bound, context)?;
            best
        };
        let stop = context.stop().reason();
        let no_plan = "none of the linear orders tried has a split that fits";
        Ok(room.solution(self.name(), best, bound, stop, no_plan))
    }
}

/// The device of each operator in the best pipeline over a linear order, for use under another objective. `None` if
/// there is no such pipeline, the graph is empty, or the problem has no pipelines.
///
/// # Errors
/// A broken invariant.
pub fn pipeline(problem: &Problem, context: &mut Context<'_>) -> Result<Option<Vec<DeviceId>>> {
    if problem.graph().operator_count() == 0 {
        return Ok(None);
    }
    let Ok(as_pipeline) = problem.with_objective(Objective::default()) else { return Ok(None) };
    let found = Dpl.solve(&as_pipeline, &mut context.for_auxiliary())?.plan;
    Ok(found.map(|plan| problem.graph().operators().map(|op| plan.placement.device_of(op)).collect()))
}

/// Effort spent on orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderEffort {
    /// The plain orders.
    Plain,
    /// The plain orders, then perturbations of the best order.
    Thorough,
    /// The effort of `Thorough` and, under a time limit, further perturbations and random orders for a share of the remaining
    /// time: where the lattice is wide, ideals improve the plan less.
    Lasting,
}

/// The best plan among the warm start and the splits of the plain orders and, if requested, of perturbed ones. `None`
/// if no plan fits. If the memory limit has no room for every usage of the devices, the orders are split over fewer
/// devices (see [`Room`]).
///
/// # Errors
/// A broken invariant.
pub fn best_over_orders(
    problem: &Problem,
    units: &Units,
    effort: OrderEffort,
    context: &mut Context<'_>,
) -> Result<Option<Plan>> {
    let room = Room::new(problem, units, context.limits.memory);
    over_orders(problem, units, &room, effort, context)
}

fn over_orders(
    problem: &Problem,
    units: &Units,
    room: &Room,
    effort: OrderEffort,
    context: &mut Context<'_>,
) -> Result<Option<Plan>> {
    let mut best = search_orders(problem, units, room, effort, context)?;
    if best.is_none() {
        context.keep(&mut best, fallback::fill(problem, units));
    }
    Ok(best)
}

fn search_orders(
    problem: &Problem,
    units: &Units,
    room: &Room,
    effort: OrderEffort,
    context: &mut Context<'_>,
) -> Result<Option<Plan>> {
    let mut best: Option<Plan> = None;
    let warm = context.warm_start.clone().and_then(|warm| Plan::try_new(problem, warm).ok());
    context.keep(&mut best, warm);
    if let Some(lack) = &room.lack {
        context.emit(Event::Phase { name: lack.clone() });
    }
    let Some(space) = &room.space else { return Ok(best) };
    let mut orders: Vec<Vec<UnitId>> = Vec::new();
    // The best order, with its stages.
    let mut chosen: Option<(usize, Vec<StageAssignment>)> = None;
    let mut coarse = false;
    for rule in order::PLAIN {
        if context.stop().reason().is_some() {
            return Ok(best);
        }
        let order = rule.order(problem, units);
        if orders.contains(&order) {
            continue;
        }
        context.emit(Event::Phase { name: format!("{} order", rule.name()) });
        let positions = Positions::new(problem, units, &order);
        coarse |= !positions.are_all(order.len());
        let line = Line { order: &order, positions: &positions, space };
        if let Some(stages) = try_line(problem, units, line, &mut best, context)? {
            chosen = Some((orders.len(), stages));
        }
        orders.push(order);
    }
    if let Some((index, stages)) = chosen.as_ref().filter(|_| coarse) {
        context.emit(Event::Phase { name: "positions near the cuts".into() });
        near_cuts(problem, units, &orders[*index], stages, space, &mut best, context)?;
    }
    if effort == OrderEffort::Plain || orders.is_empty() {
        return Ok(best);
    }
    let order = orders.swap_remove(chosen.map_or(0, |(index, _)| index));
    perturb(problem, units, order, space, effort, &mut best, context)?;
    Ok(best)
}

/// Splits orders that differ a little from the best one, and random ones if the effort is lasting.
fn perturb(
    problem: &Problem,
    units: &Units,
    mut best_order: Vec<UnitId>,
    space: &UsageSpace,
    effort: OrderEffort,
    best: &mut Option<Plan>,
    context: &mut Context<'_>,
) -> Result<()> {
    context.emit(Event::Phase { name: "perturbed orders".into() });
    let count = units.len();
    // A chain has only one order.
    if is_chain(units) {
        return Ok(());
    }
    let rounds = PERTURBATIONS.min(PERTURBATION_WORK / (count * count).max(1));
    let left = context.stop().remaining().filter(|_| effort == OrderEffort::Lasting);
    let lasting = left.map(|left| context.stop().within(Some(left.mul_f64(LASTING_SHARE))));
    let mut rng = seed::stream(context.seed(), 0);
    for round in 0.. {
        let is_over = round >= rounds && lasting.as_ref().is_none_or(|stop| stop.reason().is_some());
        if is_over || context.stop().reason().is_some() {
            break;
        }
        let order = match round >= rounds && round % RANDOM == 0 {
            true => order::random_depth_first(units, &mut rng),
            false => perturbed(units, &best_order, &mut rng),
        };
        let positions = Positions::new(problem, units, &order);
        let line = Line { order: &order, positions: &positions, space };
        if try_line(problem, units, line, best, context)?.is_some() {
            best_order = order;
        }
    }
    Ok(())
}

/// Splits further orders, each a topological order of the units, and keeps plans that improve on the best so far.
/// Returns the index of the last order that improved the plan. Ends when the solve has to stop.
///
/// # Errors
/// A broken invariant.
pub fn over_more_orders(
    problem: &Problem,
    units: &Units,
    room: &Room,
    orders: &[Vec<UnitId>],
    best: &mut Option<Plan>,
    context: &mut Context<'_>,
) -> Result<Option<usize>> {
    let Some(space) = &room.space else { return Ok(None) };
    let mut chosen = None;
    for (index, order) in orders.iter().enumerate() {
        if context.stop().reason().is_some() {
            break;
        }
        let positions = Positions::new(problem, units, order);
        let line = Line { order, positions: &positions, space };
        let Some(stages) = try_line(problem, units, line, best, context)? else { continue };
        chosen = Some(index);
        if !positions.are_all(order.len()) {
            near_cuts(problem, units, order, &stages, space, best, context)?;
        }
    }
    Ok(chosen)
}

/// Tries all positions near the cuts of a split, repeatedly while that helps.
fn near_cuts(
    problem: &Problem,
    units: &Units,
    order: &[UnitId],
    stages: &[StageAssignment],
    space: &UsageSpace,
    best: &mut Option<Plan>,
    context: &mut Context<'_>,
) -> Result<()> {
    let mut positions = Positions::near(stages, units.len());
    for _ in 0..REFINEMENTS {
        let line = Line { order, positions: &positions, space };
        match try_line(problem, units, line, best, context)? {
            Some(better) => positions = Positions::near(&better, units.len()),
            None => break,
        }
    }
    Ok(())
}

/// Tries one order; returns its stages if they improve on the best.
fn try_line(
    problem: &Problem,
    units: &Units,
    line: Line<'_>,
    best: &mut Option<Plan>,
    context: &mut Context<'_>,
) -> Result<Option<Vec<StageAssignment>>> {
    let stop = context.stop().clone();
    let found = match best {
        Some(best) => best_stages(problem, units, line, best.value(), &stop),
        None => first_stages(problem, units, line, &stop),
    };
    let Some((_, stages)) = found else { return Ok(None) };
    let plan = plan_of(problem, units, &stages)?;
    Ok(context.keep(best, Some(plan)).then_some(stages))
}

/// The best stages over an order without a known value to beat. The cost grows with the cap, so small multiples of the
/// closed-form bound are tried first. Stages found below any cap are the best over the order.
pub fn first_stages(
    problem: &Problem,
    units: &Units,
    line: Line<'_>,
    stop: &Stop,
) -> Option<(f64, Vec<StageAssignment>)> {
    const MULTIPLES: [f64; 6] = [1.1, 1.3, 1.8, 3.0, 8.0, f64::INFINITY];
    let bound = strongest_before(problem, stop).value;
    let multiples = MULTIPLES.iter().filter(|multiple| bound > 0.0 || multiple.is_infinite());
    multiples.take_while(|_| stop.reason().is_none()).find_map(|multiple| {
        let cap = if multiple.is_infinite() { f64::INFINITY } else { multiple * bound };
        best_stages(problem, units, line, cap, stop)
    })
}

/// Plan of the given stages.
///
/// # Errors
/// A broken invariant: stages that are not feasible.
pub fn plan_of(problem: &Problem, units: &Units, stages: &[StageAssignment]) -> Result<Plan> {
    Plan::new(problem, Placement::from_stages(problem, units, stages))
}

/// Whether the units have only one order.
pub fn is_chain(units: &Units) -> bool {
    units.ids().skip(1).all(|unit| units.predecessors(unit).contains(&UnitId(unit.0 - 1)))
}

/// Moves a few units of an order by up to an eighth of its length, and repairs the order.
fn perturbed(units: &Units, order: &[UnitId], rng: &mut impl Rng) -> Vec<UnitId> {
    let count = order.len();
    let mut priority = Keyed::filled(0.0, count);
    for (position, &unit) in order.iter().enumerate() {
        priority[unit] = position as f64;
    }
    let reach = (count as f64 / 8.0).max(1.0);
    for _ in 0..rng.random_range(1..=3) {
        let unit = UnitId::new(rng.random_range(0..count));
        priority[unit] += rng.random_range(-reach..reach);
    }
    order::by_priority(units, |unit| priority[unit])
}
