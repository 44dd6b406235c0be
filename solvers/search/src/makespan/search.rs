//! What searches have in common: how they begin, when they are over, and what they answer.

use std::time::Instant;

use stagewright_core::bound::{LowerBound, strongest};
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Event, Solution, SolveError, Solver, Status, Stop};
use stagewright_core::tolerance;

use super::scene::Scene;
use super::schedule::{Best, Judge, Score, is_better, solution};

/// Gap above which every plan is close enough.
const LARGEST_GAP: f64 = 0.999;

/// Without a time limit a search ends after so many simulations, as operators simulated, and at least and most.
const EFFORT: u64 = 1 << 24;
const SIMULATIONS: [u64; 2] = [1 << 10, 1 << 15];

/// Most simulations of a search: as many as the limits say, or no end of them where time ends it.
pub(super) fn most_simulations(scene: &Scene<'_>, context: &Context<'_>) -> u64 {
    let operators = scene.graph().operator_count().max(1) as u64;
    match (context.limits.simulations, context.stop().remaining()) {
        (Some(most), _) => most,
        (None, Some(_)) => u64::MAX,
        (None, None) => (EFFORT / operators).clamp(SIMULATIONS[0], SIMULATIONS[1]),
    }
}

/// When a search is over.
#[derive(Debug, Clone)]
pub(super) struct Goal {
    /// Makespan at which there is nothing left to gain.
    pub(super) target: f64,
    pub(super) stop: Stop,
}

impl Goal {
    pub(super) fn new(bound: &LowerBound, context: &Context<'_>) -> Goal {
        let gap = context.limits.gap.clamp(2.0 * tolerance::OPTIMAL_RELATIVE, LARGEST_GAP);
        Goal { target: bound.value / (1.0 - gap), stop: context.stop().clone() }
    }

    /// Whether a search that has found this may end.
    pub(super) fn is_over(&self, best: Score) -> bool {
        self.stop.reason().is_some() || (best.fits() && best.makespan <= self.target)
    }
}

/// A search under way.
pub(super) struct Search<'s, 'p> {
    pub(super) scene: &'s Scene<'p>,
    pub(super) judge: Judge<'s, 'p>,
    /// What it starts from, the least energy first.
    pub(super) starts: Vec<Best>,
    pub(super) best: Best,
    pub(super) goal: Goal,
}

impl Search<'_, '_> {
    /// Whether it may end.
    pub(super) fn is_over(&self) -> bool {
        self.goal.is_over(self.best.score)
    }

    /// Keeps what was found if it is better, and says whether it is.
    pub(super) fn take(&mut self, found: Best, context: &mut Context<'_>) -> bool {
        let is_new = is_better(found.score, self.best.score);
        if is_new {
            self.best = found;
            self.announce(context);
        }
        is_new
    }

    fn announce(&self, context: &mut Context<'_>) {
        if self.best.score.fits() {
            context.emit(Event::Simulations { done: self.judge.runs, at: Instant::now() });
            context.emit(Event::Incumbent { value: self.best.score.makespan });
        }
    }
}

/// What a search begins with.
pub(super) type Begin = fn(&mut Judge<'_, '_>, &mut Context<'_>) -> Vec<Best>;

/// Solves by a search. It is not run where what it begins with already reaches the goal, or time is over.
pub(super) fn solve(
    solver: &dyn Solver,
    problem: &Problem,
    context: &mut Context<'_>,
    begin: Begin,
    run: impl FnOnce(&mut Search<'_, '_>, &mut Context<'_>) -> Result<(), SolveError>,
) -> Result<Solution, SolveError> {
    SolveError::check(solver, problem)?;
    let bound = strongest(problem);
    let scene = Scene::new(problem);
    if let Some(reason) = scene.impossible() {
        return Ok(Solution::without_plan(solver.name(), Status::Infeasible, bound, None, reason));
    }
    let mut judge = Judge::new(&scene);
    let starts = begin(&mut judge, context);
    // What fits is an answer, however long it takes.
    let better = |a: Best, b: Best| if is_better(b.score, a.score) { b } else { a };
    let Some(best) = starts.iter().cloned().reduce(better) else {
        return solution(solver.name(), &scene, None, bound, context);
    };
    let goal = Goal::new(&bound, context);
    let mut search = Search { scene: &scene, judge, starts, best, goal };
    search.announce(context);
    if problem.graph().operator_count() > 0 && !search.is_over() {
        run(&mut search, context)?;
    }
    let runs = search.judge.runs;
    let solution = solution(solver.name(), &scene, Some(search.best), bound, context)?;
    Ok(Solution { statistics: vec![("simulations", runs)], ..solution })
}
