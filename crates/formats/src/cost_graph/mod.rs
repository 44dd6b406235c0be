//! TensorFlow's `CostGraphDef` as protobuf text: the contents of `RunMetadata.cost_graph` when a session
//! records costs.
//!
//! ```text
//! node {
//!   name: "dense/MatMul"
//!   id: 4
//!   input_info { preceding_node: 2 preceding_port: 0 }
//!   output_info { size: 4096 alias_input_port: -1 dtype: DT_FLOAT }
//!   control_input: 3
//!   compute_cost: 17
//! }
//! ```
//!
//! Times are in µs and sizes in bytes, as in tensorflow/core/framework/cost_graph.proto. Other fields are
//! ignored.
//!
//! | in the file | in the document |
//! | --- | --- |
//! | node | operator; pass, layer and colocation are read off its name |
//! | `compute_cost` | seconds on the profiled class |
//! | `persistent_memory_size`, `temporary_memory_size` | parameter bytes, workspace |
//! | `output_info` named by some `input_info` | tensor |
//! | `control_input` | tensor without bytes |
//! | `_SOURCE`, `_SINK` | nothing: they delimit the executor's graph |
//!
//! Readers of a backward or update operator are backward too, whatever their names: authors choose the names
//! of gradient clipping and logging.

mod textproto;

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use stagewright_core::document::{GRAPH_SCHEMA, GraphDocument, OperatorDocument, Pass, TensorDocument};

use super::error::{At, InputError, Result};
use super::options::{ImportOptions, TimeUnit};
use super::readers::Readers;
use super::text::{Sniff, text};
use super::work::is_amount;
use super::{Format, Imported, names};
use crate::code::M::*;
use textproto::{Event, Reader, unquoted};

/// A node. Text slices are kept to locate errors.
#[derive(Debug, Default)]
struct Node<'a> {
    name: String,
    id: i64,
    /// Text that locates the node: its id, or the name of its field.
    place: &'a str,
    /// Node id, output and the text that locates them.
    inputs: Vec<(i64, i64, &'a str)>,
    outputs: Vec<f64>,
    control: Vec<(i64, &'a str)>,
    cost: f64,
    persistent: f64,
    temporary: f64,
}

/// Output number of control dependencies; no tensor has it.
const CONTROL: usize = usize::MAX;

/// Recognises a dump by its start, a node in braces, and by the absence of `op`.
pub(super) fn detect(bytes: &[u8], _json: &Sniff) -> bool {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(super::HEAD as usize)]);
    let lines = head.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let start: String = lines.take(1).collect();
    let start = start.trim_start_matches('\u{feff}');
    let begins =
        start.strip_prefix("node").is_some_and(|rest| rest.trim_start().starts_with(['{', ':', '<']));
    begins && !head.contains("op: ")
}

pub(super) fn import(label: &str, bytes: &[u8], options: &ImportOptions) -> Result<Imported> {
    let text = text(label, bytes)?;
    let mut nodes = parse(label, text)?;
    nodes.retain(|node| !is_end(&node.name));
    if nodes.is_empty() {
        let help = "record costs with RunOptions.trace_level FULL_TRACE and build_cost_model, and dump \
                    RunMetadata.cost_graph";
        return Err(InputError::new(M004, label, At::Whole, "the cost graph has no nodes", help));
    }
    let readers = readers(label, text, &nodes)?;
    let names = names::unique(nodes.iter().map(|node| (node.name.as_str(), node.id)));
    let passes = passes(&nodes, &readers);
    let colocation = colocation(&nodes);
    let unit = options.time_unit.unwrap_or(TimeUnit::Microseconds).per_second();
    let operators = nodes
        .iter()
        .zip(&names)
        .zip(passes.into_iter().zip(colocation))
        .map(|((node, name), (pass, colocation))| OperatorDocument {
            pass,
            colocation,
            layer: names::layer(&node.name),
            seconds: BTreeMap::from([(options.class().to_owned(), node.cost / unit)]),
            parameter_bytes: node.persistent,
            workspace_bytes: node.temporary,
            ..OperatorDocument::named(name.clone())
        })
        .collect();
    let tensor = |(producer, output, readers): (usize, usize, &[usize])| {
        let name = (output != CONTROL).then(|| format!("{}:{output}", names[producer]));
        let consumers = readers.iter().map(|&reader| names[reader].clone()).collect();
        let bytes = nodes[producer].outputs.get(output).copied().unwrap_or(0.0);
        TensorDocument { name, ..TensorDocument::new(&*names[producer], consumers, bytes) }
    };
    let graph = GraphDocument {
        operators,
        tensors: readers.iter().map(tensor).collect(),
        ..GraphDocument::new(GRAPH_SCHEMA, names::stem(label))
    };
    Ok(Imported { graph, format: Format::CostGraph, ids: None })
}

fn is_end(name: &str) -> bool {
    matches!(name, "_SOURCE" | "_SINK")
}

fn parse<'a>(label: &'a str, text: &'a str) -> Result<Vec<Node<'a>>> {
    let mut reader = Reader::new(label, text);
    let mut nodes = Vec::new();
    loop {
        match reader.event()? {
            Event::End => return Ok(nodes),
            Event::Open(field @ "node") => nodes.push(node(label, &mut reader, field)?),
            Event::Open(_) => reader.skip()?,
            Event::Scalar(..) | Event::Close => {}
        }
    }
}

