//! The solve: the space, whole numbers by HiGHS, and a tree for the bound.

use std::time::Duration;

use stagewright_core::document::{ServingCertificateDocument, ServingGoal};
use stagewright_core::solver::{Context, Event, SolveError, Status, StopReason};
use stagewright_serving::Problem;

use crate::document::gap;
use crate::exchange::exchanged;
use crate::linear::whole;
use crate::program::Program;
use crate::proof::{available, claimed, is_impossible, is_whole, is_worth_it};
use crate::solution::{Chosen, Plan, Solution};
use crate::space::Space;
use crate::table::{self, Table};
use crate::tree::Tree;

/// The longest time for whole numbers, and its share of the time that is left.
const WHOLE_TIME: Duration = Duration::from_secs(20);
const WHOLE_SHARE: f64 = 0.5;

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
    match context.in_pool(|| Space::new(problem, &stop))? {
        Some(space) => Ok(solve_over(problem, space, context)),
        None => Ok(unknown(problem, stop.reason())),
    }
}

/// Solves like [`solve`], over the replicas of a space alone, such as [`Space::of`] makes from a list. Of the problem it uses the devices, the
/// question and the number of classes.
pub fn solve_over(problem: &Problem, space: Space, context: &mut Context<'_>) -> Solution {
    let program = Program::new(problem, &space);
    let answer = if table::is_for(problem) {
        phase("tables", context);
        tabled(problem, &space, &program)
    } else {
        phase("counts", context);
        grown(problem, &space, &program, context)
    };
    let counts = answer.counts.map(|counts| exchanged(problem, &space, counts));
    let plan = counts.and_then(|counts| plan(problem, &space, &program, &counts));
    let status = match &plan {
        Some(plan) if gap(problem.question.goal, plan.value, answer.bound) == 0.0 => Status::Optimal,
        Some(_) => Status::Feasible,
        None if is_impossible(problem, &program, answer.bound) => Status::Infeasible,
        None => Status::Unknown,
    };
    let is_proved = matches!(status, Status::Optimal | Status::Infeasible);
    let stop = context.stop().reason().filter(|_| !is_proved);
    let (bound, certificate) = (answer.bound, Some(answer.certificate));
    Solution { status, plan, bound, certificate, stop, space }
}

/// The answer if not even the replicas were listed in time.
pub(crate) fn unknown(problem: &Problem, stop: Option<StopReason>) -> Solution {
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
    let bound = claimed(problem, goal.unwrap_or(beyond));
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
    let step = if is_whole(problem) { 1.0 - 1e-6 } else { 0.0 };
    let goal = problem.question.goal;
    let sign = if goal.is_maximised() { 1.0 } else { -1.0 };
    // Values may be negative, so that the gap is given as that of 1.
    let is_enough = |value: f64, bound: f64| {
        let gap = gap(goal, sign * value, sign * bound);
        bound < value + step || context.gap_reached(1.0, 1.0 - gap)
    };
    tree.grow(best, is_enough, &stop);
    let counts = match (found, tree.best.take()) {
        (Some(whole), Some(own)) if own.0 > whole.0 => Some(own.1),
        (Some(whole), _) => Some(whole.1),
        (None, own) => own.map(|(_, counts)| counts),
    };
    let bound = claimed(problem, tree.bound());
    Counted { counts, bound, certificate: tree.certificate(space) }
}

fn phase(name: &str, context: &mut Context<'_>) {
    context.emit(Event::Phase { name: name.into() });
}

/// The plan of numbers of replicas; `None` of one that serves nothing, or is worth no more than none.
pub(crate) fn plan(problem: &Problem, space: &Space, program: &Program, counts: &[u64]) -> Option<Plan> {
    let goal = program.goal(counts)?;
    let chosen = space.columns.iter().zip(counts).filter(|(_, count)| **count > 0);
    let replicas: Vec<Chosen> =
        chosen.map(|(column, &count)| Chosen { column: column.clone(), count }).collect();
    let rate = program.rate(counts);
    let is_plan = !replicas.is_empty() && rate > 0.0 && is_worth_it(problem, program, goal);
    let value = if problem.question.goal.is_maximised() { goal } else { -goal };
    is_plan.then_some(Plan { replicas, rate, value })
}
