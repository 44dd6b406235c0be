//! ONNX, the Open Neural Network Exchange format, IR versions 3 to 14.
//!
//! A model says what is computed and not how long it takes, so operators carry FLOP and the bytes they move,
//! and the roofline of a cluster prices them. Both come from shapes: declared in the file, or inferred.
//! Weights are never read: they may stand in the file, in files beside it, or nowhere.
//!
//! | in the file | in the document |
//! | --- | --- |
//! | node that depends on an input | operator, named after the node or else its first output; layer from PyTorch's metadata or from the name |
//! | node that depends on constants alone | nothing: it is folded into a constant |
//! | output that is read | tensor |
//! | constant of a parameter's type | parameter bytes of its reader |
//! | running statistics of a `BatchNormalization`; integer and boolean constants | workspace of the reader: they are there, but no gradient or replica needs them |
//! | constant of more than [`COPIED_BYTES`](super::constants::COPIED_BYTES) with several readers | counted once, at the first, and its readers are colocated |
//! | smaller constant with several readers | a copy for each |
//! | inputs and outputs of the model | nothing: where they live is not said |
//!
//! FLOP count a multiply-add as two, and include biases, activations and normalisations. An operator that is
//! not known here, but whose shapes the file declares, has no FLOP and is priced by its bytes alone, of
//! which the command line tells.
//! Reshaping, squeezing and the like only rename bytes and move none.
//!
//! The first dimension of the inputs may be left open, and is then given as the batch. Nodes with a body
//! (`If`, `Loop`, `Scan`) and calls of a model's own functions are errors, since their work would be missed.

mod call;
mod contents;
mod cost;
mod declared;
mod infer;
mod proto;
mod slim;
mod value;
mod walk;

use std::collections::BTreeMap;

use prost::Message;
use stagewright_core::document::{GRAPH_SCHEMA, GraphDocument, OperatorDocument, TensorDocument};

use super::constants::{self, Use};
use super::error::{At, InputError};
use super::options::ImportOptions;
use super::readers::Readers;
use super::text::Sniff;
use super::{Format, Imported, Stream, names, work};
use proto::{ModelProto, NodeProto};
use walk::{Origin, Walked};

/// The first field of every ONNX file in use is the IR version, a small number, and after it comes one of the
/// other fields of a model, by number and wire type. No text begins so.
pub(super) fn detect(bytes: &[u8], _json: &Sniff) -> bool {
    const FIELDS: [u8; 11] = [0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42, 0x72, 0xa2, 0xca, 0xd2];
    match bytes {
        [0x08, 1..=127] => true,
        [0x08, 1..=127, next, ..] => FIELDS.contains(next),
        _ => false,
    }
}

pub(super) fn import(
    label: &str,
    stream: &mut dyn Stream,
    options: &ImportOptions,
) -> Result<Imported, InputError> {
    let bytes = slim::slim(label, stream)?;
    let model = ModelProto::decode(bytes.as_slice()).map_err(|error| {
        let help = "check that the file was copied whole, and that it is an ONNX model";
        InputError::new("M007", label, At::Whole, format!("the bytes are no ONNX model: {error}"), help)
    })?;
    drop(bytes);
    let Some(graph) = model.graph.as_ref().filter(|graph| !graph.node.is_empty()) else {
        let help = "check that the program that wrote it finished";
        return Err(InputError::at_path("M004", label, "graph", "the model has no nodes", help));
    };
    let walked = walk::walk(label, &model, graph, options.batch)?;
    if walked.operators.is_empty() {
        let message = "no node depends on an input: there is nothing to place";
        let help = "an input that has an initialiser is a constant: take the initialiser out";
        return Err(InputError::at_path("M004", label, "graph.node", message, help));
    }
    let name = if graph.name().is_empty() { names::stem(label) } else { graph.name() };
    Ok(Imported {
        graph: document(name, &walked),
        format: Format::Onnx,
        ids: None,
        contents: contents::contents(&walked),
    })
}

/// A node is called what it is called, or else what it makes.
fn node_name(node: &NodeProto) -> &str {
    match (node.name(), node.output.first()) {
        ("", Some(output)) => output,
        (name, _) => name,
    }
}

/// The module that a node came from, as PyTorch's exporter writes it: `['', 'encoder', 'encoder.0',
/// 'linear']` is the node `linear` of `encoder.0`.
fn scope(node: &NodeProto) -> Option<String> {
    let scopes = node.metadata_props.iter().find(|entry| entry.key() == "pkg.torch.onnx.name_scopes")?;
    let mut modules =
        scopes.value().split(',').rev().skip(1).map(|scope| scope.trim_matches([' ', '\'', '"', '[', ']']));
    modules.next().filter(|module| !module.is_empty()).map(str::to_owned)
}

fn document(name: &str, walked: &Walked<'_>) -> GraphDocument {
    let written =
        walked.operators.iter().enumerate().map(|(at, operator)| (node_name(operator.node), at as i64));
    let names = names::unique(written);
    let mut operators: Vec<OperatorDocument> = walked
        .operators
        .iter()
        .zip(&names)
        .map(|(operator, name)| OperatorDocument {
            kind: Some(operator.node.op_type().to_owned()),
            layer: scope(operator.node).or_else(|| names::layer(name)),
            flop: operator.flop,
            bytes_moved: Some(operator.bytes_moved),
            ..OperatorDocument::named(name.clone())
        })
        .collect();
    constants::give(uses(walked), &mut operators, |constant| walked.values[constant].name);
    let mut readers = Readers::default();
    for (reader, operator) in walked.operators.iter().enumerate() {
        for &value in &operator.reads {
            if let Origin::Operator(producer) = walked.values[value].origin {
                readers.add(producer, value, reader);
            }
        }
    }
    let tensor = |(producer, value, readers): (usize, usize, &[usize])| TensorDocument {
        name: Some(walked.values[value].name.to_owned()),
        producer: names[producer].clone(),
        consumers: readers.iter().map(|&reader| names[reader].clone()).collect(),
        bytes: walked.values[value].value.bytes().unwrap_or(0.0),
        seconds: BTreeMap::new(),
    };
    GraphDocument {
        schema: GRAPH_SCHEMA.to_owned(),
        name: name.to_owned(),
        operators,
        tensors: readers.iter().map(tensor).collect(),
        cluster: None,
        parameters: Vec::new(),
        pipedream_skips: Vec::new(),
    }
}

/// The constants that operators read.
fn uses<'a>(walked: &'a Walked<'_>) -> impl Iterator<Item = Use> + 'a {
    walked.operators.iter().enumerate().flat_map(move |(reader, operator)| {
        let statistics = match operator.node.op_type() {
            "BatchNormalization" => operator.node.input.get(3..).unwrap_or_default(),
            _ => &[],
        };
        operator.reads.iter().filter_map(move |&value| {
            let Origin::Constant { root } = walked.values[value].origin else { return None };
            let constant = &walked.values[root].value;
            let is_statistic = statistics.iter().any(|name| name == walked.values[value].name);
            Some(Use {
                reader,
                constant: root,
                bytes: constant.bytes().unwrap_or(0.0),
                is_parameter: value::is_parameter(constant.elem) && !is_statistic,
            })
        })
    })
}

#[cfg(test)]
mod tests;
