//! `If`, `Loop`, `Scan` and functions.

use super::model::Dim::Of;
use super::model::{Model, int, ints};
use super::*;
use proto::tensor_proto::DataType::{Bool, Int64};
use proto::{AttributeProto, FunctionProto, NodeProto, OperatorSetIdProto};

/// Loop body: the carried value times a weight of the body, plus a value from outside.
fn step() -> AttributeProto {
    let mut body = Model::new(17);
    body.input("trip", &[]).input("condition", &[]).input("carried", &[]);
    body.weight("inner", &[3, 3]);
    body.node("MatMul", &["carried", "inner"], &["product"], vec![]);
    body.node("Add", &["product", "outer"], &["next"], vec![]);
    body.node("Identity", &["condition"], &["goes_on"], vec![]);
    body.node("Relu", &["next"], &["kept"], vec![]);
    body.output("goes_on").output("next").output("kept").body("body")
}

/// A loop of `trips` trips, or with the trip count as an input.
fn looped(trips: Option<i64>) -> Model {
    let mut model = Model::new(17);
    model.input("x", &[Of(2), Of(3)]).input("outer", &[Of(2), Of(3)]);
    match trips {
        Some(trips) => model.scalar("trips", trips),
        None => model.typed_input("trips", Int64, &[]),
    };
    model.node("Loop", &["trips", "", "x"], &["y", "all"], vec![step()]).output("y").output("all");
    model
}

#[test]
fn a_loop_is_one_operator_with_the_work_of_its_trips() {
    let graph = graph_of(&looped(Some(7)), None);
    assert_eq!(graph.operators.len(), 1);
    let operator = &graph.operators[0];
    assert_eq!((operator.name.as_str(), operator.kind.as_deref()), ("y", Some("Loop")));
    assert_eq!(operator.flop, Some(7.0 * (2.0 * 6.0 * 3.0 + 6.0 + 6.0)));
    let (weight, value) = (36.0, 24.0);
    assert_eq!(operator.bytes_moved, Some(7.0 * (weight + 2.0 * value + 3.0 * value + 2.0 * value)));
    assert_eq!(operator.launches, Some(21.0), "an identity is none");
    assert_eq!(operator.parameter_bytes, weight, "held once");
    assert_eq!(operator.workspace_bytes, 3.0 * value - value, "but for what stands outside");
    assert_eq!(operator.precision, Some(stagewright_core::document::Precision::Fp32));
    let made: Vec<f64> = graph.tensors.iter().map(|tensor| tensor.bytes).collect();
    assert_eq!(made, [value, 7.0 * value], "collected with the trips in front");
    let none = graph_of(&looped(Some(0)), None);
    assert_eq!((none.operators[0].flop, none.tensors[1].bytes), (Some(0.0), 0.0));
}

/// The producer of a captured value comes before the loop.
#[test]
fn what_a_body_reads_from_outside_is_an_input() {
    let mut model = looped(Some(2));
    model.graph().input.retain(|input| input.name() != "outer");
    model.node("Sigmoid", &["x"], &["outer"], vec![]);
    model.graph().node.rotate_right(1);
    let graph = graph_of(&model, None);
    let captured = graph.tensors.iter().find(|tensor| tensor.name.as_deref() == Some("outer")).unwrap();
    assert_eq!((captured.producer.as_str(), captured.consumers.as_slice()), ("outer", &["y".to_owned()][..]));
}

