//! Latency: the block dynamic program over all ideals.
//!
//! The program itself, and what its answer is worth, is in [`stagewright_search::latency::blocks`]; here are the plans to
//! beat, the listing of the ideals, and the statuses.

use stagewright_core::bound::strongest;
use stagewright_core::contract::Units;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Event, Solution, SolveError, Status, StopReason};
use stagewright_search::latency::blocks::{Ideals, over_ideals, over_orders};
use stagewright_search::order;

/// Share of the memory limit for the list of ideals; the rest is for the values.
const IDEALS_SHARE: f64 = 0.25;

/// The best total order of calls and host segments.
pub(crate) fn solve(
    name: &'static str,
    problem: &Problem,
    context: &mut Context<'_>,
) -> Result<Solution, SolveError> {
    let units = Units::new(problem);
    let bound = strongest(problem);
    let mut best = over_orders(problem, &units, context)?;
    let mut statistics = Vec::new();
    let mut complete = false;
    if best.as_ref().is_none_or(|plan| stagewright_core::tolerance::gap(plan.value(), bound.value) > 0.0) {
        context.emit(Event::Phase { name: "ideals".into() });
        let memory = context.limits.memory.map(|most| (most as f64 * IDEALS_SHARE) as u64);
        if let Some(ideals) = Ideals::all(&units, order::depth_first(&units), memory, context.stop()) {
            statistics.push(("ideals", ideals.count() as u64));
            complete = over_ideals(problem, &units, &ideals, &mut best, context)?;
        }
    }
    let stop = context.stop().reason().or((!complete).then_some(StopReason::Memory));
    let solution = match best {
        Some(plan) => Solution::with_plan(name, plan, bound, stop),
        // Every plan with one call for each accelerator is a chain of ideals, if nothing had to be contracted.
        None if complete
            && problem.objective().calls == 1
            && units.len() == problem.graph().operator_count() =>
        {
            let why =
                "every chain of ideals was excluded: no calls fit the accelerators with the rest on hosts";
            Solution::without_plan(name, Status::Infeasible, bound, None, why.into())
        }
        None => {
            let why = "no chain of blocks that was tried fits the devices";
            Solution::without_plan(name, Status::Unknown, bound, stop, why.into())
        }
    };
    let reason = solution.reason.or_else(|| {
        let open = solution.status == Status::Feasible && complete;
        open.then(|| {
            "no better plan runs its blocks one after the other; overlapping branches may be faster".into()
        })
    });
    Ok(Solution { reason, statistics, ..solution })
}
