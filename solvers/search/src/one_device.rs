//! The simplest baseline: everything on one device.
//!
//! Failure on every single device says nothing about placements on several, so it proves infeasibility only
//! on a cluster of one device.

use stagewright_core::bound::strongest_before;
use stagewright_core::calls::assign_if_missing;
use stagewright_core::cluster::DeviceId;
use stagewright_core::evaluate::Violation;
use stagewright_core::objective::Objective;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Plan, Result, Solution, Solver, Status, Stop};

/// Number of operators, summed over the devices tried, up to which trying takes milliseconds, so that no limit ends it.
const QUICK: usize = 1 << 16;

/// Everything on the device on which it runs fastest.
#[derive(Debug, Clone, Copy, Default)]
pub struct OneDevice;

impl OneDevice {
    /// The plan without a bound: on the fastest device, or on the fastest of those tried when `stop` applies.
    ///
    /// # Errors
    /// The first constraint that each device breaks.
    pub fn plan(problem: &Problem, stop: &Stop) -> Result<Plan, Vec<Violation>> {
        let mut best: Option<Plan> = None;
        let mut obstacles: Vec<Violation> = Vec::new();
        for (tried, pool) in problem.pools().iter().enumerate() {
            let is_quick = best.is_none() && tried * problem.graph().operator_count() <= QUICK;
            if tried > 0 && !is_quick && stop.reason().is_some() {
                break;
            }
            let placement = assign_if_missing(problem, everything_on(problem, pool.devices[0]));
            match Plan::try_new(problem, placement) {
                Err(broken) => obstacles.push(broken),
                Ok(plan) if best.as_ref().is_none_or(|best| plan.value() < best.value()) => best = Some(plan),
                Ok(_) => {}
            }
        }
        best.ok_or(obstacles)
    }

    /// Seconds of all operators, one after another, on the fastest device that can run all of them: no step on a single
    /// device is shorter. Infinite if no device can. O(operators · pools).
    pub fn least_makespan(problem: &Problem) -> f64 {
        let on =
            |pool| -> Option<f64> { problem.graph().operators().map(|op| problem.seconds(op, pool)).sum() };
        (0..problem.pools().len()).filter_map(on).fold(f64::INFINITY, f64::min)
    }
}

impl Solver for OneDevice {
    fn name(&self) -> &'static str {
        "one-device"
    }

    fn summary(&self) -> &'static str {
        "the whole model on the fastest single device that holds it (baseline)"
    }

    fn unsupported(&self, _: &Objective) -> Option<&'static str> {
        None
    }

    fn run(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution> {
        let best = OneDevice::plan(problem, context.stop());
        let bound = strongest_before(problem, context.stop());
        let stop = context.stop().reason();
        Ok(match best {
            Ok(plan) => Solution::with_plan(self.name(), plan, bound, stop),
            Err(obstacles) => {
                // With one device there is no other placement.
                let only = problem.cluster().device_count() == 1;
                let status = if only { Status::Infeasible } else { Status::Unknown };
                let first = obstacles.first().map_or_else(String::new, |first| format!(": {first}"));
                let reason = format!("no single device runs the whole model{first}");
                let stop = if only { None } else { stop };
                Solution::without_plan(self.name(), status, bound, stop, reason)
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
