//! The solve: the space, whole numbers by HiGHS, and a tree for the bound.

use std::time::Duration;

use stagewright_core::document::{ServingCertificateDocument, ServingGoal};
use stagewright_core::solver::{Context, Event, SolveError, Status, StopReason};
use stagewright_core::tolerance;
use stagewright_serving::Problem;

use crate::linear::whole;
use crate::program::Program;
use crate::solution::{Chosen, Plan, Solution};
use crate::space::Space;
use crate::table::{self, Table};
use crate::tree::Tree;

/// The longest time for whole numbers, and its share of the time that is left.
const WHOLE_TIME: Duration = Duration::from_secs(20);
const WHOLE_SHARE: f64 = 0.5;

/// By how much, relatively, a bound is weakened, so that other orders of its sums prove it too.
const MARGIN: f64 = 1e-10;

/// Finds numbers of replicas, and bounds the goal of every plan.
///
/// All replicas are priced once: O(shapes · batches). Where tables over used devices are small enough, they give the optimum; elsewhere HiGHS
/// finds whole numbers, and a tree of relaxations, each in time polynomial in sizes, bounds what no plan exceeds.
///
/// # Errors
/// If threads cannot be started.
pub fn solve(problem: &Problem, context: &mut Context<'_>) -> Result<Solution, SolveError> {
    phase("replicas", context);
    let stop = context.stop().clone();
    let Some(space) = context.in_pool(|| Space::new(problem, &stop))? else {
        return Ok(unknown(problem, stop.reason()));
    };
    Ok(solve_over(problem, space, context))
}

/// As [`solve`], over the replicas of a space alone, such as [`Space::of`] makes from a list. Of the problem it uses the devices, the
/// question and the number of classes.
pub fn solve_over(problem: &Problem, space: Space, context: &mut Context<'_>) -> Solution {
    let stop = context.stop().clone();
    let program = Program::new(problem, &space);
    let goal = problem.question.goal;
    let answer = if table::is_for(problem) {
        phase("tables", context);
        tabled(problem, &space, &program)
    } else {
        phase("counts", context);
        grown(problem, &space, &program, context)
    };
    let plan = answer.counts.and_then(|counts| plan(problem, &space, &program, &counts));
    let status = match &plan {
        Some(plan) if is_reached(goal, plan.value, answer.bound) => Status::Optimal,
        Some(_) => Status::Feasible,
        None if is_impossible(problem, &program, answer.bound) => Status::Infeasible,
        None => Status::Unknown,
    };
    let is_proved = matches!(status, Status::Optimal | Status::Infeasible);
    let stop = stop.reason().filter(|_| !is_proved);
    let (bound, certificate) = (answer.bound, Some(answer.certificate));
    Solution { status, plan, bound, certificate, stop, space }
}

/// The answer if not even the replicas were listed in time.
fn unknown(problem: &Problem, stop: Option<StopReason>) -> Solution {
    let bound = if problem.question.goal.is_maximised() { f64::INFINITY } else { f64::NEG_INFINITY };
    Solution { status: Status::Unknown, plan: None, bound, certificate: None, stop, space: Space::default() }
}

/// Numbers of replicas by column, with a bound in the direction of the goal.
struct Counted {
    counts: Option<Vec<u64>>,
    bound: f64,
    certificate: ServingCertificateDocument,
}

/// The optimum by tables.
fn tabled(problem: &Problem, space: &Space, program: &Program) -> Counted {
    let counts = Table::new(problem, space).plan(problem);
    let goal = counts.as_ref().and_then(|counts| program.goal(counts));
    // Without a plan all devices are too few.
    let beyond = match problem.question.goal {
        ServingGoal::Throughput | ServingGoal::Cache => 0.0,
        ServingGoal::Devices | ServingGoal::Price => -available(problem) - 1.0,
    };
    let bound = claimed(problem.question.goal, goal.unwrap_or(beyond));
    Counted { counts, bound, certificate: ServingCertificateDocument::Table {} }
}