#[test]
fn a_loop_without_a_known_end_says_what_would_make_it_one() {
    let mut open = looped(None);
    let (code, text) = rejection(&open);
    assert_eq!(code, "M011");
    assert!(text.contains("graph.node[0] (Loop `y`)") && text.contains("input `trips`"), "{text}");
    assert!(!text.contains("--dim"), "{text}");
    // Following the help fixes the model.
    open.scalar("trips", 5);
    assert_eq!(graph_of(&open, None).tensors[1].bytes, 5.0 * 24.0);

    // The help also works if the count is a view of the input.
    let mut viewed = looped(None);
    viewed.node("Identity", &["trips"], &["count"], vec![]).graph().node.rotate_right(1);
    viewed.graph().node[1].input[0] = "count".into();
    assert!(rejection(&viewed).1.contains("input `trips`"));
    viewed.scalar("trips", 5);
    assert_eq!(graph_of(&viewed, None).tensors[1].bytes, 5.0 * 24.0);

    // A computed condition may end the loop at any time.
    let mut early = looped(Some(7));
    let body = early.graph().node[0].attribute[0].g.as_mut().unwrap();
    body.node[2].input[0] = "trip".into();
    body.node[2].op_type = Some("Cast".into());
    body.node[2].attribute = vec![int("to", 9)];
    let (code, text) = rejection(&early);
    assert_eq!(code, "M011");
    assert!(text.contains("condition") && !text.contains("numpy"), "{text}");

    // An invalid trip count.
    assert_eq!(rejection(&looped(Some(i64::MAX))).0, "M011");

    // The carried value has another shape after every trip.
    let mut growing = looped(Some(3));
    let body = growing.graph().node[0].attribute[0].g.as_mut().unwrap();
    body.node[1].op_type = Some("Concat".into());
    body.node[1].attribute = vec![int("axis", 0)];
    let (code, text) = rejection(&growing);
    assert_eq!(code, "M011");
    assert!(text.contains("[2, 3] to [4, 3]"), "{text}");
    growing.graph().initializer.clear();
    growing.scalar("trips", 1);
    assert_eq!(graph_of(&growing, None).tensors[0].bytes, 48.0, "which one trip may have");
}

#[test]
fn conditions_are_followed_through_the_body() {
    let with = |begins: i64, ends: Option<i64>| {
        let mut model = looped(Some(7));
        model.scalar("begins", begins);
        model.graph().node[0].input[1] = "begins".into();
        if let Some(ends) = ends {
            let body = model.graph().node[0].attribute[0].g.as_mut().unwrap();
            body.node[2].op_type = Some("Constant".into());
            body.node[2].input.clear();
            body.node[2].attribute = vec![int("value_int", ends)];
        }
        graph_of(&model, None).tensors[1].bytes / 24.0
    };
    assert_eq!(with(1, None), 7.0);
    assert_eq!(with(0, None), 0.0);
    assert_eq!(with(1, Some(1)), 7.0);
    assert_eq!(with(1, Some(0)), 1.0);
}

#[test]
fn a_scan_runs_once_for_every_slice() {
    let mut body = Model::new(17);
    body.input("state", &[]).input("slice", &[]).weight("w", &[3, 4]);
    body.node("MatMul", &["slice", "w"], &["p"], vec![]).node("Add", &["state", "p"], &["next"], vec![]);
    body.node("Identity", &["next"], &["kept"], vec![]);
    let body = body.output("next").output("kept").body("body");
    let mut model = Model::new(17);
    model.input("x", &[Of(2), Of(5), Of(3)]).weight("zero", &[2, 4]);
    let axes =
        vec![int("num_scan_inputs", 1), ints("scan_input_axes", &[-2]), ints("scan_output_axes", &[-1])];
    model.node("Scan", &["zero", "x"], &["last", "all"], [vec![body], axes].concat());
    model.output("last").output("all");
    let graph = graph_of(&model, None);
    let operator = &graph.operators[0];
    assert_eq!(operator.flop, Some(5.0 * (2.0 * 8.0 * 3.0 + 8.0)));
    assert_eq!(graph.tensors.iter().map(|tensor| tensor.bytes).collect::<Vec<_>>(), [32.0, 160.0]);
    // Lengths that differ.
    let mut misfit = model;
    misfit.input("z", &[Of(2), Of(6), Of(3)]);
    misfit.graph().node[0].input.push("z".into());
    misfit.graph().node[0].attribute[1] = int("num_scan_inputs", 2);
    assert_eq!(rejection(&misfit).0, "M009");
}

/// A branch: the product of `x` with a weight.
fn branch(attribute: &str, weight: &str, columns: i64) -> AttributeProto {
    let mut body = Model::new(17);
    body.weight(weight, &[3, columns]);
    body.node("MatMul", &["x", weight], &["made"], vec![]).output("made").body(attribute)
}

