//! Latency: dynamic programs over ideals, for the plan and for the bound.
//!
//! Both programs are in [`stagewright_search::latency`]: `blocks` runs calls and host segments one after the other,
//! over the prefixes of orders and over all ideals; `bound` follows chains of calls back from the last one, which
//! yields a lower bound on every plan and often a plan of that value. This module decides in which order the programs
//! run, within which budgets, and the resulting status.

use stagewright_core::bound::{LowerBound, strongest_before};
use stagewright_core::contraction::Units;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Event, Plan, Result, Solution, SolveError, Status, StopReason};
use stagewright_search::latency::blocks::{Extent, Ideals, over_ideals, over_orders};
use stagewright_search::latency::bound::{CallChainEffort, CallChains};
use stagewright_search::order;

/// Share of the memory limit for the list of ideals; the rest is for the values.
const IDEALS_SHARE: f64 = 0.25;
/// Share of the remaining time for the first bound.
const BOUND_SHARE: f64 = 0.3;
/// Share of the time left after the first bound, for the blocks over all ideals.
const BLOCKS_SHARE: f64 = 0.6;

/// Best plan and best bound so far.
struct Answer<'p> {
    problem: &'p Problem,
    best: Option<Plan>,
    bound: LowerBound,
    /// Whether no plan exists.
    infeasible: bool,
    statistics: Vec<(&'static str, u64)>,
}

/// Minimises latency: plans of blocks, and bounds from chains of calls.
pub(crate) fn solve(name: &'static str, problem: &Problem, context: &mut Context<'_>) -> Result<Solution> {
    let units = Units::of(problem);
    let best = over_orders(problem, &units, context)?;
    let statistics = Vec::new();
    let mut answer = Answer {
        problem,
        best,
        bound: strongest_before(problem, context.stop()),
        infeasible: false,
        statistics,
    };
    let all_chains = answer.follow_chains(CallChainEffort::DEFAULT, &mut context.time_slice(BOUND_SHARE))?;
    let mut extent = Extent::Whole;
    // Whether the blocks ended for lack of memory rather than time.
    let mut too_large = false;
    if answer.is_open(context) {
        let mut part = context.time_slice(if all_chains { 1.0 } else { BLOCKS_SHARE });
        extent = answer.over_all_ideals(&units, &mut part)?;
        too_large = extent == Extent::Cut && part.stop().reason().is_none();
    }
    if !all_chains && answer.is_open(context) {
        answer.follow_chains(CallChainEffort::HIGH, context)?;
    }
    let Answer { best, bound, infeasible, statistics, .. } = answer;
    let stop = match best.as_ref().is_some_and(|plan| context.gap_reached(plan.value(), bound.value)) {
        true => Some(StopReason::Gap),
        false => context.stop().reason().or(too_large.then_some(StopReason::Memory)),
    };
    // If no operators are contracted, every plan with one call per accelerator is a chain of ideals.
    let all_plans = problem.objective().calls() == 1 && units.len() == problem.graph().operator_count();
    let solution = match best {
        Some(plan) => {
            plan.check_bound(&bound)?;
            Solution::with_plan(name, plan, bound, stop)
        }
        None if infeasible || (extent == Extent::Whole && all_plans && context.stop().reason().is_none()) => {
            let why = "every chain of calls was excluded: none fits the accelerators with the rest on hosts";
            Solution::without_plan(name, Status::Infeasible, LowerBound::TRIVIAL, None, why.into())
        }
        None => {
            let why = "no chain of blocks found fits the devices";
            Solution::without_plan(name, Status::Unknown, bound, stop, why.into())
        }
    };
    Ok(Solution { statistics, ..solution })
}

impl Answer<'_> {
    /// Whether to continue: neither optimality nor infeasibility is proved, and no limit is reached.
    fn is_open(&self, context: &Context<'_>) -> bool {
        let proved = self.best.as_ref().is_some_and(|plan| context.is_enough(plan.value(), self.bound.value));
        !proved && !self.infeasible && context.stop().reason().is_none()
    }

    /// Raises the bound and keeps the plan that it suggests. Returns `true` if more effort would not improve the
    /// bound.
    fn follow_chains(&mut self, effort: CallChainEffort, context: &mut Context<'_>) -> Result<bool> {
        context.emit(Event::Phase { name: "chains of calls".into() });
        let Some(found) = (CallChains { effort }).relax(self.problem, context.stop()) else {
            return Ok(false);
        };
        self.infeasible = found.bound.value.is_infinite();
        match &self.best {
            Some(_) if self.infeasible => {
                return Err(SolveError::Invariant("no chain of calls where there is a plan".into()));
            }
            None if self.infeasible => return Ok(found.complete),
            _ => {}
        }
        context.raise(&mut self.bound, found.bound);
        // For graphs of version 2, the recurrence has only a lower bound on the memory of blocks, so the plan that it
        // finds may need more memory.
        let better = |value: f64| self.best.as_ref().is_none_or(|best| value < best.value());
        if let Some((placement, value)) = found.plan
            && better(value)
        {
            match Plan::try_new(self.problem, placement) {
                Ok(plan) => {
                    context.keep(&mut self.best, Some(plan));
                }
                Err(broken) if self.problem.memory().is_sum() => return Err(SolveError::infeasible(&broken)),
                Err(_) => {}
            }
        }
        Ok(found.complete)
    }

    /// Improves the plan by blocks over all ideals.
    fn over_all_ideals(&mut self, units: &Units, context: &mut Context<'_>) -> Result<Extent> {
        context.emit(Event::Phase { name: "blocks over all ideals".into() });
        let memory = context.limits.memory.map(|limit| (limit as f64 * IDEALS_SHARE) as u64);
        let Some(ideals) = Ideals::all(units, order::depth_first(units), memory, context.stop()) else {
            return Ok(Extent::Cut);
        };
        self.statistics.push(("ideals", ideals.count() as u64));
        over_ideals(self.problem, units, &ideals, &mut self.best, context)
    }
}
