//! Fictitious play: bounds from averages of scenarios, and the plans found for these averages.

use stagewright_core::ids::Keyed;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Event, Plan, Result, Solution, Solver, Status};
use stagewright_core::uncertainty::SourceId;

use super::search::Search;

/// Maximum number of rounds.
const ROUNDS: usize = 10;
/// Share of the remaining time for a round. The first rounds raise the bound most, and a truncated solve proves
/// little.
const SHARE: f64 = 0.5;
/// Source of the bounds.
const SOURCE: &str = "an average of scenarios";

/// Number of times that the adversary chose each source.
struct Chosen {
    counts: Keyed<SourceId, f64>,
    rounds: f64,
}

impl Chosen {
    fn add(&mut self, sources: &[SourceId]) {
        self.rounds += 1.0;
        for &source in sources {
            self.counts[source] += 1.0;
        }
    }

    /// The problem whose costs are the average of the scenarios chosen so far.
    fn average(&self, search: &Search<'_>) -> Problem {
        let share = |source: SourceId| self.counts[source] / self.rounds;
        let deviation = search.uncertainty.deviation;
        search.sources.scaled(search.problem, |source| 1.0 + deviation * share(source))
    }
}

/// Plays until the gap is closed or no rounds or no time is left. Returns the number of problems solved.
///
/// # Errors
/// An error of the solver.
pub(super) fn play(search: &mut Search<'_>, solver: &dyn Solver, context: &mut Context<'_>) -> Result<usize> {
    let mut chosen = Chosen { counts: Keyed::filled(0.0, search.sources.count()), rounds: 0.0 };
    let mut answer = search.best.worst.sources.clone();
    for round in 0..ROUNDS {
        if search.is_enough(context) || context.stop().reason().is_some() {
            return Ok(round);
        }
        chosen.add(&answer);
        let problem = chosen.average(search);
        context.emit(Event::Phase { name: format!("scenarios, round {}", round + 1) });
        let mut auxiliary = context.for_auxiliary();
        let mut part = auxiliary.time_slice(SHARE);
        part.warm_start = Some(search.best.plan.placement.clone());
        let solution = solver.solve(&problem, &mut part)?;
        if let Some(bound) = proved(&solution) {
            search.raise(bound, SOURCE);
        }
        let Some(plan) = solution.plan else { return Ok(round + 1) };
        // The plan is evaluated anew, since the value in the solution is for other costs.
        let plan = Plan::new(search.problem, plan.placement)?;
        answer = search.worst(&plan).sources;
        search.keep(plan);
    }
    Ok(ROUNDS)
}

/// The bound of a solution, if it has one.
fn proved(solution: &Solution) -> Option<f64> {
    let is_feasible = solution.status != Status::Infeasible;
    (is_feasible && solution.bound.value.is_finite()).then_some(solution.bound.value)
}
