//! Column generation as a solver.

use stagewright_core::bound::{LowerBound, strongest};
use stagewright_core::contract::Units;
use stagewright_core::document::{ObjectiveKind, Split};
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{
    Capabilities, Context, Event, Solution, SolveError, Solver, Status, StopReason,
};
use stagewright_core::tolerance;
use stagewright_search::local::Local;

use crate::colgen::ascent::raise;
use crate::colgen::generation::{Generation, Left, Preparation};

/// Source of the bound.
const SOURCE: &str = "column-generation";
/// Share of the time that the search for a plan may take.
const SEARCH_SHARE: f64 = 0.3;
/// Most states of the state graph.
const MOST_STATES: usize = 1 << 22;

/// Local search for the plan, column generation for the bound.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bnp;

fn missing(objective: &Objective) -> Option<&'static str> {
    if objective.kind != ObjectiveKind::Throughput {
        Some("objectives other than throughput")
    } else if objective.split != Split::Free {
        Some("splits other than free")
    } else {
        None
    }
}

impl Solver for Bnp {
    fn name(&self) -> &'static str {
        "bnp"
    }

    fn summary(&self) -> &'static str {
        "column generation over what one device can hold, from a plan of local search (free throughput)"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { missing, exact: true, deterministic_across_threads: true }
    }

    fn solve(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution, SolveError> {
        SolveError::check(self, problem)?;
        let search = Local.solve(problem, &mut context.part(SEARCH_SHARE))?;
        let Some(plan) = search.plan else {
            return Ok(Solution { solver: self.name(), ..search });
        };
        let mut bound = strongest(problem);
        let units = Units::new(problem);
        let mut statistics = search.statistics;
        let value = plan.value();
        let mut reason = None;
        if tolerance::gap(value, bound.value) > 0.0 && !context.gap_reached(value, bound.value) {
            context.emit(Event::Phase { name: "column generation".into() });
            match Preparation::new(problem, &units, MOST_STATES, context.stop()) {
                None => reason = Some("the nets are too entangled for column generation".to_string()),
                Some(preparation) => {
                    if preparation.relaxed {
                        reason = Some("column generation left out the cheapest nets".into());
                    }
                    let mut generation = Generation::new(&units, &preparation, context.limits.memory);
                    let all = Left::all(problem, &units);
                    let stop = context.stop().clone();
                    let gap = context.limits.gap;
                    let enough = |low: f64| gap > 0.0 && tolerance::gap(value, low) <= gap;
                    let first = bound.value;
                    let raised = raise(&mut generation, &all, [first, value], enough, &stop, |low, _| {
                        if low > bound.value {
                            bound = LowerBound { value: low, source: SOURCE, certificate: None };
                            context.emit(Event::Bound { value: low, source: SOURCE });
                        }
                    });
                    if let Err(error) = raised {
                        reason = Some(error.to_string());
                    }
                    statistics.push(("rounds", generation.rounds));
                    statistics.push(("columns", generation.columns().len() as u64));
                    statistics.push(("states", preparation.states.len() as u64));
                }
            }
        }
        let stop = match context.gap_reached(value, bound.value) {
            true => Some(StopReason::Gap),
            false => context.stop().reason(),
        };
        let mut solution = Solution::with_plan(self.name(), plan, bound, stop);
        if solution.status != Status::Optimal {
            solution.reason = reason;
        }
        Ok(Solution { statistics, ..solution })
    }
}
