//! `graph.txt`, the output of PipeDream's profiler (Narayanan et al., "PipeDream: Generalized Pipeline
//! Parallelism for DNN Training", SOSP 2019).
//!
//! ```text
//! node4 -- Conv2d(64, 64, kernel_size=(1, 1)) -- forward_compute_time=1.318, backward_compute_time=2.796, activation_size=205520896.000, parameter_size=262144.000
//! node5 -- LSTM(1024, 1024) -- forward_compute_time=2.5, backward_compute_time=4.2, activation_size=[6291456.0; 131072.0], parameter_size=33587200.000
//!         node4 -- node5
//! ```
//!
//! A line that starts with a tab is an edge, every other line a node. Times are in ms, sizes in bytes; an
//! activation of several tensors is listed in brackets and summed here. Optimised graphs end a node with ` --
//! stage_id=3`, which is ignored: it is a placement and not part of the model.
//!
//! | in the file | in the document |
//! | --- | --- |
//! | node | a forward operator; if any node has a backward time, also a backward operator `<node>.backward` colocated with it |
//! | `Input`, `Input0`, `Input1`, … | times are zero by default: the measured time is that of loading a batch |
//! | `parameter_size` | parameter bytes; also workspace of the backward operator, for the gradients |
//! | `activation_size` | activation bytes; bytes of the tensor to all successors; also workspace of the backward operator, for the gradient of the activation |
//! | edges out of a node | one tensor, and one or more backward: see [`Gradients`] |
//!
//! The file does not list transfers of gradients. The reference package of the NeurIPS 2020 paper "Efficient
//! Algorithms for Device Placement of DNN Graph Operators" derived its ResNet-50 from such a profile, with a
//! mirror image of the forward edges, each tensor charged the `activation_size` of its producer. That is the
//! default, so that the published optimum holds here too.

use std::collections::BTreeMap;

use stagewright_core::document::{GRAPH_SCHEMA, GraphDocument, OperatorDocument, Pass, TensorDocument};

use super::error::{InputError, Result};
use super::options::{Gradients, ImportOptions, TimeUnit};
use super::readers::Readers;
use super::text::{Sniff, position, text};
use super::work::is_amount;
use super::{Format, HEAD, Imported, names};
use crate::code::{F003, F009, M001, M002, M003, M006};

/// Text of every node line, and of no other format.
const MARK: &[u8] = b"forward_compute_time=";

/// A node of the profile; times in the file's unit.
struct Node<'a> {
    name: &'a str,
    description: &'a str,
    forward: f64,
    backward: f64,
    activation: f64,
    parameters: f64,
}

impl Node<'_> {
    /// Whether the node is an input. The profiler names inputs `Input`, `Input0`, `Input1`, …; a module such as
    /// `InputEmbedding` computes.
    fn is_input(&self) -> bool {
        let number = self.description.strip_prefix("Input");
        number.is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_digit()))
    }
}

/// An edge: the names of its ends and its line.
struct Edge<'a> {
    ends: [&'a str; 2],
    line: usize,
    text: &'a str,
}

/// Recognises a profile by the mark of its nodes alone, since the first node may be faulty.
pub(super) fn detect(bytes: &[u8], _json: &Sniff) -> bool {
    let head = &bytes[..bytes.len().min(HEAD as usize)];
    !head.starts_with(b"{") && head.windows(MARK.len()).any(|window| window == MARK)
}

pub(super) fn import(label: &str, bytes: &[u8], options: &ImportOptions) -> Result<Imported> {
    let (mut nodes, edges) = parse(label, text(label, bytes)?)?;
    if nodes.is_empty() {
        return Err(InputError::empty(label, "the profile has no nodes"));
    }
    if !options.keep_input_costs {
        for node in nodes.iter_mut().filter(|node| node.is_input()) {
            (node.forward, node.backward) = (0.0, 0.0);
        }
    }
    let readers = readers(label, &nodes, &edges)?;
    let unit = options.time_unit.unwrap_or(TimeUnit::Milliseconds).per_second();
    let training = nodes.iter().any(|node| node.backward > 0.0);
    let timed = |name: String, node: &Node<'_>, time: f64| OperatorDocument {
        kind: Some(kind(node.description).to_owned()),
        colocation: training.then(|| node.name.to_owned()),
        seconds: BTreeMap::from([(options.class().to_owned(), time / unit)]),
        ..OperatorDocument::named(name)
    };
    let forward = nodes.iter().map(|node| OperatorDocument {
        parameter_bytes: node.parameters,
        activation_bytes: if training { node.activation } else { 0.0 },
        ..timed(node.name.to_owned(), node, node.forward)
    });
    let backward = nodes.iter().filter(|_| training).map(|node| OperatorDocument {
        pass: Pass::Backward,
        workspace_bytes: node.parameters + node.activation,
        ..timed(backward_name(node), node, node.backward)
    });
    let graph = GraphDocument {
        operators: forward.chain(backward).collect(),
        tensors: tensors(&nodes, &readers, training.then_some(options.gradients)),
        ..GraphDocument::new(GRAPH_SCHEMA, names::stem(label))
    };
    Ok(Imported { graph, format: Format::PipeDream, ids: None })
}

fn backward_name(node: &Node<'_>) -> String {
    format!("{}.backward", node.name)
}

/// The module type: `Conv2d` of `Conv2d(64, 64, kernel_size=(1, 1))`.
fn kind(description: &str) -> &str {
    description.split('(').next().unwrap_or_default()
}

