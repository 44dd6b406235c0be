//! The backward pass of a priced graph.
//!
//! Every operator but an input gets a mirror operator that computes its gradients: colocated with it, and twice as slow
//! if it has parameters. Gradients flow along the reversed edges. An input that an operator's gradient needs again is
//! sent to both the operator and its mirror, which share a device. An operator without readers sends its output to its
//! own gradient.

use rustc_hash::FxHashMap;
use stagewright_core::document::{GraphDocument, OperatorDocument, Pass, TensorDocument};

use super::shape::{Role, Shape};

/// Suffix of the names of gradient operators.
const GRADIENT: &str = ".grad";

/// Adds the backward pass to a graph whose forward operators are those of `shape`, in its order, with outputs of
/// `bytes` and `optimizer` bytes of optimiser state per byte of parameters. O(edges).
pub(super) fn backward(document: &mut GraphDocument, shape: &Shape, bytes: &[f64], optimizer: f64) {
    let gradients: Vec<Option<OperatorDocument>> =
        document.operators.iter().zip(&shape.roles).map(|(forward, &role)| gradient(forward, role)).collect();
    read_again(document, shape);
    for (index, forward) in document.operators.iter_mut().enumerate() {
        forward.colocation = gradients[index].is_some().then(|| forward.name.clone());
        forward.activation_bytes = bytes[index];
        forward.optimizer_bytes = optimizer * forward.parameter_bytes;
    }
    let name = |index: usize| gradients[index].as_ref().map(|gradient| gradient.name.clone());
    for (index, readers) in shape.readers.iter().enumerate() {
        let Some(own) = name(index) else { continue };
        if readers.is_empty() {
            document.tensors.push(TensorDocument::new(
                &document.operators[index].name,
                vec![own],
                bytes[index],
            ));
            continue;
        }
        for reader in readers {
            let from = name(*reader).expect("what reads is no input, so it has a gradient");
            document.tensors.push(TensorDocument::new(&from, vec![own.clone()], bytes[index]));
        }
    }
    document.operators.extend(gradients.into_iter().flatten());
}

/// The operator that computes the gradients of another; `None` for an input.
fn gradient(forward: &OperatorDocument, role: Role) -> Option<OperatorDocument> {
    if role == Role::Input {
        return None;
    }
    // The gradients of the inputs and of the parameters take one product each.
    let times = if role.parameters() > 0.0 { 2.0 } else { 1.0 };
    let mut gradient = OperatorDocument::named(format!("{}{GRADIENT}", forward.name));
    gradient.kind = forward.kind.clone();
    gradient.pass = Pass::Backward;
    gradient.colocation = Some(forward.name.clone());
    gradient.flop = forward.flop.map(|flop| times * flop);
    gradient.bytes_moved = forward.bytes_moved.map(|bytes| times * bytes);
    gradient.seconds =
        forward.seconds.iter().map(|(class, seconds)| (class.clone(), times * seconds)).collect();
    gradient.workspace_bytes = forward.workspace_bytes;
    Some(gradient)
}

/// Adds readers to the inputs that operators keep: the gradients of these operators.
fn read_again(document: &mut GraphDocument, shape: &Shape) {
    let roles: FxHashMap<&str, Role> = document
        .operators
        .iter()
        .map(|operator| operator.name.as_str())
        .zip(shape.roles.iter().copied())
        .collect();
    let again = |TensorDocument { consumers, .. }: &TensorDocument| -> Vec<String> {
        let keep =
            consumers.iter().filter(|name| roles.get(name.as_str()).is_some_and(|role| role.keeps_inputs()));
        keep.map(|name| format!("{name}{GRADIENT}")).collect()
    };
    let added: Vec<Vec<String>> = document.tensors.iter().map(again).collect();
    for (tensor, added) in document.tensors.iter_mut().zip(added) {
        tensor.consumers.extend(added);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use stagewright_core::seed;

    use super::super::costs::document;
    use super::*;

    #[test]
    fn gradients_run_along_the_edges_turned_round_and_beside_their_operators() {
        let mut shape = Shape {
            roles: vec![Role::Input, Role::Product, Role::Pointwise, Role::Combine],
            ..Shape::default()
        };
        shape.readers = vec![vec![1], vec![2, 3], vec![3], vec![]];
        for task in 0..20 {
            let graph = document(&mut seed::stream(8, task), "four", &shape, true);
            let edges: BTreeSet<(&str, &str)> = graph
                .tensors
                .iter()
                .flat_map(|tensor| tensor.consumers.iter().map(|to| (tensor.producer.as_str(), to.as_str())))
                .collect();
            let expected = [
                ("input0", "matmul1"),
                ("matmul1", "activation2"),
                ("matmul1", "add3"),
                ("activation2", "add3"),
                ("add3", "add3.grad"),
                ("add3.grad", "activation2.grad"),
                ("add3.grad", "matmul1.grad"),
                ("activation2.grad", "matmul1.grad"),
                // A product needs its input for the gradient of its weights.
                ("input0", "matmul1.grad"),
            ];
            assert_eq!(edges, BTreeSet::from(expected));
            for gradient in graph.operators.iter().filter(|operator| operator.pass == Pass::Backward) {
                let home = gradient.name.strip_suffix(GRADIENT);
                assert_eq!(gradient.colocation.as_deref(), home);
                let forward = graph.operators.iter().find(|operator| Some(operator.name.as_str()) == home);
                assert_eq!(forward.and_then(|forward| forward.colocation.as_deref()), home);
            }
        }
    }
}
