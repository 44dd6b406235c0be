//! Tensors that cross the boundaries between stages.
//!
//! A stage passes on the tensors that skip it, so a tensor crosses every boundary between the stage that writes it and
//! the farthest stage that reads it.

use stagewright_core::document::Pass;

use super::kinds::size;
use super::model::Model;
use crate::joint::JointViolation;

/// Bytes that cross the boundary after a stage, over all samples of the graph.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Crossing {
    /// Bytes to the next stage, in the forward pass; `None` if nothing crosses.
    pub(super) forward: Option<f64>,
    /// Bytes from the next stage, in the backward pass.
    pub(super) backward: Option<f64>,
}

/// Bytes that cross the boundary after each stage. Reports tensors that contradict the order of the stages.
pub(super) fn crossings(
    model: &Model,
    stage_of_layer: &[usize],
    stages: usize,
    violations: &mut Vec<JointViolation>,
) -> Vec<Crossing> {
    let graph = model.graph;
    let stage_of = |operator: usize| stage_of_layer[model.layer_of[operator]];
    // Sums of bytes by boundary and direction.
    let mut sums: Vec<[Option<f64>; 2]> = vec![[None; 2]; stages.saturating_sub(1)];
    let mut cross = |from: usize, to: usize, bytes: f64| {
        let direction = usize::from(from > to);
        let (first, end) = (from.min(to), from.max(to));
        for boundary in &mut sums[first..end] {
            *boundary[direction].get_or_insert(0.0) += bytes;
        }
    };
    for (index, tensor) in graph.tensors.iter().enumerate() {
        if model.is_input(tensor.producer) {
            continue;
        }
        let (from, pass) = (stage_of(tensor.producer), graph.pass(tensor.producer));
        if pass == Pass::Update {
            continue;
        }
        let (mut first, mut last) = (from, from);
        for &reader in &tensor.consumers {
            let (to, reads_in) = (stage_of(reader), graph.pass(reader));
            if reads_in == Pass::Update {
                continue;
            }
            let is_against = match pass {
                Pass::Forward => reads_in == Pass::Forward && to < from,
                Pass::Backward | Pass::Update => to > from,
            };
            if is_against {
                let name = |operator: usize| graph.operators[operator].name.clone();
                violations.push(JointViolation::Order { from: name(tensor.producer), to: name(reader) });
            }
            (first, last) = (first.min(to), last.max(to));
        }
        let bytes = size(graph, index);
        cross(from, first, bytes);
        cross(from, last, bytes);
    }
    sums.into_iter().map(|[forward, backward]| Crossing { forward, backward }).collect()
}
