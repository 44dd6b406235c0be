//! Constraints of all joint plans: the features that the objective allows.

use std::collections::BTreeMap;

use stagewright_core::document::{
    JOINT_PLAN_SCHEMA, JointObjectiveKind, JointPlanDocument, Parallelism, RuntimeDocument, Schedule,
};

use super::JointViolation;
use crate::error::CheckError;
use crate::read;

/// Checks that the document is a joint plan for an objective of this kind.
pub(super) fn read_plan(plan: &JointPlanDocument, kind: JointObjectiveKind) -> Result<(), CheckError> {
    read::schema("plan", &plan.schema, JOINT_PLAN_SCHEMA)?;
    if plan.objective.kind != kind {
        let (rule, needs) = match kind {
            JointObjectiveKind::TimePerSample => ("a file of Piper", "the objective time-per-sample"),
            JointObjectiveKind::Iteration => ("a training graph", "the objective iteration"),
        };
        return Err(CheckError::Rule { rule, needs });
    }
    if plan.objective.global_batch == 0 {
        return Err(CheckError::Figure { what: "global_batch".into(), value: 0.0, range: "at least 1" });
    }
    if let Some(&Some(degree)) = plan.objective.parallel.get(&Parallelism::Mixed) {
        let (what, value) = ("the degree of mixed".into(), f64::from(degree));
        return Err(CheckError::Figure { what, value, range: "absent" });
    }
    match plan.objective.runtime.as_ref().and_then(RuntimeDocument::fault) {
        Some((name, value, range)) => {
            Err(CheckError::Figure { what: format!("{name} of the runtime"), value, range })
        }
        None => Ok(()),
    }
}

/// The parallelism that the objective allows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowed<'a>(&'a BTreeMap<Parallelism, Option<u32>>);

impl<'a> Allowed<'a> {
    pub(super) fn new(plan: &'a JointPlanDocument) -> Self {
        Allowed(&plan.objective.parallel)
    }

    /// Whether a plan may use a parallelism.
    pub(super) fn has(&self, parallelism: Parallelism) -> bool {
        self.0.contains_key(&parallelism)
    }

    /// The degree that the objective gives, if any.
    pub(super) fn given(&self, parallelism: Parallelism) -> Option<u32> {
        self.0.get(&parallelism).copied().flatten()
    }

    /// Checks a degree: it must be the given degree, or `without` if the parallelism is not allowed; otherwise any is
    /// allowed.
    pub(super) fn degree(&self, parallelism: Parallelism, without: u64, found: u64) -> Result<(), String> {
        let needed = match self.0.get(&parallelism) {
            None => Some(without),
            Some(given) => given.map(u64::from),
        };
        match needed {
            Some(needed) if needed != found => Err(match self.has(parallelism) {
                true => format!("{needed}, as given"),
                false => format!("{needed} without {}", parallelism.name()),
            }),
            _ => Ok(()),
        }
    }
}

/// Checks the number of stages, and the degrees of tensor and data parallelism of every stage.
pub(super) fn check(plan: &JointPlanDocument, violations: &mut Vec<JointViolation>) {
    let allowed = Allowed::new(plan);
    let mut degree = |stage, name, found: u64, result: Result<(), String>| {
        let result = if found == 0 { Err("at least 1".to_owned()) } else { result };
        if let Err(needs) = result {
            violations.push(JointViolation::Degree { stage, name, found, needs });
        }
    };
    let count = plan.stages.len() as u64;
    let given = allowed.given(Parallelism::Pp).map(|devices| u64::from(devices) * chunks(plan) as u64);
    degree(
        None,
        "stages",
        count,
        match given {
            Some(needed) if needed != count => Err(format!("{needed}, as given")),
            None if count > 1 && !allowed.has(Parallelism::Pp) => Err("1 without pp".to_owned()),
            _ => Ok(()),
        },
    );
    for (index, stage) in plan.stages.iter().enumerate() {
        for (parallelism, name, found) in
            [(Parallelism::Tp, "tensor", stage.tensor), (Parallelism::Dp, "data", stage.data)]
        {
            let found = u64::from(found);
            degree(Some(index), name, found, allowed.degree(parallelism, 1, found));
        }
    }
}

/// Number of stages per device.
pub(super) fn chunks(plan: &JointPlanDocument) -> usize {
    match &plan.execution {
        Some(execution) if matches!(execution.schedule, Schedule::Interleaved | Schedule::DualPipeV) => {
            execution.chunks as usize
        }
        _ => 1,
    }
}

/// Number of devices in a pipeline.
pub(super) fn pipeline(plan: &JointPlanDocument) -> usize {
    plan.stages.len().div_ceil(chunks(plan).max(1))
}

/// Degree of context parallelism.
pub(super) fn context(plan: &JointPlanDocument) -> u64 {
    plan.execution.as_ref().map_or(1, |execution| u64::from(execution.context))
}

/// Total number of devices of stages, each with `tensor` times `data` devices.
pub(super) fn devices(degrees: impl Iterator<Item = (u32, u32)>) -> u64 {
    degrees.fold(0, |sum, (tensor, data)| sum.saturating_add(u64::from(tensor) * u64::from(data)))
}
