//! The JSON of the package of "Piper: Multidimensional Planner for DNN Parallelization" (Tarnawski et al.,
//! NeurIPS 2021).
//!
//! ```json
//! { "maxDevices": 10, "maxMemoryPerDevice": 8e10, "bandwidth": 2.5e10, "mbsInBatch": 1920,
//!   "nodes": [ {"id": 1, "name": "Embedding", "TMPCs": {"1": [ {"id": "vanilla", "timePerSample": 0.001,
//!               "parameterSize": 2e8, "memoryUsageA": 2e6, "memoryUsageB": 4e8,
//!               "syncTimeFw": {"0": 0.0}, "syncTimeBw": {"3": 0.0}} ]}}, … ],
//!   "edges": [ {"sourceId": 0, "destId": 1, "communicationCost": 8192.0}, … ] }
//! ```
//!
//! A node lists configurations by the number of devices that it is spread over. Here an operator runs on one device, so
//! the first configuration under `"1"` is read (in the published files the one without recomputation) and the others
//! are ignored. Its time is that of a whole training step of one sample. The file does not state the unit: the
//! published profile is in seconds, others are in ms, so the unit has to be given.
//!
//! | in the file | in the document |
//! | --- | --- |
//! | node | operator; `timePerSample` is its time, forward and backward together |
//! | `parameterSize` | parameter bytes |
//! | `memoryUsageB` beyond `parameterSize` | optimiser bytes: independent of microbatches in flight |
//! | `memoryUsageA` | activation bytes: per microbatch in flight |
//! | edges out of a node with one `communicationCost` | one tensor of twice the bytes, for the forward and backward pass |
//! | `maxDevices`, `maxMemoryPerDevice`, `bandwidth` | kind `acc`, its count, memory and link |
//!
//! Piper charges every edge separately; here the readers of a tensor share it, as in the cost model.
//!
//! `syncTimeFw` is keyed by predecessors and `syncTimeBw` by successors. The package's README states the
//! reverse; its code and its files agree on this convention. On one device there is nothing to synchronise,
//! and a positive time is an error.

use std::collections::{BTreeMap, BTreeSet};

use stagewright_core::document::{
    ClusterDocument, GRAPH_SCHEMA, GraphDocument, KindDocument, LinkDocument, OperatorDocument,
    PiperConfigurationDocument, PiperDocument, PiperNodeDocument, TensorDocument,
};

use super::error::{At, InputError, Result};
use super::notation::Notation;
use super::options::{ImportOptions, TimeUnit};
use super::readers::Readers;
use super::text::{Sniff, text};
use super::work::is_amount;
use super::{Format, Imported, names};
use crate::code::M::*;

pub(super) fn detect(_bytes: &[u8], json: &Sniff) -> bool {
    ["maxMemoryPerDevice", "mbsInBatch", "maxDevices"].iter().any(|key| json.has(key))
}

pub(super) fn import(label: &str, bytes: &[u8], options: &ImportOptions) -> Result<Imported> {
    let file: PiperDocument = Notation::Json.read(label, text(label, bytes)?)?;
    if file.nodes.is_empty() {
        let help = "give at least one node";
        return Err(InputError::at_path(M004, label, "nodes", "the model has no nodes", help));
    }
    let mut by_id = BTreeMap::new();
    for (i, node) in file.nodes.iter().enumerate() {
        if let Some(first) = by_id.insert(node.id, i) {
            let message = format!("the id {} is already used by nodes[{first}]", node.id);
            let help = "give every node a unique id";
            return Err(InputError::at_path(M001, label, format!("nodes[{i}].id"), message, help));
        }
    }
    let joined = file.edges.iter().map(|edge| (edge.source_id, edge.dest_id)).collect();
    let names = names::unique(file.nodes.iter().map(|node| (node.name.as_str(), node.id)));
    let mut ways = Vec::with_capacity(file.nodes.len());
    for (i, node) in file.nodes.iter().enumerate() {
        let (degree, way) = single(label, i, node)?;
        check_way(label, &format!("nodes[{i}].TMPCs.{degree}[0]"), way, node.id, &joined)?;
        ways.push(way);
    }
    let tensors = tensors(label, &file, &by_id, &names)?;
    let cluster = cluster(label, &file, options)?;
    let per_second = per_second(label, options.time_unit)?;
    let operator = |((node, name), way): ((&PiperNodeDocument, &String), &PiperConfigurationDocument)| {
        OperatorDocument {
            kind: (!node.name.is_empty()).then(|| node.name.clone()),
            layer: names::layer(&node.name),
            seconds: BTreeMap::from([(options.class().to_owned(), way.time_per_sample / per_second)]),
            parameter_bytes: way.parameter_size,
            optimizer_bytes: (way.memory_usage_b - way.parameter_size).max(0.0),
            activation_bytes: way.memory_usage_a,
            ..OperatorDocument::named(name.clone())
        }
    };
    let operators = file.nodes.iter().zip(&names).zip(ways).map(operator).collect();
    let graph = GraphDocument {
        operators,
        tensors,
        cluster: Some(cluster),
        ..GraphDocument::new(GRAPH_SCHEMA, names::stem(label))
    };
    Ok(Imported { graph, format: Format::Piper, ids: None })
}

/// The first configuration of a node on one device.
fn single<'a>(
    label: &str,
    i: usize,
    node: &'a PiperNodeDocument,
) -> Result<(&'a str, &'a PiperConfigurationDocument)> {
    let entry = node.configurations.iter().find(|(degree, _)| degree.trim().parse() == Ok(1));
    entry.and_then(|(degree, ways)| Some((degree.as_str(), ways.first()?))).ok_or_else(|| {
        let message = format!("the node {} has no profile for one device", node.id);
        let help =
            "profile it on one device too and add that under \"1\": a plan places an operator on one device";
        InputError::at_path(M012, label, format!("nodes[{i}].TMPCs"), message, help)
    })
}

