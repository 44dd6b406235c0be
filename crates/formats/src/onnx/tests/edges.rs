//! Faulty, hostile and very large models.

use std::io::{self, Read, Seek, SeekFrom};

use prost::Message as _;

use super::model::Dim::Of;
use super::model::{Model, int, ints, value_info};
use super::*;
use crate::import_file;
use crate::onnx::proto::{AttributeProto, GraphProto, NodeProto};

fn small() -> Model {
    let mut model = Model::new(13);
    model.input("x", &[Of(2), Of(3)]).weight("w", &[3, 4]).integers("shape", &[8]);
    model.node("MatMul", &["x", "w"], &["y"], vec![]).node("Reshape", &["y", "shape"], &["z"], vec![]);
    model
}

#[test]
fn a_model_cut_off_anywhere_is_an_error() {
    let bytes = small().bytes();
    let whole = import_bytes(&bytes, None).unwrap().graph;
    for end in 0..bytes.len() {
        match import_model(
            "cut",
            &bytes[..end],
            &ImportOptions { format: Some(Format::Onnx), ..Default::default() },
        ) {
            // A cut between two fields may lose nothing relevant.
            Ok(imported) => assert_eq!(imported.graph, whole, "{end}"),
            Err(error) => assert!(matches!(error.code.name, "M007" | "M004"), "{end}: {error}"),
        }
    }
}

#[test]
fn flipped_bits_are_errors_or_other_models_and_no_crash() {
    let bytes = small().bytes();
    for offset in 0..bytes.len() {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[offset] ^= 1 << bit;
            if let Err(error) = import_bytes(&bytes, None) {
                assert!(error.to_string().starts_with("error["));
            }
        }
    }
}

#[test]
fn what_is_wrong_is_named() {
    let mut cycle = small();
    cycle.node("Add", &["y", "late"], &["early"], vec![]).node("Relu", &["early"], &["late"], vec![]);
    let (code, text) = rejection(&cycle);
    assert_eq!(code, "M002");
    assert!(text.contains("graph.node[2] (Add `early`)") && text.contains("`late`"), "{text}");

    let mut twice = small();
    twice.node("Relu", &["x"], &["y"], vec![]);
    assert_eq!(rejection(&twice).0, "M001");

    let mut negative = small();
    negative.weight("bad", &[3, -4]);
    assert_eq!(rejection(&negative).0, "M009");

    let mut misfit = small();
    misfit.node("MatMul", &["z", "w"], &["bad"], vec![]);
    assert_eq!(rejection(&misfit).0, "M009");

    let mut window = Model::new(13);
    window.input("x", &[Of(1), Of(2), Of(9), Of(9)]).weight("w", &[2, 2, 3, 3]);
    window.node("Conv", &["x", "w"], &["y"], vec![ints("kernel_shape", &[1, 1])]);
    assert_eq!(rejection(&window).0, "M009", "a window of another size than its weights");

    // A division by zero yields no size.
    let mut divided = Model::new(13);
    divided.input("x", &[Of(0)]).integers("zero", &[0]).node("Shape", &["x"], &["s"], vec![]);
    divided.node("Div", &["s", "zero"], &["q"], vec![]).node("Reshape", &["x", "q"], &["y"], vec![]);
    assert_eq!(rejection(&divided).0, "M008");

    let mut empty = small();
    empty.graph().node.clear();
    assert_eq!(rejection(&empty).0, "M004");

    let mut constant = small();
    constant.graph().input.clear();
    constant.weight("x", &[2, 3]);
    assert_eq!(rejection(&constant).0, "M004");
}

