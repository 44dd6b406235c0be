//! Measures of plans, and their distance from requirements, computed from evaluations.

use stagewright_core::document::SecondGoal;
use stagewright_core::evaluate::{DeviceLoad, Evaluation};
use stagewright_core::problem::Problem;

use super::Requirements;

/// Figure of a plan that a search minimises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    /// The value of the objective.
    Value,
    /// A second goal.
    Second(SecondGoal),
}

impl Measure {
    /// The measure of a plan.
    pub(super) fn of(self, problem: &Problem, evaluation: &Evaluation) -> f64 {
        match self {
            Measure::Value => evaluation.value,
            Measure::Second(goal) => measured(problem, goal, evaluation),
        }
    }
}

/// Whether the devices of a pool count for requirements and second goals: all but hosts, or hosts if there is nothing else.
pub(super) fn is_counted(problem: &Problem, pool: usize) -> bool {
    let pools = problem.pools();
    !pools[pool].host || pools.iter().all(|pool| pool.host)
}

/// The second goal of a plan: bytes, a number of devices, or seconds.
pub fn measured(problem: &Problem, goal: SecondGoal, evaluation: &Evaluation) -> f64 {
    let is_counted = |load: &&DeviceLoad| is_counted(problem, problem.pool_of(load.device));
    let counted = evaluation.devices.iter().filter(is_counted);
    match goal {
        SecondGoal::Memory => counted.map(|load| load.memory_bytes).fold(0.0, f64::max),
        SecondGoal::Devices => counted.map(|load| f64::from(load.replicas)).sum(),
        SecondGoal::Communication => evaluation.devices.iter().map(DeviceLoad::communication).sum(),
    }
}

/// How far a plan is from the required number of stages, plus the number of devices without the work that they must have.
/// Groups that must be alone do not count.
pub fn shortfall(problem: &Problem, requirements: &Requirements, evaluation: &Evaluation) -> u64 {
    let used = evaluation.devices.len() as u64;
    let from_stages = requirements.stages.map_or(0, |stages| used.abs_diff(u64::from(stages)));
    if !requirements.all_devices {
        return from_stages;
    }
    let (pools, devices) = (problem.pools(), SecondGoal::Devices);
    let counted = (0..pools.len()).filter(|&pool| is_counted(problem, pool));
    let count: u64 = counted.map(|pool| u64::from(pools[pool].count())).sum();
    from_stages + count.saturating_sub(measured(problem, devices, evaluation) as u64)
}
