//! Joint plans: the meaning of their documents, for pages and tables.

use stagewright_core::document::{
    ClusterDocument, JointExecutionDocument, JointObjectiveDocument, JointObjectiveKind, JointPlanDocument,
    JointStageDocument, KindDocument, Schedule, ThroughputDocument,
};

use super::throughput::words;
use super::units::{percent, seconds};

/// Figures of a model that its plan does not contain.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct JointFigures {
    /// FLOP of a sample in both passes; 0 if unknown.
    pub flop: f64,
}

/// The objective in words.
pub fn objective(objective: &JointObjectiveDocument) -> String {
    match objective.kind {
        JointObjectiveKind::Iteration => {
            format!("time of an iteration of {} samples", objective.global_batch)
        }
        JointObjectiveKind::TimePerSample => format!(
            "time per sample of the slowest stage, {} microbatches, recompute workspace {}",
            objective.global_batch,
            objective.recompute_workspace.name(),
        ),
    }
}

/// Parallelism that a plan may use, with the degrees that are given.
pub fn parallel(objective: &JointObjectiveDocument) -> String {
    let listed = objective.parallel.iter().map(|(parallelism, degree)| match degree {
        Some(degree) => parallelism.given(*degree),
        None => parallelism.name().to_owned(),
    });
    listed.collect::<Vec<_>>().join(", ")
}

/// Name of the runtime that a plan is for; `None` for measured times per sample.
pub fn runtime(objective: &JointObjectiveDocument) -> Option<&str> {
    match (objective.kind, &objective.runtime) {
        (JointObjectiveKind::TimePerSample, _) => None,
        (JointObjectiveKind::Iteration, Some(runtime)) => Some(&runtime.name),
        (JointObjectiveKind::Iteration, None) => Some("ideal"),
    }
}

/// Schedules that a plan may have, with the stages of a device if they are given.
pub fn schedules(objective: &JointObjectiveDocument) -> String {
    let named = |schedule: &Schedule| match (schedule, objective.chunks) {
        (Schedule::Interleaved, Some(chunks)) => {
            format!("{} with {chunks} stages of a device", schedule.name())
        }
        _ => schedule.name().to_owned(),
    };
    let names: Vec<String> = objective.schedules.iter().map(named).collect();
    if names.is_empty() { Schedule::OneFOneB.name().into() } else { names.join(", ") }
}

/// Layers of the stack on every stage, if they are given.
pub fn cut(objective: &JointObjectiveDocument) -> Option<String> {
    let layers = objective.cut.as_ref()?.iter().map(u32::to_string);
    Some(layers.collect::<Vec<_>>().join(", "))
}

/// Degree of context parallelism and the exchange of tokens, such as `4 by ring`; `None` without it.
pub fn context(execution: &JointExecutionDocument) -> Option<String> {
    let exchange = execution.exchange.map(|exchange| format!(" by {}", exchange.name()));
    (execution.context > 1).then(|| format!("{}{}", execution.context, exchange.unwrap_or_default()))
}

/// Stage of ZeRO, with the copies that divide states if they are not all copies, such as `3 over groups of 8`.
pub fn zero(execution: &JointExecutionDocument) -> String {
    match execution.shards {
        Some(shards) => format!("{} over groups of {shards}", execution.zero),
        None => execution.zero.to_string(),
    }
}

/// Where states of the optimizer are, in words; `None` if they are on the devices.
pub fn offload(execution: &JointExecutionDocument) -> Option<&'static str> {
    execution.offload.then_some("states on the host")
}

/// Devices of a pipeline, which are tensor- and context-parallel groups of one copy.
pub fn pipeline_devices(plan: &JointPlanDocument) -> usize {
    let stages = plan.stages.len();
    let of_several = plan.execution.as_ref().filter(|execution| execution.schedule.has_chunks());
    let chunks = of_several.map_or(1, |execution| execution.chunks.max(1) as usize);
    if stages.is_multiple_of(chunks) { stages / chunks } else { stages }
}

/// Stages of a device of a pipeline.
pub fn stages_of(plan: &JointPlanDocument, device: usize) -> impl Iterator<Item = usize> + Clone + use<> {
    let schedule = plan.execution.as_ref().map_or(Schedule::OneFOneB, |execution| execution.schedule);
    schedule.stages_of(device, pipeline_devices(plan).max(1), plan.stages.len())
}

