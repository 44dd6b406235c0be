//! The effect of a change, by solving the changed problem.

use serde::Serialize;
use stagewright_core::document::PlanDocument;
use stagewright_core::evaluate::evaluate;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Settings, Silent, SolveError, Solver, Status};

use super::Change;
use crate::bounds::Proving;
use crate::placement::placement;
use crate::portfolio;

/// The effect of a change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WhatIf {
    /// The change.
    pub change: String,
    /// Best value found after the change, including the value of the current plan: an upper bound.
    pub value_s: Option<f64>,
    /// Lower bound on the value after the change.
    pub bound_s: Option<f64>,
    /// Source of the bound.
    pub source: String,
    /// Whether the value is proved optimal.
    pub is_optimal: bool,
}

/// The answer for the unchanged problem. `None` if its solve failed, in which case the first answer is for a change.
pub fn as_it_is(what_ifs: &[WhatIf]) -> Option<&WhatIf> {
    let nothing = Change::Nothing.describe();
    what_ifs.iter().find(|what_if| what_if.change == nothing)
}

/// Solves the problem after a change, starting from the current plan.
///
/// # Errors
/// If the solver fails.
pub fn what_if(
    change: &Change,
    changed: &Problem,
    plan: &PlanDocument,
    settings: &Settings,
) -> Result<WhatIf, SolveError> {
    let own = placement(changed, plan).ok();
    let kept = own.as_ref().map(|placement| evaluate(changed, placement));
    let kept = kept.filter(|evaluation| evaluation.is_feasible()).map(|evaluation| evaluation.value);
    let mut result = WhatIf {
        change: change.describe(),
        value_s: kept,
        bound_s: None,
        source: "none".into(),
        is_optimal: false,
    };
    let Ok(choice) = portfolio::auto(changed.objective()) else { return Ok(result) };
    let mut silent = Silent;
    let mut context = Context::new(settings.clone(), &mut silent);
    context.warm_start = own.filter(|_| kept.is_some());
    let solution = Proving(choice.solver).solve(changed, &mut context)?;
    result.value_s = kept.into_iter().chain(solution.value()).reduce(f64::min);
    if solution.status != Status::Infeasible {
        result.bound_s = Some(solution.bound.value);
        result.source = format!("{}, {}", choice.solver.name(), solution.bound.source);
    }
    result.is_optimal = solution.status == Status::Optimal;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_not_the_problem_as_it_is() {
        let answer = |change: Change| WhatIf {
            change: change.describe(),
            value_s: None,
            bound_s: None,
            source: "none".into(),
            is_optimal: false,
        };
        let failed = [answer(Change::Bandwidth), answer(Change::Memory)];
        assert_eq!(as_it_is(&failed), None);
        let answers = [answer(Change::Nothing), answer(Change::Memory)];
        assert_eq!(as_it_is(&answers), answers.first());
    }
}