#[test]
fn of_two_branches_the_one_with_more_work_is_priced() {
    let mut model = Model::new(17);
    model.input("x", &[Of(2), Of(3)]).typed_input("which", Bool, &[]);
    let branches = || vec![branch("then_branch", "w", 5), branch("else_branch", "v", 9)];
    model.node("If", &["which"], &["y"], branches()).node("Relu", &["y"], &["z"], vec![]).output("z");
    let graph = graph_of(&model, None);
    assert_eq!(graph.operators[0].flop, Some(2.0 * 18.0 * 3.0));
    assert_eq!(graph.operators[0].parameter_bytes, 4.0 * 3.0 * (5.0 + 9.0), "weights of both are there");
    assert_eq!(graph.operators[1].flop, Some(18.0));
    // A known condition selects a branch, whose nodes join the model.
    for (which, columns) in [(1, 5.0), (0, 9.0)] {
        let mut known = model.proto.clone();
        let constant = Model::new(17).scalar("which", which).graph().initializer.remove(0);
        known.graph.as_mut().unwrap().initializer.push(constant);
        let graph = graph_of(&Model { proto: known }, None);
        let kinds: Vec<_> = graph.operators.iter().filter_map(|operator| operator.kind.as_deref()).collect();
        assert_eq!(kinds, ["MatMul", "Relu"]);
        assert_eq!(graph.operators[0].flop, Some(2.0 * 2.0 * columns * 3.0));
        assert_eq!(graph.operators[0].parameter_bytes, 4.0 * 3.0 * columns);
    }
}

#[test]
fn bodies_in_bodies_multiply() {
    let mut inner = looped(Some(3));
    inner.graph().input.clear();
    inner.graph().initializer.clear();
    inner.graph().output.clear();
    inner.graph().node[0].input = vec!["three".into(), String::new(), "carried".into()];
    inner.input("trip", &[]).input("condition", &[]).input("carried", &[]);
    inner.node("Identity", &["condition"], &["goes_on"], vec![]);
    let body = inner.output("goes_on").output("y").body("body");
    let mut model = Model::new(17);
    model.input("x", &[Of(2), Of(3)]).input("outer", &[Of(2), Of(3)]).scalar("four", 4).scalar("three", 3);
    model.node("Loop", &["four", "", "x"], &["z"], vec![body]).output("z");
    let graph = graph_of(&model, None);
    let once = graph_of(&looped(Some(1)), None);
    assert_eq!(graph.operators.len(), 1);
    assert_eq!(graph.operators[0].flop.unwrap(), 12.0 * once.operators[0].flop.unwrap());
    assert_eq!(graph.operators[0].launches.unwrap(), 12.0 * once.operators[0].launches.unwrap());
    assert_eq!(graph.operators[0].parameter_bytes, 36.0);
}

#[test]
fn what_bodies_make_of_constants_is_a_constant() {
    let mut model = looped(Some(2));
    model.graph().input.clear();
    model.weight("x", &[2, 3]).weight("outer", &[2, 3]).input("z", &[Of(2), Of(3)]);
    model.node("Mul", &["y", "z"], &["out"], vec![]).output("out");
    let kinds: Vec<_> =
        graph_of(&model, None).operators.into_iter().filter_map(|operator| operator.kind).collect();
    assert_eq!(kinds, ["Mul"]);
}

#[test]
fn faulty_bodies_are_errors() {
    let mut missing = looped(Some(2));
    missing.graph().node[0].attribute[0].g.as_mut().unwrap().node.pop();
    assert_eq!(rejection(&missing).0, "M002", "an output that nothing makes");
    let mut unlike = looped(Some(2));
    unlike.graph().node[0].attribute[0].g.as_mut().unwrap().input.pop();
    assert_eq!(rejection(&unlike).0, "M009", "an input fewer");
    let mut inside = looped(Some(2));
    inside.graph().node[0].attribute[0].g.as_mut().unwrap().node[0].input[1] = "nothing".into();
    let (code, text) = rejection(&inside);
    assert!(code == "M002" && text.contains("(Loop `y`).body.node[0] (MatMul `product`)"), "{text}");
    let mut other = looped(Some(2));
    other.graph().node[0].op_type = Some("SequenceMap".into());
    assert_eq!(rejection(&other).0, "M011");
    let mut outside = looped(Some(2));
    outside.node("Relu", &["product"], &["late"], vec![]);
    assert_eq!(rejection(&outside).0, "M002", "a value of the body is seen outside");
    // Unbounded work and sizes.
    let mut endless = looped(Some(1 << 40));
    endless.graph().node[0].attribute[0].g.as_mut().unwrap().initializer[0].dims = vec![3, 1 << 40];
    endless.graph().node[0].attribute[0].g.as_mut().unwrap().output.truncate(1);
    assert_eq!(rejection(&endless).0, "M009");
}

