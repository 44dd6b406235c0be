//! Weight gradients, which zero-bubble defers.
//!
//! A backward operator computes a weight gradient if no operator, or only updates, read its outputs, and it reads a
//! gradient, made by another backward operator, that is also read by a backward operator from which the backward pass
//! continues.

use stagewright_core::document::Pass;

use crate::constraint::Placed;
use crate::error::CheckError;
use crate::read::{Graph, Problem, cost};

/// Seconds of the weight gradients on every device. O(operators + pins).
///
/// # Errors
/// If there is a backward pass but no weight gradient, since the backward pass is then not split.
pub(super) fn seconds(problem: &Problem, placed: &Placed) -> Result<Vec<f64>, CheckError> {
    let graph = &problem.graph;
    let is_weight = operators(graph);
    let is_backward = |operator: usize| graph.pass(operator) == Pass::Backward;
    if !is_weight.contains(&true) && (0..graph.operators.len()).any(is_backward) {
        let (rule, needs) = ("the schedule zero-bubble", "operators that compute only weight gradients");
        return Err(CheckError::Rule { rule, needs });
    }
    let mut seconds = vec![0.0; placed.devices.len()];
    for (operator, document) in
        graph.operators.iter().enumerate().filter(|&(operator, _)| is_weight[operator])
    {
        let device = placed.device_of[operator];
        let kind = &problem.cluster.kinds[placed.devices[device].kind];
        seconds[device] += cost::seconds(document, kind).unwrap_or(0.0);
    }
    Ok(seconds)
}

/// Whether an operator computes a weight gradient. O(operators + pins).
pub(crate) fn operators(graph: &Graph) -> Vec<bool> {
    let is_backward = |operator: usize| graph.pass(operator) == Pass::Backward;
    // Whether a backward operator reads the outputs of each operator, and whether at most updates read them.
    let mut goes_on = vec![false; graph.operators.len()];
    let mut is_updated_at_most = vec![true; graph.operators.len()];
    for (from, to) in graph.tensors.iter().flat_map(|tensor| tensor.arcs()) {
        goes_on[from] |= is_backward(to);
        is_updated_at_most[from] &= graph.pass(to) == Pass::Update;
    }
    let mut branches_off = vec![false; graph.operators.len()];
    for tensor in graph.tensors.iter().filter(|tensor| is_backward(tensor.producer)) {
        if tensor.consumers.iter().any(|&operator| is_backward(operator) && goes_on[operator]) {
            for &operator in &tensor.consumers {
                branches_off[operator] = true;
            }
        }
    }
    (0..graph.operators.len())
        .map(|operator| is_backward(operator) && is_updated_at_most[operator] && branches_off[operator])
        .collect()
}
