//! Key-value caches: sizes from options, and appending in place.

use super::model::Dim::{Named, Of};
use super::model::{Model, int};
use super::*;
use proto::tensor_proto::DataType::{Int32, Int64};
use stagewright_core::document::ParameterDocument;

/// One step of a decoder of one layer: keys are appended to a cache and multiplied with queries.
fn appended() -> Model {
    let mut model = Model::new(21);
    model.input("x", &[Named("batch"), Of(2), Of(1), Of(8)]);
    model.input("past_key.0", &[Named("batch"), Of(2), Named("past"), Of(8)]).weight("w", &[8, 8]);
    model.node("MatMul", &["x", "w"], &["key"], vec![]);
    model.node("Concat", &["past_key.0", "key"], &["present_key.0"], vec![int("axis", 2)]);
    model.node("Transpose", &["present_key.0"], &["turned"], vec![super::model::ints("perm", &[0, 1, 3, 2])]);
    model.node("MatMul", &["x", "turned"], &["scores"], vec![]);
    model.output("present_key.0").output("scores");
    model
}

fn of(model: &Model, options: &ImportOptions) -> GraphDocument {
    import_model("model.onnx", &model.bytes(), options).unwrap_or_else(|error| panic!("{error}")).graph
}

fn sized(model: &Model, context: u64, sequences: u64) -> GraphDocument {
    of(model, &ImportOptions { context: Some(context), sequences: Some(sequences), ..Default::default() })
}

fn cache<'a>(graph: &'a GraphDocument, name: &str) -> &'a ParameterDocument {
    graph.parameters.iter().find(|parameter| parameter.name == name).expect("a cache is a parameter")
}

#[test]
fn a_cache_is_as_large_as_options_say() {
    let bytes = |context, sequences| cache(&sized(&appended(), context, sequences), "past_key.0").bytes;
    // Past tokens and the new one, of 2 heads with 8 numbers.
    assert_eq!(bytes(7, 3), 3.0 * 8.0 * 64.0);
    assert_eq!(bytes(15, 3), 3.0 * 16.0 * 64.0);
    assert_eq!(bytes(7, 5), 5.0 * 8.0 * 64.0);
    let options = ImportOptions { batch: Some(3), ..Default::default() };
    let error = import_model("model.onnx", &appended().bytes(), &options).expect_err("a length that is open");
    assert!(error.code == "M010" && error.to_string().contains("--context N"), "{error}");
    let fixed = Model::new(21).input("x", &[Of(2)]).node("Relu", &["x"], &["y"], vec![]).bytes();
    let options = ImportOptions { context: Some(9), ..Default::default() };
    assert_eq!(import_model("model.onnx", &fixed, &options).expect_err("no cache").code, "M010");
}

/// An exporter may give the first dimension of all inputs one name.
#[test]
fn a_batch_and_sequences_may_be_one_dimension() {
    let mut turned = appended();
    turned.graph().input.swap(0, 1);
    for model in [appended(), turned] {
        let read = |batch: u64, sequences: u64| {
            let (batch, sequences) = (Some(batch), Some(sequences));
            let options = ImportOptions { batch, sequences, context: Some(7), ..Default::default() };
            import_model("model.onnx", &model.bytes(), &options)
        };
        let graph = read(4, 4).unwrap_or_else(|error| panic!("{error}")).graph;
        assert_eq!(cache(&graph, "past_key.0").bytes, 4.0 * 8.0 * 64.0);
        let refused = read(4, 8).expect_err("one dimension has one size");
        assert_eq!(refused.code, "M010");
        assert!(refused.message.contains("one dimension, `batch`"), "{refused}");
    }
}

#[test]
fn appending_to_a_cache_moves_the_new_tokens_alone() {
    let [short, long] = [7, 4095].map(|context| sized(&appended(), context, 3));
    let append = |graph: &GraphDocument| {
        graph.operators.iter().find(|operator| operator.kind.as_deref() == Some("Concat")).cloned().unwrap()
    };
    let token = 3.0 * 64.0;
    assert_eq!(append(&short).bytes_moved, Some(2.0 * token));
    assert_eq!(append(&long).bytes_moved, Some(2.0 * token));
    // Readers read the cache in place: no tensor has its bytes.
    assert!(long.tensors.iter().all(|tensor| tensor.bytes <= 3.0 * 2.0 * 4096.0 * 4.0), "{:?}", long.tensors);
    let readers = &cache(&long, "past_key.0").readers;
    assert!(
        readers.contains(&"scores".to_owned()) && readers.contains(&"present_key.0".to_owned()),
        "{readers:?}"
    );
    // An updated cache that is not an output of the model is an ordinary tensor.
    let mut copied = appended();
    copied.graph().output.remove(0);
    assert_eq!(append(&sized(&copied, 7, 3)).bytes_moved, Some(2.0 * 8.0 * token));
}