fn node<'a>(label: &str, reader: &mut Reader<'a>, place: &'a str) -> Result<Node<'a>> {
    let mut node = Node { place, ..Node::default() };
    loop {
        match reader.event()? {
            Event::Scalar("name", value) => {
                node.name = unquoted(value).ok_or_else(|| {
                    let message = format!("the name `{value}` is not quoted");
                    InputError::new(M006, label, reader.place(value), message, "put it in quotes")
                })?;
            }
            Event::Scalar("id", value) => {
                node.id = whole(label, reader, value)?;
                node.place = value;
            }
            Event::Scalar("control_input", value) => node.control.push((whole(label, reader, value)?, value)),
            Event::Scalar("compute_cost", value) => node.cost = amount(label, reader, value)?,
            Event::Scalar("persistent_memory_size", value) => node.persistent = amount(label, reader, value)?,
            Event::Scalar("temporary_memory_size", value) => node.temporary = amount(label, reader, value)?,
            Event::Open(field @ "input_info") => {
                let (mut id, mut port, mut place) = (0, 0, field);
                loop {
                    match reader.event()? {
                        Event::Scalar("preceding_node", value) => {
                            id = whole(label, reader, value)?;
                            place = value;
                        }
                        Event::Scalar("preceding_port", value) => port = whole(label, reader, value)?,
                        Event::Open(_) => reader.skip()?,
                        Event::Close | Event::End => break,
                        Event::Scalar(..) => {}
                    }
                }
                node.inputs.push((id, port, place));
            }
            Event::Open("output_info") => {
                let mut size = 0.0;
                loop {
                    match reader.event()? {
                        Event::Scalar("size", value) => size = amount(label, reader, value)?,
                        Event::Open(_) => reader.skip()?,
                        Event::Close | Event::End => break,
                        Event::Scalar(..) => {}
                    }
                }
                node.outputs.push(size);
            }
            Event::Open(_) => reader.skip()?,
            Event::Close | Event::End => return Ok(node),
            Event::Scalar(..) => {}
        }
    }
}

fn whole(label: &str, reader: &Reader<'_>, value: &str) -> Result<i64> {
    value.parse().map_err(|_| {
        let message = format!("`{value}` is not a whole number");
        InputError::new(M003, label, reader.place(value), message, "write a whole number")
    })
}

fn amount(label: &str, reader: &Reader<'_>, value: &str) -> Result<f64> {
    match value.parse::<f64>() {
        Ok(amount) if is_amount(amount) => Ok(amount),
        _ => {
            let message = format!("`{value}` is not a time or size");
            let help =
                "write a finite number that is not negative; a size that was not recorded is -1: record it";
            Err(InputError::new(M003, label, reader.place(value), message, help))
        }
    }
}

fn readers(label: &str, text: &str, nodes: &[Node<'_>]) -> Result<Readers> {
    let places = Reader::new(label, text);
    let mut by_id: FxHashMap<i64, usize> = FxHashMap::default();
    for (index, node) in nodes.iter().enumerate() {
        if let Some(first) = by_id.insert(node.id, index) {
            let message = format!("the id {} is already used by `{}`", node.id, nodes[first].name);
            let help = "dump the graph of one partition, inside which ids are unique, or give every node a unique id";
            return Err(InputError::new(M001, label, places.place(node.place), message, help));
        }
    }
    let mut readers = Readers::default();
    for (reader, node) in nodes.iter().enumerate() {
        let data = node.inputs.iter().map(|&(id, port, place)| (id, Some(port), place));
        let control = node.control.iter().map(|&(id, place)| (id, None, place));
        for (id, port, place) in data.chain(control) {
            let fault = |message: String| {
                let help = "correct the input; check that the file is complete";
                InputError::new(M002, label, places.place(place), message, help)
            };
            // The ends of the executor's graph, which have the first two ids, were removed.
            let Some(&producer) = by_id.get(&id) else {
                if matches!(id, 0 | 1) {
                    continue;
                }
                return Err(fault(format!("no node has the id {id}")));
            };
            let output = match port {
                // The executor numbers control edges -1.
                None | Some(-1) => CONTROL,
                Some(port) => usize::try_from(port)
                    .ok()
                    .filter(|&port| port < nodes[producer].outputs.len())
                    .ok_or_else(|| fault(format!("the node {id} has no output {port}")))?,
            };
            readers.add(producer, output, reader);
        }
    }
    Ok(readers)
}

/// Passes by name, then propagated to readers.
fn passes(nodes: &[Node<'_>], readers: &Readers) -> Vec<Pass> {
    let mut passes: Vec<Pass> = nodes.iter().map(|node| names::role(&node.name).0).collect();
    let mut successors: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    readers.iter().for_each(|(producer, _, readers)| successors[producer].extend(readers));
    let mut queue: Vec<usize> = (0..nodes.len()).filter(|&index| passes[index] != Pass::Forward).collect();
    while let Some(index) = queue.pop() {
        for &reader in &successors[index] {
            if passes[reader] == Pass::Forward {
                passes[reader] = Pass::Backward;
                queue.push(reader);
            }
        }
    }
    passes
}

/// Colocates gradients, reads and updates with the operator or variable that they belong to.
fn colocation(nodes: &[Node<'_>]) -> Vec<Option<String>> {
    let known: FxHashMap<&str, ()> = nodes.iter().map(|node| (node.name.as_str(), ())).collect();
    let mut members: FxHashMap<&str, usize> = FxHashMap::default();
    let owners: Vec<&str> = nodes
        .iter()
        .map(|node| {
            let mut owner = node.name.as_str();
            // Every step shortens the name, so the loop ends.
            while let Some(next) = names::role(owner).1.filter(|next| known.contains_key(next)) {
                owner = next;
            }
            *members.entry(owner).or_default() += 1;
            owner
        })
        .collect();
    owners.into_iter().map(|owner| (members[owner] > 1).then(|| owner.to_owned())).collect()
}
