//! The lower bounds of [`BOUNDS`] on a problem, for everyone who shows or uses one.
//!
//! Commands, reports, checks and Python all ask here, and solvers through their [`Context`], so a problem has one strongest
//! bound, whoever names it. What was computed belongs to the problem and is not computed again.

use stagewright_core::bound::{LowerBound, established, strongest_until};
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Capabilities, Context, Result, Solution, SolveError, Solver, Status, Stop};

use crate::registry::BOUNDS;

/// The bounds that apply by name, in the order of the registry, as far as they can be computed before `stop` applies.
/// `None` for a bound without a value, because some operator cannot run anywhere or the time was too short.
pub fn by_name(problem: &Problem, stop: &Stop) -> Vec<(&'static str, Option<LowerBound>)> {
    let applying = BOUNDS.iter().filter(|bound| bound.applies(problem));
    applying.map(|bound| (bound.name(), established(*bound, problem, stop))).collect()
}

/// The strongest bound that applies, the trivial one if none has a value. Without a time limit, bounds that improve with
/// time end at a limit on their work, the same on every machine.
pub fn strongest(problem: &Problem, stop: &Stop) -> LowerBound {
    strongest_until(BOUNDS, problem, stop, |_| false)
}

/// A solver whose answers count all bounds of the registry.
///
/// An exact solver asks for them when its own search takes long, and for the rest after it. Others start with them, so that
/// they end when a plan reaches one.
pub struct Proving<S>(pub S);

impl<S: Solver> Solver for Proving<S> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn summary(&self) -> &'static str {
        self.0.summary()
    }

    fn unsupported(&self, objective: &Objective) -> Option<&'static str> {
        self.0.unsupported(objective)
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn solve(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution> {
        SolveError::check(self, problem)?;
        context.bounds = BOUNDS;
        if !self.capabilities().exact {
            context.establish(problem, None, &mut LowerBound::TRIVIAL.clone());
        }
        let mut solution = self.0.solve(problem, context)?;
        if solution.status == Status::Infeasible || solution.status == Status::Optimal {
            return Ok(solution);
        }
        context.establish(problem, solution.value(), &mut solution.bound);
        let Some(plan) = solution.plan else { return Ok(solution) };
        plan.check_bound(&solution.bound)?;
        let proved = Solution::with_plan(solution.solver, plan, solution.bound, solution.stop);
        let reason = solution.reason.filter(|_| proved.status != Status::Optimal);
        Ok(Solution { reason, statistics: solution.statistics, ..proved })
    }
}
