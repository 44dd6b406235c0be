//! The JSON of the NeurIPS 2020 package "Efficient Algorithms for Device Placement of DNN Graph Operators".
//!
//! ```json
//! { "maxSizePerFPGA": 17185374208.0, "maxFPGAs": 6, "maxCPUs": 1,
//!   "nodes": [ {"id": 0, "name": "embedding", "supportedOnFpga": true, "cpuLatency": 5.1, "fpgaLatency": 0.7,
//!               "size": 4096.0, "isBackwardNode": false, "colorClass": 3, "layerId": 1}, … ],
//!   "edges": [ {"sourceId": 0, "destId": 1, "cost": 0.2, "size": 8192.0}, … ] }
//! ```
//!
//! Times are in ms, sizes in bytes; an "FPGA" is any accelerator. The model carries its cluster.
//!
//! | in the file | in the document |
//! | --- | --- |
//! | node | operator, in file order |
//! | `cpuLatency`, `fpgaLatency` | seconds on the classes `cpu` and `acc` |
//! | `supportedOnFpga` false | `acc` is unsupported, whatever `fpgaLatency` says |
//! | `size` of a node, 0 if missing | parameter bytes: the only memory in the package's model |
//! | `colorClass` k | colocation `color<k>`, after absorption (see the end) |
//! | `layerId` k | layer `layer<k>` |
//! | all edges out of a node | one tensor, consumers in order of first appearance |
//! | `cost` of an edge | seconds of the tensor on `acc`; communication of a host is free, so there are none on `cpu` |
//! | `size` of an edge | bytes of the tensor |
//! | `maxFPGAs`, `maxSizePerFPGA` | kind `acc`, its count and memory |
//! | `maxCPUs` | host kind `cpu`, its count, unlimited memory |
//!
//! # Quirks
//!
//! - Flags are booleans or 0 and 1, sometimes both in one file.
//! - Ids have gaps, and names may be missing or repeat. An operator without a name is named `node<id>`, and
//!   all that share a name are named `name#id`. The ids are kept beside the document, for splits.
//! - Edges out of one node must have equal costs to within 10⁻⁶ ms, since they carry one tensor; the cost of
//!   the first is used. Their sizes may differ: some consumers are profiled as reading a part. The tensor has
//!   the largest size. No objective reads it here, because the measured seconds take precedence.
//! - `size`, `colorClass`, `layerId` and `name` are optional, and unknown fields are ignored.
//! - A class of backward nodes alone is allowed; [`absorb`] describes its treatment.
//!
//! The package merges free operators into their neighbour before it searches. [`absorb`] does the same by colocation,
//! so that the package's published values are for the problem solved here.

pub mod absorb;
mod check;
mod file;
pub(super) mod split;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use stagewright_core::document::{
    ClusterDocument, GRAPH_SCHEMA, GraphDocument, KindDocument, OperatorDocument, Pass, TensorDocument,
};

use super::error::Result;
use super::notation::Notation;
use super::text::{Sniff, text};
use super::{Format, ImportOptions, Imported, names};
use check::Checked;
use file::{ModelFile, Node};
pub use write::write_reference;

/// Name of the class and the kind of accelerators.
pub const ACCELERATOR: &str = "acc";

/// Name of the class and the kind of processors, which are hosts.
pub const HOST: &str = "cpu";

const MS_PER_SECOND: f64 = 1000.0;

/// Properties of the package's files that documents lack: node ids, and the original colour classes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReferenceIds {
    /// Index of the operator in the graph document, by node id.
    pub by_id: BTreeMap<i64, usize>,
    /// Colour class of every operator, before absorption.
    pub colors: Vec<Option<i64>>,
}

/// Recognises the format by any one of three keys; `nodes` and `edges` occur in every graph format.
pub(super) fn detect(_bytes: &[u8], json: &Sniff) -> bool {
    ["maxFPGAs", "maxSizePerFPGA", "maxCPUs"].iter().any(|key| json.has(key))
}

pub(super) fn import(label: &str, bytes: &[u8], _options: &ImportOptions) -> Result<Imported> {
    let file: ModelFile = Notation::Json.read(label, text(label, bytes)?)?;
    let checked = check::check(label, &file)?;
    let written = file.nodes.iter().map(|node| (node.name.as_deref().unwrap_or_default(), node.id));
    let names = names::unique(written);
    let tensors = tensors(&file, &checked, &names);
    let colocation = absorb::colocate(&file.nodes, &checked.edges);
    let colors = file.nodes.iter().map(|node| node.color_class).collect();
    let operators = file
        .nodes
        .iter()
        .zip(names)
        .zip(colocation)
        .map(|((node, name), colocation)| operator(node, name, colocation))
        .collect();
    let graph = GraphDocument {
        operators,
        tensors,
        cluster: Some(cluster(&file, &checked)),
        ..GraphDocument::new(GRAPH_SCHEMA, names::stem(label))
    };
    let ids = ReferenceIds { by_id: checked.by_id, colors };
    Ok(Imported { graph, format: Format::Reference, ids: Some(ids) })
}

fn operator(node: &Node, name: String, colocation: Option<String>) -> OperatorDocument {
    let mut operator = OperatorDocument::named(name);
    operator.pass = if node.is_backward_node { Pass::Backward } else { Pass::Forward };
    operator.colocation = colocation;
    operator.layer = node.layer_id.map(|layer| format!("layer{layer}"));
    operator.seconds = BTreeMap::from([
        (ACCELERATOR.to_owned(), node.fpga_latency / MS_PER_SECOND),
        (HOST.to_owned(), node.cpu_latency / MS_PER_SECOND),
    ]);
    if !node.supported_on_fpga {
        operator.unsupported.push(ACCELERATOR.to_owned());
    }
    operator.parameter_bytes = node.size.unwrap_or(0.0);
    operator
}

/// One tensor for every node with outgoing edges, in node order.
fn tensors(file: &ModelFile, checked: &Checked, names: &[String]) -> Vec<TensorDocument> {
    let mut outgoing: Vec<Vec<usize>> = vec![Vec::new(); file.nodes.len()];
    for (edge, &(source, _)) in checked.edges.iter().enumerate() {
        outgoing[source].push(edge);
    }
    let mut tensors = Vec::new();
    for (producer, edges) in outgoing.iter().enumerate() {
        let Some(&first) = edges.first() else { continue };
        let mut seen = BTreeSet::new();
        let consumers = edges.iter().map(|&edge| checked.edges[edge].1).filter(|&v| seen.insert(v));
        let consumers = consumers.map(|v| names[v].clone()).collect();
        let bytes = edges.iter().map(|&edge| file.edges[edge].size.unwrap_or(0.0)).fold(0.0, f64::max);
        tensors.push(TensorDocument {
            seconds: BTreeMap::from([(ACCELERATOR.to_owned(), file.edges[first].cost / MS_PER_SECOND)]),
            ..TensorDocument::new(&*names[producer], consumers, bytes)
        });
    }
    tensors
}

/// The accelerators have no link: every tensor has a measured time.
fn cluster(file: &ModelFile, checked: &Checked) -> ClusterDocument {
    let memory_bytes = Some(file.max_size_per_fpga);
    let kinds = vec![
        KindDocument { memory_bytes, ..KindDocument::named(ACCELERATOR, checked.fpgas) },
        KindDocument { host: true, ..KindDocument::named(HOST, checked.cpus) },
    ];
    ClusterDocument { kinds, ..ClusterDocument::new("reference") }
}

#[cfg(test)]
mod tests;
