//! Small joint plans for tests.

use std::collections::BTreeMap;

use stagewright_core::document::{
    ContextExchange, JOINT_PLAN_SCHEMA, JointBoundDocument, JointExecutionDocument, JointLayerDocument,
    JointObjectiveDocument, JointObjectiveKind, JointPlanDocument, JointStageDocument, PlanStatus,
    RecomputeWorkspace, Schedule,
};

use super::export_joint;

/// A plan with tensor parallelism 2, 2 copies and 8 microbatches of one sample.
///
/// A stage is a list of layers: `E` is the embedding, `H` the head, and a number a transformer layer; a letter `f` or
/// `s` after the number means full or selective recomputation.
pub(super) fn plan(stages: &[&str]) -> JointPlanDocument {
    let count = stages.len() as u32;
    let stages = stages.iter().zip((1..=count).rev()).map(|(layers, in_flight)| stage(layers, in_flight));
    JointPlanDocument {
        schema: JOINT_PLAN_SCHEMA.into(),
        status: PlanStatus::Optimal,
        solver: "shard".into(),
        model: "small".into(),
        options: None,
        cluster: None,
        objective: JointObjectiveDocument {
            kind: JointObjectiveKind::Iteration,
            parallel: BTreeMap::new(),
            global_batch: 16,
            microbatch: None,
            schedules: vec![Schedule::OneFOneB],
            chunks: None,
            cut: None,
            recompute_workspace: RecomputeWorkspace::Max,
            runtime: None,
            value_s: Some(1.0),
        },
        bound: JointBoundDocument { value_s: Some(1.0), source: "search".into() },
        gap: Some(0.0),
        seconds: 0.1,
        origin: None,
        stop: None,
        reason: None,
        throughput: None,
        sources: None,
        execution: Some(JointExecutionDocument {
            microbatch: 1,
            microbatches: 8,
            data: 2,
            expert: 1,
            zero: 0,
            schedule: Schedule::OneFOneB,
            chunks: 1,
            context: 1,
            exchange: None,
            shards: None,
            offload: false,
        }),
        stages: stages.collect(),
    }
}

fn stage(layers: &str, in_flight: u32) -> JointStageDocument {
    JointStageDocument {
        kind: Some("gpu-a".into()),
        data: 2,
        tensor: 2,
        in_flight,
        seconds: 0.1,
        forward_s: Some(0.03),
        update_s: Some(0.01),
        memory_bytes: 1e9,
        state_bytes: Some(5e8),
        activation_bytes: Some(5e8),
        layers: layers.split(' ').map(layer).collect(),
        ..JointStageDocument::default()
    }
}

fn layer(layer: &str) -> JointLayerDocument {
    let endings = [('f', "full"), ('s', "selective"), ('o', "offload")];
    let ending = endings.iter().find_map(|&(ending, name)| Some((layer.strip_suffix(ending)?, name)));
    let (layer, configuration) = ending.unwrap_or((layer, "none"));
    let layer = match layer {
        "E" => "embeddings".into(),
        "H" => "head".into(),
        number => format!("decoder.layer.{number}"),
    };
    JointLayerDocument { layer, configuration: configuration.into() }
}

/// A plan with a different degree of tensor parallelism, number of copies and ZeRO stage.
pub(super) fn with(mut plan: JointPlanDocument, tensor: u32, data: u32, zero: u32) -> JointPlanDocument {
    for stage in &mut plan.stages {
        stage.tensor = tensor;
        stage.data = data;
    }
    plan.objective.global_batch = 8 * u64::from(data);
    execution(&mut plan).data = data;
    execution(&mut plan).zero = zero;
    plan
}

/// A plan with the schedule `interleaved` and `chunks` stages per device.
pub(super) fn interleaved(stages: &[&str], chunks: u32) -> JointPlanDocument {
    let mut plan = plan(stages);
    execution(&mut plan).schedule = Schedule::Interleaved;
    execution(&mut plan).chunks = chunks;
    plan
}

/// A plan with the schedule `dualpipe-v`.
pub(super) fn dualpipe_v(stages: &[&str]) -> JointPlanDocument {
    let mut plan = interleaved(stages, 2);
    execution(&mut plan).schedule = Schedule::DualPipeV;
    plan
}

/// Divides the tokens of every sample.
pub(super) fn divide(plan: &mut JointPlanDocument, context: u32, exchange: ContextExchange) {
    execution(plan).context = context;
    execution(plan).exchange = Some(exchange);
}

/// The execution of a plan.
pub(super) fn execution(plan: &mut JointPlanDocument) -> &mut JointExecutionDocument {
    plan.execution.as_mut().expect("it has one")
}

/// The text that a target writes.
pub(super) fn text(plan: &JointPlanDocument, target: &str) -> String {
    export_joint(plan, target).unwrap_or_else(|error| panic!("{target} refuses it: {error}"))
}

/// Code, place and message with which a target refuses a plan.
pub(super) fn refused(plan: &JointPlanDocument, target: &str) -> (&'static str, Option<String>, String) {
    let error = export_joint(plan, target).err().unwrap_or_else(|| panic!("{target} takes it"));
    assert!(!error.help().is_empty());
    (error.code().name, error.place().map(str::to_owned), error.to_string())
}
