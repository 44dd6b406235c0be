//! A Piper file with layers as indices, and the devices of the plan.

use std::collections::{BTreeMap, BTreeSet};

use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, JointPlanDocument, PiperConfigurationDocument, PiperDocument,
    PiperNodeDocument, TimeUnitDocument,
};

use super::names;
use crate::error::CheckError;
use crate::read::{self, Cluster, amount, rate};
use crate::topological;

/// The layers, the edges between them, and the devices.
#[derive(Debug)]
pub(super) struct File<'a> {
    pub(super) nodes: &'a [PiperNodeDocument],
    pub(super) names: Vec<String>,
    /// Bytes from one layer to another, over all tensors.
    pub(super) edges: BTreeMap<(usize, usize), f64>,
    /// Edges of every layer, into and out of it.
    pub(super) edges_of: Vec<Vec<(usize, usize)>>,
    /// Seconds per unit of time in the file.
    pub(super) unit: f64,
    pub(super) microbatches: u64,
    pub(super) devices: u64,
    /// Bytes that a plan may use on a device; `None` means unlimited.
    pub(super) memory: Option<f64>,
    pub(super) bandwidth: f64,
    known: BTreeSet<String>,
    by_degree: Vec<BTreeMap<u32, &'a [PiperConfigurationDocument]>>,
}

impl<'a> File<'a> {
    /// Reads the file and checks it: unique numbers, edges between existing layers, figures in range, no cycle.
    pub(super) fn read(document: &'a PiperDocument, plan: &JointPlanDocument) -> Result<Self, CheckError> {
        let nodes = document.nodes.as_slice();
        let names = names::layers(nodes);
        let mut index = BTreeMap::new();
        let mut by_degree = Vec::with_capacity(nodes.len());
        for (index_of_node, node) in nodes.iter().enumerate() {
            if index.insert(node.id, index_of_node).is_some() {
                return Err(CheckError::Duplicate { what: "layer number", name: node.id.to_string() });
            }
            by_degree.push(degrees(node, &names[index_of_node])?);
        }
        let edges = read_edges(document, &index)?;
        let arcs: Vec<(usize, usize)> = edges.keys().copied().collect();
        topological::sort(nodes.len(), &arcs).map_err(|cycle| CheckError::Cycle {
            operators: cycle.into_iter().map(|layer| names[layer].clone()).collect(),
        })?;
        let mut edges_of = vec![Vec::new(); nodes.len()];
        for &(from, to) in edges.keys() {
            edges_of[from].push((from, to));
            edges_of[to].push((from, to));
        }
        let known = names.iter().cloned().collect();
        let (devices, memory, bandwidth) = match &plan.cluster {
            Some(cluster) => devices(cluster)?,
            None => {
                amount(document.max_memory_per_device, || "maxMemoryPerDevice".to_owned())?;
                rate(document.bandwidth, || "bandwidth".to_owned())?;
                let memory = Some(document.max_memory_per_device);
                (u64::from(document.max_devices), memory, document.bandwidth)
            }
        };
        let unit = unit(plan)?;
        let microbatches = plan.objective.global_batch;
        Ok(File {
            nodes,
            names,
            edges,
            edges_of,
            unit,
            microbatches,
            devices,
            memory,
            bandwidth,
            known,
            by_degree,
        })
    }

    /// Whether there is a layer of this name.
    pub(super) fn has(&self, layer: &str) -> bool {
        self.known.contains(layer)
    }

    /// Configurations of a layer at a degree of tensor parallelism.
    pub(super) fn configurations(&self, layer: usize, degree: u32) -> &'a [PiperConfigurationDocument] {
        self.by_degree[layer].get(&degree).copied().unwrap_or_default()
    }
}

/// Configurations of a layer by degree of tensor parallelism, with figures in range.
fn degrees<'a>(
    node: &'a PiperNodeDocument,
    name: &str,
) -> Result<BTreeMap<u32, &'a [PiperConfigurationDocument]>, CheckError> {
    let mut by_degree = BTreeMap::new();
    for (degree, configurations) in &node.configurations {
        let Ok(number) = degree.parse::<u32>() else {
            let place = format!("layer {name:?}");
            return Err(CheckError::Unknown { place, what: "degree", name: degree.clone() });
        };
        if by_degree.insert(number, configurations.as_slice()).is_some() {
            return Err(CheckError::Duplicate { what: "degree", name: format!("{degree} of {name}") });
        }
        for configuration in configurations {
            let figures = [
                ("timePerSample", configuration.time_per_sample),
                ("parameterSize", configuration.parameter_size),
                ("memoryUsageA", configuration.memory_usage_a),
                ("memoryUsageB", configuration.memory_usage_b),
            ];
            let exchanged = configuration.sync_time_fw.values().chain(configuration.sync_time_bw.values());
            let exchanged = exchanged.map(|&bytes| ("a synchronisation", bytes));
            for (what, value) in figures.into_iter().chain(exchanged) {
                amount(value, || format!("{what} of layer {name:?}"))?;
            }
        }
    }
    Ok(by_degree)
}

/// Bytes of the edges from layer to layer.
fn read_edges(
    document: &PiperDocument,
    index: &BTreeMap<i64, usize>,
) -> Result<BTreeMap<(usize, usize), f64>, CheckError> {
    let mut edges = BTreeMap::new();
    for edge in &document.edges {
        let find = |number: i64| {
            index.get(&number).copied().ok_or_else(|| CheckError::Unknown {
                place: "an edge".into(),
                what: "layer",
                name: number.to_string(),
            })
        };
        let ends = (find(edge.source_id)?, find(edge.dest_id)?);
        amount(edge.communication_cost, || "communicationCost of an edge".to_owned())?;
        *edges.entry(ends).or_insert(0.0) += edge.communication_cost;
    }
    Ok(edges)
}

/// Number, memory and bandwidth of the devices of a cluster: those of its only kind that is not a host.
fn devices(document: &ClusterDocument) -> Result<(u64, Option<f64>, f64), CheckError> {
    read::schema("cluster", &document.schema, CLUSTER_SCHEMA)?;
    let cluster = Cluster::read(document)?;
    let mut kinds = cluster.kinds.iter().map(|kind| kind.document).filter(|kind| !kind.host);
    let (Some(kind), None) = (kinds.next(), kinds.next()) else {
        let (rule, needs) = ("the objective time-per-sample", "one kind of devices that is not a host");
        return Err(CheckError::Rule { rule, needs });
    };
    let Some(link) = &kind.link else {
        let needed_for = "the objective time-per-sample".to_owned();
        return Err(CheckError::NoLink { kind: kind.name.clone(), needed_for });
    };
    let usable = |memory: f64| (memory - kind.reserve_bytes.unwrap_or(0.0)).max(0.0);
    Ok((u64::from(kind.count), kind.memory_bytes.map(usable), link.bandwidth))
}

/// Seconds per unit of time in the file.
fn unit(plan: &JointPlanDocument) -> Result<f64, CheckError> {
    match plan.options.as_ref().and_then(|options| options.time_unit) {
        Some(TimeUnitDocument::S) => Ok(1.0),
        Some(TimeUnitDocument::Ms) => Ok(1e-3),
        Some(TimeUnitDocument::Us) => Ok(1e-6),
        Some(TimeUnitDocument::Ns) => Ok(1e-9),
        None => Err(CheckError::Rule { rule: "a file of Piper", needs: "a unit of time in the plan" }),
    }
}
