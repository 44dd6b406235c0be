//! Time and memory of stages by part, as bars that are stacked.

use std::fmt::Write;

use stagewright_core::document::{JointPartsDocument, JointStageDocument};

use super::JointPage;
use crate::html::markup::escape;
use crate::joint::pipeline_devices;
use crate::table::share;

/// Fraction of the largest sum below which a part is treated as rounding error.
const ROUNDING: f64 = 1e-9;

/// Name of memory that is not divided.
pub(super) const MEMORY: &str = "memory";

/// A part, with its colour and its figure for every stage.
pub(super) struct Part {
    pub(super) name: &'static str,
    colour: &'static str,
    pub(super) of_stage: Vec<f64>,
}

/// Parts in the order in which they are stacked, without those that no stage has.
pub(super) struct Parts(pub(super) Vec<Part>);

/// Name and colour of a part, and its figure.
type OfParts = (&'static str, &'static str, fn(&JointPartsDocument) -> f64);
type OfStage = (&'static str, &'static str, fn(&JointStageDocument) -> f64);

const TIMES: [OfParts; 6] = [
    ("compute", "d0", |parts| parts.compute_s),
    ("recomputation", "d4", |parts| parts.recompute_s),
    ("tensor parallelism", "d2", |parts| parts.tensor_s),
    ("experts", "d3", |parts| parts.expert_s),
    ("ZeRO", "d6", |parts| parts.zero_s),
    ("transfers", "d1", |parts| parts.transfer_s),
];
const BYTES: [OfParts; 5] = [
    ("parameters", "d0", |parts| parts.parameter_bytes),
    ("gradients", "d4", |parts| parts.gradient_bytes),
    ("optimizer", "d7", |parts| parts.optimizer_bytes),
    ("activations", "d1", |parts| parts.activation_bytes),
    ("workspace", "d3", |parts| parts.workspace_bytes),
];

impl Parts {
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
            let sum: f64 = known.iter().map(|part| positive(part.of_stage[index])).sum();
            // Figures that are equal up to rounding leave no remainder.
            if stage.memory_bytes - sum > ROUNDING * stage.memory_bytes {
                stage.memory_bytes - sum
            } else {
                0.0
            }
        });
        let rest = Part { name: rest_of(page), colour: "rest", of_stage: rest.collect() };
        Parts::new(known.into_iter().chain([rest]))
    }

    fn new(parts: impl IntoIterator<Item = Part>) -> Parts {
        let mut parts: Vec<Part> = parts.into_iter().collect();
        for figure in parts.iter_mut().flat_map(|part| &mut part.of_stage) {
            *figure = positive(*figure);
        }
        let largest = parts.iter().flat_map(|part| &part.of_stage).copied().fold(0.0, f64::max);
        parts.retain(|part| part.of_stage.iter().any(|&figure| figure > ROUNDING * largest));
        Parts(parts)
    }

    /// The legend of the bars that show `quantity`; empty if there are fewer than two parts.
    pub(super) fn key(&self, quantity: &str) -> String {
        if self.0.len() < 2 {
            return String::new();
        }
        let item =
            |Part { name, colour, .. }: &Part| format!("<li><i class=\"chip {colour}\"></i>{name}</li>");
        let items: String = self.0.iter().map(item).collect();
        format!("<ul class=\"key\" aria-hidden=\"true\"><li>{quantity}:</li>{items}</ul>\n")
    }

    /// Rectangles of a stage in a bar that is `whole` long, each with its name and figure.
    pub(super) fn bar(&self, stage: usize, whole: f64, words: fn(f64) -> String) -> String {
        let mut text = String::new();
        let mut before = 0.0;
        for Part { name, colour, of_stage } in &self.0 {
            let end = before + of_stage[stage];
            let [from, to] = [before, end].map(|sum| 1000.0 * share(sum, whole));
            before = end;
            if to > from {
                // Writing to a string cannot fail.
                let _ = write!(
                    text,
                    "<rect class=\"{colour}\" x=\"{from:.1}\" width=\"{:.1}\" height=\"10\"><title>{name} {}</title></rect>",
                    to - from,
                    escape(&words(of_stage[stage]))
                );
            }
        }
        text
    }

    /// The figures of a stage in words.
    pub(super) fn words(&self, stage: usize, words: fn(f64) -> String) -> String {
        let parts = self.0.iter().map(|part| format!("{} {}", part.name, words(part.of_stage[stage])));
        escape(&parts.collect::<Vec<_>>().join(", "))
    }
}

/// Seconds of a backward pass, without separate weight gradients.
pub(super) fn backward(stage: &JointStageDocument) -> f64 {
    (stage.seconds - stage.forward_s.unwrap_or(0.0) - stage.weight_s.unwrap_or(0.0)).max(0.0)
}

/// A figure that can be drawn: negative and non-finite figures come from invalid documents.
fn positive(figure: f64) -> f64 {
    if figure.is_finite() { figure.max(0.0) } else { 0.0 }
}

fn of_stages((name, colour, figure): OfStage, stages: &[JointStageDocument]) -> Part {
    Part { name, colour, of_stage: stages.iter().map(figure).collect() }
}

fn of_parts((name, colour, figure): OfParts, parts: &[JointPartsDocument], stages: usize) -> Part {
    let figures = parts.iter().map(figure).chain(std::iter::repeat(0.0));
    Part { name, colour, of_stage: figures.take(stages).collect() }
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
