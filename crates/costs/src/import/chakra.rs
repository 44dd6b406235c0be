//! MLCommons Chakra execution traces: the operators that one rank of a job ran, with their durations.
//!
//! The file is a stream of protobuf messages, each after its length: one `GlobalMetadata`, then a `Node` for each
//! call. Durations are whole microseconds.
//!
//! - A node of computation is a call of the operator that it is named after, without the namespace: `addmm` of
//!   `aten::addmm`. In traces that `chakra_converter` makes from PyTorch's, the duration of a call excludes the calls
//!   inside it. If the trace has nodes of a GPU (`is_cpu_op` is false), their seconds count for the node of the host
//!   that launched them, and nothing else counts.
//! - A collective is a row of `links`, with the shortest duration of its size, because one rank also waits for the
//!   others. Its transfer is `comm_type`. The number of its devices is that of its process group, which the node
//!   `process_group:init` lists, or is taken from the options. A collective without a transfer, devices or a size is
//!   left out. `comm_size` is the size that one device contributes; a concatenation is larger by the number of devices.
//! - `COMM_SEND_NODE` is a row as well. Whether devices are in different servers is not in the trace.
//!
//! A trace has no names of modules, so calls of all sizes of an operator share a median.
//!
//! Source: `schema/protobuf/et_def.proto` and `src/converter` of mlcommons/chakra; version 0.0.4 of the schema.

use std::collections::BTreeMap;

use prost::Message;
use serde::Deserialize;
use stagewright_core::document::{CostsDocument, TransferKind};
use stagewright_formats::{At, InputError, Result};

use super::Options;
use super::class::{CPU, class};
use super::kineto::kind;
use super::samples::{Samples, seconds};
use super::trace::Scalar;
use super::transfers::{Transfers, shortest};
use crate::code::{Q102, Q107};

/// The first message.
#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(string, tag = "1")]
    version: String,
}

/// A call.
#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(int32, tag = "3")]
    r#type: i32,
    #[prost(uint64, repeated, tag = "4")]
    ctrl_deps: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    data_deps: Vec<u64>,
    #[prost(uint64, tag = "7")]
    duration_micros: u64,
    #[prost(message, optional, tag = "8")]
    inputs: Option<Values>,
    #[prost(message, repeated, tag = "10")]
    attr: Vec<Attribute>,
}

/// Inputs of a call, as text.
#[derive(Clone, PartialEq, Message)]
struct Values {
    #[prost(string, tag = "1")]
    values: String,
}

/// An attribute; one of its values is set.
#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(int32, optional, tag = "7")]
    int32: Option<i32>,
    #[prost(int64, optional, tag = "9")]
    int64: Option<i64>,
    #[prost(uint32, optional, tag = "11")]
    uint32: Option<u32>,
    #[prost(uint64, optional, tag = "13")]
    uint64: Option<u64>,
    #[prost(sint32, optional, tag = "15")]
    sint32: Option<i32>,
    #[prost(sint64, optional, tag = "17")]
    sint64: Option<i64>,
    #[prost(bool, optional, tag = "27")]
    bool: Option<bool>,
    #[prost(string, optional, tag = "29")]
    string: Option<String>,
}

impl Node {
    fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attr.iter().find(|attribute| attribute.name == name)
    }

    /// The value of an attribute that is a non-negative whole number.
    fn count(&self, name: &str) -> Option<u64> {
        let found = self.attribute(name)?;
        let signed =
            found.int64.or(found.sint64).or(found.int32.map(i64::from)).or(found.sint32.map(i64::from));
        found.uint64.or(found.uint32.map(u64::from)).or(signed.and_then(|number| u64::try_from(number).ok()))
    }

    fn is_on_gpu(&self) -> bool {
        self.attribute("is_cpu_op").is_some_and(|attribute| attribute.bool == Some(false))
    }
}

/// Values of `type`.
const COMP_NODE: i32 = 4;
const COMM_SEND_NODE: i32 = 5;
const COMM_COLL_NODE: i32 = 7;
const LAST_TYPE: i32 = 10;

