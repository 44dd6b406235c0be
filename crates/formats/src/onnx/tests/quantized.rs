//! Precision of casts and of quantised models, and weights gathered by token.

use super::model::Dim::Of;
use super::model::{Model, int, ints};
use super::*;
use crate::clusters;
use proto::tensor_proto::DataType::{Float, Float16, Int8, Int32, Int64};
use stagewright_core::cluster::Cluster;
use stagewright_core::cost::CostTable;
use stagewright_core::document::Precision;
use stagewright_core::graph::Graph;

/// Two convolutions with a bias and an activation each; if quantised, with a pair of nodes around every value
/// and a node before every weight, as ONNX Runtime's quantiser writes them.
fn network(is_quantized: bool) -> Model {
    let mut model = Model::new(13);
    model.input("x0", &[Of(8), Of(64), Of(56), Of(56)]);
    for index in 0..2 {
        let name = |what: &str| format!("{what}{index}");
        let (input, made, end) = (format!("x{index}"), name("c"), format!("x{}", index + 1));
        if !is_quantized {
            model.weight(&name("w"), &[64, 64, 3, 3]).weight(&name("b"), &[64]);
            model.node(
                "Conv",
                &[&input, &name("w"), &name("b")],
                &[&made],
                vec![ints("pads", &[1, 1, 1, 1])],
            );
            model.node("Relu", &[&made], &[&end], vec![]);
            continue;
        }
        model.typed_weight(&name("w"), Int8, &[64, 64, 3, 3]).typed_weight(&name("b"), Int32, &[64]);
        model.typed_weight(&name("scale"), Float, &[]).typed_weight(&name("zero"), Int8, &[]);
        let (scale, zero) = (name("scale"), name("zero"));
        model.node("QuantizeLinear", &[&input, &scale, &zero], &[&name("q")], vec![]);
        for (from, to) in [("q", "dq"), ("w", "dw"), ("b", "db")] {
            model.node("DequantizeLinear", &[&name(from), &scale], &[&name(to)], vec![]);
        }
        let inputs = [name("dq"), name("dw"), name("db")];
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        model.node("Conv", &inputs, &[&made], vec![ints("pads", &[1, 1, 1, 1])]);
        model.node("Relu", &[&made], &[&end], vec![]);
    }
    model.output("x2");
    model
}

/// Total seconds of all operators on an accelerator of a cluster.
fn seconds(graph: GraphDocument, cluster: &str) -> f64 {
    let graph = Graph::from_document(graph).expect("a sound graph");
    let cluster =
        Cluster::from_document(clusters::find(cluster).expect("a built-in device")).expect("a cluster");
    let costs = CostTable::new(&graph, &cluster).expect("prices");
    graph.operators().map(|op| costs.seconds(op, 0).expect("a price")).sum()
}

#[test]
fn quantisation_is_part_of_the_kernels_around_it() {
    let quantized = graph_of(&network(true), None);
    let convolutions: Vec<_> =
        quantized.operators.iter().filter(|operator| operator.kind.as_deref() == Some("Conv")).collect();
    assert!(
        convolutions.iter().all(|operator| operator.precision == Some(Precision::Int8)),
        "{convolutions:?}"
    );
    let launches = |graph: &GraphDocument| total(graph, |operator| operator.launches.unwrap_or(1.0));
    // One launch per convolution, and one that quantises the input.
    assert_eq!((launches(&graph_of(&network(false), None)), launches(&quantized)), (2.0, 3.0));
    // Values between the convolutions are bytes, and so are all weights.
    let weights = total(&quantized, |operator| operator.parameter_bytes);
    assert!(weights <= 2.0 * (64.0 * 64.0 * 9.0 + 5.0 * 64.0), "{weights}");
}

/// A quantised model has no more to compute and fewer bytes to move.
#[test]
fn a_quantised_model_is_faster_at_int8() {
    for device in ["1xt4", "1xa100"] {
        let [plain, quantized] =
            [false, true].map(|is_quantized| seconds(graph_of(&network(is_quantized), None), device));
        assert!(quantized < plain, "{device}: {quantized} against {plain}");
        // Without fusion it would be slower than necessary.
        let apart = seconds(unfused(&network(true), None), device);
        assert!(quantized < 0.7 * apart, "{device}: {quantized} against {apart}");
    }
}

