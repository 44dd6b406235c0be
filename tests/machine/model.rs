//! Small ONNX models.

use std::path::Path;

use prost::Message;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagewright::formats::onnx::proto::tensor_shape_proto::{Dimension, dimension};
use stagewright::formats::onnx::proto::type_proto::{Tensor, Value};
use stagewright::formats::onnx::proto::{
    GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto, TypeProto,
    ValueInfoProto,
};

/// A value of floats.
pub(super) fn floats(name: &str, dims: &[i64]) -> ValueInfoProto {
    let dim = |&dim: &i64| Dimension { value: Some(dimension::Value::DimValue(dim)), ..Dimension::default() };
    let shape = TensorShapeProto { dim: dims.iter().map(dim).collect() };
    let tensor = Tensor { elem_type: Some(1), shape: Some(shape) };
    ValueInfoProto {
        name: Some(name.into()),
        r#type: Some(TypeProto { value: Some(Value::TensorType(tensor)), ..TypeProto::default() }),
        ..ValueInfoProto::default()
    }
}

/// A tensor of floats.
pub(super) fn tensor(name: &str, dims: &[i64], content: &[f32]) -> TensorProto {
    TensorProto {
        name: Some(name.into()),
        dims: dims.to_vec(),
        data_type: Some(1),
        raw_data: Some(content.iter().flat_map(|number| number.to_le_bytes()).collect()),
        ..TensorProto::default()
    }
}

/// A node with one output, which has the node's name.
pub(super) fn node(kind: &str, name: &str, inputs: &[&str]) -> NodeProto {
    NodeProto {
        name: Some(name.into()),
        op_type: Some(kind.into()),
        input: inputs.iter().map(|&input| input.to_owned()).collect(),
        output: vec![name.into()],
        ..NodeProto::default()
    }
}

/// A model that contains a graph.
pub(super) fn model(graph: GraphProto) -> ModelProto {
    ModelProto {
        ir_version: Some(8),
        opset_import: vec![OperatorSetIdProto { domain: Some(String::new()), version: Some(17) }],
        graph: Some(GraphProto { name: Some("small".into()), ..graph }),
        ..ModelProto::default()
    }
}

/// Writes a model to a file.
pub(super) fn write(model: &ModelProto, path: &Path) {
    std::fs::write(path, model.encode_to_vec()).expect("there is room for a file");
}

/// A chain of products, each followed by an activation, on `rows` rows of `width` numbers.
pub(super) fn chain(layers: usize, rows: i64, width: i64) -> ModelProto {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut graph = GraphProto { input: vec![floats("x", &[rows, width])], ..GraphProto::default() };
    let mut last = "x".to_owned();
    for layer in 0..layers {
        let weight = format!("w{layer}");
        let scale = (3.0 / width as f32).sqrt();
        let content: Vec<f32> =
            (0..width * width).map(|_| (rng.random::<f32>() - 0.5) * 2.0 * scale).collect();
        graph.initializer.push(tensor(&weight, &[width, width], &content));
        let (product, relu) = (format!("product{layer}"), format!("relu{layer}"));
        graph.node.push(node("MatMul", &product, &[&last, &weight]));
        graph.node.push(node("Relu", &relu, &[&product]));
        last = relu;
    }
    graph.output.push(floats(&last, &[rows, width]));
    model(graph)
}

/// A random graph of sums, products, activations and shapes; some weights are computed from others.
pub(super) fn random(nodes: usize, seed: u64) -> ModelProto {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut graph = GraphProto {
        input: vec![floats("x", &[4, 8]), floats("y", &[4, 8])],
        initializer: vec![tensor(
            "w",
            &[8, 8],
            &(0..64).map(|_| rng.random::<f32>() - 0.5).collect::<Vec<_>>(),
        )],
        node: vec![node("Transpose", "turned", &["w"])],
        ..GraphProto::default()
    };
    let mut values = vec!["x".to_owned(), "y".to_owned()];
    for index in 0..nodes {
        let name = format!("n{index}");
        let pick = |rng: &mut ChaCha8Rng| {
            values[rng.random_range(values.len().saturating_sub(5)..values.len())].clone()
        };
        let (first, second) = (pick(&mut rng), pick(&mut rng));
        let made = match rng.random_range(0..6) {
            5 => {
                // The shape comes from a value that may be on another device.
                let shape = format!("shape{index}");
                graph.node.push(node("Shape", &shape, &[&second]));
                node("Reshape", &name, &[&first, &shape])
            }
            0 => node("Relu", &name, &[&first]),
            1 => node("MatMul", &name, &[&first, "turned"]),
            2 => node("MatMul", &name, &[&first, "w"]),
            3 => node("Tanh", &name, &[&first]),
            _ => node("Add", &name, &[&first, &second]),
        };
        graph.node.push(made);
        values.push(name);
    }
    let read: Vec<String> = graph.node.iter().flat_map(|node| node.input.clone()).collect();
    let ends = values[2..].iter().filter(|value| !read.contains(value));
    graph.output = ends.map(|value| floats(value, &[4, 8])).collect();
    model(graph)
}

/// Two dense layers with a bias on tensors with three axes; the second layer has eight times the work of the first.
pub(super) fn dense() -> ModelProto {
    let mut graph = GraphProto { input: vec![floats("x", &[2, 128, 256])], ..GraphProto::default() };
    let mut last = "x".to_owned();
    for layer in 0..2 {
        let (inner, outer) = if layer == 0 { (256, 256) } else { (256, 2048) };
        let (weight, bias) = (format!("w{layer}"), format!("b{layer}"));
        graph.initializer.push(tensor(&weight, &[inner, outer], &vec![0.01; (inner * outer) as usize]));
        graph.initializer.push(tensor(&bias, &[outer], &vec![0.5; outer as usize]));
        let (product, sum) = (format!("product{layer}"), format!("sum{layer}"));
        graph.node.push(node("MatMul", &product, &[&last, &weight]));
        graph.node.push(node("Add", &sum, &[&product, &bias]));
        last = sum;
    }
    graph.output.push(floats(&last, &[2, 128, 2048]));
    model(graph)
}
