//! Names: of functions, of their inputs and outputs, and of the values of bodies.

use super::model::Dim::{Named, Of};
use super::model::{Model, int, value_info};
use super::*;
use proto::tensor_proto::DataType::{Bool, Int64};
use proto::{AttributeProto, FunctionProto, NodeProto, OperatorSetIdProto, StringStringEntryProto};

fn node(kind: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto {
        op_type: Some(kind.into()),
        input: inputs.iter().map(|&name| name.into()).collect(),
        output: outputs.iter().map(|&name| name.into()).collect(),
        ..NodeProto::default()
    }
}

/// A call of an overload of the function `F`.
fn call(overload: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto {
        domain: Some("local".into()),
        overload: Some(overload.into()),
        name: Some(format!("call of {overload}")),
        ..node("F", inputs, outputs)
    }
}

/// An overload of the function `F`.
fn function(overload: &str, inputs: &[&str], outputs: &[&str], nodes: Vec<NodeProto>) -> FunctionProto {
    FunctionProto {
        name: Some("F".into()),
        domain: Some("local".into()),
        overload: Some(overload.into()),
        input: inputs.iter().map(|&name| name.into()).collect(),
        output: outputs.iter().map(|&name| name.into()).collect(),
        node: nodes,
        opset_import: vec![OperatorSetIdProto { domain: Some("".into()), version: Some(17) }],
        ..FunctionProto::default()
    }
}

/// A model of two square inputs, functions and calls.
fn model(functions: Vec<FunctionProto>, calls: Vec<NodeProto>) -> Model {
    let mut model = Model::new(17);
    model.input("x", &[Of(8), Of(8)]).input("y", &[Of(8), Of(8)]).output("out");
    model.proto.functions = functions;
    model.graph().node = calls;
    model
}

fn kinds(model: &Model) -> Vec<String> {
    graph_of(model, None).operators.into_iter().filter_map(|operator| operator.kind).collect()
}

#[test]
fn functions_are_told_apart_by_overload() {
    let relu = || function("", &["a"], &["r"], vec![node("Relu", &["a"], &["r"])]);
    let product = || function("two", &["a"], &["r"], vec![node("MatMul", &["a", "a"], &["r"])]);
    // An overload calls another overload, which is not recursion.
    let both = function("both", &["a"], &["r"], vec![call("", &["a"], &["t"]), call("two", &["t"], &["r"])]);
    let calls = |overload: &str| vec![call(overload, &["x"], &["out"])];
    let all = || vec![relu(), product(), both.clone()];
    assert_eq!(kinds(&model(all(), calls(""))), ["Relu"]);
    assert_eq!(kinds(&model(all(), calls("two"))), ["MatMul"]);
    assert_eq!(kinds(&model(all(), calls("both"))), ["Relu", "MatMul"]);
    // Without an overload, the call is of an operator of the standard.
    let own = |overload: &str| FunctionProto {
        domain: None,
        name: Some("Sigmoid".into()),
        ..function(overload, &["a"], &["r"], vec![node("Relu", &["a"], &["r"])])
    };
    let standard = model(vec![own("fast")], vec![node("Sigmoid", &["x"], &["out"])]);
    assert_eq!(kinds(&standard), ["Sigmoid"]);

    let (code, text) = rejection(&model(all(), calls("three")));
    assert_eq!(code, "M002");
    assert!(text.contains("no overload `three`") && text.contains("`two`"), "{text}");
    let twice = FunctionProto { node: product().node, ..relu() };
    assert_eq!(rejection(&model(vec![relu(), twice], calls(""))).0, "M001");
    assert_eq!(kinds(&model(vec![relu(), relu()], calls(""))), ["Relu"], "a copy is no other function");
    let documented = FunctionProto { doc_string: Some("max(a, 0)".into()), ..relu() };
    assert_eq!(kinds(&model(vec![relu(), documented], calls(""))), ["Relu"], "nor is one with documentation");
    let mut documented = relu();
    documented.node[0].doc_string = Some("max(a, 0)".into());
    let bytes = model(vec![relu(), documented], calls("")).bytes();
    assert!(Whole::new("model.onnx", &bytes, &ImportOptions::default()).is_ok());
}

/// A model whose inputs are an image and the scales by which it grows.
fn resized(functions: Vec<FunctionProto>, nodes: Vec<NodeProto>) -> Model {
    let mut model = model(functions, nodes);
    let twice = proto::TensorProto {
        name: Some("twice".into()),
        dims: vec![2],
        data_type: Some(1),
        float_data: vec![2.0, 2.0],
        ..Default::default()
    };
    model.graph().initializer.push(twice);
    model
}

/// Bytes of the largest tensor of a model.
fn largest(model: &Model) -> f64 {
    graph_of(model, None).tensors.iter().map(|tensor| tensor.bytes).fold(0.0, f64::max)
}