/// Values of `comm_type`.
fn transfer(comm_type: u64) -> Option<TransferKind> {
    Some(match comm_type {
        0 => TransferKind::AllReduce,
        2 => TransferKind::AllGather,
        5 => TransferKind::Broadcast,
        6 => TransferKind::AllToAll,
        7 => TransferKind::ReduceScatter,
        _ => return None,
    })
}

/// Whether the bytes are a Chakra trace: metadata with a version, and a node that has a type.
pub(super) fn detect(bytes: &[u8]) -> bool {
    let mut frames = Frames { bytes, at: 0 };
    let (Some(Ok(first)), second) = (frames.next(), frames.next()) else { return false };
    let Ok(metadata) = Metadata::decode(first) else { return false };
    let is_version = metadata.version.len() < 64 && !metadata.version.chars().any(char::is_control);
    match second {
        // A single message, which its version distinguishes from other bytes.
        None => is_version && metadata.version.starts_with(|first: char| first.is_ascii_digit()),
        Some(Ok(frame)) => Node::decode(frame)
            .is_ok_and(|node| is_version && (1..=LAST_TYPE).contains(&node.r#type) && !node.name.is_empty()),
        Some(Err(_)) => is_version && metadata.version.starts_with(|first: char| first.is_ascii_digit()),
    }
}

/// Reads a trace.
///
/// # Errors
/// If a message is cut off or is of another kind (Q107), nothing was measured (Q102), or the device of a trace
/// with nodes of a GPU is not named (Q108).
pub fn import(label: &str, bytes: &[u8], options: &Options) -> Result<CostsDocument> {
    let nodes = nodes(label, bytes)?;
    let on_gpu = nodes.iter().any(Node::is_on_gpu);
    let groups = groups(&nodes);
    let mut transfers = Transfers::default();
    // Calls of a host and the kernels that they launched, in the order of the file.
    let mut launched: BTreeMap<usize, f64> = BTreeMap::new();
    let hosts: BTreeMap<u64, usize> = nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| !node.is_on_gpu())
        .map(|(number, node)| (node.id, number))
        .collect();
    for (number, node) in nodes.iter().enumerate().filter(|(_, node)| node.duration_micros > 0) {
        let measured = seconds(label, || format!("node[{number}]"), node.duration_micros as f64)?;
        match node.r#type {
            COMP_NODE if node.is_on_gpu() => {
                let by = node.ctrl_deps.iter().chain(&node.data_deps).find_map(|id| hosts.get(id));
                *launched.entry(by.copied().unwrap_or(number)).or_default() += measured;
            }
            COMP_NODE if !on_gpu => *launched.entry(number).or_default() += measured,
            COMM_COLL_NODE => {
                let group = node.attribute("pg_name").and_then(|attribute| attribute.string.as_deref());
                let devices = group.and_then(|name| groups.get(name)).copied().or(options.devices);
                let kind = node.count("comm_type").and_then(transfer);
                if let (Some(devices), Some(kind), Some(bytes)) = (devices, kind, node.count("comm_size")) {
                    let parts = if kind == TransferKind::AllGather { u64::from(devices) } else { 1 };
                    transfers.add(kind, devices, false, bytes.saturating_mul(parts), measured);
                }
            }
            COMM_SEND_NODE => {
                transfers.add(TransferKind::Send, 2, false, node.count("comm_size").unwrap_or(0), measured);
            }
            _ => {}
        }
    }
    let mut samples = Samples::default();
    for (number, seconds) in launched {
        samples.add(kind(&nodes[number].name), seconds);
    }
    if samples.is_empty() && transfers.is_empty() {
        let message =
            "no node of computation has a duration, and no collective a duration, a type, a size and a group";
        let help = "a trace of the host alone has no durations: link it with a trace of PyTorch's profiler \
                    (chakra_trace_link), then convert it; for collectives give --devices NUMBER";
        return Err(InputError::new(Q102, label, At::Whole, message, help));
    }
    let is_cpu = !on_gpu && transfers.is_empty();
    let class = class(label, options, is_cpu.then_some(CPU))?;
    let mut costs = CostsDocument::new("");
    costs.links = transfers.tables(&class, "shortest collectives in a Chakra trace", shortest);
    if !samples.is_empty() {
        costs.operators.push(samples.summarise(class, "Chakra trace".to_owned(), options.warm_up));
    }
    Ok(costs)
}

