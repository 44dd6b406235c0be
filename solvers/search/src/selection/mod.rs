//! Selection among the plans of a problem: requirements beyond its constraints, and a second goal among the plans whose
//! value is close to the best.
//!
//! Every solver solves the problem without requirements. Its bound holds for the plans that meet them too, and if its plan
//! meets them, the answer is complete. Otherwise, and for a second goal, `search` looks for the best plan that meets the
//! requirements with at most a given value: by enumeration for tiny problems (`enumeration`), by the programs over ideals and
//! orders for pipelines (`stage`), and by moves (`moves`). Enumeration is exact, and so is the program over ideals for
//! contiguous splits in one pass without a schedule and uplinks.
//!
//! A third search finds the best plan for the objective among those with the least second goal: `close`.
//!
//! A group of operators that must be *alone* on a device needs no search of its own: for each choice of a pool for the group,
//! `reserved` pins the group to one device of the pool and all other operators to the other devices. The best of these
//! problems is the answer, and the smallest of their bounds is a bound.

mod aim;
mod bound;
mod close;
mod descent;
mod enumeration;
mod measure;
mod moves;
mod reserved;
mod search;
mod stage;

use stagewright_core::bound::LowerBound;
use stagewright_core::document::SecondGoal;
use stagewright_core::graph::OpId;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{
    Context, Event, Plan, Result, Solution, SolveError, Solver, Status, StopReason,
};
use stagewright_core::tolerance;

use aim::Aim;
use close::Close;
use measure::Measure;
pub use measure::{measured, shortfall};
use reserved::{MOST_CHOICES, reserved};
use search::search;

/// Share of the time for the objective, if a second goal follows.
const FIRST_SHARE: f64 = 0.6;
/// Share of the remaining time for the second goal, after which the objective follows again.
const SECOND_SHARE: f64 = 0.8;
/// Share of the time for the problem without requirements, if a search for plans that meet them may follow.
const RELAXED_SHARE: f64 = 0.5;

/// Requirements on plans, beyond the constraints of the problem.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requirements {
    /// Exact number of stages: the devices that hold operators, the replicas of a stage counted once.
    pub stages: Option<u32>,
    /// Whether every device must have work; hosts only if the cluster has nothing else.
    pub all_devices: bool,
    /// Groups of operators, each of which shares a stage that holds nothing else.
    pub alone: Vec<Vec<OpId>>,
}

impl Requirements {
    /// Whether nothing is required.
    pub fn is_empty(&self) -> bool {
        *self == Requirements::default()
    }
}

/// A second goal among the plans whose value is at most (1 + within) times the best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Second {
    /// The second goal.
    pub goal: SecondGoal,
    /// Share by which the value may exceed the best.
    pub within: f64,
}

/// Requirements and a second goal.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Selection {
    /// Requirements on every plan.
    pub requirements: Requirements,
    /// The second goal, if there is one.
    pub second: Option<Second>,
}

/// The plan selected by a second goal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SecondFound {
    /// Value of the best plan for the objective alone.
    pub best: f64,
    /// The second goal of the plan.
    pub value: f64,
    /// Lower bound on the second goal of every plan within the share.
    pub bound: f64,
}

/// The outcome of [`solve`].
#[derive(Debug, Clone)]
pub struct Selected {
    /// The plan, with a bound on the value of every plan that meets the requirements.
    pub solution: Solution,
    /// The figures of the second goal; `None` without a second goal or a plan.
    pub second: Option<SecondFound>,
}

