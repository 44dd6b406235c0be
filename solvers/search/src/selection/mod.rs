//! Selection among the plans of a problem: requirements beyond its constraints, and a second goal among the plans whose
//! value is close to the best.
//!
//! Every solver solves the problem without requirements. Its bound holds for the plans that meet them too, and if its plan
//! meets them, the answer is complete. Otherwise, and for a second goal, `search` looks for the best plan that meets the
//! requirements with at most a given value: by enumeration for tiny problems (`enumeration`), by the programs over ideals and
//! orders for pipelines (`stage`), and by moves (`moves`). The first, and the program over ideals for contiguous splits, are
//! exact.
//!
//! A group of operators that must be *alone* on a device needs no search of its own: for each choice of a pool for the group,
//! `reserved` pins the group to one device of the pool and all other operators to the other devices. The best of these
//! problems is the answer, and the smallest of their bounds is a bound.

mod aim;
mod bound;
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
use stagewright_core::solver::{Context, Event, Plan, Result, Solution, Solver, Status};
use stagewright_core::tolerance;

use aim::Aim;
use measure::Measure;
pub use measure::{measured, shortfall};
use reserved::reserved;
use search::search;

/// Share of the time for the objective, if a second goal follows.
const FIRST_SHARE: f64 = 0.6;
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

/// Solves a problem under requirements and, among plans close to the best, for a second goal. `solver` solves the problem
/// without requirements, or once for every choice of pools for the groups that must be alone.
///
/// # Errors
/// Errors of the solver.
pub fn solve(
    problem: &Problem,
    selection: &Selection,
    solver: &dyn Solver,
    context: &mut Context<'_>,
) -> Result<Selected> {
    let Selection { requirements, second } = selection;
    let variants = reserved(problem, &requirements.alone);
    let share = if second.is_some() { FIRST_SHARE } else { 1.0 };
    let solution = first(problem, &variants, requirements, solver, &mut context.time_slice(share))?;
    let (Some(second), Some(best)) = (second, solution.plan.clone()) else {
        return Ok(Selected { solution, second: None });
    };
    context.emit(Event::Phase { name: format!("least {}", second.goal.name()) });
    let limit = best.value() * (1.0 + second.within);
    let measure = Measure::Second(second.goal);
    let (mut plan, mut bound) = (best.clone(), f64::INFINITY);
    for (index, variant) in variants.iter().enumerate() {
        let aim = Aim { requirements, measure, limit };
        let mut part = context.time_slice(1.0 / (variants.len() - index) as f64);
        let found = search(variant, aim, std::slice::from_ref(&plan), &mut part.for_auxiliary())?;
        let least = bound::least(variant, second.goal, limit, requirements);
        bound = bound.min(found.bound.unwrap_or(0.0).max(least));
        if let Some(found) = found.plan.and_then(|found| Plan::try_new(problem, found.placement).ok())
            && measured(problem, second.goal, &found.evaluation)
                < measured(problem, second.goal, &plan.evaluation)
        {
            plan = found;
        }
    }
    let value = measured(problem, second.goal, &plan.evaluation);
    let second = SecondFound { best: best.value(), value, bound: bound.min(value) };
    let Solution { solver, bound, statistics, stop, reason, .. } = solution;
    let stop = context.stop().reason().or(stop);
    let solution = Solution { statistics, reason, ..Solution::with_plan(solver, plan, bound, stop) };
    Ok(Selected { solution, second: Some(second) })
}

/// The best plan for the objective alone that meets the requirements, over all variants.
fn first(
    problem: &Problem,
    variants: &[Problem],
    requirements: &Requirements,
    solver: &dyn Solver,
    context: &mut Context<'_>,
) -> Result<Solution> {
    let is_alone = !requirements.alone.is_empty();
    let mut best: Option<Solution> = None;
    for (index, variant) in variants.iter().enumerate() {
        let mut part = context.time_slice(1.0 / (variants.len() - index) as f64);
        let found = meeting(variant, requirements, solver, &mut part)?;
        let found = if is_alone { of_whole(problem, found)? } else { found };
        best = Some(match best {
            None => found,
            Some(best) => better(best, found),
        });
    }
    let none = || {
        let reason = "no device has room of its own for the operators that must be alone".into();
        Solution::without_plan(solver.name(), Status::Infeasible, LowerBound::TRIVIAL, None, reason)
    };
    Ok(best.unwrap_or_else(none))
}

/// The solution of a variant as one of the whole problem. A certificate is about the variant, so it is dropped.
///
/// # Errors
/// A broken invariant: a plan that is not feasible for the whole problem.
fn of_whole(problem: &Problem, found: Solution) -> Result<Solution> {
    let plan = found.plan.map(|plan| Plan::new(problem, plan.placement)).transpose()?;
    Ok(Solution { plan, bound: LowerBound { certificate: None, ..found.bound }, ..found })
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
    let is_plain = requirements.stages.is_none() && !requirements.all_devices;
    if is_plain && requirements.alone.is_empty() {
        return solver.solve(problem, context);
    }
    if let Some(reason) = bound::impossible(problem, requirements) {
        return Ok(Solution::without_plan(
            solver.name(),
            Status::Infeasible,
            LowerBound::TRIVIAL,
            None,
            reason,
        ));
    }
    let share = if is_plain { 1.0 } else { RELAXED_SHARE };
    let relaxed = solver.solve(problem, &mut context.time_slice(share).for_auxiliary())?;
    let is_met = |plan: &Plan| shortfall(problem, requirements, &plan.evaluation) == 0;
    if relaxed.status == Status::Infeasible || relaxed.plan.as_ref().is_some_and(is_met) {
        return Ok(relaxed);
    }
    context.emit(Event::Phase { name: "plans that meet the requirements".into() });
    let aim = Aim { requirements, measure: Measure::Value, limit: f64::INFINITY };
    let starts: Vec<Plan> = relaxed.plan.into_iter().collect();
    let found = search(problem, aim, &starts, context)?;
    let Solution { solver, mut bound, statistics, .. } = relaxed;
    if let Some(proved) = found.bound.filter(|&proved| tolerance::round_down(proved) > bound.value) {
        bound = LowerBound {
            value: tolerance::round_down(proved),
            source: LowerBound::EXHAUSTED,
            certificate: None,
        };
    }
    let stop = context.stop().reason();
    let reason = |text: &str| text.to_owned();
    let solution = match found.plan {
        Some(plan) => Solution::with_plan(solver, plan, bound, stop),
        None if found.bound == Some(f64::INFINITY) => {
            let reason = reason("no plan of the problem meets the requirements");
            Solution::without_plan(solver, Status::Infeasible, LowerBound::TRIVIAL, None, reason)
        }
        None => {
            let reason = reason("no plan was found that meets the requirements");
            Solution::without_plan(solver, Status::Unknown, bound, stop, reason)
        }
    };
    Ok(Solution { statistics, ..solution })
}