fn tensors(nodes: &[Node<'_>], readers: &Readers, gradients: Option<Gradients>) -> Vec<TensorDocument> {
    let own = |node: &Node<'_>| node.name.to_owned();
    let mut tensors = Vec::new();
    for (producer, _, successors) in readers.iter() {
        let node = &nodes[producer];
        let successors = successors.iter().map(|&successor| &nodes[successor]);
        let mut consumers: Vec<String> = successors.clone().map(own).collect();
        if gradients == Some(Gradients::Reversed) {
            consumers.push(backward_name(node));
        }
        tensors.push(TensorDocument::new(own(node), consumers, node.activation));
        match gradients {
            None => {}
            Some(Gradients::Mirrored) => {
                let consumers = successors.map(backward_name).collect();
                tensors.push(TensorDocument::new(backward_name(node), consumers, node.activation));
            }
            Some(Gradients::Reversed) => tensors.extend(successors.map(|successor| {
                TensorDocument::new(backward_name(successor), vec![backward_name(node)], node.activation)
            })),
        }
    }
    if gradients == Some(Gradients::Reversed) {
        // A node without readers starts the backward pass.
        let mut read = vec![false; nodes.len()];
        readers.iter().for_each(|(producer, _, _)| read[producer] = true);
        let last = nodes.iter().zip(&read).filter(|(_, read)| !**read);
        tensors.extend(
            last.map(|(node, _)| TensorDocument::new(own(node), vec![backward_name(node)], node.activation)),
        );
    }
    tensors
}

/// Nodes and edges in file order.
fn parse<'a>(label: &str, text: &'a str) -> Result<(Vec<Node<'a>>, Vec<Edge<'a>>)> {
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    let mut line_of: BTreeMap<&str, usize> = BTreeMap::new();
    for (line, content) in text.lines().enumerate().filter(|(_, content)| !content.trim().is_empty()) {
        let parts: Vec<&str> = content.trim().split(" -- ").collect();
        match (content.starts_with('\t'), parts.as_slice()) {
            (true, &[from, to]) => edges.push(Edge { ends: [from, to], line, text: content }),
            (false, &[name, description, figures] | &[name, description, figures, _]) => {
                if let Some(first) = line_of.insert(name, line) {
                    let message = format!("`{name}` is already defined on line {}", first + 1);
                    let help = "give every node a unique id";
                    return Err(InputError::new(M001, label, position(line, content, name), message, help));
                }
                nodes.push(node(label, (line, content), [name, description, figures])?);
            }
            (edge, _) => {
                let message = if edge { "not an edge" } else { "not a node" };
                let help = "write a node as `id -- description -- figures`, an edge as a tab and `id -- id`; check \
                            that the file is complete";
                return Err(InputError::new(M006, label, position(line, content, content), message, help));
            }
        }
    }
    Ok((nodes, edges))
}

/// Parses the three parts of a node.
fn node<'a>(
    label: &str,
    (line, content): (usize, &str),
    [name, description, figures]: [&'a str; 3],
) -> Result<Node<'a>> {
    let mut node = Node { name, description, forward: 0.0, backward: 0.0, activation: 0.0, parameters: 0.0 };
    let mut missing = ["forward_compute_time", "backward_compute_time", "activation_size", "parameter_size"];
    for figure in figures.split(", ") {
        let (field, value) = figure.split_once('=').unwrap_or((figure, ""));
        let slot = match field {
            "forward_compute_time" => &mut node.forward,
            "backward_compute_time" => &mut node.backward,
            "activation_size" => &mut node.activation,
            "parameter_size" => &mut node.parameters,
            _ => continue,
        };
        if !missing.contains(&field) {
            let message = format!("`{name}` has {field} twice");
            return Err(InputError::new(
                F009,
                label,
                position(line, content, figure),
                message,
                "keep one of the two",
            ));
        }
        *slot = sum(value).ok_or_else(|| {
            let message = format!("{field} of `{name}` is `{value}`");
            let help =
                "write a finite number that is not negative, or several sizes in brackets, as in [8.0; 4.0]";
            InputError::new(M003, label, position(line, content, value), message, help)
        })?;
        missing.iter_mut().filter(|missing| **missing == field).for_each(|found| *found = "");
    }
    let Some(field) = missing.iter().find(|missing| !missing.is_empty()) else { return Ok(node) };
    let help = "add the figure; check that the file is complete";
    let message = format!("`{name}` has no {field}");
    Err(InputError::new(F003, label, position(line, content, figures), message, help))
}

/// Parses a number, or the sum of several in brackets; `None` unless each can be a time or size.
fn sum(text: &str) -> Option<f64> {
    let inner = text.trim().strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    inner.split(';').try_fold(0.0, |sum, number| {
        let number: f64 = number.trim().parse().ok()?;
        is_amount(number).then_some(sum + number)
    })
}

fn readers(label: &str, nodes: &[Node<'_>], edges: &[Edge<'_>]) -> Result<Readers> {
    let by_name: BTreeMap<&str, usize> = nodes.iter().enumerate().map(|(i, node)| (node.name, i)).collect();
    let mut readers = Readers::default();
    for edge in edges {
        let end = |name: &str| {
            by_name.get(name).copied().ok_or_else(|| {
                let place = position(edge.line, edge.text, name);
                let message = format!("there is no node `{name}`");
                InputError::new(M002, label, place, message, "add the node or remove the edge")
            })
        };
        readers.add(end(edge.ends[0])?, 0, end(edge.ends[1])?);
    }
    Ok(readers)
}
