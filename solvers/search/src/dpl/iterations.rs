//! Pipeline plans over linear orders.

use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Event, Plan, Result};

use super::{OrderEffort, Positions, Room, best_over_orders};
use crate::order;
use crate::pipeline::{Poset, Search, SearchMode};

/// The best plan among the warm start, the plan with the smallest bottleneck over the plain orders, and, for each of
/// these orders, the plan with the smallest bound. `None` if no plan fits.
///
/// # Errors
/// A broken invariant.
pub fn over_orders(
    problem: &Problem,
    units: &Units,
    room: &Room,
    context: &mut Context<'_>,
) -> Result<Option<Plan>> {
    let mut best = context.warm_start.clone().and_then(|warm| Plan::try_new(problem, warm).ok());
    let balanced = of_least_bottleneck(problem, context)?;
    context.keep(&mut best, balanced);
    let Some(space) = &room.space else { return Ok(best) };
    let search = Search::new(problem, units, space);
    let mut orders: Vec<Vec<UnitId>> = Vec::new();
    for rule in order::PLAIN {
        if context.stop().reason().is_some() {
            break;
        }
        let order = rule.order(problem, units);
        if !orders.contains(&order) {
            context.emit(Event::Phase { name: format!("iterations over the {} order", rule.name()) });
            let positions = Positions::new(problem, units, &order);
            search.run(&Poset::of_order(&order, positions.list()), SearchMode::Labels, &mut best, context);
            orders.push(order);
        }
    }
    Ok(best)
}

/// The plan with the smallest bottleneck, if it is valid under the schedule.
fn of_least_bottleneck(problem: &Problem, context: &mut Context<'_>) -> Result<Option<Plan>> {
    let Ok(relaxed) =
        problem.with_objective(problem.objective().bottleneck(problem.cluster().group_count() > 0))
    else {
        return Ok(None);
    };
    let units = Units::of(&relaxed);
    let found = best_over_orders(&relaxed, &units, OrderEffort::Plain, &mut context.for_auxiliary())?;
    Ok(found.and_then(|plan| Plan::try_new(problem, plan.placement).ok()))
}
