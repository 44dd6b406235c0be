//! Figures of local plans in a comparison.

use stagewright_core::document::{LocalObjectiveDocument, LocalPlanDocument};

use super::Figures;

/// Figures of a plan: memory is that of the fullest device.
pub(super) fn figures(plan: &LocalPlanDocument) -> Figures {
    let devices = plan.setting.iter().flat_map(|setting| &setting.devices);
    let share = |total: u64, memory: u64| if memory > 0 { total as f64 / memory as f64 } else { 0.0 };
    Figures {
        memory_bytes: devices.clone().map(|device| device.total() as f64).reduce(f64::max),
        memory_share: devices.map(|device| share(device.total(), device.memory)).reduce(f64::max),
        ..Figures::default()
    }
}

/// Whether every plan that `narrow` allows is one that `wide` allows, at the same value.
pub(super) fn allows(wide: &LocalObjectiveDocument, narrow: &LocalObjectiveDocument) -> bool {
    wide.kind == narrow.kind
        && (wide.prompt, wide.output) == (narrow.prompt, narrow.output)
        && (wide.tokens.is_none() || wide.tokens == narrow.tokens)
        && (wide.micro_batch.is_none() || wide.micro_batch == narrow.micro_batch)
}
