//! Local search over calls: pieces of the model move between calls and hosts.
//!
//! A state gives for each operator its call or its host. Every state is feasible, and its value is the timeline of
//! [`stagewright_core::call_timing`], recomputed after a move at the cost of reading the graph. It accounts for calls and
//! hosts that work in parallel, which the block program of [`super::blocks`] does not.
//!
//! `moves` draws the moves, and `anneal` walks (simulated annealing). This module runs the walks in rounds, each from
//! the best plans of the round before, with the same result for any number of threads.

mod anneal;
mod moves;
mod state;

use rayon::prelude::*;
use stagewright_core::call_timing::Offload;
use stagewright_core::calls::assign_if_missing;
use stagewright_core::contraction::Units;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Context, Event, Plan, Result, Solution, Status};
use stagewright_core::tolerance;

use super::blocks::over_orders;
use super::bound;
use anneal::{Cooling, anneal};
use state::{SiteAssignment, Slots};

/// Fractions of the time for the bound and for the start.
const BOUND_SHARE: f64 = 0.2;
const START_SHARE: f64 = 0.3;
/// Number of walks per round, and start temperatures of the coolest and the hottest.
const WALKS: u64 = 8;
const COOLEST: f64 = 3e-4;
const HOTTEST: f64 = 0.03;
/// Maximum number of rounds, and of consecutive rounds without an improvement: the budget of a search without a time
/// limit.
const ROUNDS: u64 = 60;
const PATIENCE: u64 = 10;
/// Moves of a walk in the first round per operator, their minimum and maximum in total, and their growth factor.
const MOVES_PER_OPERATOR: u64 = 20;
const FEWEST_MOVES: u64 = 1 << 10;
const MAX_MOVES: u64 = 1 << 20;
const GROWTH: f64 = 1.4;
/// Maximum gap from which the target is derived: with a larger gap, every plan is close enough.
const LARGEST_GAP: f64 = 0.999;

/// Local search from the best order of blocks.
pub(crate) fn solve(name: &'static str, problem: &Problem, context: &mut Context<'_>) -> Result<Solution> {
    let (bound, suggested) = bound::first(problem, context.time_slice(BOUND_SHARE).stop());
    let warm = context.warm_start.clone().map(|warm| assign_if_missing(problem, warm));
    let warm = warm.and_then(|warm| Plan::new(problem, warm).ok());
    let mut start = match warm {
        // A caller with a plan has already searched the orders.
        Some(plan) => Some(plan),
        None => over_orders(problem, &Units::of(problem), &mut context.time_slice(START_SHARE))?,
    };
    if let Some(placement) = suggested {
        let suggested = Plan::new(problem, placement)?;
        start = start.filter(|start| start.value() <= suggested.value()).or(Some(suggested));
    }
    let Some(start) = start else {
        let why = "no chain of blocks found fits the devices, and there is no other initial plan";
        let stop = context.stop().reason();
        return Ok(Solution::without_plan(name, Status::Unknown, bound, stop, why.into()));
    };
    let gap = context.limits.gap.clamp(2.0 * tolerance::OPTIMAL_RELATIVE, LARGEST_GAP);
    let (plan, moves) = improve(problem, start, bound.value / (1.0 - gap), context)?;
    let stop = context.end(plan.value(), bound.value);
    Ok(Solution { statistics: vec![("moves", moves)], ..Solution::with_plan(name, plan, bound, stop) })
}

/// Improves a plan until its value is at most `target`, a limit is reached, or several rounds in a row find nothing.
/// Returns the plan and the number of moves tried.
///
/// # Errors
/// If worker threads cannot be started, and for broken invariants.
pub fn improve(problem: &Problem, plan: Plan, target: f64, context: &mut Context<'_>) -> Result<(Plan, u64)> {
    context.emit(Event::Phase { name: "local search over calls".into() });
    let offload = Offload::new(problem);
    let slots = Slots::new(problem, &plan.placement);
    // The search excludes hosts other than the fastest of each operator.
    let Some(first) = SiteAssignment::of_placement(&offload, &slots, &plan.placement) else {
        return Ok((plan, 0));
    };
    let mut best: (f64, Placement) = (first.value(), first.placement());
    let mut population = vec![best.clone(); WALKS as usize];
    let (stop, seed) = (context.stop().clone(), context.seed());
    let pool = context.pool()?;
    let (mut tried, mut improved) = (0, 0);
    for round in 0..ROUNDS {
        if round - improved >= PATIENCE || best.0 <= target || stop.reason().is_some() {
            break;
        }
        let first = (problem.graph().operator_count() as u64 * MOVES_PER_OPERATOR).max(FEWEST_MOVES);
        let moves = ((first as f64 * GROWTH.powi(round as i32)) as u64).min(MAX_MOVES);
        let walk = |(walk, start): (usize, &(f64, Placement))| {
            if stop.reason().is_some() {
                return None;
            }
            let walk = walk as u64;
            let hot = COOLEST * (HOTTEST / COOLEST).powf(walk as f64 / (WALKS - 1) as f64);
            let mut rng = seed::stream(seed, round * WALKS + walk + 1);
            let state = SiteAssignment::of_placement(&offload, &slots, &start.1)?;
            Some(anneal(state, Cooling { moves, hot, target }, &mut rng, &stop))
        };
        let found: Vec<_> = pool.install(|| population.par_iter().enumerate().map(walk).collect());
        for (member, found) in population.iter_mut().zip(found) {
            let Some((value, placement, moves)) = found else { continue };
            tried += moves;
            if value < best.0 * (1.0 - tolerance::OPTIMAL_RELATIVE) {
                best = (value, placement.clone());
                improved = round;
                context.emit(Event::Incumbent { value });
            }
            *member = (value, placement);
        }
        let worst = (0..population.len()).rev().max_by(|&a, &b| population[a].0.total_cmp(&population[b].0));
        if let Some(worst) = worst {
            population[worst] = best.clone();
        }
        context.emit(Event::Progress { done: round + 1, total: Some(ROUNDS) });
    }
    let found = Plan::new(problem, best.1)?;
    Ok((if found.value() < plan.value() { found } else { plan }, tried))
}