/// The nodes of a stream.
fn nodes(label: &str, bytes: &[u8]) -> Result<Vec<Node>> {
    let fault = |number: usize, message: String| {
        let path = match number.checked_sub(1) {
            None => "metadata".to_owned(),
            Some(node) => format!("node[{node}]"),
        };
        let help = "check that the file is whole and a trace of Chakra's schema 0.0.4, as chakra_converter writes it";
        InputError::at_path(Q107, label, path, message, help)
    };
    let mut nodes = Vec::new();
    let mut frames = Frames { bytes, at: 0 };
    let mut number = 0;
    loop {
        let offset = frames.at;
        let Some(frame) = frames.next() else { break };
        let frame = frame.map_err(|()| fault(number, format!("the message at byte {offset} is cut off")))?;
        let broken = |error: prost::DecodeError| {
            fault(number, format!("the message at byte {offset} is broken: {error}"))
        };
        if number == 0 {
            Metadata::decode(frame).map_err(broken)?;
        } else {
            nodes.push(Node::decode(frame).map_err(broken)?);
        }
        number += 1;
    }
    Ok(nodes)
}

/// Messages, each after its length.
struct Frames<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<&'a [u8], ()>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        let frame = prost::decode_length_delimiter(&mut rest).ok().and_then(|length| rest.get(..length));
        let Some(frame) = frame else {
            self.at = self.bytes.len();
            return Some(Err(()));
        };
        self.at = self.bytes.len() - rest.len() + frame.len();
        Some(Ok(frame))
    }
}

