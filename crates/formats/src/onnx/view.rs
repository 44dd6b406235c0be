//! Views: operators that launch no kernel.
//!
//! | operator | why it is free |
//! | --- | --- |
//! | `Identity`, `Reshape`, `Flatten`, `Squeeze`, `Unsqueeze`, `Dropout` of inference, `Cast` to the same type | another name for the same bytes |
//! | `SplitToSequence`, `SequenceAt` | parts of the same bytes |
//! | `Transpose`, `Expand` that only products read, perhaps through views; a `Transpose` of a product's output without other readers | products read and write matrices with strides |
//! | `DequantizeLinear`, under fusion | its readers take the integers and the scale |
//! | `Gather` and the like of stacked weights, one matrix per token, that only products read | a grouped product reads every token's matrix in place |
//!
//! The output of such an operator is *seen through*: its readers read the operator's input. The operator remains in the
//! document, for runtimes that place every node, and is colocated with the operator whose bytes it names.

use super::value::{Value, is_parameter};
use super::walk::{Operator, Origin, Walked};
use crate::fusion::{Role, role};

/// Smallest rank of a weight that is a stack of matrices.
const STACKED: usize = 3;

/// Free operators, and the values seen through them.
pub(super) struct Views {
    /// Per value, the value that its readers read: itself, unless a free operator makes it.
    pub(super) seen: Vec<usize>,
    /// Per operator, whether it is free.
    pub(super) is_free: Vec<bool>,
    /// Per operator, whether it picks weights that a product reads in place.
    pub(super) picks: Vec<bool>,
    /// Per value, whether it is an output of the model, perhaps through views.
    pub(super) is_output: Vec<bool>,
}

impl Views {
    /// Finds the views in time linear in operators and their inputs.
    pub(super) fn new(walked: &Walked<'_>, fuses: bool) -> Views {
        let mut is_output = vec![false; walked.values.len()];
        walked.outputs.iter().for_each(|&value| is_output[value] = true);
        let by_products = by_products(walked, &is_output);
        let mut readers = vec![0_usize; walked.values.len()];
        for operator in &walked.operators {
            operator.reads.iter().for_each(|&value| readers[value] += 1);
        }
        let mut seen: Vec<usize> = (0..walked.values.len()).collect();
        let mut is_free = vec![false; walked.operators.len()];
        let mut picks = vec![false; walked.operators.len()];
        // Per value, whether a product made it, perhaps through views without other readers.
        let mut of_product = vec![false; walked.values.len()];
        for (index, operator) in walked.operators.iter().enumerate() {
            let (Some(Some(input)), Some(&output)) =
                (operator.inputs.first().copied(), operator.outputs.first())
            else {
                continue;
            };
            let alone = of_product[input] && readers[input] == 1 && !is_output[input];
            let free = is_view(walked, operator)
                || match operator.node.op_type() {
                    "Transpose" => by_products[output] || alone,
                    "Expand" => by_products[output],
                    "DequantizeLinear" => fuses,
                    _ => false,
                };
            if free {
                is_free[index] = true;
                seen[output] = seen[input];
                of_product[output] = alone;
            }
            of_product[output] |= is_product(operator);
            picks[index] = !free && by_products[output] && gathers_weights(walked, operator);
        }
        for value in 0..seen.len() {
            is_output[seen[value]] |= is_output[value];
        }
        Views { seen, is_free, picks, is_output }
    }
}

/// Per value, whether only products read it, perhaps through operators that may be free for them.
fn by_products(walked: &Walked<'_>, is_output: &[bool]) -> Vec<bool> {
    let mut read = vec![false; walked.values.len()];
    let mut otherwise = is_output.to_vec();
    for operator in walked.operators.iter().rev() {
        let passes = is_view(walked, operator) || matches!(operator.node.op_type(), "Transpose" | "Expand");
        let output = operator.outputs.first().copied();
        let fine = is_product(operator)
            || (passes && output.is_some_and(|output| read[output] && !otherwise[output]));
        for (place, value) in operator.inputs.iter().enumerate() {
            let Some(value) = *value else { continue };
            read[value] = true;
            otherwise[value] |= !fine || (passes && place > 0);
        }
    }
    read.iter().zip(otherwise).map(|(&read, otherwise)| read && !otherwise).collect()
}

pub(super) fn is_product(operator: &Operator<'_>) -> bool {
    let kind = operator.node.op_type();
    role(kind) == Role::Product && !kind.contains("Conv")
}

/// Whether an operator is a view of its first input.
fn is_view(walked: &Walked<'_>, operator: &Operator<'_>) -> bool {
    let elem = |value: Option<&usize>| value.map(|&value| walked.values[value].value.elem);
    let input = operator.inputs.first().and_then(Option::as_ref);
    match operator.node.op_type() {
        "Identity" | "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" => true,
        // Parts of a tensor that is not moved.
        "SplitToSequence" | "SequenceAt" => true,
        "Cast" | "CastLike" => elem(input) == elem(operator.outputs.first()),
        // If the training mode is true or unknown, numbers are drawn at random.
        "Dropout" => {
            let is_false = |mode: usize| walked.values[mode].value.content.as_deref() == Some(&[0.0]);
            operator.inputs.get(2).copied().flatten().is_none_or(is_false)
        }
        _ => false,
    }
}

/// Whether an operator selects matrices from a stack of weights.
fn gathers_weights(walked: &Walked<'_>, operator: &Operator<'_>) -> bool {
    if !matches!(operator.node.op_type(), "Gather" | "GatherND" | "GatherElements") {
        return false;
    }
    let Some(Some(data)) = operator.inputs.first() else { return false };
    let Origin::Constant { root } = walked.values[*data].origin else { return false };
    let Value { elem, dims, .. } = &walked.values[*data].value;
    is_parameter(*elem) && dims.len() >= STACKED && !walked.values[root].value.dims.is_empty()
}
