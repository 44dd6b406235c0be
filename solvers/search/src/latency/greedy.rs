//! The published greedy baseline: accelerators are filled one after the other along an order of the model.
//!
//! Units are colocation classes, and the cycles among them. In a depth-first topological order they are put into one
//! call of the first accelerator until the next one does not fit, then into one of the second, and so on; the rest runs
//! on the hosts (Tarnawski et al., NeurIPS 2020, Section 6.2). The paper does not specify the depth-first order, so
//! values may differ from the published ones. There are two extensions: a unit that an accelerator cannot run ends its
//! call, and accelerators of several kinds are taken in the order of the cluster.

use stagewright_core::bound::strongest_before;
use stagewright_core::contraction::Units;
use stagewright_core::document::ObjectiveKind;
use stagewright_core::ids::Keyed;
use stagewright_core::objective::Objective;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Plan, Result, Solution, Solver, Status};
use stagewright_core::tolerance;

use super::host::Hosts;
use crate::order;

/// The published greedy baseline for latency.
#[derive(Debug, Clone, Copy, Default)]
pub struct LatencyGreedy;

impl Solver for LatencyGreedy {
    fn name(&self) -> &'static str {
        "latency-greedy"
    }

    fn summary(&self) -> &'static str {
        "accelerators filled in turn along a depth-first order (latency baseline)"
    }

    fn unsupported(&self, objective: &Objective) -> Option<&'static str> {
        (objective.kind() != ObjectiveKind::Latency).then_some("objectives other than latency")
    }

    fn run(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution> {
        let plan = fill(problem).and_then(|placement| {
            let broken = |broken| format!("the greedy placement does not fit: {broken}");
            Plan::try_new(problem, placement).map_err(broken)
        });
        let bound = strongest_before(problem, context.stop());
        let stop = context.stop().reason();
        Ok(match plan {
            Ok(plan) => Solution::with_plan(self.name(), plan, bound, stop),
            Err(why) => Solution::without_plan(self.name(), Status::Unknown, bound, stop, why),
        })
    }
}

/// The placement, or the reason why a unit has no place.
pub(super) fn fill(problem: &Problem) -> Result<Placement, String> {
    let units = Units::of(problem);
    let hosts = Hosts::new(problem);
    let mut device_of = Keyed::filled(None, problem.graph().operator_count());
    let accelerators = problem.pools().iter().enumerate().filter(|(_, pool)| !pool.host);
    let mut devices: Vec<_> =
        accelerators.flat_map(|(id, pool)| pool.devices.iter().map(move |&device| (device, id))).collect();
    devices.sort_unstable();
    let mut devices = devices.into_iter().peekable();
    let (mut bytes, mut empty) = (0.0, true);
    for unit in order::depth_first(&units) {
        while let Some(&(device, pool)) = devices.peek() {
            let fits = tolerance::fits(bytes + units.bytes(unit, 1), problem.pools()[pool].memory);
            if fits && units.supported(unit, pool) {
                bytes += units.bytes(unit, 1);
                empty = false;
                for &op in units.members(unit) {
                    device_of[op] = Some(device);
                }
                break;
            }
            // A unit that does not fit an empty accelerator goes to the hosts, and the accelerator remains for the next
            // unit.
            if empty {
                break;
            }
            devices.next();
            (bytes, empty) = (0.0, true);
        }
        for &op in units.members(unit) {
            let device = &mut device_of[op];
            if device.is_none() {
                *device = hosts.device(op);
            }
            if device.is_none() {
                let name = &problem.graph().operator(op).name;
                return Err(format!(
                    "no accelerator has room for `{name}` in its turn, and no host can run it"
                ));
            }
        }
    }
    let calls = vec![0; device_of.len()];
    Ok(Placement::with_calls(device_of.iter().copied().flatten().collect(), calls))
}
