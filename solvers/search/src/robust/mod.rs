//! The plan of least value in the worst case under uncertain costs. The scenarios are those of
//! [`stagewright_core::uncertainty`]; the criterion is min-max over plans and scenarios (Kouvelis and Yu, "Robust
//! discrete optimization and its applications", 1997).
//!
//! The value is a maximum over devices and uplinks, so the two maxima can be exchanged, and a robust plan is an optimal
//! plan of an ordinary problem in which every stage takes its worst load w:
//!
//! ```text
//! min over plans of max over scenarios of max over stages of load = min over plans of max over stages of w(stage)
//! ```
//!
//! *Plans.* For a contiguous split the dynamic programs over orders and over all ideals (`crate::recurrence`) therefore
//! work with w in place of the load, and are exact as before. For other splits the plans of the scenarios below are improved by
//! moves of single classes (`moves`).
//!
//! *Bounds.* A load is a maximum of sums of costs, so it is convex in the costs and scales with them. The load at an
//! average of scenarios is at most the average of the loads in these scenarios, and so at most w. Therefore the minimum
//! value of the problem with average costs, and each lower bound of that problem, bounds the worst case of every plan,
//! for any split rule and any solver (`play`). The average at which every source is off by p·Γ / |S| scales the nominal
//! problem, which gives a bound at no cost. Better averages come from fictitious play (Brown 1951; Robinson, "An
//! iterative method of solving a game", Annals of Mathematics 1951): the planner answers the average of the scenarios
//! so far with a plan, and the adversary answers with the worst scenario of that plan. The bounds converge to the value
//! of the game in which the planner may mix plans, and no plan is below this value. A program over all ideals proves
//! the rest.

mod moves;
mod play;
mod search;
mod stage_load;

use stagewright_core::bound::LowerBound;
use stagewright_core::contraction::Units;
use stagewright_core::document::Split;
use stagewright_core::objective::Throughput;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{
    Context, Event, Plan, Result, Solution, SolveError, Solver, Status, StopReason,
};
use stagewright_core::tolerance;
use stagewright_core::uncertainty::{Sources, Uncertainty, WorstCase};

use crate::dpl::{OrderEffort, best_over_orders};

use search::Search;
pub(crate) use search::by_stages;

/// Share of the time for the nominal problem.
const NOMINAL_SHARE: f64 = 0.4;
/// Source of the bound that scales the nominal one.
const UNIFORM: &str = "the nominal bound, scaled to the average of all scenarios";

/// A plan with its worst case.
#[derive(Debug, Clone, PartialEq)]
pub struct RobustPlan {
    /// The plan, with its nominal value.
    pub plan: Plan,
    /// Worst case of the plan.
    pub worst: WorstCase,
}

/// The outcome of [`solve`].
#[derive(Debug, Clone)]
pub struct Robust {
    /// The solution of the nominal problem; if the search found a better nominal plan, with that plan.
    pub nominal: Solution,
    /// The sources of error.
    pub sources: Sources,
    /// Worst value of the nominal plan; `None` without a plan.
    pub nominal_worst: Option<f64>,
    /// The best plan in the worst case; `None` without a plan.
    pub best: Option<RobustPlan>,
    /// Lower bound on the worst value of every plan.
    pub bound: LowerBound,
    /// Number of problems with other costs that were solved for the bound.
    pub solved: usize,
}

impl Robust {
    /// (worst value − bound) / worst value, if there is a plan.
    pub fn gap(&self) -> Option<f64> {
        self.best.as_ref().map(|best| tolerance::gap(best.worst.value, self.bound.value))
    }

    /// The solution of the nominal problem with the robust plan in place of its own.
    pub fn solution(&self, context: &Context<'_>) -> Solution {
        with_plan(&self.nominal, self.best.as_ref().map(|best| &best.plan), context)
    }
}

/// A nominal solution with its plan replaced by another one.
fn with_plan(nominal: &Solution, plan: Option<&Plan>, context: &Context<'_>) -> Solution {
    let Some(plan) = plan else { return nominal.clone() };
    let Solution { solver, bound, statistics, stop, reason, .. } = nominal.clone();
    let stop = context.stop().reason().or(stop);
    let solution = Solution::with_plan(solver, plan.clone(), bound, stop);
    let reason = reason.filter(|_| solution.status != Status::Optimal);
    Solution { statistics, reason, ..solution }
}

/// A nominal solution with the nominally best plan of a search that started from the solution's own plan.
///
/// # Errors
/// A broken invariant: a plan below the bound.
fn with_best(nominal: Solution, best: &Plan, context: &Context<'_>) -> Result<Solution> {
    if nominal.plan.as_ref() == Some(best) {
        return Ok(nominal);
    }
    best.check_bound(&nominal.bound)?;
    Ok(with_plan(&nominal, Some(best), context))
}

