//! Detection of weight gradients: operators that compute nothing but gradients of weights.

use super::{Graph, OpId};
use crate::document::Pass;

/// Whether each operator is a *weight gradient*: the rest of the backward pass does not depend on it, so a schedule may
/// defer it.
///
/// A weight gradient is an operator of the backward pass whose results are read only by updates and which branches off
/// the chain of input gradients: it reads a gradient, produced in the backward pass, that another backward operator
/// with a backward successor also reads. The branch tells the gradient of a layer's weights, beside which the gradient
/// of its inputs continues the chain, from the last operator of an unsplit backward pass, which has no backward
/// successor either. Unrecognised weight gradients run with the input gradients, which is slower but never wrong.
/// O(edges).
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
