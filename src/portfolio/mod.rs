//! Automatic choice of a solver for a problem.

mod sequence;

use sequence::PORTFOLIOS;
use stagewright_core::objective::Objective;
use stagewright_core::solver::Solver;
use thiserror::Error;

use crate::registry::{Role, SOLVERS, supporting};

/// A solver with the reason for its choice.
pub struct Choice {
    /// The solver.
    pub solver: &'static dyn Solver,
    /// The rule that chose the solver, for display.
    pub rule: &'static str,
}

/// Error for an objective that no solver eligible for `auto` supports.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("no solver supports {what} yet{}", others(.supporting))]
pub struct NoSolver {
    /// Description of the objective, for display.
    pub what: String,
    /// Baselines that support the objective and can be requested by name.
    pub supporting: Vec<&'static str>,
}

fn others(supporting: &[&str]) -> String {
    if supporting.is_empty() {
        String::new()
    } else {
        format!("; the baselines are available by name: {}", supporting.join(", "))
    }
}

/// Chooses the solver by the first rule that applies:
///
/// 1. for the throughput of a split without a stage order, for latency, and for the makespan: a sequence of searches,
///    exact methods and bounds, restricted to those that are built and support the objective;
/// 2. an exact solver that supports the objective; the one for contiguous throughput seeds itself with the DP over
///    linear orders and keeps its best plan and bound when a limit ends it, so size needs no separate rule;
/// 3. a search that supports the objective.
///
/// Baselines are never chosen.
///
/// # Errors
/// If no rule applies.
pub fn auto(objective: &Objective) -> Result<Choice, NoSolver> {
    let takes = |role: Role| {
        SOLVERS
            .iter()
            .filter(move |entry| entry.role == role)
            .map(|entry| entry.solver)
            .find(|solver| solver.unsupported(objective).is_none())
    };
    if let Some(solver) = PORTFOLIOS.into_iter().find(|portfolio| portfolio.unsupported(objective).is_none())
    {
        return Ok(Choice { solver, rule: "several solvers in turn, as no single one is best" });
    }
    if let Some(solver) = takes(Role::Exact) {
        return Ok(Choice { solver, rule: "an exact solver supports the objective" });
    }
    match takes(Role::Search) {
        Some(solver) => {
            Ok(Choice { solver, rule: "no exact solver supports the objective, but a search does" })
        }
        None => Err(NoSolver { what: describe(objective), supporting: supporting(objective) }),
    }
}

/// Describes the objective in words.
fn describe(objective: &Objective) -> String {
    let split = objective.rules().split.name();
    format!("{} of a {split} split under these rules", objective.kind().name())
}

#[cfg(test)]
mod tests {
    use stagewright_core::document::{ObjectiveKind, Split};
    use stagewright_core::objective::Throughput;

    use super::*;

    #[test]
    fn contiguous_throughput_is_solved_exactly() {
        assert_eq!(auto(&Objective::default()).ok().map(|choice| choice.solver.name()), Some("dp"));
    }

    #[test]
    fn splits_without_an_order_go_to_several_solvers() {
        let chosen = |split| {
            let choice = auto(&Throughput { split, ..Throughput::default() }.into());
            choice.ok().map(|choice| choice.solver.name())
        };
        assert_eq!(chosen(Split::Free), Some("portfolio"));
        assert_eq!(chosen(Split::Convex), Some("portfolio"), "with and without HiGHS");
    }

    #[test]
    fn baselines_are_offered_but_not_chosen() {
        let kinds = [ObjectiveKind::Latency, ObjectiveKind::Makespan];
        for kind in kinds {
            let error = auto(&kind.into()).err();
            let offered = error.map(|error| error.supporting).unwrap_or_default();
            assert!(!offered.contains(&"dp") && !offered.contains(&"bnp"), "{offered:?}");
        }
    }
}
