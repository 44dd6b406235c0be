//! Replaces the solvers that need HiGHS in builds without it: they accept no problem and say why.

use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Solution, SolveError, Solver};

macro_rules! absent {
    ($type:ident, $name:literal, $what:literal) => {
        #[doc = $what]
        #[derive(Debug, Clone, Copy, Default)]
        pub(crate) struct $type;

        impl Solver for $type {
            fn name(&self) -> &'static str {
                $name
            }

            fn summary(&self) -> &'static str {
                "not in this build: it needs the feature `milp`"
            }

            fn missing(&self, _: &Objective) -> Option<&'static str> {
                Some("any problem in this build: it needs the feature `milp`")
            }

            /// # Errors
            /// Always.
            fn solve(&self, problem: &Problem, _: &mut Context<'_>) -> Result<Solution, SolveError> {
                SolveError::check(self, problem)?;
                Err(SolveError::Invariant("a solver that takes nothing was asked".into()))
            }
        }
    };
}

absent!(Bnp, "bnp", "Column generation.");
absent!(Lns, "lns", "Large-neighbourhood search.");
absent!(Milp, "milp", "The integer program over cut nets.");