/// Good numbers by HiGHS, and the bound of a tree.
fn grown(problem: &Problem, space: &Space, program: &Program, context: &mut Context<'_>) -> Counted {
    let mut tree = Tree::new(program, space);
    let stop = context.stop().clone();
    let time = stop.remaining().map_or(WHOLE_TIME, |left| left.mul_f64(WHOLE_SHARE).min(WHOLE_TIME));
    let found = whole(program, tree.root(), time);
    let found = found.and_then(|counts| Some((program.goal(&counts)?, counts)));
    phase("bound", context);
    let best = |tree: &Tree| {
        let whole = found.as_ref().map(|(goal, _)| *goal);
        let own = tree.best.as_ref().map(|(goal, _)| *goal);
        whole.into_iter().chain(own).fold(f64::NEG_INFINITY, f64::max)
    };
    let step = if problem.question.goal == ServingGoal::Devices { 1.0 - 1e-6 } else { 0.0 };
    let is_maximised = problem.question.goal.is_maximised();
    let is_enough = |value: f64, bound: f64| {
        let (larger, smaller) = if is_maximised { (bound, value) } else { (-value, -bound) };
        bound < value + step || context.gap_reached(larger, smaller)
    };
    tree.grow(best, is_enough, &stop);
    let counts = match (found, tree.best.take()) {
        (Some(whole), Some(own)) if own.0 > whole.0 => Some(own.1),
        (Some(whole), _) => Some(whole.1),
        (None, own) => own.map(|(_, counts)| counts),
    };
    let bound = claimed(problem.question.goal, tree.bound());
    Counted { counts, bound, certificate: tree.certificate(space) }
}

fn phase(name: &str, context: &mut Context<'_>) {
    context.emit(Event::Phase { name: name.into() });
}

/// The bound in the direction of the goal, weakened by the margin; whole for devices.
fn claimed(goal: ServingGoal, most: f64) -> f64 {
    let weaker = most + MARGIN * most.abs();
    match goal {
        ServingGoal::Throughput | ServingGoal::Cache => weaker,
        ServingGoal::Price => -weaker,
        ServingGoal::Devices => (-weaker - 1e-6).ceil(),
    }
}

fn is_reached(goal: ServingGoal, value: f64, bound: f64) -> bool {
    let (larger, smaller) = if goal.is_maximised() { (bound, value) } else { (value, bound) };
    tolerance::gap(larger, smaller) == 0.0
}

/// Whether a bound is beyond what any plan has. An upper bound of R is 0 up to the rounding of the largest rates.
fn is_impossible(problem: &Problem, program: &Program, bound: f64) -> bool {
    match problem.question.goal {
        ServingGoal::Throughput => bound <= tolerance::VALUE_RELATIVE * program.most_flow,
        ServingGoal::Cache => bound < 0.0,
        ServingGoal::Devices | ServingGoal::Price => bound > available(problem),
    }
}

/// All devices, or their price.
fn available(problem: &Problem) -> f64 {
    let price = |name: &str| match problem.question.goal {
        ServingGoal::Price => problem.question.prices.get(name).copied().unwrap_or(0.0),
        _ => 1.0,
    };
    problem.fleet.kinds.iter().map(|kind| kind.count as f64 * price(&kind.name)).sum()
}

/// The plan of numbers of replicas; `None` of one that serves nothing.
fn plan(problem: &Problem, space: &Space, program: &Program, counts: &[u64]) -> Option<Plan> {
    let goal = program.goal(counts)?;
    let chosen = space.columns.iter().zip(counts).filter(|(_, count)| **count > 0);
    let replicas: Vec<Chosen> =
        chosen.map(|(column, &count)| Chosen { column: column.clone(), count }).collect();
    let rate = program.rate(counts);
    (!replicas.is_empty() && rate > 0.0).then(|| Plan {
        replicas,
        rate,
        value: if problem.question.goal.is_maximised() { goal } else { -goal },
    })
}
