//! ONNX, the Open Neural Network Exchange format, IR versions 3 to 14.
//!
//! A model describes a computation and not its duration, so operators carry FLOP and bytes moved, and the
//! roofline of a cluster prices them. Both come from shapes, declared in the file or inferred. Weights are
//! never read: they may be in the file, in files beside it, or missing.
//!
//! | in the file | in the document |
//! | --- | --- |
//! | node that depends on an input | operator, named after the node or else its first output; layer from PyTorch's metadata or from the name |
//! | node that depends on constants alone | nothing: it is folded into a constant |
//! | output, weight, constant, cache | a tensor or a parameter: see `document` |
//! | inputs of the model | nothing: their location is unspecified |
//!
//! A multiply-add counts as two FLOP; biases, activations and normalisations are included. An unknown
//! operator whose shapes the file declares has no FLOP and is priced by its bytes alone, which the command
//! line reports. `view` lists operators that launch no kernel, [`fusion`](crate::fusion) those that share
//! one.
//!
//! The first dimension of the inputs may be open, and is then given as the batch; any named dimension may be given by
//! name. Inputs that hold past keys and values are a cache, whose numbers of sequences and tokens are options. Nodes
//! with a body (`If`, `Loop`, `Scan`) are in `body`, and calls of a model's own functions are replaced by their bodies
//! (`inline`). Equal constants count once (`equal`). A loop with an unknown trip count is an error, since its work
//! would be missed.

mod body;
mod call;
mod cost;
mod declared;
mod document;
mod equal;
mod infer;
mod inline;
pub mod proto;
mod slim;
mod value;
mod view;
mod walk;
mod whole;

use prost::Message;

use super::error::{At, InputError, Result};
use super::options::ImportOptions;
use super::text::Sniff;
use super::{Format, Imported, Stream, names, work};
use crate::code::{M004, M007};
pub use inline::own_opset;
use proto::{ModelProto, NodeProto};
pub use walk::reads_type_alone;
pub use whole::{TensorType, Whole};

/// Recognises an ONNX file by its start: the first field of every file in use is the IR version, a small number,
/// followed by one of the other fields of a model, by number and wire type. No text starts like this.
pub(super) fn detect(bytes: &[u8], _json: &Sniff) -> bool {
    const FIELDS: [u8; 11] = [0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42, 0x72, 0xa2, 0xca, 0xd2];
    match bytes {
        [0x08, 1..=127] => true,
        [0x08, 1..=127, next, ..] => FIELDS.contains(next),
        _ => false,
    }
}

pub(super) fn import(label: &str, stream: &mut dyn Stream, options: &ImportOptions) -> Result<Imported> {
    let bytes = slim::slim(label, stream)?;
    let mut model = ModelProto::decode(bytes.as_slice()).map_err(|error| not_a_model(label, &error))?;
    drop(bytes);
    inline::inline(label, &mut model)?;
    let Some(graph) = model.graph.as_ref().filter(|graph| !graph.node.is_empty()) else {
        return Err(without_nodes(label));
    };
    let walked = walk::walk(label, &model, graph, options)?;
    if walked.operators.is_empty() {
        let message = "no node depends on an input: there is nothing to place";
        let help = "remove the initialiser: an input that has one is a constant";
        return Err(InputError::at_path(M004, label, "graph.node", message, help));
    }
    let name = if graph.name().is_empty() { names::stem(label) } else { graph.name() };
    let graph = document::document(name, &walked, options);
    Ok(Imported { graph, format: Format::Onnx, ids: None })
}

fn not_a_model(label: &str, error: &prost::DecodeError) -> InputError {
    let help = "check that the copy is complete, and that it is an ONNX model";
    InputError::new(M007, label, At::Whole, format!("not an ONNX model: {error}"), help)
}

fn without_nodes(label: &str) -> InputError {
    let help = "check that the program that wrote it finished";
    InputError::at_path(M004, label, "graph", "the model has no nodes", help)
}

/// Name of a node, or else of its first output.
fn node_name(node: &NodeProto) -> &str {
    match (node.name(), node.output.first()) {
        ("", Some(output)) => output,
        (name, _) => name,
    }
}

/// Canonical name of a domain; the standard one has two names.
fn domain(name: &str) -> &str {
    if name == "ai.onnx" { "" } else { name }
}

/// Module that a node came from, as PyTorch's exporter writes it: `['', 'encoder', 'encoder.0', 'linear']` is
/// the node `linear` of `encoder.0`.
fn scope(node: &NodeProto) -> Option<String> {
    let scopes = node.metadata_props.iter().find(|entry| entry.key() == "pkg.torch.onnx.name_scopes")?;
    let mut modules =
        scopes.value().split(',').rev().skip(1).map(|scope| scope.trim_matches([' ', '\'', '"', '[', ']']));
    modules.next().filter(|module| !module.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests;
