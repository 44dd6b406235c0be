//! Common parts of searches: their start, their end and their result.

use std::time::Instant;

use stagewright_core::bound::{LowerBound, strongest_before};
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Capabilities, Context, Event, Solution, SolveError, Solver, Stop};
use stagewright_core::tolerance;

use super::instance::Instance;
use super::schedule::{Best, Evaluator, Score, is_better, solution, solve_instance};

/// Maximum gap from which the target is derived: with a larger gap, every plan is close enough.
const LARGEST_GAP: f64 = 0.999;

/// Budget without a time limit: simulated operators, and the range of the resulting number of simulations.
const EFFORT: u64 = 1 << 24;
const SIMULATIONS: [u64; 2] = [1 << 10, 1 << 15];

/// Maximum number of simulations of a search: the given limit; without one, unlimited if the time is limited, otherwise
/// the budget.
pub(super) fn most_simulations(instance: &Instance<'_>, context: &Context<'_>) -> u64 {
    let operators = instance.graph().operator_count().max(1) as u64;
    match (context.limits.simulations, context.stop().remaining()) {
        (Some(limit), _) => limit,
        (None, Some(_)) => u64::MAX,
        (None, None) => (EFFORT / operators).clamp(SIMULATIONS[0], SIMULATIONS[1]),
    }
}

/// Termination criterion of a search.
#[derive(Debug, Clone)]
pub(super) struct Goal {
    /// Makespan at which the search ends.
    pub(super) target: f64,
    pub(super) stop: Stop,
}

impl Goal {
    pub(super) fn new(bound: &LowerBound, context: &Context<'_>) -> Goal {
        let gap = context.limits.gap.clamp(2.0 * tolerance::OPTIMAL_RELATIVE, LARGEST_GAP);
        Goal { target: bound.value / (1.0 - gap), stop: context.stop().clone() }
    }

    /// Whether a search with this best score may end.
    pub(super) fn is_over(&self, best: Score) -> bool {
        self.stop.reason().is_some() || (best.fits() && best.makespan <= self.target)
    }
}

/// A running search.
pub(super) struct Search<'s, 'p> {
    pub(super) instance: &'s Instance<'p>,
    pub(super) evaluator: Evaluator<'s, 'p>,
    /// Starting schedules, by increasing energy.
    pub(super) starts: Vec<Best>,
    pub(super) best: Best,
    pub(super) goal: Goal,
}

impl Search<'_, '_> {
    /// Whether the search may end.
    pub(super) fn is_over(&self) -> bool {
        self.goal.is_over(self.best.score)
    }

    /// Keeps a schedule if it improves on the best; returns whether it does.
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
            context.emit(Event::Simulations { done: self.evaluator.runs, at: Instant::now() });
            context.emit(Event::Incumbent { value: self.best.score.makespan });
        }
    }
}

/// A search on the simulator.
#[derive(Debug)]
pub struct SearchSolver {
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    /// Whether the solver respects a limit of simulations.
    pub(super) counts_simulations: bool,
    /// Whether `begin` takes a given plan.
    pub(super) starts_from_plan: bool,
    /// Makes the starting schedules.
    pub(super) begin: fn(&mut Evaluator<'_, '_>, &mut Context<'_>) -> Result<Vec<Best>, SolveError>,
    /// Searches; skipped if a starting schedule already reaches the goal, or if no time is left.
    pub(super) run: fn(&mut Search<'_, '_>, &mut Context<'_>) -> Result<(), SolveError>,
}

impl Solver for SearchSolver {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn unsupported(&self, objective: &Objective) -> Option<&'static str> {
        crate::unsupported(objective)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            counts_simulations: self.counts_simulations,
            starts_from_plan: self.starts_from_plan,
            depends_on_seed: true,
            ..Capabilities::default()
        }
    }

    fn run(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution, SolveError> {
        solve_instance(self.name(), problem, |instance| {
            let mut evaluator = Evaluator::without_tails(instance);
            let starts = (self.begin)(&mut evaluator, context)?;
            let bound = strongest_before(problem, context.stop());
            // A schedule that fits beats every schedule that does not, whatever its makespan.
            let better = |a: Best, b: Best| if is_better(b.score, a.score) { b } else { a };
            let Some(best) = starts.iter().cloned().reduce(better) else {
                return solution(self.name, instance, None, bound, context);
            };
            let goal = Goal::new(&bound, context);
            let mut search = Search { instance, evaluator, starts, best, goal };
            search.announce(context);
            if problem.graph().operator_count() > 0 && !search.is_over() {
                search.evaluator.find_tails(context.stop());
                (self.run)(&mut search, context)?;
            }
            let runs = search.evaluator.runs;
            let solution = solution(self.name, instance, Some(search.best), bound, context)?;
            Ok(Solution { statistics: vec![("simulations", runs)], ..solution })
        })
    }
}
