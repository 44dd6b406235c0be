//! Latency baseline: the contiguous split with the minimum bottleneck load, each device called once.
//!
//! This is the split that a pipeline planner would use for a single sample (column "max-load DP" of Tarnawski et al.,
//! NeurIPS 2020, Table 4).

use stagewright_core::bound::strongest_before;
use stagewright_core::calls::assign;
use stagewright_core::document::{ObjectiveKind, Split};
use stagewright_core::objective::{Objective, Throughput};
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Capabilities, Context, Plan, Result, Solution, Solver, Status};

use crate::Dp;

/// Latency of the split with the minimum bottleneck load.
#[derive(Debug, Clone, Copy, Default)]
pub struct MaxLoadSplit;

impl Solver for MaxLoadSplit {
    fn name(&self) -> &'static str {
        "max-load-split"
    }

    fn summary(&self) -> &'static str {
        "the contiguous split of minimum bottleneck, one call per device (latency baseline)"
    }

    fn unsupported(&self, objective: &Objective) -> Option<&'static str> {
        (objective.kind() != ObjectiveKind::Latency).then_some("objectives other than latency")
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { depends_on_seed: true, ..Capabilities::default() }
    }

    fn run(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution> {
        let bound = strongest_before(problem, context.stop());
        let rules = Throughput { split: Split::Contiguous, ..problem.objective().rules() };
        let without =
            |bound, stop, why| Ok(Solution::without_plan(self.name(), Status::Unknown, bound, stop, why));
        let pipeline = match problem.with_objective(rules) {
            Ok(pipeline) => pipeline,
            Err(error) => return without(bound, None, error.to_string()),
        };
        context.warm_start = None;
        let split = Dp.solve(&pipeline, &mut context.for_auxiliary())?;
        let Some(plan) = split.plan else {
            let why = split.reason.unwrap_or_else(|| "there is no contiguous split".into());
            return without(bound, split.stop, why);
        };
        match Plan::try_new(problem, assign(problem, &plan.placement)) {
            Ok(plan) => Ok(Solution::with_plan(self.name(), plan, bound, split.stop)),
            // The split respects the order of the forward operators only.
            Err(broken) => {
                without(bound, split.stop, format!("the split of minimum load does not fit: {broken}"))
            }
        }
    }
}