/// Solves a problem under requirements and, among plans close to the best, for a second goal, and again for the objective among
/// plans with the same second goal. `solver` solves the problem without requirements, or once for every choice of pools for the
/// groups that must be alone. With a second goal, the plans on the way to the best are not reported: the selected plan may be
/// worse for the objective.
///
/// # Errors
/// Errors of the solver; groups that must be alone together with replicas, or with too many choices of pools for them.
pub fn solve(
    problem: &Problem,
    selection: &Selection,
    solver: &dyn Solver,
    context: &mut Context<'_>,
) -> Result<Selected> {
    let Selection { requirements, second } = selection;
    if *selection == Selection::default() {
        return Ok(Selected { solution: solver.solve(problem, context)?, second: None });
    }
    let variants = variants(problem, &requirements.alone)?;
    let Some(second) = second else {
        let found = first(problem, &variants, requirements, solver, context)?;
        return Ok(Selected { solution: combined(solver.name(), found), second: None });
    };
    let mut part = context.time_slice(FIRST_SHARE);
    let found = first(problem, &variants, requirements, solver, &mut part.for_auxiliary())?;
    let solution = combined(solver.name(), found.clone());
    let Some(best) = solution.plan.clone() else {
        return Ok(Selected { solution, second: None });
    };
    let solved: Vec<(&Problem, Solution)> = variants.iter().zip(found).collect();
    let mut close = Close::new(problem, requirements, *second, &best, solved);
    context.emit(Event::Phase { name: format!("least {}", second.goal.name()) });
    let (plan, bound) = close.least(&best, &mut context.time_slice(SECOND_SHARE))?;
    context.emit(Event::Phase { name: format!("best value at the least {}", second.goal.name()) });
    let plan = close.fastest(plan, context)?;
    let value = measured(problem, second.goal, &plan.evaluation);
    let second = SecondFound { best: best.value(), value, bound: bound.min(value) };
    let Solution { solver, bound, statistics, stop, reason, .. } = solution;
    let stop = context.stop().reason().or(stop);
    context.emit(Event::Incumbent { value: plan.value() });
    let solution = Solution { statistics, reason, ..Solution::with_plan(solver, plan, bound, stop) };
    Ok(Selected { solution, second: Some(second) })
}

/// The problems whose plans together are those in which the groups are alone.
///
/// # Errors
/// Replicas, which reserved devices exclude, and too many choices of pools.
fn variants(problem: &Problem, alone: &[Vec<OpId>]) -> Result<Vec<Problem>> {
    let unsupported = |what: String| Err(SolveError::Unsupported { solver: "alone", what });
    if !alone.is_empty() && problem.objective().rules().max_replicas > 1 {
        return unsupported("replicated stages".into());
    }
    match reserved(problem, alone) {
        Some(variants) => Ok(variants),
        None => unsupported(format!("more than {MOST_CHOICES} choices of pools for the reserved devices")),
    }
}

/// For every variant, the best plan for the objective alone that meets the requirements.
fn first(
    problem: &Problem,
    variants: &[Problem],
    requirements: &Requirements,
    solver: &dyn Solver,
    context: &mut Context<'_>,
) -> Result<Vec<Solution>> {
    let mut solutions = Vec::with_capacity(variants.len());
    for (index, variant) in variants.iter().enumerate() {
        let mut part = context.time_slice(1.0 / (variants.len() - index) as f64);
        let found = meeting(variant, requirements, solver, &mut part)?;
        let found = if requirements.alone.is_empty() { found } else { of_whole(problem, found)? };
        solutions.push(found);
    }
    Ok(solutions)
}

/// The best of the solutions of variants, with the smallest of their bounds.
fn combined(solver: &'static str, solutions: Vec<Solution>) -> Solution {
    solutions.into_iter().reduce(better).unwrap_or_else(|| {
        let reason = "no device can be reserved for the operators that must be alone".into();
        Solution::without_plan(solver, Status::Infeasible, LowerBound::TRIVIAL, None, reason)
    })
}

/// The solution of a variant as one of the whole problem. A certificate is about the variant, so it is dropped.
///
/// # Errors
/// A broken invariant: a plan that is not feasible for the whole problem.
fn of_whole(problem: &Problem, found: Solution) -> Result<Solution> {
    let plan = found.plan.map(|plan| Plan::new(problem, plan.placement)).transpose()?;
    // The checker replays bounds by name for the whole problem.
    let bound = LowerBound { source: LowerBound::SEARCHED, certificate: None, ..found.bound };
    Ok(match plan {
        Some(plan) => {
            let solution = Solution::with_plan(found.solver, plan, bound, found.stop);
            Solution { statistics: found.statistics, reason: found.reason, ..solution }
        }
        None => Solution { plan: None, bound, ..found },
    })
}

