//! Shape inference, one operator or idiom at a time.

use super::model::Dim::Of;
use super::model::{Model, int, ints};
use super::*;
use crate::options::Tied;

/// Number of output elements of a node whose inputs have these shapes: the FLOP of a `Relu` that reads the output.
fn output(
    kind: &str,
    inputs: &[&[i64]],
    constants: &[&[i64]],
    attributes: Vec<proto::AttributeProto>,
) -> f64 {
    let mut model = Model::new(13);
    let mut names = Vec::new();
    for (index, dims) in inputs.iter().enumerate() {
        let name = format!("x{index}");
        model.input(&name, &dims.iter().map(|&dim| Of(dim)).collect::<Vec<_>>());
        names.push(name);
    }
    for (index, values) in constants.iter().enumerate() {
        let name = format!("c{index}");
        model.integers(&name, values);
        names.push(name);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    model.node(kind, &names, &["y"], attributes).node("Relu", &["y"], &["z"], vec![]);
    let graph = unfused(&model, None);
    graph.operators.iter().find(|operator| operator.name == "z").and_then(|relu| relu.flop).expect("the Relu")
}

#[test]
fn shapes_are_those_of_the_specification() {
    let pool = |ceil| vec![ints("kernel_shape", &[3, 3]), ints("strides", &[2, 2]), int("ceil_mode", ceil)];
    assert_eq!(output("MaxPool", &[&[1, 2, 12, 12]], &[], pool(0)), 2.0 * 25.0);
    assert_eq!(output("MaxPool", &[&[1, 2, 12, 12]], &[], pool(1)), 2.0 * 36.0);
    let dilated = vec![ints("dilations", &[2, 2]), int("group", 2), ints("pads", &[1, 1, 1, 1])];
    assert_eq!(output("Conv", &[&[1, 4, 9, 9], &[6, 2, 3, 3]], &[], dilated), 6.0 * 49.0);
    let transposed =
        vec![ints("strides", &[2, 2]), ints("output_padding", &[1, 1]), ints("pads", &[1, 1, 1, 1])];
    assert_eq!(output("ConvTranspose", &[&[1, 4, 5, 5], &[4, 3, 3, 3]], &[], transposed), 3.0 * 100.0);
    // The size of the output, with and without its batch and channels.
    for shape in [&[9, 11][..], &[1, 3, 9, 11]] {
        let given = vec![ints("strides", &[2, 2]), ints("output_shape", shape)];
        assert_eq!(output("ConvTranspose", &[&[1, 4, 5, 5], &[4, 3, 3, 3]], &[], given), 3.0 * 99.0);
    }
    assert_eq!(output("MatMul", &[&[5, 1, 2, 3], &[7, 3, 4]], &[], vec![]), 5.0 * 7.0 * 8.0);
    assert_eq!(output("MatMul", &[&[3], &[7, 3, 4]], &[], vec![]), 28.0);
    assert_eq!(output("Add", &[&[5, 1], &[1, 6]], &[], vec![]), 30.0);
    assert_eq!(output("Reshape", &[&[2, 3, 4]], &[&[0, -1]], vec![]), 24.0);
    assert_eq!(output("Transpose", &[&[2, 3]], &[], vec![]), 6.0);
    assert_eq!(output("Concat", &[&[2, 3], &[2, 5]], &[], vec![int("axis", -1)]), 16.0);
    assert_eq!(output("Slice", &[&[10, 4]], &[&[1], &[i64::MAX], &[0], &[3]], vec![]), 12.0);
    assert_eq!(output("Slice", &[&[10]], &[&[-1], &[i64::MIN], &[0], &[-2]], vec![]), 5.0);
    assert_eq!(output("Slice", &[&[10]], &[&[-100], &[i64::MIN], &[0], &[-1]], vec![]), 1.0);
    assert_eq!(output("Slice", &[&[0]], &[&[-1], &[i64::MIN], &[0], &[-1]], vec![]), 0.0);
    assert_eq!(output("Gather", &[&[10, 4]], &[&[1, 2, 3]], vec![]), 12.0);
    assert_eq!(output("Expand", &[&[3, 1]], &[&[2, 1, 6]], vec![]), 36.0);
    assert_eq!(output("Tile", &[&[2, 3]], &[&[2, 2]], vec![]), 24.0);
    assert_eq!(output("Pad", &[&[2, 3]], &[&[0, 1, 0, 1]], vec![]), 10.0);
    assert_eq!(output("ReduceMean", &[&[2, 3, 4]], &[], vec![ints("axes", &[1]), int("keepdims", 0)]), 8.0);
    assert_eq!(output("DepthToSpace", &[&[1, 8, 2, 2]], &[], vec![int("blocksize", 2)]), 32.0);
    assert_eq!(output("Squeeze", &[&[1, 3, 1]], &[&[0]], vec![]), 3.0);
}

#[test]
fn the_ellipsis_of_an_equation_stands_for_axes() {
    let einsum = |equation: &str, inputs: &[&[i64]]| {
        let mut model = Model::new(13);
        let names = ["a", "b"];
        for (name, dims) in names.iter().zip(inputs) {
            model.input(name, &dims.iter().map(|&dim| Of(dim)).collect::<Vec<_>>());
        }
        let equation = proto::AttributeProto {
            name: Some("equation".into()),
            s: Some(equation.into()),
            ..Default::default()
        };
        model.node("Einsum", &names[..inputs.len()], &["y"], vec![equation]);
        model.node("Relu", &["y"], &["z"], vec![]);
        let options = ImportOptions { fusion: Fusion::Off, ..ImportOptions::default() };
        import_model("model.onnx", &model.bytes(), &options).map(|imported| {
            (imported.graph.operators[0].flop.unwrap(), imported.graph.tensors[0].bytes / 4.0)
        })
    };
    let (stacked, matrix): (&[i64], &[i64]) = (&[7, 5, 2, 3], &[3, 4]);
    let product = (2.0 * 35.0 * 2.0 * 3.0 * 4.0, 35.0 * 2.0 * 4.0);
    assert_eq!(einsum("...ij,jk->...ik", &[stacked, matrix]), Ok(product));
    assert_eq!(einsum("...ij,jk", &[stacked, matrix]), Ok(product));
    assert_eq!(einsum("ij,jk->ik", &[&[2, 3], matrix]), Ok((48.0, 8.0)));
    // Shapes under the ellipsis broadcast from the last axis.
    assert_eq!(einsum("...i,...i->...", &[&[2, 1, 3], &[4, 3]]), Ok((48.0, 8.0)));
    assert_eq!(einsum("i...->...", &[&[3, 4, 5]]), Ok((60.0, 20.0)));
    for nonsense in ["....ij->ij", "i.j->ij", "ij->iij", "ij->ik", "ijk->i"] {
        assert_eq!(einsum(nonsense, &[&[2, 2]]).unwrap_err().code, "M009", "{nonsense}");
    }
}

/// Exporters compute a shape inside the graph: take the batch, append constants, reshape.
#[test]
fn shapes_that_the_graph_computes_are_followed() {
    let mut model = Model::new(13);
    model.input("x", &[Of(6), Of(4), Of(5)]);
    model.integers("zero", &[0]).integers("rest", &[-1]).integers("two", &[2]);
    model.node("Shape", &["x"], &["shape"], vec![]);
    model.node("Gather", &["shape", "zero"], &["batch"], vec![]);
    model.node("Div", &["batch", "two"], &["half"], vec![]);
    model.node("Concat", &["half", "rest"], &["new"], vec![int("axis", 0)]);
    model.node("Reshape", &["x", "new"], &["y"], vec![]);
    model.weight("w", &[40, 7]).node("MatMul", &["y", "w"], &["z"], vec![]);
    let graph = graph_of(&model, None);
    // Shape computations are folded.
    let kinds: Vec<_> = graph.operators.iter().map(|operator| operator.kind.as_deref().unwrap()).collect();
    assert_eq!(kinds, ["Reshape", "MatMul"]);
    assert_eq!(graph.operators[1].flop, Some(2.0 * 3.0 * 40.0 * 7.0));
    // A reshape is a view and moves no bytes.
    assert_eq!(graph.operators[0].bytes_moved, Some(0.0));
}

/// PyTorch writes `x.new_zeros(…)` as a constant that is cast like x.
#[test]
fn a_value_of_which_the_type_alone_is_read_is_not_waited_for() {
    let mut model = Model::new(19);
    model.input("x", &[Of(8), Of(8)]).weight("zeros", &[8, 8]);
    model.node("Relu", &["x"], &["a"], vec![]);
    model.node("CastLike", &["zeros", "a"], &["like"], vec![]);
    model.node("Sin", &["x"], &["b"], vec![]);
    model.node("CastLike", &["b", "a"], &["c"], vec![]);
    model.node("Add", &["c", "like"], &["y"], vec![]);
    let graph = graph_of(&model, None);
    let kinds: Vec<_> = graph.operators.iter().map(|operator| operator.kind.as_deref().unwrap()).collect();
    assert_eq!(kinds, ["Relu", "Sin", "CastLike", "Add"]);
    assert!(
        graph.tensors.iter().all(|tensor| tensor.producer != graph.operators[0].name),
        "{:?}",
        graph.tensors
    );
}

#[test]
fn large_shared_constants_tie_their_readers_together_and_small_ones_do_not() {
    let mut model = Model::new(13);
    model.input("x", &[Of(8), Of(200)]);
    model.weight("tied", &[200, 200]).weight("scale", &[1]);
    model.node("Transpose", &["tied"], &["turned"], vec![]);
    model.node("MatMul", &["x", "tied"], &["a"], vec![]);
    model.node("Mul", &["a", "scale"], &["b"], vec![]);
    model.node("Mul", &["b", "scale"], &["c"], vec![]);
    model.node("MatMul", &["c", "turned"], &["d"], vec![]);
    let shared = graph_of(&model, None);
    assert_eq!(shared.parameters.len(), 1, "a scale of one number is an argument");
    let tied = &shared.parameters[0];
    assert_eq!(
        (tied.name.as_str(), tied.bytes, tied.trained, tied.together),
        ("tied", 160_000.0, true, false)
    );
    assert_eq!(tied.readers, ["a", "d"]);
    assert_eq!(total(&shared, |operator| operator.parameter_bytes), 0.0);
    let classes: Vec<_> = shared.operators.iter().map(|operator| operator.colocation.as_deref()).collect();
    assert_eq!(classes, [Some("a"), Some("a"), Some("a"), None], "kernels alone share devices");
    let options = ImportOptions { tied: Tied::Together, ..ImportOptions::default() };
    let together = import_model("model.onnx", &model.bytes(), &options).expect("the same model").graph;
    assert!(together.parameters[0].together);
}

#[test]
fn names_give_layers_and_outputs_give_names() {
    let mut model = Model::new(13);
    model.input("x", &[Of(1)]).node("Relu", &["x"], &["a"], vec![]).node("Relu", &["a"], &["b"], vec![]);
    model.graph().node[1].name = Some("/layer1/layer1.0/relu/Relu".into());
    let scopes = proto::StringStringEntryProto {
        key: Some("pkg.torch.onnx.name_scopes".into()),
        value: Some("['', 'layers', 'layers.3', 'relu']".into()),
    };
    model.node("Relu", &["b"], &["c"], vec![]).graph().node[2].metadata_props.push(scopes);
    let graph = graph_of(&model, None);
    assert_eq!((graph.operators[0].name.as_str(), graph.operators[0].layer.as_deref()), ("a", None));
    assert_eq!(graph.operators[1].layer.as_deref(), Some("layer1.0.relu"));
    assert_eq!(graph.operators[2].layer.as_deref(), Some("layers.3"));
}
