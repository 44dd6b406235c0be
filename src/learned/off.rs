//! Replaces the learned policy and systems in builds without them: their names accept no problem and say why.

use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Solution, SolveError, Solver};

/// A solver that is not in this build.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Absent(&'static str);

pub(crate) static POLICY: Absent = Absent("policy");
pub(crate) static UNTRAINED: Absent = Absent("policy-untrained");
pub(crate) static NO_NETWORK: Absent = Absent("policy-no-network");
pub(crate) static NO_SEARCH: Absent = Absent("policy-no-search");
pub(crate) static NO_DP: Absent = Absent("policy-no-dp");
pub(crate) static NETWORK: Absent = Absent("policy-network");

pub(crate) static GDP: Absent = Absent("gdp");
pub(crate) static PLACETO: Absent = Absent("placeto");
pub(crate) static HSDAG: Absent = Absent("hsdag");
pub(crate) static HDP: Absent = Absent("hdp");
pub(crate) static GDP_UNTRAINED: Absent = Absent("gdp-untrained");
pub(crate) static PLACETO_UNTRAINED: Absent = Absent("placeto-untrained");
pub(crate) static HSDAG_UNTRAINED: Absent = Absent("hsdag-untrained");
pub(crate) static HDP_UNTRAINED: Absent = Absent("hdp-untrained");

impl Solver for Absent {
    fn name(&self) -> &'static str {
        self.0
    }

    fn summary(&self) -> &'static str {
        "not in this build: it needs the feature `policy`"
    }

    fn missing(&self, _: &Objective) -> Option<&'static str> {
        Some("any problem in this build: it needs the feature `policy`")
    }

    /// # Errors
    /// Always.
    fn solve(&self, problem: &Problem, _: &mut Context<'_>) -> Result<Solution, SolveError> {
        SolveError::check(self, problem)?;
        Err(SolveError::Invariant("a solver that takes nothing was asked".into()))
    }
}
