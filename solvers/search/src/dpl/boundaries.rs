//! Refinement of the best plan: minimum cuts move its boundaries, and orders that keep the new stages together balance
//! them.

use rustc_hash::FxHashMap;
use stagewright_core::bound::LowerBound;
use stagewright_core::cluster::DeviceId;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::ids::{Keyed, places};
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Event, Plan, Result};
use stagewright_core::tolerance;

use super::chain::Line;
use super::positions::Positions;
use super::room::Room;
use super::{near_cuts, try_line};
use crate::boundary::{Boundaries, BoundaryCuts, NoCuts};
use crate::order;
use crate::usage::UsageSpace;

/// Maximum number of refinements of all boundaries.
const ROUNDS: usize = 4;

/// Refines the boundaries of the best plan as long as that improves it, then raises the bound by the communication that
/// the boundaries of every split must cut. Both end with the time limit.
///
/// # Errors
/// A broken invariant, or threads that cannot be started.
pub fn improve_boundaries(
    problem: &Problem,
    units: &Units,
    room: &Room,
    best: &mut Option<Plan>,
    bound: &mut LowerBound,
    context: &mut Context<'_>,
) -> Result<()> {
    let stop = context.stop().clone();
    if !best.as_ref().is_some_and(|plan| is_open(plan, bound, context)) {
        return Ok(());
    }
    let Some(boundaries) = Boundaries::new(units, &stop) else { return Ok(()) };
    if let Some(space) = &room.space {
        refine_boundaries(problem, &boundaries, units, space, best, bound, context)?;
    }
    let Some(plan) = best.as_ref().filter(|plan| is_open(plan, bound, context)) else { return Ok(()) };
    let (memory, threads) = (context.limits.memory, context.threads());
    let mut cuts = match BoundaryCuts::new(problem, &boundaries, plan.value(), memory, threads) {
        Ok(cuts) => cuts,
        Err(NoCuts::DoesNotApply) => return Ok(()),
        Err(NoCuts::Memory) => {
            let name = "no minimum cuts at the boundaries: too many for the memory limit".into();
            context.emit(Event::Phase { name });
            return Ok(());
        }
    };
    context.emit(Event::Phase { name: "minimum cuts at the boundaries".into() });
    while is_open(plan, bound, context) && context.in_pool(|| cuts.round(&stop))? {
        if let Some(found) = cuts.bound() {
            context.raise(bound, found);
        }
    }
    Ok(())
}

/// Whether the gap is still open and time is left.
fn is_open(best: &Plan, bound: &LowerBound, context: &Context<'_>) -> bool {
    tolerance::gap(best.value(), bound.value) > 0.0
        && !context.gap_reached(best.value(), bound.value)
        && context.stop().reason().is_none()
}

fn refine_boundaries(
    problem: &Problem,
    boundaries: &Boundaries<'_>,
    units: &Units,
    space: &UsageSpace,
    best: &mut Option<Plan>,
    bound: &LowerBound,
    context: &mut Context<'_>,
) -> Result<()> {
    for _ in 0..ROUNDS {
        let Some(plan) = best.as_ref().filter(|plan| is_open(plan, bound, context)) else { break };
        context.emit(Event::Phase { name: "boundaries refined by minimum cuts".into() });
        let before = plan.value();
        let Some(stage_of) = boundaries.refined(&stages_of(units, plan), before, context.stop()) else {
            break;
        };
        for order in orders(units, &stage_of) {
            let positions = Positions::new(problem, units, &order);
            let line = Line { order: &order, positions: &positions, space };
            if let Some(stages) = try_line(problem, units, line, best, context)?
                && !positions.are_all(order.len())
            {
                near_cuts(problem, units, &order, &stages, space, best, context)?;
            }
        }
        if best.as_ref().is_some_and(|best| best.value() >= before) {
            break;
        }
    }
    Ok(())
}

/// Stage of each unit of a contiguous plan.
fn stages_of(units: &Units, plan: &Plan) -> Keyed<UnitId, u32> {
    let placement = &plan.placement;
    let stage_of_device: FxHashMap<DeviceId, u32> = placement.used().into_iter().zip(0..).collect();
    let stage = |unit: UnitId| stage_of_device[&placement.device_of(units.members(unit)[0])];
    units.ids().map(stage).collect()
}

/// Two orders of the units by stage: within a stage, the first is by index and the second depth first.
fn orders(units: &Units, stage_of: &Keyed<UnitId, u32>) -> [Vec<UnitId>; 2] {
    let place: Keyed<_, usize> = places(&order::depth_first(units));
    let along_file = order::by_priority(units, |unit| f64::from(stage_of[unit]));
    let depth_first =
        order::by_priority(units, |unit| f64::from(stage_of[unit]) * units.len() as f64 + place[unit] as f64);
    [along_file, depth_first]
}
