//! Equal constants count once, but equal weights do not.

use super::model::Dim::Of;
use super::model::{Model, int, value_info};
use super::*;
use proto::tensor_proto::DataType;
use proto::{AttributeProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, TensorProto};

/// Elements and bytes of the constants below.
const ELEMENTS: i64 = 4096;
const BYTES: f64 = 4.0 * ELEMENTS as f64;

/// A tensor of 32-bit floats with the bytes of a file, all zero except the last.
fn floats(name: &str, last: u8) -> TensorProto {
    let mut bytes = vec![0; BYTES as usize];
    bytes[BYTES as usize - 1] = last;
    TensorProto {
        name: Some(name.into()),
        dims: vec![ELEMENTS],
        data_type: Some(DataType::Float as i32),
        raw_data: Some(bytes),
        ..TensorProto::default()
    }
}

fn literal(model: &mut Model, name: &str, last: u8) {
    let value =
        AttributeProto { name: Some("value".into()), t: Some(floats("", last)), ..AttributeProto::default() };
    model.node("Constant", &[], &[name], vec![value]);
}

/// A chain of sums with each of the constants in turn.
fn sums(model: &mut Model, constants: &[&str]) {
    model.input("x", &[Of(ELEMENTS)]);
    let mut before = "x".to_owned();
    for constant in constants {
        let sum = format!("sum of {constant}");
        model.node("Add", &[&before, constant], &[&sum], vec![]);
        before = sum;
    }
    model.output(&before);
}

/// Bytes that the operators of a model hold, and the number of parameters with several readers.
fn held(model: &Model) -> (f64, usize) {
    let graph = graph_of(model, None);
    let shared = graph.parameters.iter().map(|parameter| parameter.bytes).sum::<f64>();
    (shared + total(&graph, |operator| operator.parameter_bytes), graph.parameters.len())
}

/// Layers that each expand a row of weights themselves, to a shape of their own.
fn expanded(model: &mut Model, layers: usize, row: impl Fn(usize) -> String) -> Vec<String> {
    let made = |layer: usize| format!("bias {layer}");
    for layer in 0..layers {
        let shape = format!("shape {layer}");
        model.integers(&shape, &[ELEMENTS]);
        model.node("Expand", &[&row(layer), &shape], &[&made(layer)], vec![]);
    }
    (0..layers).map(made).collect()
}

