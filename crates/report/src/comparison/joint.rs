//! Figures of joint plans in a comparison.

use serde::Serialize;
use stagewright_core::document::{ContextExchange, JointObjectiveDocument, JointPlanDocument, Schedule};

use super::Figures;
use crate::joint::kinds_of;

/// Degrees of parallelism of a joint plan; none of them without a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Degrees {
    /// Number of stages.
    pub stages: usize,
    /// Tensor parallelism of the stages, without repetitions in a row.
    pub tensor: Vec<u32>,
    /// Number of copies of the pipeline.
    pub data: Option<u32>,
    /// Context parallelism, if there is any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<u32>,
    /// How tokens are exchanged under context parallelism.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<ContextExchange>,
    /// Expert parallelism.
    pub expert: Option<u32>,
    /// Stage of ZeRO.
    pub zero: Option<u32>,
    /// Number of copies that divide states, if not all of them do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shards: Option<u32>,
    /// States of the optimizer in the host's memory: 1; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offload: Option<u32>,
    /// Samples of a microbatch.
    pub microbatch: Option<u32>,
    /// Pipeline schedule.
    pub schedule: Option<Schedule>,
    /// Stages of a device under schedules with several.
    pub chunks: Option<u32>,
}

/// Figures of a plan.
pub(super) fn figures(plan: &JointPlanDocument) -> Figures {
    let execution = plan.execution.as_ref();
    let mut tensor: Vec<u32> = plan.stages.iter().map(|stage| stage.tensor).collect();
    tensor.dedup();
    let degrees = Degrees {
        stages: plan.stages.len(),
        tensor,
        data: execution.map(|execution| execution.data),
        context: execution.map(|execution| execution.context).filter(|&context| context > 1),
        exchange: execution.and_then(|execution| execution.exchange),
        expert: execution.map(|execution| execution.expert),
        zero: execution.map(|execution| execution.zero),
        shards: execution.and_then(|execution| execution.shards),
        offload: execution.filter(|execution| execution.offload).map(|_| 1),
        microbatch: execution.map(|execution| execution.microbatch),
        schedule: execution.map(|execution| execution.schedule),
        chunks: execution.map(|execution| execution.chunks),
    };
    let shares = plan.stages.iter().filter_map(|stage| {
        let kinds = kinds_of(plan, stage, plan.cluster.as_ref()?);
        let limits = kinds.into_iter().filter_map(|(kind, _)| kind.memory_bytes);
        let limit = limits.reduce(f64::min).filter(|&limit| limit > 0.0)?;
        Some(stage.memory_bytes / limit)
    });
    Figures {
        memory_bytes: plan.stages.iter().map(|stage| stage.memory_bytes).reduce(f64::max),
        memory_share: shares.reduce(f64::max),
        degrees: Some(degrees),
        ..Figures::default()
    }
}

/// Whether every plan that `narrow` allows is one that `wide` allows, at the same time of an iteration.
pub(super) fn allows(wide: &JointObjectiveDocument, narrow: &JointObjectiveDocument) -> bool {
    let schedules = |objective: &JointObjectiveDocument| match objective.schedules.is_empty() {
        true => vec![Schedule::OneFOneB],
        false => objective.schedules.clone(),
    };
    let (wide_schedules, narrow_schedules) = (schedules(wide), schedules(narrow));
    let has_degrees = narrow.parallel.iter().all(|(parallelism, degree)| {
        wide.parallel.get(parallelism).is_some_and(|given| given.is_none() || given == degree)
    });
    // A degree that is given in the wide question alone is one that the narrow one need not have.
    let has_no_other = wide
        .parallel
        .iter()
        .all(|(parallelism, degree)| degree.is_none() || narrow.parallel.contains_key(parallelism));
    wide.kind == narrow.kind
        && wide.global_batch == narrow.global_batch
        && (wide.microbatch.is_none() || wide.microbatch == narrow.microbatch)
        && (wide.chunks.is_none() || wide.chunks == narrow.chunks)
        && (wide.cut.is_none() || wide.cut == narrow.cut)
        && wide.recompute_workspace == narrow.recompute_workspace
        && wide.runtime == narrow.runtime
        && narrow_schedules.iter().all(|schedule| wide_schedules.contains(schedule))
        && has_degrees
        && has_no_other
}
