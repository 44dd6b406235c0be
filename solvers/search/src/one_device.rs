//! The simplest baseline: everything on one device.

use stagewright_core::bound::strongest;
use stagewright_core::cluster::DeviceId;
use stagewright_core::document::ObjectiveKind;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Capabilities, Context, Plan, Solution, SolveError, Solver, Status};

/// Everything on the one device where it runs fastest.
#[derive(Debug, Clone, Copy, Default)]
pub struct OneDevice;

impl Solver for OneDevice {
    fn name(&self) -> &'static str {
        "one-device"
    }

    fn summary(&self) -> &'static str {
        "everything on the fastest single device that holds it (baseline)"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            missing: |objective| {
                (objective.kind != ObjectiveKind::Throughput).then_some("objectives other than throughput")
            },
            exact: false,
            deterministic_across_threads: true,
        }
    }

    fn solve(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution, SolveError> {
        SolveError::check(self, problem)?;
        let bound = strongest(problem);
        let mut best: Option<Plan> = None;
        let mut obstacle = None;
        for pool in problem.pools() {
            match Plan::new(problem, everything_on(problem, pool.devices[0])) {
                Ok(plan) if best.as_ref().is_none_or(|best| plan.value() < best.value()) => best = Some(plan),
                Ok(_) => {}
                Err(SolveError::Invariant(why)) => obstacle = Some(why),
                Err(other) => return Err(other),
            }
        }
        let stop = context.stop().reason();
        Ok(match best {
            Some(plan) => Solution::with_plan(self.name(), plan, bound, stop),
            None => {
                let reason =
                    format!("no single device runs the whole model: {}", obstacle.unwrap_or_default());
                Solution::without_plan(self.name(), Status::Unknown, bound, stop, reason)
            }
        })
    }
}

/// Every operator on one device.
pub fn everything_on(problem: &Problem, device: DeviceId) -> Placement {
    let operators = problem.graph().operator_count();
    let stages = if operators == 0 { Vec::new() } else { vec![device] };
    Placement::with_stages(vec![device; operators], stages, Default::default())
}