#[test]
fn a_cast_changes_bytes_and_peak_of_numbers_alone() {
    let mut model = Model::new(17);
    model.typed_input("ids", Int64, &[Of(2), Of(3)]).weight("table", &[50, 8]).weight("w", &[8, 8]);
    model.node("Gather", &["table", "ids"], &["x"], vec![]).node("MatMul", &["x", "w"], &["y"], vec![]);
    model.output("y");
    let cast = |precision| {
        let options = ImportOptions { precision, ..ImportOptions::default() };
        import_model("model.onnx", &model.bytes(), &options).expect("the same model").graph
    };
    let (own, half, byte) = (cast(None), cast(Some(Precision::Bf16)), cast(Some(Precision::Fp8)));
    let product = |graph: &GraphDocument| graph.operators[1].clone();
    assert_eq!(product(&own).precision, Some(Precision::Fp32));
    for (graph, share, precision) in [(&half, 2.0, Precision::Bf16), (&byte, 4.0, Precision::Fp8)] {
        assert_eq!(product(graph).precision, Some(precision));
        assert_eq!(product(graph).parameter_bytes, product(&own).parameter_bytes / share);
        assert_eq!(product(graph).bytes_moved, product(&own).bytes_moved.map(|bytes| bytes / share));
        assert_eq!(product(graph).flop, product(&own).flop);
        // Indices keep their type: 48 bytes of them, and rows read and written.
        assert_eq!(graph.operators[0].bytes_moved, Some(2.0 * 2.0 * 3.0 * 8.0 * 4.0 / share + 48.0));
    }
    // A cast that becomes a cast to the same type is free.
    let mut mixed = Model::new(17);
    mixed.input("x", &[Of(4)]).node("Cast", &["x"], &["h"], vec![int("to", Float16 as i64)]);
    mixed.node("Relu", &["h"], &["y"], vec![]).output("y");
    let launches = |precision| {
        let options = ImportOptions { precision, fusion: Fusion::Off, ..ImportOptions::default() };
        let graph = import_model("model.onnx", &mixed.bytes(), &options).expect("the same model").graph;
        graph.operators[0].launches
    };
    assert_eq!((launches(None), launches(Some(Precision::Fp16))), (None, Some(0.0)));
}

/// The matrices of the experts that every token chose, gathered into one tensor and multiplied.
fn experts(tokens: i64) -> Model {
    let mut model = Model::new(17);
    model.input("x", &[Of(tokens), Of(1), Of(64)]).typed_input("chosen", Int64, &[Of(tokens)]);
    model.weight("experts", &[8, 64, 256]);
    model.node("Gather", &["experts", "chosen"], &["gathered"], vec![]);
    model.node("MatMul", &["x", "gathered"], &["y"], vec![]).output("y");
    model
}

#[test]
fn gathered_weights_of_experts_are_read_where_they_are() {
    let (weights, tokens) = (4.0 * 8.0 * 64.0 * 256.0, 100_000.0);
    let graph = graph_of(&experts(100_000), None);
    let rows = 4.0 * tokens * (64.0 + 256.0);
    assert!(graph.tensors.iter().all(|tensor| tensor.bytes <= rows), "{:?}", graph.tensors);
    let moved = total(&graph, |operator| operator.bytes_moved.unwrap_or(0.0));
    assert!((weights..=weights + rows + 8.0 * tokens).contains(&moved), "{moved}");
    assert_eq!(total(&graph, |operator| operator.launches.unwrap_or(1.0)), 1.0);
    assert_eq!(total(&graph, |operator| operator.flop.unwrap_or(0.0)), 2.0 * tokens * 64.0 * 256.0);
    let held: f64 = graph.parameters.iter().map(|parameter| parameter.bytes).sum();
    assert_eq!(held + total(&graph, |operator| operator.parameter_bytes), weights);
    // Few tokens read no more than their own matrices.
    let few = total(&graph_of(&experts(2), None), |operator| operator.bytes_moved.unwrap_or(0.0));
    assert!(few < weights / 4.0 + 1e4, "{few}");
    // A reader other than a product needs the matrices side by side.
    let mut copied = experts(100_000);
    copied.node("Relu", &["gathered"], &["z"], vec![]).output("z");
    assert!(graph_of(&copied, None).tensors.iter().any(|tensor| tensor.bytes > 1e9));
}