/// Devices that a stage of a plan is on.
fn devices_of(plan: &JointPlanDocument, stage: &JointStageDocument) -> u64 {
    let context = plan.execution.as_ref().map_or(1, |execution| execution.context);
    (u64::from(stage.data) * u64::from(stage.tensor)).saturating_mul(context.into())
}

/// Devices in use, and devices of the cluster if there is one.
pub fn devices(plan: &JointPlanDocument) -> (u64, Option<u64>) {
    let stages = plan.stages.iter().take(pipeline_devices(plan));
    let used = stages.map(|stage| devices_of(plan, stage)).fold(0, u64::saturating_add);
    let all = plan.cluster.as_ref().map(|cluster| {
        let kinds = cluster.kinds.iter().filter(|kind| !kind.host);
        kinds.map(|kind| u64::from(kind.count)).sum()
    });
    (used, all)
}

/// The kinds of the devices of a stage, each with its number of devices; where stages name no kind, the first kind that
/// is not a host.
pub(crate) fn kinds_of<'c>(
    plan: &JointPlanDocument,
    stage: &JointStageDocument,
    cluster: &'c ClusterDocument,
) -> Vec<(&'c KindDocument, u64)> {
    let mut kinds = cluster.kinds.iter().filter(|kind| !kind.host);
    let all = devices_of(plan, stage);
    let on = |kind: &'c KindDocument| {
        let copies = u64::from(*stage.mixed.get(&kind.name)?);
        Some((kind, (all / u64::from(stage.data.max(1))).saturating_mul(copies)))
    };
    let kind = match &stage.kind {
        Some(name) => kinds.find(|kind| kind.name == *name),
        None if !stage.mixed.is_empty() => return kinds.filter_map(on).collect(),
        None => kinds.next(),
    };
    kind.map(|kind| (kind, all)).into_iter().collect()
}

/// Memory of a device of a stage that a plan may use, in bytes, the least of its kinds; `None` if it is unlimited or
/// not known.
pub fn limit(plan: &JointPlanDocument, stage: &JointStageDocument) -> Option<f64> {
    let by_runtime = plan.objective.runtime.as_ref().map_or(0.0, |runtime| runtime.reserve_bytes);
    let of_kind = |(kind, _): (&KindDocument, u64)| {
        Some((kind.memory_bytes? - kind.reserve_bytes.unwrap_or(by_runtime)).max(0.0))
    };
    kinds_of(plan, stage, plan.cluster.as_ref()?).into_iter().filter_map(of_kind).reduce(f64::min)
}

/// A value with its throughput, in samples and tokens per second if they are known.
pub fn value_line(value: f64, known: Option<&ThroughputDocument>) -> String {
    match rate(known) {
        Some(rate) => format!("{}, {rate}", seconds(value)),
        None => seconds(value),
    }
}

/// A throughput in words.
pub(super) fn rate(known: Option<&ThroughputDocument>) -> Option<String> {
    known.map(|known| words(known, "microbatches"))
}

/// The model's FLOP of all samples as a share of the peak of the plan's devices. `None` if one of them is not known.
pub fn utilisation(plan: &JointPlanDocument, figures: JointFigures) -> Option<String> {
    let samples = plan.throughput?.samples_per_s?;
    let peak = peak(plan);
    (figures.flop > 0.0 && peak > 0.0)
        .then(|| format!("{} of the peak of its devices", percent(samples * figures.flop / peak)))
}

/// Peak of the devices of a plan, in FLOP per second, from the peaks of their classes.
fn peak(plan: &JointPlanDocument) -> f64 {
    let Some(cluster) = &plan.cluster else { return 0.0 };
    let of_kind = |(kind, devices): (&KindDocument, u64)| {
        Some(devices as f64 * cluster.classes.get(&kind.class)?.peak_flops?)
    };
    let stages = plan.stages.iter().take(pipeline_devices(plan));
    stages.flat_map(|stage| kinds_of(plan, stage, cluster)).filter_map(of_kind).sum()
}
