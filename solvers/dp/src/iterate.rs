//! Iteration time under a schedule: the exact splitter for the bottleneck, then the program over labels.
//!
//! The least bottleneck times the number of microbatches is a lower bound on every iteration. The splitter minimises
//! the bottleneck first, since that is fastest, and its plan is the first incumbent. Then
//! [`stagewright_search::pipeline`] runs its program over labels, over plain orders and over all ideals. If a gap
//! remains, it enumerates all splits below the best value.

use std::sync::Arc;

use stagewright_core::bound::{LowerBound, closed_form};
use stagewright_core::contraction::Units;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Event, Plan, Result, Solution, Solver, Status, StopReason};
use stagewright_core::tolerance;
use stagewright_search::dpl::iterations::over_orders;
use stagewright_search::dpl::{Room, plan_of};
use stagewright_search::pipeline::{Poset, Search, SearchMode};
use stagewright_search::usage::UsageSpace;

use crate::Dp;

/// Share of the time spent on the least bottleneck.
const BOTTLENECK_SHARE: f64 = 0.25;
/// Share of the remaining time spent on plain orders.
const ORDERS_SHARE: f64 = 0.4;
/// Maximum number of device usages.
const MAX_USAGES: usize = 1 << 20;

struct Answer<'p> {
    problem: &'p Problem,
    units: Arc<Units>,
    best: Option<Plan>,
    bound: LowerBound,
    steps: u64,
}

/// Minimises the iteration time.
pub(crate) fn solve(name: &'static str, problem: &Problem, context: &mut Context<'_>) -> Result<Solution> {
    let mut answer = Answer {
        problem,
        units: Units::of(problem),
        best: None,
        bound: closed_form(problem, context.stop()),
        steps: 0,
    };
    if answer.units.is_empty() {
        let plan = plan_of(problem, &answer.units, &[])?;
        return Ok(Solution::with_plan(name, plan, answer.bound, None));
    }
    let stop = match answer.bottleneck(context)? {
        Outcome::Infeasible => {
            let reason = "every chain of ideals was excluded: no contiguous split fits the devices";
            let status = Status::Infeasible;
            return Ok(Solution::without_plan(name, status, answer.bound, None, reason.into()));
        }
        Outcome::Open => answer.labels(context)?,
    };
    let Answer { best, bound, steps, .. } = answer;
    let mut solution = match (best, stop) {
        (Some(plan), stop) => Solution::with_plan(name, plan, bound, stop),
        (None, None) => {
            let reason = "every chain of ideals was excluded: no contiguous split fits the devices";
            Solution::without_plan(name, Status::Infeasible, bound, None, reason.into())
        }
        (None, Some(stop)) => {
            let reason = "the search ended before it found a split that fits";
            Solution::without_plan(name, Status::Unknown, bound, Some(stop), reason.into())
        }
    };
    if solution.stop == Some(StopReason::Memory) {
        let what = "the splits below the best value have too many labels, or uses of the devices, for the memory \
                    limit";
        solution.reason = Some(what.into());
    }
    solution.statistics = vec![("steps", steps)];
    Ok(solution)
}

enum Outcome {
    Infeasible,
    Open,
}

impl Answer<'_> {
    /// Minimises the bottleneck. Keeps the plan found, and the bound times the number of microbatches.
    fn bottleneck(&mut self, context: &mut Context<'_>) -> Result<Outcome> {
        let objective = *self.problem.objective();
        let has_uplinks = self.problem.cluster().group_count() > 0;
        let Ok(relaxed) = self.problem.with_objective(objective.bottleneck(has_uplinks)) else {
            return Ok(Outcome::Open);
        };
        context.emit(Event::Phase { name: "the least bottleneck".into() });
        let warm = context.warm_start.clone();
        let found = Dp.solve(&relaxed, &mut context.for_auxiliary().time_slice(BOTTLENECK_SHARE))?;
        if found.status == Status::Infeasible {
            return Ok(Outcome::Infeasible);
        }
        let plans = [warm, found.plan.map(|plan| plan.placement)];
        for placement in plans.into_iter().flatten() {
            context.keep(&mut self.best, Plan::try_new(self.problem, placement).ok());
        }
        let value = tolerance::round_down(objective.repetitions() * found.bound.value);
        // This rules out every smaller bottleneck, but not every shorter iteration.
        let source = match found.bound.source {
            LowerBound::EXHAUSTED => LowerBound::SEARCHED,
            other => other,
        };
        context.raise(&mut self.bound, LowerBound { value, source, certificate: None });
        Ok(Outcome::Open)
    }

    /// Runs the program over labels, on orders and on all ideals. Returns the stop reason, if any.
    fn labels(&mut self, context: &mut Context<'_>) -> Result<Option<StopReason>> {
        if let Some(end) = context.done(self.best.as_ref(), self.bound.value) {
            return Ok(end.reason());
        }
        let room = Room::new(self.problem, &self.units, context.limits.memory);
        let mut part = context.time_slice(ORDERS_SHARE);
        part.warm_start = self.best.as_ref().map(|plan| plan.placement.clone());
        let found = over_orders(self.problem, &self.units, &room, &mut part)?;
        context.keep(&mut self.best, found);
        let Some(space) = UsageSpace::new(self.problem, self.units.len(), MAX_USAGES) else {
            return Ok(Some(StopReason::Memory));
        };
        let poset = Poset::of_units(&self.units);
        for (mode, phase) in
            [(SearchMode::Labels, "iterations over all ideals"), (SearchMode::Enumerate, "all iterations")]
        {
            if let Some(end) = context.done(self.best.as_ref(), self.bound.value) {
                return Ok(end.reason());
            }
            context.emit(Event::Phase { name: phase.into() });
            let search = Search::new(self.problem, &self.units, &space);
            let found = search.run(&poset, mode, &mut self.best, context);
            self.steps += found.steps;
            if let Some(stop) = found.stop {
                return Ok(Some(stop));
            }
            if self.best.is_none() && found.bound.is_infinite() {
                // Without an incumbent, only chains that do not fit are pruned, and no other chain was found.
                return Ok(None);
            }
            let value = tolerance::round_down(found.bound);
            context.raise(
                &mut self.bound,
                LowerBound { value, source: LowerBound::SEARCHED, certificate: None },
            );
        }
        Ok(None)
    }
}
