//! Walks over schedules, round after round.
//!
//! Each round has twice as many steps as the one before and starts from the best schedule so far; one that would end
//! after the time limit is planned to end with it. The walks of a round differ in their random streams alone and run
//! in parallel, the same whatever the number of threads.

use std::time::Instant;

use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use stagewright_core::bound::strongest;
use stagewright_core::graph::OpId;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Context, Event, Solution, SolveError, Solver, Status, Stop};
use stagewright_core::tolerance;

use super::groups::Groups;
use super::rank;
use super::scene::Scene;
use super::schedule::{Best, Judge, Score, solution};
use super::start::starts;

/// Walks of a round, whatever the number of threads.
const WALKS: usize = 2;
/// Most rounds: without a time limit the search ends after them.
const ROUNDS: u64 = 12;
/// Relative improvement that is not rounding.
const BETTER: f64 = 1.0 - 1e-12;
/// Gap above which every plan is close enough.
const LARGEST_GAP: f64 = 0.999;

/// What all walks of a search share.
pub(super) struct Search<'s, 'p> {
    pub(super) scene: &'s Scene<'p>,
    pub(super) groups: Groups,
    /// The operators by falling upward rank.
    pub(super) order: Vec<OpId>,
    /// Makespan at which there is nothing left to gain.
    target: f64,
    stop: Stop,
}

impl Search<'_, '_> {
    /// Whether a walk that has found this may end.
    pub(super) fn is_over(&self, best: Score) -> bool {
        self.stop.reason().is_some() || (best.fits() && best.makespan <= self.target)
    }
}

/// Whether one score is better by more than rounding.
pub(super) fn is_better(a: Score, b: Score) -> bool {
    a.lack < b.lack || (a.lack == b.lack && a.makespan < b.makespan * BETTER)
}

/// A walk of so many steps from a schedule: the best that it met, never worse.
pub(super) type Walk = fn(&Search<'_, '_>, &mut Judge<'_, '_>, &Best, u64, &mut ChaCha8Rng) -> Best;

/// Solves by walks, the first of so many steps.
pub(super) fn solve(
    solver: &dyn Solver,
    walk: Walk,
    first_steps: u64,
    problem: &Problem,
    context: &mut Context<'_>,
) -> Result<Solution, SolveError> {
    SolveError::check(solver, problem)?;
    let bound = strongest(problem);
    let scene = Scene::new(problem);
    if let Some(reason) = scene.impossible() {
        return Ok(Solution::without_plan(solver.name(), Status::Infeasible, bound, None, reason));
    }
    let mut judge = Judge::new(&scene);
    let mut best = starts(&mut judge, context).into_iter().next();
    let Some(so_far) = best.as_mut().filter(|_| problem.graph().operator_count() > 0) else {
        return solution(solver.name(), &scene, best, bound, context);
    };
    let gap = context.limits.gap.clamp(2.0 * tolerance::OPTIMAL_RELATIVE, LARGEST_GAP);
    let search = Search {
        scene: &scene,
        groups: Groups::new(&scene),
        order: rank::falling(&scene, &rank::upward(&scene)),
        target: bound.value / (1.0 - gap),
        stop: context.stop().clone(),
    };
    let pool = context.pool()?;
    let mut judges = vec![judge; WALKS];
    let mut steps = first_steps;
    for round in 0..ROUNDS {
        if so_far.score.fits() {
            context.emit(Event::Incumbent { value: so_far.score.makespan });
        }
        if search.is_over(so_far.score) {
            break;
        }
        let began = Instant::now();
        let (seed, start) = (context.seed, &*so_far);
        let one = |(number, judge): (usize, &mut Judge<'_, '_>)| {
            let mut rng = seed::stream(seed, round * WALKS as u64 + number as u64);
            walk(&search, judge, start, steps, &mut rng)
        };
        let found: Vec<Best> = pool.install(|| judges.par_iter_mut().enumerate().map(one).collect());
        for found in found {
            if is_better(found.score, so_far.score) {
                *so_far = found;
            }
        }
        // As many steps as there is time for, where twice as many would leave too little for another round.
        let took = began.elapsed().as_secs_f64().max(f64::MIN_POSITIVE);
        let left = context.stop().remaining().map_or(f64::INFINITY, |left| left.as_secs_f64());
        let possible = steps as f64 * left / took;
        steps = if possible < 4.0 * steps as f64 { possible.max(1.0) as u64 } else { 2 * steps };
    }
    let runs = judges.iter().map(|judge| judge.runs).sum();
    let solution = solution(solver.name(), &scene, best, bound, context)?;
    Ok(Solution { statistics: vec![("simulations", runs)], ..solution })
}