fn check_way(
    label: &str,
    path: &str,
    way: &PiperConfigurationDocument,
    id: i64,
    joined: &BTreeSet<(i64, i64)>,
) -> Result<()> {
    for (field, value) in [
        ("timePerSample", way.time_per_sample),
        ("parameterSize", way.parameter_size),
        ("memoryUsageA", way.memory_usage_a),
        ("memoryUsageB", way.memory_usage_b),
    ] {
        not_negative(label, &format!("{path}.{field}"), value)?;
    }
    let before = way.sync_time_fw.iter().map(|(&other, &time)| ("syncTimeFw", (other, id), other, time));
    let after = way.sync_time_bw.iter().map(|(&other, &time)| ("syncTimeBw", (id, other), other, time));
    for (field, edge, other, time) in before.chain(after) {
        let path = format!("{path}.{field}.{other}");
        if !joined.contains(&edge) {
            let message = format!("there is no edge from {} to {}", edge.0, edge.1);
            let help = "correct the id or add the edge: syncTimeFw is keyed by predecessors and syncTimeBw by \
                        successors";
            return Err(InputError::at_path(M002, label, path, message, help));
        }
        not_negative(label, &path, time)?;
        if time > 0.0 {
            let message = format!("the node {id} synchronises with {other}, but runs on one device");
            let help = "write 0: only nodes on several devices synchronise";
            return Err(InputError::at_path(M012, label, path, message, help));
        }
    }
    Ok(())
}

fn tensors(
    label: &str,
    file: &PiperDocument,
    by_id: &BTreeMap<i64, usize>,
    names: &[String],
) -> Result<Vec<TensorDocument>> {
    // Edges out of a node carry one tensor if their costs are bitwise equal.
    let mut tensor_of: BTreeMap<(usize, u64), usize> = BTreeMap::new();
    let mut costs = Vec::new();
    let mut readers = Readers::default();
    for (i, edge) in file.edges.iter().enumerate() {
        let end = |field: &str, id: i64| {
            by_id.get(&id).copied().ok_or_else(|| {
                let message = format!("no node has the id {id}");
                let help = "add the node or remove the edge";
                InputError::at_path(M002, label, format!("edges[{i}].{field}"), message, help)
            })
        };
        let (source, dest) = (end("sourceId", edge.source_id)?, end("destId", edge.dest_id)?);
        not_negative(label, &format!("edges[{i}].communicationCost"), edge.communication_cost)?;
        let cost = edge.communication_cost;
        let output = *tensor_of.entry((source, cost.to_bits())).or_insert_with(|| {
            costs.push(cost);
            costs.len() - 1
        });
        readers.add(source, output, dest);
    }
    let tensor = |(producer, output, readers): (usize, usize, &[usize])| {
        let consumers = readers.iter().map(|&reader| names[reader].clone()).collect();
        TensorDocument::new(&*names[producer], consumers, 2.0 * costs[output])
    };
    Ok(readers.iter().map(tensor).collect())
}

fn cluster(label: &str, file: &PiperDocument, options: &ImportOptions) -> Result<ClusterDocument> {
    not_negative(label, "maxMemoryPerDevice", file.max_memory_per_device)?;
    not_negative(label, "bandwidth", file.bandwidth)?;
    let kind = KindDocument {
        memory_bytes: Some(file.max_memory_per_device),
        link: Some(LinkDocument { latency_s: 0.0, bandwidth: file.bandwidth }),
        ..KindDocument::named(options.class(), file.max_devices)
    };
    Ok(ClusterDocument { kinds: vec![kind], ..ClusterDocument::new("piper") })
}

/// Whether a model is a file of Piper.
pub fn is_piper(bytes: &[u8]) -> bool {
    super::detect("", bytes).is_ok_and(|format| format == Format::Piper)
}

/// Reads a file of Piper with all configurations. Its numbers are not checked.
///
/// # Errors
/// If the text is not such a file.
pub fn import_piper(label: &str, bytes: &[u8]) -> Result<PiperDocument> {
    Notation::Json.read(label, text(label, bytes)?)
}

/// Number of time units of a Piper file in a second.
///
/// # Errors
/// If the unit is not given: the files do not state it (M005).
pub fn per_second(label: &str, unit: Option<TimeUnit>) -> Result<f64> {
    unit.map(TimeUnit::per_second).ok_or_else(|| {
        let help = "give it with --time-unit s, ms, us or ns; the published BERT-32 profile is in s";
        let message = "the format does not state the unit of its times";
        InputError::new(M005, label, At::Whole, message, help)
    })
}

/// Unique names of the layers in a Piper file.
pub fn layer_names(document: &PiperDocument) -> Vec<String> {
    names::unique(document.nodes.iter().map(|node| (node.name.as_str(), node.id)))
}

/// Unique names of the configurations of a layer at a degree: their own ids, or `#` and their index.
pub fn configuration_names(configurations: &[PiperConfigurationDocument]) -> Vec<String> {
    let ids: BTreeSet<&str> = configurations.iter().map(|configuration| configuration.id.as_str()).collect();
    let are_names = ids.len() == configurations.len() && !ids.contains("");
    let name = |(index, configuration): (usize, &PiperConfigurationDocument)| match are_names {
        true => configuration.id.clone(),
        false => format!("#{index}"),
    };
    configurations.iter().enumerate().map(name).collect()
}

fn not_negative(label: &str, path: &str, value: f64) -> Result<()> {
    if is_amount(value) {
        return Ok(());
    }
    let help = "write a finite number that is not negative";
    Err(InputError::at_path(M003, label, path, format!("{value} is not a time, size or cost"), help))
}
