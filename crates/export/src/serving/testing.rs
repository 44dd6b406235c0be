//! Small serving plans for tests: a model of 32 layers on servers of 8 large and of 4 small devices.

use stagewright_core::document::{
    ClusterDocument, LinkDocument, PlanStatus, ReplicaDocument, RequestClassDocument, SERVING_PLAN_SCHEMA,
    ServerDocument, ServingBoundDocument, ServingGoal, ServingMode, ServingPlanDocument,
    ServingQuestionDocument, ServingRole, ServingStageDocument, devices,
};

use super::{export_serving, export_serving_noted};

/// A stage of a kind with its tensor degree, data degree, groups of experts, first layer and number of layers.
pub(super) fn stage(kind: &str, degrees: [u64; 3], first: u32, layers: u32) -> ServingStageDocument {
    let [tensor, data, experts] = degrees;
    ServingStageDocument { kind: kind.into(), tensor, data, experts, first, layers }
}

/// Replicas of a role in class 0; those for prompts have no batch.
pub(super) fn replica(role: ServingRole, count: u64, stages: Vec<ServingStageDocument>) -> ReplicaDocument {
    ReplicaDocument {
        role,
        class: 0,
        count,
        kept: 0,
        stages,
        batch: if role == ServingRole::Prefill { 0 } else { 64 },
        requests_per_s: 2.0,
        ttft_s: (role != ServingRole::Decode).then_some(0.5),
        tpot_s: (role != ServingRole::Prefill).then_some(0.02),
        utilisation: (role == ServingRole::Prefill).then_some(0.8),
        cache_tokens: 100_000,
    }
}

/// A plan for an engine with these replicas.
pub(super) fn plan(engine: &str, replicas: Vec<ReplicaDocument>) -> ServingPlanDocument {
    let link = LinkDocument { latency_s: 1e-6, bandwidth: 5e10 };
    let mut cluster = ClusterDocument::new("two kinds");
    for (name, count, server) in [("large", 16, 8), ("small", 8, 4)] {
        let mut kind = devices(name, count);
        kind.server = Some(ServerDocument { devices: server, link });
        cluster.kinds.push(kind);
    }
    ServingPlanDocument {
        schema: SERVING_PLAN_SCHEMA.into(),
        status: PlanStatus::Optimal,
        solver: "replicas".into(),
        model: "org/small".into(),
        options: None,
        cluster,
        question: ServingQuestionDocument {
            engine: engine.into(),
            classes: vec![RequestClassDocument { input: 4096, output: 512, shared_prefix: 0, share: 1.0 }],
            concurrency: None,
            rate: None,
            ttft_s: None,
            tpot_s: None,
            limits: Default::default(),
            goal: ServingGoal::Throughput,
            modes: vec![ServingMode::Aggregated, ServingMode::Disaggregated],
            cache: None,
            chunk: None,
            memory_share: None,
            max_batch: None,
            max_stages: 2,
            speculation: None,
            prices: Default::default(),
            factors: Default::default(),
            costs: Vec::new(),
            start: None,
        },
        value: Some(4.0),
        bound: ServingBoundDocument { value: Some(4.0), source: "prices".into(), certificate: None },
        gap: Some(0.0),
        requests_per_s: Some(4.0),
        tokens_per_s: Some(2048.0),
        devices: Some(8),
        moved_bytes: None,
        seconds: 0.1,
        origin: None,
        stop: None,
        reason: None,
        replicas,
    }
}

/// Two replicas for prompts on small devices, and one that decodes on large ones.
pub(super) fn disaggregated(engine: &str) -> ServingPlanDocument {
    let prefill = replica(ServingRole::Prefill, 2, vec![stage("small", [2, 1, 1], 0, 32)]);
    let mut decode = replica(ServingRole::Decode, 1, vec![stage("large", [4, 1, 1], 0, 32)]);
    decode.requests_per_s = 4.0;
    plan(engine, vec![prefill, decode])
}

/// One aggregated replica of these stages.
pub(super) fn aggregated(engine: &str, stages: Vec<ServingStageDocument>) -> ServingPlanDocument {
    plan(engine, vec![replica(ServingRole::Aggregated, 1, stages)])
}

/// The text that a target writes.
pub(super) fn text(plan: &ServingPlanDocument, target: &str) -> String {
    export_serving(plan, target).unwrap_or_else(|error| panic!("{target} refuses it: {error}"))
}

/// The notes that a target gives, a line each.
pub(super) fn notes(plan: &ServingPlanDocument, target: &str) -> String {
    let export =
        export_serving_noted(plan, target).unwrap_or_else(|error| panic!("{target} refuses it: {error}"));
    export.notes.join("\n")
}

/// Code, place and message with which a target refuses a plan.
pub(super) fn refused(plan: &ServingPlanDocument, target: &str) -> (&'static str, Option<String>, String) {
    let error = export_serving(plan, target).err().unwrap_or_else(|| panic!("{target} takes it"));
    assert!(!error.help().is_empty());
    (error.code().name, error.place().map(str::to_owned), error.to_string())
}
