//! In the place of the solvers that need HiGHS in a build without it: they take no problem and say why.

use stagewright_core::problem::Problem;
use stagewright_core::solver::{Capabilities, Context, Solution, SolveError, Solver};

/// Column generation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bnp;

impl Solver for Bnp {
    fn name(&self) -> &'static str {
        "bnp"
    }

    fn summary(&self) -> &'static str {
        "not in this build: it needs the feature `milp`"
    }

    fn capabilities(&self) -> Capabilities {
        let missing = |_: &_| Some("any problem in this build: it needs the feature `milp`");
        Capabilities { missing, exact: true, deterministic_across_threads: true }
    }

    /// # Errors
    /// Always.
    fn solve(&self, problem: &Problem, _: &mut Context<'_>) -> Result<Solution, SolveError> {
        SolveError::check(self, problem)?;
        Err(SolveError::Invariant("a solver that takes nothing was asked".into()))
    }
}
