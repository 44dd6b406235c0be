//! Detection of weight gradients.

use stagewright_core::document::{OperatorDocument, Pass};
use stagewright_core::graph::{Graph, GraphBuilder, weight_gradients};

/// A graph with the given operators and tensors. The first letter of an operator determines its pass.
fn graph(operators: &[&str], tensors: &[(&str, &[&str])]) -> Graph {
    let mut builder = GraphBuilder::new("training");
    for &name in operators {
        let pass = match name.as_bytes()[0] {
            b'f' => Pass::Forward,
            b'u' => Pass::Update,
            _ => Pass::Backward,
        };
        builder.operator(OperatorDocument { pass, ..OperatorDocument::named(name) });
    }
    for (producer, consumers) in tensors {
        builder.tensor(producer, consumers.iter().copied(), 1.0);
    }
    builder.build().expect("a graph")
}

fn found(graph: &Graph) -> Vec<String> {
    let weight = weight_gradients(graph);
    let named = graph.operators().filter(|op| weight[op.index()]);
    named.map(|op| graph.operator(op).name.clone()).collect()
}

#[test]
fn the_gradient_of_weights_branches_off_the_way_back() {
    let operators = ["f1", "f2", "b-loss", "b2-input", "b2-weight", "b1-input", "b1-weight", "u2", "u1"];
    let tensors: &[(&str, &[&str])] = &[
        ("f1", &["f2", "b2-weight", "b1-input"]),
        ("f2", &["b-loss"]),
        ("b-loss", &["b2-input", "b2-weight"]),
        ("b2-input", &["b1-input", "b1-weight"]),
        ("b2-weight", &["u2"]),
        ("b1-weight", &["u1"]),
    ];
    // The backward pass does not continue beyond the first layer, so the weight gradient of that layer is not
    // recognised.
    assert_eq!(found(&graph(&operators, tensors)), ["b2-weight"]);
}

#[test]
fn a_backward_pass_in_one_piece_has_none() {
    let operators = ["f1", "f2", "b2", "b1", "u1", "u2"];
    let tensors: &[(&str, &[&str])] =
        &[("f1", &["f2", "b2", "b1"]), ("f2", &["b2"]), ("b2", &["b1", "u2"]), ("b1", &["u1"])];
    assert!(found(&graph(&operators, tensors)).is_empty());
}
