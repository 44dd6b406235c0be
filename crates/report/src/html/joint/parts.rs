//! Time and memory of stages by part, as bars that are stacked.

use stagewright_core::document::{JointPartsDocument, JointStageDocument};

use super::JointPage;
use crate::html::bars::{Part, Parts, ROUNDING, positive};
use crate::joint::pipeline_devices;

/// Name of memory that is not divided.
pub(super) const MEMORY: &str = "memory";

/// Name and colour of a part, and its figure.
type OfParts = (&'static str, &'static str, fn(&JointPartsDocument) -> f64);
type OfStage = (&'static str, &'static str, fn(&JointStageDocument) -> f64);

const TIMES: [OfParts; 8] = [
    ("compute", "d0", |parts| parts.compute_s),
    ("recomputation", "d4", |parts| parts.recompute_s),
    ("tensor parallelism", "d2", |parts| parts.tensor_s),
    ("context parallelism", "d7", |parts| parts.context_s),
    ("experts", "d3", |parts| parts.expert_s),
    ("ZeRO", "d6", |parts| parts.zero_s),
    ("transfers", "d1", |parts| parts.transfer_s),
    ("waiting for the host", "d5", |parts| parts.host_s),
];
const BYTES: [OfParts; 5] = [
    ("parameters", "d0", |parts| parts.parameter_bytes),
    ("gradients", "d4", |parts| parts.gradient_bytes),
    ("optimizer", "d7", |parts| parts.optimizer_bytes),
    ("activations", "d1", |parts| parts.activation_bytes),
    ("workspace", "d3", |parts| parts.workspace_bytes),
];

/// Seconds of a microbatch: by purpose if known, otherwise by pass if known.
pub(super) fn seconds(page: &JointPage) -> Parts {
    let stages = &page.document.stages;
    if let Some(parts) = page.parts {
        return Parts::new(TIMES.map(|part| of_parts(part, parts, stages.len())));
    }
    if stages.iter().all(|stage| stage.forward_s.is_none()) {
        return Parts::new([of_stages(("time", "d0", |stage| stage.seconds), stages)]);
    }
    Parts::new([
        of_stages(("forward", "d0", |stage| stage.forward_s.unwrap_or(0.0)), stages),
        of_stages(("backward", "d2", backward), stages),
        of_stages(("weight gradients", "d1", |stage| stage.weight_s.unwrap_or(0.0)), stages),
    ])
}

/// Bytes of a device: those of the stage by purpose, as far as known, and those of the other stages of the
/// device.
pub(super) fn bytes(page: &JointPage) -> Parts {
    let stages = &page.document.stages;
    let known = match page.parts {
        Some(parts) => BYTES.map(|part| of_parts(part, parts, stages.len())).into(),
        None => {
            vec![
                of_stages(("states", "d0", |stage| stage.state_bytes.unwrap_or(0.0)), stages),
                of_stages(("activations", "d1", |stage| stage.activation_bytes.unwrap_or(0.0)), stages),
            ]
        }
    };
    let rest = stages.iter().enumerate().map(|(index, stage)| {
        let sum: f64 = known.iter().map(|part| positive(part.figures[index])).sum();
        // Figures that are equal up to rounding leave no remainder.
        if stage.memory_bytes - sum > ROUNDING * stage.memory_bytes { stage.memory_bytes - sum } else { 0.0 }
    });
    let rest = Part { name: rest_of(page), colour: "rest", figures: rest.collect() };
    Parts::new(known.into_iter().chain([rest]))
}

/// Seconds of a backward pass, without separate weight gradients.
pub(super) fn backward(stage: &JointStageDocument) -> f64 {
    (stage.seconds - stage.forward_s.unwrap_or(0.0) - stage.weight_s.unwrap_or(0.0)).max(0.0)
}

fn of_stages((name, colour, figure): OfStage, stages: &[JointStageDocument]) -> Part {
    Part { name, colour, figures: stages.iter().map(figure).collect() }
}

fn of_parts((name, colour, figure): OfParts, parts: &[JointPartsDocument], stages: usize) -> Part {
    let figures = parts.iter().map(figure).chain(std::iter::repeat(0.0));
    Part { name, colour, figures: figures.take(stages).collect() }
}

/// Purpose of the memory beyond the parts.
fn rest_of(page: &JointPage) -> &'static str {
    let plan = page.document;
    if pipeline_devices(plan) < plan.stages.len() {
        return "other stages and workspace";
    }
    match (page.parts, &plan.execution) {
        (Some(_), _) => "other",
        (None, Some(_)) => "workspace",
        (None, None) => MEMORY,
    }
}