#[test]
fn the_first_shape_that_is_not_known_is_named_with_the_command_that_helps() {
    let mut model = small();
    model.node("NonZero", &["z"], &["places"], vec![]).node("Relu", &["places"], &["a"], vec![]);
    let (code, text) = rejection(&model);
    assert_eq!(code, "M008");
    assert!(text.contains("graph.node[2] (NonZero `places`)"), "{text}");
    assert!(text.contains("infer_shapes_path('model.onnx'"), "{text}");
    // A declared shape is as good as an inferred one; an unknown operator is then priced by its bytes.
    model.graph().node[2].op_type = Some("Mystery".into());
    model.graph().value_info.push(value_info("places", &[Of(1), Of(8)]));
    let graph = graph_of(&model, None);
    assert_eq!(graph.operators[2].flop, None);
    assert_eq!(graph.operators[2].bytes_moved, Some(4.0 * 8.0 + 4.0 * 8.0));

    let mut open = small();
    open.graph().input.push(proto::ValueInfoProto { name: Some("n".into()), ..Default::default() });
    assert_eq!(rejection(&open).0, "M008");
}

/// Graphs in attributes of nodes in graphs, nested far deeper than the stack allows.
#[test]
fn a_million_graphs_inside_one_another_are_an_error() {
    // Correct lengths at all levels would take quadratic work, so each level claims the same length, which
    // exceeds the file.
    let level: &[u8] =
        &[0x0a, 0xff, 0xff, 0xff, 0x7f, 0x2a, 0xff, 0xff, 0xff, 0x7f, 0x32, 0xff, 0xff, 0xff, 0x7f];
    let mut bytes = vec![0x08, 0x08, 0x3a, 0xff, 0xff, 0xff, 0x7f];
    bytes.extend(level.repeat(1_000_000));
    assert_eq!(import_bytes(&bytes, None).unwrap_err().code, "M007");
    // With correct lengths, nested as deeply as in a file of some size.
    let mut graph = GraphProto::default();
    for _ in 0..200 {
        let attribute = AttributeProto { g: Some(graph), ..Default::default() };
        let node = NodeProto { attribute: vec![attribute], ..Default::default() };
        graph = GraphProto { node: vec![node], ..Default::default() };
    }
    let model = proto::ModelProto { ir_version: Some(8), graph: Some(graph), ..Default::default() };
    assert_eq!(import_bytes(&model.encode_to_vec(), None).unwrap_err().code, "M007");
}

#[test]
fn a_chain_of_a_million_operators_is_a_model() {
    let mut model = Model::new(13);
    model.input("x0", &[Of(4)]);
    for index in 0..1_000_000 {
        model.node("Relu", &[&format!("x{index}")], &[&format!("x{}", index + 1)], vec![]);
    }
    let graph = unfused(&model, None);
    assert_eq!(graph.operators.len(), 1_000_000);
    stagewright_core::graph::Graph::from_document(graph).expect("a graph");
}

#[test]
fn sizes_that_overflow_are_errors() {
    let mut wide = Model::new(13);
    let largest = 1 << 40;
    wide.input("x", &[Of(largest), Of(largest), Of(largest)]).node("Flatten", &["x"], &["y"], vec![]);
    assert_eq!(rejection(&wide).0, "M009");
    let mut split = Model::new(13);
    split.input("x", &[Of(4)]).integers("n", &[i64::MAX]).node("Expand", &["x", "n"], &["y"], vec![]);
    assert_eq!(rejection(&split).0, "M009");
    let mut axis = Model::new(13);
    axis.input("x", &[Of(4)]).node("Flatten", &["x"], &["y"], vec![int("axis", i64::MIN)]);
    assert_eq!(rejection(&axis).0, "M009");
}

