//! Unevaluated plans: documents of placements that come without figures.

use stagewright_core::document::{
    BoundDocument, Communication, DeviceDocument, Execution, ObjectiveDocument, ObjectiveKind, PLAN_SCHEMA,
    PinsDocument, PlanDocument, PlanStatus, Schedule, Split, Training,
};

/// A plan with status unknown, no value, no bound.
pub(crate) fn plan(devices: Vec<DeviceDocument>) -> PlanDocument {
    PlanDocument {
        schema: PLAN_SCHEMA.to_owned(),
        status: PlanStatus::Unknown,
        solver: "import".to_owned(),
        objective: ObjectiveDocument {
            kind: ObjectiveKind::Throughput,
            split: Split::Contiguous,
            communication: Communication::Serial,
            training: Training::Combined,
            schedule: Schedule::None,
            microbatches: None,
            max_replicas: None,
            calls: None,
            execution: Execution::default(),
            value_s: None,
        },
        bound: BoundDocument { value_s: None, source: "none".to_owned(), certificate: None },
        gap: None,
        seconds: 0.0,
        seed: 0,
        origin: None,
        stop: None,
        reason: None,
        model: None,
        throughput: None,
        sources: None,
        cluster: None,
        pins: PinsDocument::default(),
        devices,
        uplinks: Vec::new(),
        priority: None,
        robust: None,
        requirements: None,
        second_goal: None,
    }
}

/// A device without operators.
pub(crate) fn device(name: String, kind: String) -> DeviceDocument {
    DeviceDocument {
        name,
        kind,
        stage: None,
        replicas: 1,
        calls: None,
        load_s: 0.0,
        compute_s: 0.0,
        communication_s: 0.0,
        memory_bytes: 0.0,
        ops: Vec::new(),
    }
}