/// A cache of fixed length, into which tokens are written: its size does not change.
#[test]
fn writing_into_a_cache_moves_the_new_tokens_alone() {
    let mut model = Model::new(24);
    model.input("past_key.0", &[Of(3), Of(2), Of(64), Of(8)]).input("key", &[Of(3), Of(2), Of(1), Of(8)]);
    model.typed_input("at", Int64, &[Of(3)]);
    model
        .node("TensorScatter", &["past_key.0", "key", "at"], &["present_key.0"], vec![])
        .output("present_key.0");
    let graph = graph_of(&model, None);
    let token = 3.0 * 64.0;
    assert_eq!(graph.operators[0].bytes_moved, Some(2.0 * (token + 24.0)));
    assert_eq!(cache(&graph, "past_key.0").bytes, 64.0 * token);
}

/// A decoder's fused attention of six heads in two groups, with a cache of open length.
fn grouped(total: Option<i64>) -> Model {
    let mut model = Model::new(21);
    model.input("q", &[Named("batch"), Of(1), Of(48)]);
    model.input("k", &[Named("batch"), Of(1), Of(16)]).input("v", &[Named("batch"), Of(1), Of(16)]);
    for name in ["past_key_values.4.key", "past_key_values.4.value"] {
        model.input(name, &[Named("batch"), Of(2), Named("past"), Of(8)]);
    }
    model.typed_input("lengths", Int32, &[Named("batch")]);
    match total {
        Some(total) => model.scalar("total", total),
        None => model.typed_input("total", Int32, &[]),
    };
    let inputs = ["q", "k", "v", "past_key_values.4.key", "past_key_values.4.value", "lengths", "total"];
    let attributes = vec![int("num_heads", 6), int("kv_num_heads", 2)];
    model.contrib("GroupQueryAttention", &inputs, &["y", "present.4.key", "present.4.value"], attributes);
    model.output("y").output("present.4.key").output("present.4.value");
    model
}

#[test]
fn an_attention_appends_to_its_cache_in_place() {
    let (token, rows) = (3.0 * 2.0 * 8.0 * 4.0, 3.0 * 4.0 * (48.0 + 16.0 + 16.0 + 48.0) + 12.0 + 4.0);
    let graph = sized(&grouped(None), 127, 3);
    assert_eq!(graph.operators[0].bytes_moved, Some(2.0 * 127.0 * token + 2.0 * token + rows));
    let layer = cache(&graph, "past_key_values.4.key");
    assert_eq!(layer.bytes, 2.0 * 128.0 * token, "keys and values, with what is new");
    assert!(!layer.trained);
    assert_eq!(graph.tensors.len(), 1, "what is made of a cache is no tensor: {:?}", graph.tensors);
    // A buffer for 128 tokens of which 20 are in use.
    let shared = sized(&grouped(Some(20)), 128, 3);
    assert_eq!(cache(&shared, "past_key_values.4.key").bytes, 2.0 * 128.0 * token);
    let total = 2.0 * 128.0 * token + 2.0 * token + rows + 4.0;
    assert_eq!(shared.operators[0].bytes_moved, Some(total), "the length is one of eight bytes here");
    assert_eq!(shared.operators[0].flop, Some(3.0 * 6.0 * 20.0 * (4.0 * 8.0 + 5.0)));
}

/// ONNX Runtime's own attention keeps keys and values in one tensor.
#[test]
fn a_cache_of_keys_and_values_in_one_tensor_is_appended_to() {
    let mut model = Model::new(21);
    model.input("x", &[Named("batch"), Of(1), Of(16)]).weight("w", &[16, 48]).weight("b", &[48]);
    model.input("past_0", &[Of(2), Named("batch"), Of(2), Named("past"), Of(8)]);
    let inputs = ["x", "w", "b", "", "past_0"];
    model.contrib("Attention", &inputs, &["y", "present_0"], vec![int("num_heads", 2)]);
    model.output("y").output("present_0");
    let graph = sized(&model, 31, 3);
    let token = 2.0 * 3.0 * 2.0 * 8.0 * 4.0;
    assert_eq!(cache(&graph, "past_0").bytes, 32.0 * token);
    let weights = 4.0 * (16.0 * 48.0 + 48.0);
    assert_eq!(graph.operators[0].bytes_moved, Some(32.0 * token + weights + 2.0 * 3.0 * 16.0 * 4.0));
}