/// Small files that could demand much memory or time: the cost of a node does not grow with the nodes before
/// it.
#[test]
fn what_a_node_takes_is_bounded() {
    let chain = |kind: &str, inputs: &[&str], model: &mut Model, count: usize| {
        for index in 0..count {
            let (from, to) = (format!("v{index}"), format!("v{}", index + 1));
            let inputs: Vec<&str> = [from.as_str()].into_iter().chain(inputs.iter().copied()).collect();
            model.node(kind, &inputs, &[&to], vec![]);
        }
    };
    // Every copy of a large constant would keep its numbers.
    let mut copies = small();
    copies.integers("v0", &[1; 4096]);
    chain("Identity", &[], &mut copies, 100_000);
    let walked = |model: &Model| {
        let model = &model.proto;
        let walked = walk::walk("m", model, model.graph.as_ref().unwrap(), &ImportOptions::default())?;
        Ok::<usize, InputError>(
            walked.values.iter().flat_map(|entry| &entry.value.content).map(Vec::len).sum(),
        )
    };
    assert!(walked(&copies).unwrap() < 100_000);
    // Every node would add a dimension to those of the node before.
    let mut deep = Model::new(13);
    deep.input("v0", &[Of(1)]).integers("depth", &[1]).weight("values", &[2]);
    chain("OneHot", &["depth", "values"], &mut deep, 100);
    assert_eq!(rejection(&deep).0, "M009");
    // An operator with very many distinct inputs.
    let mut wide = Model::new(13);
    wide.input("v0", &[Of(1)]);
    chain("Relu", &[], &mut wide, 300_000);
    let names: Vec<String> = (0..300_000).map(|index| format!("v{index}")).collect();
    wide.node("Concat", &names.iter().map(String::as_str).collect::<Vec<_>>(), &["y"], vec![int("axis", 0)]);
    assert_eq!(graph_of(&wide, None).operators.len(), 300_001);
}

/// A file with a virtual middle part of zeros: larger than memory, and never read.
struct Sparse {
    head: Vec<u8>,
    hole: u64,
    tail: Vec<u8>,
    at: u64,
    read: u64,
}

impl Read for Sparse {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (head, hole) = (self.head.len() as u64, self.hole);
        let mut count = 0;
        for slot in buffer {
            *slot = match self.at {
                offset if offset < head => self.head[offset as usize],
                offset if offset < head + hole => 0,
                offset => match self.tail.get((offset - head - hole) as usize) {
                    Some(&byte) => byte,
                    None => break,
                },
            };
            self.at += 1;
            count += 1;
        }
        self.read += count;
        Ok(count as usize)
    }
}

impl Seek for Sparse {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let length = (self.head.len() + self.tail.len()) as u64 + self.hole;
        let target = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(by) => length.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = target.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[test]
fn weights_of_fifty_gigabytes_are_not_read() {
    // The second half of the model: protobuf merges the two graphs of a file into one.
    let put = |out: &mut Vec<u8>, mut value: u64| {
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    };
    let hole = 50_u64 << 30;
    // A tensor named `large` with raw data, in a graph.
    let mut tensor = vec![0x08, 4, 0x10, 1, 0x42, 5];
    tensor.extend(b"large");
    tensor.push(0x4a);
    put(&mut tensor, hole);
    let mut initializer = vec![0x2a];
    put(&mut initializer, tensor.len() as u64 + hole);
    initializer.extend(tensor);
    let mut head = vec![0x08, 0x08, 0x3a];
    put(&mut head, initializer.len() as u64 + hole);
    head.extend(initializer);
    let mut model = small();
    model.node("Mul", &["z", "large"], &["a"], vec![]);
    model.graph().initializer.push(proto::TensorProto {
        name: Some("other".into()),
        data_type: Some(1),
        dims: vec![8],
        ..Default::default()
    });
    model.node("Add", &["z", "other"], &["b"], vec![]);
    // The shape and the length of the hole disagree, which is not an error: values of weights are not looked
    // at.
    let mut sparse = Sparse { head, hole, tail: model.bytes(), at: 0, read: 0 };
    let error = import_file("large.onnx", &mut sparse, &ImportOptions::default()).unwrap_err();
    // Its shape, [4], is incompatible with [8].
    assert_eq!(error.code, "M009");
    assert!(error.message.contains("[8] and [4]"), "{error}");
    assert!(sparse.read < 1 << 20, "{} bytes were read", sparse.read);
    model.graph().node.retain(|node| node.op_type() != "Mul");
    sparse.tail = model.bytes();
    sparse.seek(SeekFrom::Start(0)).unwrap();
    let graph = import_file("large.onnx", &mut sparse, &ImportOptions::default()).unwrap().graph;
    assert_eq!(graph.operators.len(), 3);
}
