//! The initial plan and the initial bound.

use stagewright_core::bound::{LowerBound, strongest_before};
use stagewright_core::contraction::Units;
use stagewright_core::document::Split;
use stagewright_core::objective::Throughput;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Plan, Result, Solver, Status};
use stagewright_search::Local;
use stagewright_search::dpl::{OrderEffort, best_over_orders};
use stagewright_search::one_device::everything_on;

/// The strongest bound without search, or the strongest one so far if the solve has to stop.
pub(crate) fn first_bound(problem: &Problem, context: &mut Context<'_>) -> LowerBound {
    let mut bound = strongest_before(problem, context.stop());
    context.establish(problem, None, &mut bound);
    bound
}

/// Result of the search for an initial plan.
pub(crate) enum First {
    /// A plan, if one was found.
    Plan(Option<Plan>),
    /// No plan exists, with the reason.
    Impossible(String),
}

/// The plan of the warm start, if there is one and it is feasible.
pub(crate) fn warm_plan(problem: &Problem, context: &Context<'_>) -> Option<Plan> {
    context.warm_start.clone().and_then(|warm| Plan::try_new(problem, warm).ok())
}

/// The warm start, if it is feasible. Otherwise the best plan that is found quickly: for a free split by local search;
/// for a convex split the best contiguous split, which is convex, or everything on one device.
///
/// # Errors
/// If an invariant is broken.
pub(crate) fn first_plan(problem: &Problem, context: &mut Context<'_>) -> Result<First> {
    if let Some(warm) = warm_plan(problem, context) {
        return Ok(First::Plan(Some(warm)));
    }
    if problem.objective().rules().split == Split::Free {
        let found = Local.solve(problem, context)?;
        return Ok(match found.status {
            Status::Infeasible => First::Impossible(found.reason.unwrap_or_default()),
            _ => First::Plan(found.plan),
        });
    }
    let mut best: Option<Plan> = None;
    // A warm start that is infeasible for this problem does not determine the order of the stages either.
    context.warm_start = None;
    let objective = Throughput { split: Split::Contiguous, ..problem.objective().rules() };
    if let Ok(contiguous) = problem.with_objective(objective) {
        let found = best_over_orders(&contiguous, &Units::of(&contiguous), OrderEffort::Thorough, context)?;
        context.keep(&mut best, found.and_then(|plan| Plan::new(problem, plan.placement).ok()));
    }
    for pool in problem.pools() {
        if best.is_some() && context.stop().reason().is_some() {
            break;
        }
        context.keep(&mut best, Plan::new(problem, everything_on(problem, pool.devices[0])).ok());
    }
    Ok(First::Plan(best))
}