/// Solves the nominal problem in a share of the time. If there is no plan by then, a split of a linear order is tried,
/// then the solver again in the remaining time: a search can start from any plan.
///
/// # Errors
/// An error of the solver, or a broken invariant.
fn solve_nominal(
    problem: &Problem,
    solver: &dyn Solver,
    share: f64,
    context: &mut Context<'_>,
) -> Result<Solution> {
    let nominal = solver.solve(problem, &mut context.time_slice(share))?;
    if nominal.plan.is_some() || nominal.status == Status::Infeasible {
        return Ok(nominal);
    }
    context.emit(Event::Phase { name: "no plan yet: splits of linear orders".into() });
    if let Some(plan) = split_of_an_order(problem, context)? {
        let why = nominal.reason.as_deref().unwrap_or("no reason given");
        let reason = format!("`{}` found no plan for the costs as predicted: {why}", nominal.solver);
        let nominal = Solution { reason: Some(reason), ..nominal };
        return with_best(nominal, &plan, context);
    }
    let is_over = context.stop().reason().is_some() || nominal.stop != Some(StopReason::Time);
    if is_over {
        return Ok(nominal);
    }
    let again = solver.solve(problem, &mut context.time_slice(1.0))?;
    let is_weaker = again.plan.is_none() && again.bound.value < nominal.bound.value;
    Ok(if is_weaker { Solution { bound: nominal.bound, ..again } } else { again })
}

/// The best contiguous split over a few linear orders, which is a plan under every split rule; `None` if none fits.
fn split_of_an_order(problem: &Problem, context: &mut Context<'_>) -> Result<Option<Plan>> {
    let rules = problem.objective().rules();
    if rules.split == Split::Contiguous {
        return best_over_orders(problem, &Units::of(problem), OrderEffort::Plain, context);
    }
    let rules = Throughput { split: Split::Contiguous, max_replicas: 1, ..rules };
    let Ok(contiguous) = problem.with_objective(rules) else { return Ok(None) };
    let units = Units::of(&contiguous);
    let found = best_over_orders(&contiguous, &units, OrderEffort::Plain, &mut context.for_restriction())?;
    let Some(found) = found else { return Ok(None) };
    let device_of = problem.graph().operators().map(|op| found.placement.device_of(op)).collect();
    Ok(Plan::try_new(problem, Placement::new(device_of)).ok())
}

/// Checks that the worst case is defined for an objective.
fn check(problem: &Problem) -> Result<()> {
    match Uncertainty::unsupported(problem.objective()) {
        Some(what) => Err(SolveError::Unsupported { solver: "robust", what: what.into() }),
        None => Ok(()),
    }
}

/// Finds a plan of least value in the worst case, and bounds that value. `solver` solves the nominal problem and the
/// problems with other costs. Takes the time of `solver` for up to twelve problems, plus the time of the programs over
/// orders and ideals.
///
/// # Errors
/// An objective that [`Uncertainty`] or the solver does not support, or a broken invariant.
pub fn solve(
    problem: &Problem,
    uncertainty: Uncertainty,
    solver: &dyn Solver,
    context: &mut Context<'_>,
) -> Result<Robust> {
    check(problem)?;
    let sources = Sources::new(problem.graph());
    let is_certain = uncertainty.deviation == 0.0 || uncertainty.budget == 0;
    let share = if is_certain { 1.0 } else { NOMINAL_SHARE };
    let nominal = solve_nominal(problem, solver, share, context)?;
    let bound = nominal.bound.clone();
    let Some(plan) = nominal.plan.clone() else {
        return Ok(Robust { nominal, sources, nominal_worst: None, best: None, bound, solved: 0 });
    };
    let mut search = Search::new(problem, &sources, uncertainty, plan);
    search.bound = bound;
    let mut solved = 0;
    if !is_certain {
        let share = (f64::from(uncertainty.budget) / sources.active(problem) as f64).min(1.0);
        search.raise(search.bound.value * (1.0 + uncertainty.deviation * share), UNIFORM);
        solved = run(&mut search, solver, context)?;
    }
    let Search { best, nominal: of_nominal, bound, .. } = search;
    let nominal = with_best(nominal, &of_nominal.plan, context)?;
    let nominal_worst = Some(of_nominal.worst.value);
    Ok(Robust { nominal, sources, nominal_worst, best: Some(best), bound, solved })
}

/// Runs all parts of the search until the gap is closed or the solve has to stop. Returns the number of problems
/// solved.
///
/// # Errors
/// An error of the solver, or a broken invariant.
fn run(search: &mut Search<'_>, solver: &dyn Solver, context: &mut Context<'_>) -> Result<usize> {
    if search.problem.objective().rules().split == Split::Contiguous && !search.is_enough(context) {
        context.emit(Event::Phase { name: "stages of least worst load".into() });
        search.split(context)?;
    }
    let solved = play::play(search, solver, context)?;
    moves::improve(search, context);
    let (value, bound) = (search.best.worst.value, search.bound.value);
    if bound > value * (1.0 + tolerance::VALUE_RELATIVE) {
        return Err(SolveError::Invariant(format!("a worst case of {value} below the bound of {bound}")));
    }
    // A bound that exceeds the value only by rounding equals the value.
    search.bound.value = bound.min(value);
    Ok(solved)
}
