//! Figures of placements in a comparison.

use stagewright_core::document::{
    ClusterDocument, ObjectiveDocument, ObjectiveKind, PlanDocument, Schedule, Split,
};

use super::Figures;

/// Idle shares below this are set to zero.
const LEAST_SHARE: f64 = 1e-9;

/// Figures of a plan on a cluster, in O(devices · kinds).
pub(super) fn figures(plan: &PlanDocument, cluster: Option<&ClusterDocument>) -> Figures {
    let split = (plan.objective.kind == ObjectiveKind::Throughput).then_some(plan.objective.split);
    let Some(value) = plan.objective.value_s else { return Figures { split, ..Figures::default() } };
    let shares = plan.devices.iter().filter_map(|device| {
        let kind = cluster?.kinds.iter().find(|kind| kind.name == device.kind)?;
        let limit = kind.memory_bytes.filter(|&limit| limit > 0.0)?;
        Some(device.memory_bytes / limit).filter(|share| share.is_finite())
    });
    Figures {
        split,
        memory_bytes: plan.devices.iter().map(|device| device.memory_bytes).reduce(f64::max),
        memory_share: shares.reduce(f64::max),
        communication_s: Some(plan.devices.iter().map(|device| device.communication_s).sum()),
        idle_share: Some(idle_share(plan, value)),
        degrees: None,
    }
}

/// Whether every placement that `narrow` allows is one that `wide` allows, at the same value.
pub(super) fn allows(wide: &ObjectiveDocument, narrow: &ObjectiveDocument) -> bool {
    let same = wide.kind == narrow.kind
        && wide.communication == narrow.communication
        && wide.training == narrow.training
        && wide.schedule == narrow.schedule
        && wide.microbatches == narrow.microbatches
        && wide.execution == narrow.execution
        && wide.calls == narrow.calls
        && wide.max_replicas == narrow.max_replicas;
    same && (narrow.kind != ObjectiveKind::Throughput || looseness(wide.split) >= looseness(narrow.split))
}

/// Rank of a split rule: a rule allows every split that the rules of lower rank allow.
fn looseness(split: Split) -> u8 {
    match split {
        Split::Contiguous => 0,
        Split::Convex => 1,
        Split::Free => 2,
    }
}

/// Idle share of the time of the devices in use.
fn idle_share(plan: &PlanDocument, value: f64) -> f64 {
    let objective = &plan.objective;
    let is_iteration = objective.kind == ObjectiveKind::Throughput && objective.schedule != Schedule::None;
    let times = if is_iteration { f64::from(objective.microbatches.unwrap_or(1)) } else { 1.0 };
    let busy: f64 = match objective.kind {
        // The loads of a step include link time, which overlaps with compute.
        ObjectiveKind::Makespan => plan.devices.iter().map(|device| device.compute_s).sum(),
        _ => plan.devices.iter().map(|device| f64::from(device.replicas) * device.load_s).sum(),
    };
    let devices: usize = plan.devices.iter().map(|device| device.replicas as usize).sum();
    let share = stagewright_core::schedule::bubble(times * busy, devices, value);
    // Rounding error: sums of the same seconds in different orders.
    if share < LEAST_SHARE { 0.0 } else { share }
}