#[test]
fn equal_expressions_of_equal_constants_count_once() {
    let mut model = Model::new(17);
    model.weight("row", &[1]).weight("wide", &[2, 1]);
    let biases = expanded(&mut model, 4, |_| "row".into());
    sums(&mut model, &biases.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(held(&model), (BYTES, 1));
    let graph = graph_of(&model, None);
    assert_eq!(graph.parameters[0].readers.len(), 4);
    assert!(!graph.parameters[0].trained);
    // A different input makes a different constant.
    model.weight("other", &[1]);
    let index = model.graph().node.iter().position(|node| node.output[0] == "bias 3").unwrap();
    model.graph().node[index].input[0] = "other".into();
    assert_eq!(held(&model), (2.0 * BYTES, 2));
}

#[test]
fn other_attributes_or_operators_make_other_constants() {
    let mut model = Model::new(17);
    model.weight("table", &[64, 64]).integers("flat", &[ELEMENTS]);
    for (index, upper) in [(0, 1), (1, 1), (2, 0)] {
        let (half, flat) = (format!("half {index}"), format!("bias {index}"));
        model.node("Trilu", &["table"], &[&half], vec![int("upper", upper)]);
        model.node("Tile", &[&half, "twice"], &[&flat], vec![]);
    }
    model.integers("twice", &[1, 64]);
    model.input("x", &[Of(64), Of(ELEMENTS)]);
    model.node("Add", &["x", "bias 0"], &["a"], vec![]).node("Add", &["a", "bias 1"], &["b"], vec![]);
    model.node("Add", &["b", "bias 2"], &["c"], vec![]).output("c");
    let graph = graph_of(&model, None);
    let readers: Vec<usize> = graph.parameters.iter().map(|parameter| parameter.readers.len()).collect();
    assert_eq!(readers, [3, 2, 1], "the table, the upper half twice, the lower half");
}

/// Training makes equal weights differ, and a runtime allocates each.
#[test]
fn equal_weights_are_not_one() {
    let mut model = Model::new(17);
    for name in ["a", "b"] {
        let tensor = floats(name, 0);
        model.graph().initializer.push(tensor);
    }
    sums(&mut model, &["a", "b"]);
    let graph = graph_of(&model, None);
    assert_eq!(total(&graph, |operator| operator.parameter_bytes), 2.0 * BYTES);
    assert_eq!(graph.parameters, []);
}

#[test]
fn literals_with_the_same_bytes_count_once() {
    let mut model = Model::new(17);
    for (name, last) in [("a", 0), ("b", 0), ("c", 1)] {
        literal(&mut model, name, last);
    }
    sums(&mut model, &["a", "b", "c"]);
    let graph = graph_of(&model, None);
    let [shared] = &graph.parameters[..] else { panic!("{:?}", graph.parameters) };
    assert_eq!((shared.bytes, shared.readers.len(), shared.trained), (BYTES, 2, false));
    assert_eq!(total(&graph, |operator| operator.parameter_bytes), BYTES, "the other one");
}

/// Numbers of a node `Constant`: as a tensor, or as a list.
fn rows() -> [AttributeProto; 2] {
    let numbers: Vec<f32> = (0..64_u8).map(f32::from).collect();
    let tensor = TensorProto {
        dims: vec![64],
        data_type: Some(DataType::Float as i32),
        raw_data: Some(numbers.iter().flat_map(|number| number.to_le_bytes()).collect()),
        ..TensorProto::default()
    };
    let named = |name: &str| AttributeProto { name: Some(name.into()), ..AttributeProto::default() };
    [
        AttributeProto { t: Some(tensor), ..named("value") },
        AttributeProto { floats: numbers, ..named("value_floats") },
    ]
}

#[test]
fn a_list_of_numbers_is_a_literal_too() {
    let mut model = Model::new(17);
    for (name, row) in ["a", "b", "c"].into_iter().zip(rows().into_iter().cycle()) {
        model.node("Constant", &[], &[name], vec![row]);
    }
    model.input("x", &[Of(64)]).node("Sum", &["x", "a", "b", "c"], &["y"], vec![]).output("y");
    assert_eq!(held(&model), (256.0, 1));
}

/// Every call of a function has literals of its own.
#[test]
fn equal_expressions_of_equal_literals_count_once() {
    let node = |kind: &str, inputs: &[&str], output: &str| NodeProto {
        op_type: Some(kind.into()),
        input: inputs.iter().map(|&name| name.into()).collect(),
        output: vec![output.into()],
        ..NodeProto::default()
    };
    for row in rows() {
        let row = NodeProto { attribute: vec![row], ..node("Constant", &[], "row") };
        let mut model = Model::new(17);
        model.input("x", &[Of(64), Of(64)]).integers("shape", &[64, 64]);
        model.proto.functions = vec![proto::FunctionProto {
            name: Some("Biased".into()),
            domain: Some("local".into()),
            input: vec!["x".into(), "shape".into()],
            output: vec!["y".into()],
            node: vec![row, node("Expand", &["row", "shape"], "bias"), node("Add", &["x", "bias"], "y")],
            opset_import: vec![OperatorSetIdProto { domain: Some("".into()), version: Some(17) }],
            ..Default::default()
        }];
        for (from, to) in [("x", "a"), ("a", "b"), ("b", "c"), ("c", "d")] {
            let call = node("Biased", &[from, "shape"], to);
            model.graph().node.push(NodeProto { domain: Some("local".into()), ..call });
        }
        let graph = graph_of(model.output("d"), None);
        let shared: Vec<_> = graph
            .parameters
            .iter()
            .map(|shared| (shared.bytes, shared.readers.len(), shared.trained))
            .collect();
        assert_eq!(shared, [(256.0, 4, false), (BYTES - 256.0, 4, false)], "the row, and the rest");
        assert_eq!(total(&graph, |operator| operator.parameter_bytes), 0.0);
    }
}

#[test]
fn integers_with_the_same_bytes_count_once() {
    let mask = |name: &str, last: u8| TensorProto {
        data_type: Some(DataType::Bool as i32),
        raw_data: Some([vec![0; ELEMENTS as usize - 1], vec![last]].concat()),
        ..floats(name, 0)
    };
    let mut model = Model::new(17);
    model.input("x", &[Of(ELEMENTS)]);
    for (name, last) in [("a", 0), ("b", 0), ("c", 1)] {
        model.graph().initializer.push(mask(name, last));
        model.node("Where", &[name, "x", "x"], &[&format!("y {name}")], vec![]).output(&format!("y {name}"));
    }
    let bytes: Vec<f64> = graph_of(&model, None).parameters.iter().map(|parameter| parameter.bytes).collect();
    assert_eq!(bytes, [ELEMENTS as f64; 2]);
    // Values in the field of their type are equivalent to raw bytes.
    model.graph().initializer[1] =
        TensorProto { raw_data: None, int32_data: vec![0; ELEMENTS as usize], ..mask("b", 0) };
    model.graph().initializer[0] = model.graph().initializer[1].clone();
    model.graph().initializer[0].name = Some("a".into());
    assert_eq!(graph_of(&model, None).parameters.len(), 2);
}

/// An initialiser without its data equals no other, unless the file says where the data are.
#[test]
fn a_region_of_an_external_file_is_one_weight() {
    let entry =
        |key: &str, value: &str| StringStringEntryProto { key: Some(key.into()), value: Some(value.into()) };
    let entries = |offset: Option<&str>| {
        let mut entries = vec![entry("location", "weights.bin")];
        entries.extend(offset.map(|offset| entry("offset", offset)));
        entries
    };
    let parameters = |second: Option<&str>, first: Option<&str>| {
        let mut model = Model::new(17);
        model.weight("a", &[ELEMENTS]).weight("b", &[ELEMENTS]);
        model.graph().initializer[0].external_data = entries(first);
        model.graph().initializer[1].external_data = entries(second);
        sums(&mut model, &["a", "b"]);
        held(&model)
    };
    assert_eq!(parameters(Some("4096"), Some("4096")), (BYTES, 1));
    assert_eq!(parameters(Some("4096"), Some("65536")), (2.0 * BYTES, 0));
    assert_eq!(parameters(None, None), (2.0 * BYTES, 0));
    // Expressions of the weight are equal if they give it the same shape.
    let expanded = |second: [i64; 2]| {
        let mut model = Model::new(17);
        model.weight("a", &[1, 64]).weight("b", &second).integers("square", &[64, 64]);
        model.graph().initializer[0].external_data = entries(Some("4096"));
        model.graph().initializer[1].external_data = entries(Some("4096"));
        for (row, bias) in [("a", "bias a"), ("b", "bias b")] {
            model.node("Expand", &[row, "square"], &[bias], vec![]);
        }
        model.input("x", &[Of(64), Of(64)]).node("Add", &["x", "bias a"], &["y"], vec![]);
        held(model.node("Add", &["y", "bias b"], &["z"], vec![]).output("z"))
    };
    assert_eq!(expanded([1, 64]), (BYTES, 2));
    assert_eq!(expanded([64, 1]), (2.0 * BYTES - 256.0, 3), "rows and columns");
}

#[test]
fn functions_and_branches_repeat_no_constant() {
    let mut model = Model::new(17);
    model.input("x", &[Of(ELEMENTS)]).weight("row", &[1]).integers("shape", &[ELEMENTS]);
    model.typed_input("which", DataType::Bool, &[]);
    let node = |kind: &str, inputs: &[&str], output: &str| NodeProto {
        op_type: Some(kind.into()),
        input: inputs.iter().map(|&name| name.into()).collect(),
        output: vec![output.into()],
        ..NodeProto::default()
    };
    model.proto.functions = vec![proto::FunctionProto {
        name: Some("Biased".into()),
        domain: Some("local".into()),
        input: vec!["x".into(), "row".into(), "shape".into()],
        output: vec!["y".into()],
        node: vec![node("Expand", &["row", "shape"], "bias"), node("Add", &["x", "bias"], "y")],
        opset_import: vec![OperatorSetIdProto { domain: Some("".into()), version: Some(17) }],
        ..Default::default()
    }];
    let mut branch = Model::new(17);
    branch.node("Biased", &["x", "row", "shape"], &["made"], vec![]).output("made");
    branch.graph().node[0].domain = Some("local".into());
    let branches = ["then_branch", "else_branch"].map(|name| branch.body(name));
    model.node("Biased", &["x", "row", "shape"], &["y"], vec![]);
    model.node("Biased", &["y", "row", "shape"], &["z"], vec![]);
    model.graph().node.iter_mut().for_each(|node| node.domain = Some("local".into()));
    model.node("If", &["which"], &["w"], branches.to_vec()).output("z").output("w");
    let (bytes, parameters) = held(&model);
    assert_eq!((bytes, parameters), (BYTES, 1));
}

/// An operator that is not in the standard may be random.
#[test]
fn unknown_operators_make_other_constants_each_time() {
    let mut model = Model::new(17);
    model.weight("row", &[1]);
    for name in ["a", "b"] {
        model.node("Noise", &["row"], &[name], vec![]);
        model.graph().node.last_mut().unwrap().domain = Some("local".into());
        let info = value_info(name, &[Of(ELEMENTS)]);
        model.graph().value_info.push(info);
    }
    sums(&mut model, &["a", "b"]);
    assert_eq!(held(&model), (2.0 * BYTES, 2));
}
