//! Fusion on small graphs.

use stagewright_core::document::{GRAPH_SCHEMA_2, OperatorDocument, TensorDocument};

use super::*;

/// A graph of operators (name, kind), each moving the bytes of its tensors, and tensors (producer, readers, bytes).
fn graph(operators: &[(&str, &str)], tensors: &[(&str, &[&str], f64)]) -> GraphDocument {
    let tensors: Vec<TensorDocument> = tensors
        .iter()
        .map(|&(producer, consumers, bytes)| TensorDocument {
            name: None,
            producer: producer.into(),
            consumers: consumers.iter().map(|&name| name.into()).collect(),
            bytes,
            seconds: BTreeMap::new(),
        })
        .collect();
    let moved = |name: &str| {
        let touches = |tensor: &&TensorDocument| {
            tensor.producer == name || tensor.consumers.iter().any(|reader| reader == name)
        };
        tensors.iter().filter(touches).map(|tensor| tensor.bytes).sum()
    };
    let operators = operators
        .iter()
        .map(|&(name, kind)| OperatorDocument {
            kind: Some(kind.into()),
            flop: Some(1.0),
            bytes_moved: Some(moved(name)),
            ..OperatorDocument::named(name)
        })
        .collect();
    GraphDocument {
        schema: GRAPH_SCHEMA_2.into(),
        name: String::new(),
        operators,
        tensors,
        parameters: Vec::new(),
        cluster: None,
        batch: None,
        pipedream_skips: Vec::new(),
    }
}

fn fused(mut graph: GraphDocument) -> GraphDocument {
    let roles: Vec<Role> =
        graph.operators.iter().map(|operator| role(operator.kind.as_deref().unwrap_or_default())).collect();
    fuse(&mut graph, &roles, |_, _| true);
    graph
}

/// Class, launches and bytes per operator.
fn costs(graph: &GraphDocument) -> Vec<(Option<&str>, f64, f64)> {
    let cost = |operator: &'_ OperatorDocument| {
        (operator.launches.unwrap_or(1.0), operator.bytes_moved.unwrap_or(0.0))
    };
    graph.operators.iter().map(|op| (op.colocation.as_deref(), cost(op).0, cost(op).1)).collect()
}

#[test]
fn a_product_takes_bias_activation_and_residual_sum_with_it() {
    let operators = [("in", "Slice"), ("mm", "MatMul"), ("bias", "Add"), ("relu", "Relu"), ("sum", "Add")];
    let tensors: [(&str, &[&str], f64); 5] = [
        ("in", &["mm", "sum"], 10.0),
        ("mm", &["bias"], 10.0),
        ("bias", &["relu"], 10.0),
        ("relu", &["sum"], 10.0),
        ("sum", &[], 10.0),
    ];
    let graph = fused(graph(&operators, &tensors));
    let class = Some("mm");
    assert_eq!(
        costs(&graph),
        [(None, 1.0, 10.0), (class, 1.0, 20.0), (class, 0.0, 0.0), (class, 0.0, 0.0), (class, 0.0, 0.0)],
        "the input, read once, and the output"
    );
    let bytes: Vec<f64> = graph.tensors.iter().map(|tensor| tensor.bytes).collect();
    assert_eq!(bytes, [10.0, 0.0, 0.0, 0.0, 10.0]);
    assert!(graph.operators.iter().all(|operator| operator.flop == Some(1.0)));
}

#[test]
fn what_is_read_elsewhere_is_written() {
    // The product is read by two kernels; then by one, and from outside.
    let operators = [("mm", "MatMul"), ("relu", "Relu"), ("pool", "TopK")];
    let twice = graph(&operators, &[("mm", &["relu", "pool"], 8.0), ("relu", &[], 8.0)]);
    assert_eq!(fused(twice.clone()), twice);
    let kept = graph(&operators, &[("mm", &["relu"], 8.0), ("mm", &[], 8.0), ("relu", &[], 8.0)]);
    assert_eq!(fused(kept.clone()), kept);
}