/// The better of two solutions of variants, with the smaller of their bounds.
fn better(left: Solution, right: Solution) -> Solution {
    if left.status == Status::Infeasible || right.status == Status::Infeasible {
        return if left.status == Status::Infeasible { right } else { left };
    }
    let value = |solution: &Solution| solution.value().unwrap_or(f64::INFINITY);
    let bound = match right.bound.value < left.bound.value {
        true => right.bound.clone(),
        false => left.bound.clone(),
    };
    let stop = left.stop.or(right.stop);
    let best = if value(&right) < value(&left) { right } else { left };
    match best.plan {
        Some(plan) => {
            Solution { statistics: best.statistics, ..Solution::with_plan(best.solver, plan, bound, stop) }
        }
        None => Solution { bound, stop, ..best },
    }
}

/// The best plan that meets the requirements, those on operators that are alone aside.
fn meeting(
    problem: &Problem,
    requirements: &Requirements,
    solver: &dyn Solver,
    context: &mut Context<'_>,
) -> Result<Solution> {
    if requirements.stages.is_none() && !requirements.all_devices {
        return match requirements.alone.is_empty() {
            true => solver.solve(problem, context),
            false => solver.solve(problem, &mut context.for_restriction()),
        };
    }
    if let Some(reason) = bound::impossible(problem, requirements) {
        return Ok(infeasible(solver.name(), reason));
    }
    let warm = context.warm_start.clone();
    let relaxed = solver.solve(problem, &mut context.time_slice(RELAXED_SHARE).for_auxiliary())?;
    let meets = |plan: &Plan| shortfall(problem, requirements, &plan.evaluation) == 0;
    let is_met = relaxed.plan.as_ref().is_some_and(meets);
    let is_done = is_met && context.done(relaxed.plan.as_ref(), relaxed.bound.value).is_some();
    if relaxed.status == Status::Infeasible || is_done {
        return Ok(relaxed);
    }
    context.emit(Event::Phase { name: "plans that meet the requirements".into() });
    let aim = Aim { requirements, measure: Measure::Value, limit: f64::INFINITY, most: None };
    let warm = warm.and_then(|placement| Plan::try_new(problem, placement).ok());
    let starts: Vec<Plan> = warm.into_iter().chain(relaxed.plan).collect();
    let found = search(problem, aim, &starts, context)?;
    let Solution { solver: name, mut bound, statistics, stop, .. } = relaxed;
    if let Some(proved) = found.bound.filter(|&proved| tolerance::round_down(proved) > bound.value) {
        bound = LowerBound {
            value: tolerance::round_down(proved),
            source: LowerBound::EXHAUSTED,
            certificate: None,
        };
    }
    let solution = match found.plan {
        Some(plan) => Solution::with_plan(name, plan, bound, context.stop().reason().or(stop)),
        None if found.bound == Some(f64::INFINITY) => {
            infeasible(name, "no plan of the problem meets the requirements".into())
        }
        None => {
            let reason = "no plan was found that meets the requirements".to_owned();
            Solution::without_plan(name, Status::Unknown, bound, context.stop().reason().or(stop), reason)
        }
    };
    let solution = match is_met && stop == Some(StopReason::Time) {
        true => resumed(problem, solver, solution, &meets, context)?,
        false => solution,
    };
    context.keep(&mut None, solution.plan.clone());
    Ok(Solution { statistics, ..solution })
}

fn infeasible(solver: &'static str, reason: String) -> Solution {
    Solution::without_plan(solver, Status::Infeasible, LowerBound::TRIVIAL, None, reason)
}

/// The solution after the solver has started again from its plan, for the time that remains. A plan without requirements has
/// met them before, so a better one may too.
fn resumed(
    problem: &Problem,
    solver: &dyn Solver,
    before: Solution,
    meets: &dyn Fn(&Plan) -> bool,
    context: &mut Context<'_>,
) -> Result<Solution> {
    let plan = match &before.plan {
        Some(plan) if context.done(Some(plan), before.bound.value).is_none() => plan.clone(),
        _ => return Ok(before),
    };
    let mut rest = context.time_slice(1.0);
    rest.warm_start = Some(plan.placement.clone());
    let found = solver.solve(problem, &mut rest.for_auxiliary())?;
    let bound = if found.bound.value > before.bound.value { found.bound } else { before.bound };
    let better = found.plan.filter(|found| meets(found) && found.value() < plan.value());
    Ok(Solution::with_plan(before.solver, better.unwrap_or(plan), bound, found.stop))
}