/// A function of operator set 10, in which the second input of a `Resize` has the scales.
fn resize() -> FunctionProto {
    FunctionProto {
        opset_import: vec![OperatorSetIdProto { domain: Some("ai.onnx".into()), version: Some(10) }],
        ..function("", &["a", "s"], &["r"], vec![node("Resize", &["a", "s"], &["r"])])
    }
}

#[test]
fn a_function_has_its_own_operator_sets() {
    let calls = |from: &str| call("", &[from, "twice"], &["out"]);
    assert_eq!(largest(&resized(vec![resize()], vec![calls("x")])), 4.0 * 16.0 * 16.0);
    // The model itself imports no standard operator set. Its functions do, the first of them in another version.
    let relu = function("first", &["a"], &["r"], vec![node("Relu", &["a"], &["r"])]);
    let mut model = resized(vec![relu, resize()], vec![call("first", &["x"], &["t"]), calls("t")]);
    model.proto.opset_import = vec![OperatorSetIdProto { domain: Some("local".into()), version: Some(1) }];
    assert_eq!(largest(&model), 4.0 * 16.0 * 16.0);
}

#[test]
fn a_file_cannot_claim_versions_for_its_nodes() {
    let claim = StringStringEntryProto { key: Some("stagewright.opset".into()), value: Some("10".into()) };
    let resize = NodeProto { metadata_props: vec![claim], ..node("Resize", &["x", "", "twice"], &["out"]) };
    let mut body = Model::new(17);
    body.graph().node.push(resize.clone());
    let body = body.output("out").body("then_branch");
    let choose = NodeProto {
        attribute: vec![body.clone(), AttributeProto { name: Some("else_branch".into()), ..body }],
        ..node("If", &["which"], &["chosen"])
    };
    for functions in [Vec::new(), vec![self::resize()]] {
        let plain = resized(functions.clone(), vec![resize.clone()]);
        assert_eq!(largest(&plain), 4.0 * 16.0 * 16.0);
        assert!(Whole::new("model.onnx", &plain.bytes(), &ImportOptions::default()).is_ok());
        let mut inside = resized(functions, vec![choose.clone()]);
        inside.typed_input("which", Bool, &[]).output("chosen");
        inside.graph().output.remove(0);
        assert_eq!(largest(&inside), 4.0 * 16.0 * 16.0);
    }
}

/// A branch of an `If`, whose value `b` is a weight of its own.
fn branch(attribute: &str) -> AttributeProto {
    let mut body = Model::new(17);
    body.weight("b", &[8, 8]).node("MatMul", &["a", "b"], &["made"], vec![]);
    body.output("made").body(attribute)
}

#[test]
fn an_omitted_input_hides_no_name_of_a_branch() {
    let choose = NodeProto {
        attribute: vec![branch("then_branch"), branch("else_branch")],
        ..node("If", &["which"], &["r"])
    };
    let function = || function("", &["which", "a", "b"], &["r"], vec![choose.clone()]);
    for inputs in [&["which", "x"][..], &["which", "x", ""], &["which", "x", "y"]] {
        let mut model = model(vec![function()], vec![call("", inputs, &["out"])]);
        model.typed_input("which", Bool, &[]);
        let graph = graph_of(&model, None);
        assert_eq!(graph.operators[0].flop, Some(2.0 * 512.0), "{inputs:?}");
        assert_eq!(graph.operators[0].parameter_bytes, 2.0 * 256.0, "each branch has its own, {inputs:?}");
    }
}

#[test]
fn an_omitted_input_is_no_value_and_hides_no_value_of_the_body() {
    // The operator that reads the omitted input loses one input.
    let clip = function("", &["a", "low"], &["r"], vec![node("Clip", &["a", "low"], &["r"])]);
    assert_eq!(kinds(&model(vec![clip], vec![call("", &["x"], &["out"])])), ["Clip"]);
    // A node of the body makes a value of that name.
    let nodes = vec![node("Relu", &["a"], &["b"]), node("MatMul", &["a", "b"], &["r"])];
    let own = function("", &["a", "b"], &["r"], nodes);
    assert_eq!(kinds(&model(vec![own], vec![call("", &["x", ""], &["out"])])), ["Relu", "MatMul"]);
    // More inputs than the function has.
    let relu = function("", &["a"], &["r"], vec![node("Relu", &["a"], &["r"])]);
    let calls = |inputs: &[&str]| vec![call("", inputs, &["out"])];
    assert_eq!(rejection(&model(vec![relu.clone()], calls(&["x", "y"]))).0, "M009");
    assert_eq!(kinds(&model(vec![relu.clone()], calls(&["x", "", ""]))), ["Relu"]);
    // More outputs than the function has.
    let calls = |outputs: &[&str]| vec![call("", &["x"], outputs)];
    let (code, text) = rejection(&model(vec![relu.clone()], calls(&["out", "z"])));
    assert!(code == "M009" && text.contains("2 outputs"), "{text}");
    assert_eq!(kinds(&model(vec![relu], calls(&["out", ""]))), ["Relu"]);
}