#[test]
fn a_normalisation_in_primitives_is_one_kernel() {
    let operators = [
        ("mm", "MatMul"),
        ("mean", "ReduceMean"),
        ("centre", "Sub"),
        ("square", "Pow"),
        ("variance", "ReduceMean"),
        ("root", "Sqrt"),
        ("quotient", "Div"),
        ("next", "MatMul"),
    ];
    let tensors: [(&str, &[&str], f64); 7] = [
        ("mm", &["mean", "centre"], 64.0),
        ("mean", &["centre"], 8.0),
        ("centre", &["square", "quotient"], 64.0),
        ("square", &["variance"], 64.0),
        ("variance", &["root"], 8.0),
        ("root", &["quotient"], 8.0),
        ("quotient", &["next"], 64.0),
    ];
    let graph = fused(graph(&operators, &tensors));
    let launches: f64 = graph.operators.iter().map(|op| op.launches.unwrap_or(1.0)).sum();
    assert_eq!(launches, 3.0, "two products and the normalisation");
    assert_eq!(graph.operators[0].colocation, None, "a product that is normalised is written before");
    let moved: Vec<f64> = graph.operators.iter().filter_map(|op| op.bytes_moved).collect();
    // The normalisation reads its input once, and writes as much.
    assert_eq!(moved, [64.0, 128.0, 0.0, 0.0, 0.0, 0.0, 0.0, 64.0]);
}

#[test]
fn one_kernel_has_one_product() {
    let operators = [("a", "MatMul"), ("b", "MatMul"), ("sum", "Add"), ("c", "MatMul")];
    let tensors: [(&str, &[&str], f64); 4] =
        [("a", &["sum"], 4.0), ("b", &["sum"], 4.0), ("sum", &["c"], 4.0), ("c", &[], 4.0)];
    let graph = fused(graph(&operators, &tensors));
    let classes: Vec<Option<&str>> = graph.operators.iter().map(|op| op.colocation.as_deref()).collect();
    assert_eq!(classes, [None, Some("b"), Some("b"), None]);
}

#[test]
fn a_product_smaller_than_its_kernel_stays_apart() {
    let operators = [("mm", "MatMul"), ("add", "Add")];
    let tensors: [(&str, &[&str], f64); 2] = [("mm", &["add"], 4.0), ("add", &[], 400.0)];
    let before = graph(&operators, &tensors);
    assert_eq!(fused(before.clone()), before);
}

#[test]
fn gradients_fuse_within_what_shares_a_device_alone() {
    let operators = [("a", "matmul"), ("b", "relu"), ("c", "matmul"), ("d", "relu")];
    let tensors: [(&str, &[&str], f64); 4] =
        [("a", &["b"], 4.0), ("b", &["c"], 4.0), ("c", &["d"], 4.0), ("d", &[], 4.0)];
    let mut document = graph(&operators, &tensors);
    for (operator, class) in document.operators.iter_mut().zip(["x", "y", "z", "z"]) {
        operator.pass = Pass::Backward;
        operator.colocation = Some(class.into());
    }
    let classes: Vec<String> =
        fused(document).operators.iter().filter_map(|op| op.colocation.clone()).collect();
    assert_eq!(classes, ["x", "y", "z", "z"]);
}

/// Contracting kernels creates no cycle, because only the last operator of a kernel has outgoing tensors.
#[test]
fn a_diamond_is_fused_whole_or_not() {
    let operators = [("a", "Add"), ("x", "TopK"), ("b", "Mul")];
    let tensors: [(&str, &[&str], f64); 3] = [("a", &["x", "b"], 4.0), ("x", &["b"], 4.0), ("b", &[], 4.0)];
    let before = graph(&operators, &tensors);
    assert_eq!(fused(before.clone()), before);
}