/// A function of a product and a softmax along an axis given by the call, and a function that calls it twice.
fn functions(model: &mut Model) {
    let opset =
        |domain: &str, version| OperatorSetIdProto { domain: Some(domain.into()), version: Some(version) };
    let node = |kind: &str, inputs: &[&str], output: &str, domain: &str| NodeProto {
        op_type: Some(kind.into()),
        input: inputs.iter().map(|&name| name.into()).collect(),
        output: vec![output.into()],
        domain: Some(domain.into()),
        ..Default::default()
    };
    let mut softmax = node("Softmax", &["p"], "r", "");
    softmax.attribute = vec![AttributeProto {
        name: Some("axis".into()),
        ref_attr_name: Some("along".into()),
        ..Default::default()
    }];
    let layer = FunctionProto {
        name: Some("Layer".into()),
        domain: Some("local".into()),
        input: vec!["a".into(), "w".into()],
        output: vec!["r".into()],
        attribute: vec!["along".into()],
        node: vec![node("MatMul", &["a", "w"], "p", ""), softmax],
        opset_import: vec![opset("", 17)],
        ..Default::default()
    };
    let two = FunctionProto {
        name: Some("Two".into()),
        domain: Some("local".into()),
        input: vec!["a".into(), "w".into()],
        output: vec!["r".into()],
        node: vec![node("Layer", &["a", "w"], "p", "local"), node("Layer", &["p", "w"], "r", "local")],
        opset_import: vec![opset("", 17), opset("local", 1)],
        ..Default::default()
    };
    model.proto.functions = vec![layer, two];
}

fn calling() -> Model {
    let mut model = Model::new(17);
    model.input("x", &[Of(2), Of(3)]).weight("v", &[3, 3]);
    model.node("Two", &["x", "v"], &["h"], vec![]).node("Two", &["h", "v"], &["y"], vec![]).output("y");
    for (index, node) in model.graph().node.iter_mut().enumerate() {
        node.domain = Some("local".into());
        node.name = Some(format!("block.{index}"));
    }
    functions(&mut model);
    model
}

#[test]
fn functions_stand_in_the_place_of_their_calls() {
    let graph = graph_of(&calling(), None);
    let kinds: Vec<_> = graph.operators.iter().filter_map(|operator| operator.kind.as_deref()).collect();
    assert_eq!(kinds, ["MatMul", "Softmax"].repeat(4));
    assert!(graph.operators[0].name.starts_with("block.0/Layer/MatMul"), "{}", graph.operators[0].name);
    assert_eq!(graph.parameters.len(), 1);
    assert_eq!((graph.parameters[0].name.as_str(), graph.parameters[0].readers.len()), ("v", 4));
    // A call in a body reads values from outside.
    let mut model = calling();
    let mut body = Model::new(17);
    body.node("Two", &["x", "v"], &["made"], vec![]);
    body.graph().node[0].domain = Some("local".into());
    body.output("made");
    let branches = ["then_branch", "else_branch"].map(|name| body.body(name));
    model.typed_input("which", Bool, &[]);
    model.node("If", &["which"], &["z"], branches.to_vec()).output("z");
    assert_eq!(graph_of(&model, None).operators[8].flop, Some(2.0 * (36.0 + 30.0)));
}

/// A function that calls itself, and functions that call one another repeatedly, level after level.
#[test]
fn functions_without_end_are_errors() {
    let mut own = calling();
    own.proto.functions[0].node[0].op_type = Some("Two".into());
    own.proto.functions[0].node[0].domain = Some("local".into());
    assert_eq!(rejection(&own).0, "M011");
    let mut many = calling();
    let two = many.proto.functions[1].clone();
    for level in 1..15 {
        let mut next = two.clone();
        next.name = Some(format!("Two{level}"));
        let called = if level == 1 { "Two".to_owned() } else { format!("Two{}", level - 1) };
        let calls = (0..40).map(|index| NodeProto {
            op_type: Some(called.clone()),
            output: vec![format!("r{index}")],
            ..next.node[0].clone()
        });
        next.node = calls.collect();
        many.proto.functions.push(next);
    }
    many.graph().node[0].op_type = Some("Two14".into());
    many.graph().node[0].output.clear();
    many.graph().node.truncate(1);
    assert_eq!(rejection(&many).0, "M011");
}

#[test]
fn flipped_bits_in_bodies_and_functions_are_no_crash() {
    for model in [looped(Some(3)), calling()] {
        let bytes = model.bytes();
        for bit in 0..8 * bytes.len() {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Err(error) = import_bytes(&bytes, None) {
                assert!(error.to_string().starts_with("error["));
            }
        }
    }
}