#[test]
fn outputs_that_are_inputs_or_one_another_have_their_names() {
    let through = function("", &["a"], &["a", "r", "r"], vec![node("Relu", &["a"], &["r"])]);
    let calls =
        vec![call("", &["x"], &["same", "once", "twice"]), node("Sum", &["same", "once", "twice"], &["out"])];
    assert_eq!(kinds(&model(vec![through.clone()], calls)), ["Relu", "Identity", "Identity", "Sum"]);
    let omitted = vec![call("", &["x"], &["", "once"]), node("Relu", &["once"], &["out"])];
    assert_eq!(kinds(&model(vec![through], omitted)), ["Relu", "Relu"]);
}

/// A body that a call passes reads the values of the caller, even if the function has values of the same names.
#[test]
fn a_body_given_as_an_attribute_is_of_the_caller() {
    let refers = |name: &str, formal: &str| AttributeProto {
        name: Some(name.into()),
        ref_attr_name: Some(formal.into()),
        ..AttributeProto::default()
    };
    let choose = NodeProto {
        attribute: vec![refers("then_branch", "then"), refers("else_branch", "then")],
        ..node("If", &["which"], &["r"])
    };
    let hidden = node("Softmax", &["a"], &["x"]);
    let function = function("", &["which", "a"], &["r"], vec![hidden, choose]);
    let mut body = Model::new(17);
    body.node("MatMul", &["x", "x"], &["made"], vec![]).output("made");
    let mut calling = call("", &["which", "y"], &["out"]);
    calling.attribute = vec![body.body("then")];
    let mut model = model(vec![function], vec![calling]);
    model.typed_input("which", Bool, &[]);
    let graph = graph_of(&model, None);
    assert_eq!(graph.operators[1].flop, Some(2.0 * 512.0));
    assert_eq!(
        graph.tensors.iter().filter(|tensor| tensor.consumers == ["call of /If"]).count(),
        0,
        "not `a`"
    );
}

/// The node that runs a body provides all its inputs, so an initialiser of an input is an unused default; the empty
/// name is no value.
#[test]
fn initialisers_of_a_body_shadow_what_is_outside_and_no_input() {
    let mut body = Model::new(17);
    body.input("trip", &[]).input("condition", &[]).input("carried", &[]);
    body.weight("carried", &[1, 1]).weight("y", &[8, 8]).weight("", &[4]).weight("", &[4]);
    body.node("MatMul", &["carried", "y"], &["next"], vec![]);
    body.node("Identity", &["condition"], &["goes_on"], vec![]);
    let body = body.output("goes_on").output("next").body("body");
    let mut model = model(Vec::new(), Vec::new());
    model.scalar("trips", 2).typed_input("n", Int64, &[]);
    model.node("Loop", &["trips", "", "x"], &["out"], vec![body]);
    let operator = &graph_of(&model, None).operators[0];
    assert_eq!((operator.flop, operator.parameter_bytes), (Some(2.0 * 1024.0), 256.0));
    let whole = Whole::new("model.onnx", &model.bytes(), &ImportOptions::default()).unwrap();
    assert_eq!(whole.types["x"].dims, [8, 8]);
    assert!(!whole.types.contains_key("next") && !whole.types.contains_key(""), "those of the main graph");
    model.node("Cast", &["n"], &["z"], vec![int("to", 1)]);
    assert_eq!(
        Whole::new("model.onnx", &model.bytes(), &ImportOptions::default()).unwrap().types["y"].dims,
        [8, 8]
    );
}

#[test]
fn sizes_are_of_dimensions_that_the_model_names() {
    let mut model = Model::new(17);
    model.input("x", &[Named("batch"), Named("tokens")]).node("Relu", &["x"], &["y"], vec![]).output("y");
    let sum = value_info("y", &[Named("batch"), Named("past + tokens")]);
    model.graph().value_info.push(sum);
    let read = |dims: &[(&str, u64)], sequences: Option<u64>| {
        let dims = dims.iter().map(|&(name, size)| (name.to_owned(), size)).collect();
        let options = ImportOptions { dims, sequences, ..ImportOptions::default() };
        import_model("model.onnx", &model.bytes(), &options)
    };
    assert!(read(&[("batch", 2), ("tokens", 3)], None).is_ok());
    assert!(read(&[("batch", 2), ("tokens", 3), ("past", 1)], None).is_ok(), "one of a sum");
    let refused = read(&[("batch", 2), ("tokens", 3), ("token", 3)], None).expect_err("no such dimension");
    assert_eq!(refused.code, "M010");
    assert!(refused.message.contains("`token`"), "{refused}");
    assert!(refused.help.contains("tokens") && refused.help.contains("nearest of 4"), "{refused}");
    // The number of sequences is the batch if nothing else determines it.
    assert!(read(&[("tokens", 3)], Some(2)).is_ok());
    let unused = read(&[("batch", 2), ("tokens", 3)], Some(2)).expect_err("no open dimension");
    assert!(unused.code == "M010" && unused.message.contains("2 sequences"), "{unused}");
}
