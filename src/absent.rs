//! Placeholder for a solver that a build lacks: it accepts no problem and states why.

use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Solution, SolveError, Solver};

/// A solver that is not in this build.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Absent {
    /// Name of the solver.
    pub(crate) name: &'static str,
    /// Cargo feature that the solver needs.
    pub(crate) feature: &'static str,
    /// Reason given for refusing every objective, which names the feature.
    pub(crate) why: &'static str,
}

impl Solver for Absent {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        "not in this build"
    }

    fn unsupported(&self, _: &Objective) -> Option<&'static str> {
        Some(self.why)
    }

    fn missing_feature(&self) -> Option<&'static str> {
        Some(self.feature)
    }

    fn run(&self, _: &Problem, _: &mut Context<'_>) -> Result<Solution, SolveError> {
        Err(SolveError::Invariant("a solver that is not in this build was called".into()))
    }
}
