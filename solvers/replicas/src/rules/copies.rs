//! The rule of aiconfigurator 0.12.0: one unit, copied as often as it fits.
//!
//! A unit is an aggregated replica, or a group of replicas for prompts and replicas that decode. Of the first the 32 and of the second the
//! 16 with the highest rates of a device are tried, up to 32 of each in a group. The rule knows one kind of devices, so that each kind of
//! a cluster is divided for itself here.

use stagewright_core::document::{ServingGoal, ServingRole};
use stagewright_core::solver::{Context, SolveError};
use stagewright_serving::Problem;

use super::{better, is_of_one_kind};
use crate::program::Program;
use crate::solution::Plan;
use crate::solver::plan;
use crate::space::Space;

/// Replicas for prompts that are tried.
const PREFILLS: usize = 32;

/// Replicas that decode that are tried.
const DECODES: usize = 16;

/// The largest number of replicas of a role in a unit.
const LARGEST: u64 = 32;

/// Numbers of replicas by column.
type Unit = Vec<(usize, u64)>;

/// The plan of the rule; `None` for several classes of requests, or if there is none within the limits.
pub(super) fn copies(problem: &Problem, context: &mut Context<'_>) -> Result<Option<Plan>, SolveError> {
    let stop = context.stop().clone();
    if problem.classes.len() > 1 {
        return Ok(None);
    }
    let Some(space) = context.in_pool(|| Space::new(problem, &stop))? else { return Ok(None) };
    let program = Program::new(problem, &space);
    let is_maximised = problem.question.goal.is_maximised();
    let mut counts = vec![0; space.columns.len()];
    let mut best = None;
    for kind in 0..problem.fleet.kinds.len() {
        // A goal that is minimised has its load on one kind, and one that is maximised on all of them.
        let mut own = if is_maximised { counts.clone() } else { vec![0; counts.len()] };
        let Some(unit) = unit(problem, &space, kind) else { continue };
        copy(&program, &unit, problem.fleet.kinds[kind].count, is_maximised, &mut own);
        best = better(problem, best, plan(problem, &space, &program, &own));
        counts = own;
    }
    Ok(best)
}

/// The unit of a kind whose copies serve most, or have the largest caches.
fn unit(problem: &Problem, space: &Space, kind: usize) -> Option<Unit> {
    let count = problem.fleet.kinds[kind].count;
    let size = |column: usize| &space.sizes[space.columns[column].size];
    let devices = |column: usize| size(column).devices[kind];
    let figure = |column: usize| match problem.question.goal {
        ServingGoal::Cache => space.columns[column].cache_tokens as f64,
        _ => space.columns[column].offer.rate,
    };
    let of_role = |role: ServingRole, tried: usize| {
        let is_own = |&column: &usize| {
            space.columns[column].role == role && is_of_one_kind(size(column)) && devices(column) > 0
        };
        let of_device = |column: usize| figure(column) / devices(column) as f64;
        let mut columns: Vec<usize> = (0..space.columns.len()).filter(is_own).collect();
        columns.sort_by(|&left, &right| of_device(right).total_cmp(&of_device(left)));
        columns.truncate(tried);
        columns
    };
    let concurrency = match problem.question.goal {
        ServingGoal::Throughput => problem.question.concurrency.unwrap_or(f64::INFINITY),
        _ => f64::INFINITY,
    };
    let mut best: Option<(f64, Unit)> = None;
    let mut offer = |unit: &[(usize, u64)], figure: f64| {
        let taken: u64 = unit.iter().map(|&(column, number)| number * devices(column)).sum();
        let in_flight: f64 =
            unit.iter().map(|&(column, number)| number as f64 * space.columns[column].offer.in_flight).sum();
        let copies = ((count / taken) as f64).min((concurrency / in_flight).floor());
        let total = figure * copies;
        if total > best.as_ref().map_or(0.0, |(best, _)| *best) {
            best = Some((total, unit.to_vec()));
        }
    };
    for column in of_role(ServingRole::Aggregated, usize::MAX) {
        offer(&[(column, 1)], figure(column));
    }
    let decodes = of_role(ServingRole::Decode, DECODES);
    for &prefill in &of_role(ServingRole::Prefill, PREFILLS) {
        for &decode in &decodes {
            for readers in 1..=LARGEST.min(count / devices(prefill)) {
                let rest = count - readers * devices(prefill);
                for writers in 1..=LARGEST.min(rest / devices(decode)) {
                    let served = match problem.question.goal {
                        ServingGoal::Cache => writers as f64 * figure(decode),
                        _ => (readers as f64 * figure(prefill)).min(writers as f64 * figure(decode)),
                    };
                    offer(&[(prefill, readers), (decode, writers)], served);
                }
            }
        }
    }
    best.map(|(_, unit)| unit)
}

/// Adds copies of a unit: as many as keep the rows of the program for a goal that is maximised, and otherwise as few.
fn copy(program: &Program, unit: &[(usize, u64)], most: u64, is_maximised: bool, counts: &mut Vec<u64>) {
    let with = |copies: u64| {
        let mut changed = counts.clone();
        unit.iter().for_each(|&(column, number)| changed[column] += number * copies);
        changed
    };
    let mut numbers: Box<dyn Iterator<Item = u64>> =
        if is_maximised { Box::new((1..=most).rev()) } else { Box::new(1..=most) };
    if let Some(copies) = numbers.find(|&copies| program.goal(&with(copies)).is_some()) {
        *counts = with(copies);
    }
}