/// Number of devices of every process group by name, as PyTorch writes the groups: JSON in the inputs of a node.
fn groups(nodes: &[Node]) -> BTreeMap<String, u32> {
    #[derive(Deserialize)]
    struct Group {
        #[serde(default)]
        pg_name: Scalar,
        #[serde(default)]
        group_size: Scalar,
    }
    let mut found = BTreeMap::new();
    for node in nodes.iter().filter(|node| node.name.contains("process_group:init")) {
        let text = node.inputs.as_ref().map_or("", |inputs| inputs.values.as_str());
        let Some((start, end)) = text.find("[{").zip(text.rfind("}]")).filter(|(start, end)| start < end)
        else {
            continue;
        };
        let list = &text[start..end + 2];
        // A text within a text has its quotes escaped.
        let parsed = serde_json::from_str::<Vec<Group>>(list)
            .or_else(|_| serde_json::from_str(&list.replace("\\\"", "\"")))
            .unwrap_or_default();
        for group in parsed {
            if let (Some(name), Some(size)) = (group.pg_name.key(), group.group_size.number())
                && (2.0..1e9).contains(&size)
            {
                found.insert(name, size as u32);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u64, name: &str, r#type: i32, micros: u64) -> Node {
        Node { id, name: name.to_owned(), r#type, duration_micros: micros, ..Node::default() }
    }

    fn attribute(name: &str) -> Attribute {
        Attribute { name: name.to_owned(), ..Attribute::default() }
    }

    fn trace(nodes: &[Node]) -> Vec<u8> {
        let mut bytes = Metadata { version: "0.0.4".to_owned() }.encode_length_delimited_to_vec();
        for node in nodes {
            bytes.extend(node.encode_length_delimited_to_vec());
        }
        assert!(detect(&bytes));
        bytes
    }

    fn options() -> Options {
        Options { class: Some("h100".into()), ..Options::default() }
    }

    #[test]
    fn calls_of_a_host_are_operators() {
        let calls = [900, 4, 2, 6].map(|micros| node(micros, "aten::addmm", COMP_NODE, micros));
        let costs = import("t.et", &trace(&calls), &Options::default()).unwrap();
        assert_eq!(costs.operators[0].class, "cpu");
        assert_eq!(costs.operators[0].seconds, BTreeMap::from([("addmm".to_owned(), 4e-6)]));
    }

    #[test]
    fn nodes_of_a_gpu_count_for_what_launched_them() {
        let mut nodes = vec![node(1, "aten::linear", COMP_NODE, 70), node(2, "aten::addmm", COMP_NODE, 50)];
        for (id, micros) in [(3, 20), (4, 5)] {
            let mut kernel = node(id, "gemm", COMP_NODE, micros);
            kernel.ctrl_deps = vec![2];
            kernel.attr = vec![Attribute { bool: Some(false), ..attribute("is_cpu_op") }];
            nodes.push(kernel);
        }
        let bytes = trace(&nodes);
        assert_eq!(import("t.et", &bytes, &Options::default()).unwrap_err().code, "Q108");
        let costs = import("t.et", &bytes, &options()).unwrap();
        assert_eq!(costs.operators[0].seconds, BTreeMap::from([("addmm".to_owned(), 25e-6)]));
    }

    #[test]
    fn collectives_are_rows_with_the_size_of_their_group() {
        let mut groups = node(1, "## process_group:init ##", 1, 0);
        let text = r#"['[{"pg_name": "0", "pg_desc": "default_pg", "ranks": [], "group_size": 8}]']"#;
        groups.inputs = Some(Values { values: text.to_owned() });
        let collective = |id, kind, micros, group: &str| {
            let mut made = node(id, "nccl", COMM_COLL_NODE, micros);
            made.attr = vec![
                Attribute { int64: Some(kind), ..attribute("comm_type") },
                Attribute { int64: Some(1000), ..attribute("comm_size") },
                Attribute { string: Some(group.to_owned()), ..attribute("pg_name") },
            ];
            made
        };
        let mut send = node(9, "nccl:send", COMM_SEND_NODE, 3);
        send.attr = vec![Attribute { uint64: Some(64), ..attribute("comm_size") }];
        let mut untyped = collective(6, 0, 1, "0");
        untyped.attr.retain(|attribute| attribute.name != "comm_type");
        let nodes = [
            groups,
            collective(2, 0, 90, "0"),
            collective(3, 0, 30, "0"),
            collective(4, 2, 40, "0"),
            collective(5, 0, 10, "unknown"),
            untyped,
            send,
        ];
        let costs = import("t.et", &trace(&nodes), &options()).unwrap();
        let found: Vec<_> =
            costs.links.iter().map(|table| (table.transfer, table.devices, table.rows[0])).collect();
        assert_eq!(
            found,
            [
                (TransferKind::Send, 2, [64.0, 3e-6]),
                (TransferKind::AllReduce, 8, [1000.0, 30e-6]),
                (TransferKind::AllGather, 8, [8000.0, 40e-6]),
            ]
        );
    }

    #[test]
    fn faults_are_located() {
        let bytes = trace(&[node(1, "aten::addmm", COMP_NODE, 3), node(2, "aten::mul", COMP_NODE, 3)]);
        let wrong_type = {
            let mut bytes = trace(&[node(1, "a", COMP_NODE, 3)]);
            // A name that is a number.
            bytes.extend([2, 0x10, 1]);
            bytes
        };
        for (bytes, code, place) in [
            (&bytes[..bytes.len() - 1], "Q107", "node[1]"),
            (&wrong_type, "Q107", "node[1]"),
            (&trace(&[]), "Q102", ""),
            (&trace(&[node(1, "aten::addmm", COMP_NODE, 0)]), "Q102", ""),
        ] {
            let error = import("t.et", bytes, &Options::default()).unwrap_err();
            assert_eq!((error.code.name, error.place.at.to_string().as_str()), (code, place), "{error}");
        }
    }
}
