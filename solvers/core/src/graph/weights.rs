//! Which operators compute gradients of weights alone.

use super::{Graph, OpId};
use crate::document::Pass;

/// Whether each operator is a *weight gradient*: what it computes goes nowhere on the way back, so a schedule may put it
/// off.
///
/// That is an operator of the backward pass whose results nobody reads but updates, and that branches off the way back:
/// a gradient that it reads, which an operator of the backward pass made, is also read by one of that pass whose results
/// go on to others of it. The latter tells the gradient of a layer's weights, beside which the gradient of its inputs goes on, from the last
/// operator of a backward pass that was never split, after which nothing comes either. What is not recognised runs with
/// the gradients of inputs, which is slower and never wrong. O(edges).
pub fn weight_gradients(graph: &Graph) -> Vec<bool> {
    let is_backward = |op: OpId| graph.operator(op).pass == Pass::Backward;
    let goes_on = |op: OpId| is_backward(op) && graph.successors(op).iter().any(|&next| is_backward(next));
    let ends = |op: OpId| {
        is_backward(op) && graph.successors(op).iter().all(|&next| graph.operator(next).pass == Pass::Update)
    };
    let mut found = vec![false; graph.operator_count()];
    for tensor in graph.tensors() {
        let readers = graph.consumers(tensor);
        if is_backward(graph.producer(tensor)) && readers.iter().any(|&op| goes_on(op)) {
            for &op in readers.iter().filter(|&&op| ends(op)) {
                found[op.index()] = true;
            }
        }
    }
    found
}
