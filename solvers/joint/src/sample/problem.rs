//! Layers with configurations, validated: the content of Piper files.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use stagewright_core::code::Code;
use stagewright_core::document::{PiperConfigurationDocument, PiperDocument, RecomputeWorkspace};
use thiserror::Error;

use crate::code::J::*;

/// Largest number accepted: sums of a million such numbers stay finite.
const LARGEST: f64 = 1e200;
/// Maximum number of devices, which also limits the labels of a set of layers.
const MAX_DEVICES: u32 = 1 << 16;
/// Maximum number of configurations of all layers.
const MAX_CONFIGURATIONS: usize = 1 << 20;
/// Maximum number of layers.
const MAX_LAYERS: usize = 1 << 11;

/// Options of a problem: how workspaces combine, the features that a plan may use, and the unit of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// How the workspaces of recomputed layers combine.
    pub workspace: RecomputeWorkspace,
    /// Whether a stage may be on several devices by tensor parallelism.
    pub tensor: bool,
    /// Whether a stage may have copies.
    pub data: bool,
    /// Whether there may be several stages.
    pub pipeline: bool,
    /// Whether a layer may have a configuration other than the first of its degree.
    pub recompute: bool,
    /// Number of the file's time units in a second.
    pub per_second: f64,
}

/// The problem of least time per sample: a model of layers, devices, and the features that a plan may use.
#[derive(Debug, Clone)]
pub struct Problem {
    pub(crate) layers: Vec<Layer>,
    /// Degrees of tensor parallelism available for some layer, ascending.
    pub(crate) degrees: Vec<u32>,
    pub(crate) edges: Vec<Edge>,
    /// Edges into each layer.
    pub(crate) inputs: Vec<Vec<usize>>,
    /// Edges out of each layer.
    pub(crate) outputs: Vec<Vec<usize>>,
    pub(crate) devices: u32,
    pub(crate) memory: f64,
    pub(crate) bandwidth: f64,
    pub(crate) microbatches: u32,
    /// Degrees of data parallelism that divide the batch, ascending.
    pub(crate) copies: Vec<u32>,
    pub(crate) terms: Terms,
}

/// A layer.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    /// Configurations by index of the degree; empty where the layer has none.
    pub(crate) configurations: Vec<Vec<Configuration>>,
}

/// A configuration of a layer at a degree of tensor parallelism.
#[derive(Debug, Clone)]
pub(crate) struct Configuration {
    /// Index in the file.
    pub(crate) index: u32,
    /// Time of a microbatch, in seconds.
    pub(crate) seconds: f64,
    /// Bytes that copies synchronise.
    pub(crate) parameters: f64,
    /// Bytes per microbatch in flight.
    pub(crate) activations: f64,
    /// Bytes that do not depend on the microbatches in flight, without the workspace.
    pub(crate) fixed: f64,
    /// Bytes while the layer is recomputed, or zero if workspaces are summed, since they are in `fixed` then.
    pub(crate) workspace: f64,
    /// For each input of the layer, in order, the seconds of its transfers if it comes from another stage.
    pub(crate) input_seconds: Vec<f64>,
    /// For each output of the layer, in order, the seconds of its transfers if it goes to another stage.
    pub(crate) output_seconds: Vec<f64>,
}

/// A tensor between two layers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge {
    pub(crate) source: usize,
    pub(crate) target: usize,
}

/// A document that does not describe a problem.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ProblemError {
    /// No layers.
    #[error("the model has no layers")]
    NoLayers,
    /// Too many layers or configurations.
    #[error("the model has {count} {what}, more than {most}")]
    TooMany {
        /// `layers` or `configurations`.
        what: &'static str,
        /// Number of layers or configurations.
        count: usize,
        /// Largest number supported.
        most: usize,
    },
    /// Two layers with the same number.
    #[error("nodes[{second}] has the id of nodes[{first}]")]
    SameLayer {
        /// Index of the first layer.
        first: usize,
        /// Index of the second layer.
        second: usize,
    },
    /// A layer that does not exist.
    #[error("{place} is {id}, but no node has that id")]
    Unknown {
        /// Location of the number.
        place: String,
        /// The number.
        id: i64,
    },
    /// A number out of range.
    #[error("{place} is {value}, but must be {range}")]
    Range {
        /// Location of the number.
        place: String,
        /// The number.
        value: String,
        /// Allowed range.
        range: &'static str,
    },
    /// Two edges between the same layers.
    #[error("edges[{second}] joins the same nodes as edges[{first}]")]
    SameEdge {
        /// Index of the first edge.
        first: usize,
        /// Index of the second edge.
        second: usize,
    },
    /// Edges that form a cycle.
    #[error("the edges form a cycle through node {id}")]
    Cycle {
        /// A layer on the cycle.
        id: i64,
    },
    /// A missing batch size.
    #[error("the file has no number of microbatches, `mbsInBatch`")]
    NoBatch,
}

impl ProblemError {
    /// Stable code; `data/errors.md` explains it.
    pub fn code(&self) -> Code {
        match self {
            ProblemError::NoLayers | ProblemError::TooMany { .. } => J001,
            ProblemError::SameLayer { .. } | ProblemError::Unknown { .. } | ProblemError::SameEdge { .. } => {
                J002
            }
            ProblemError::Range { .. } => J003,
            ProblemError::Cycle { .. } => J004,
            ProblemError::NoBatch => J005,
        }
        .into()
    }

    /// Advice for the user.
    pub fn help(&self) -> &'static str {
        match self {
            ProblemError::NoBatch => "add it, or give the number with --global-batch",
            ProblemError::TooMany { .. } => "merge layers before profiling them",
            _ => "correct the file, or check that the program that wrote it finished",
        }
    }
}

/// Checks the sizes of the whole model, and returns the number of microbatches.
fn check_sizes(document: &PiperDocument) -> Result<u32, ProblemError> {
    let layers = document.nodes.len();
    if layers == 0 {
        return Err(ProblemError::NoLayers);
    }
    let all = document.nodes.iter().flat_map(|node| node.configurations.values().map(Vec::len)).sum();
    for (what, count, limit) in [("layers", layers, MAX_LAYERS), ("configurations", all, MAX_CONFIGURATIONS)]
    {
        if count > limit {
            return Err(ProblemError::TooMany { what, count, most: limit });
        }
    }
    let microbatches = document.microbatches.ok_or(ProblemError::NoBatch)?;
    whole("mbsInBatch", microbatches, u32::MAX, "1 or more")?;
    whole("maxDevices", document.max_devices, MAX_DEVICES, "1 to 65536")?;
    amount("maxMemoryPerDevice".into(), document.max_memory_per_device)?;
    amount("bandwidth".into(), document.bandwidth)?;
    if document.bandwidth < 1.0 / LARGEST {
        let value = document.bandwidth.to_string();
        return Err(ProblemError::Range { place: "bandwidth".into(), value, range: "above 0" });
    }
    Ok(microbatches)
}

/// The edges, of which no two join the same layers.
fn read_edges(document: &PiperDocument, by_id: &FxHashMap<i64, usize>) -> Result<Vec<Edge>, ProblemError> {
    let mut edges = Vec::with_capacity(document.edges.len());
    let mut joined = FxHashMap::default();
    for (index, edge) in document.edges.iter().enumerate() {
        let end = |field: &str, id: i64| {
            let place = || format!("edges[{index}].{field}");
            by_id.get(&id).copied().ok_or_else(|| ProblemError::Unknown { place: place(), id })
        };
        let (source, target) = (end("sourceId", edge.source_id)?, end("destId", edge.dest_id)?);
        amount(format!("edges[{index}].communicationCost"), edge.communication_cost)?;
        if let Some(first) = joined.insert((source, target), index) {
            return Err(ProblemError::SameEdge { first, second: index });
        }
        edges.push(Edge { source, target });
    }
    Ok(edges)
}

/// Degrees of tensor parallelism that a plan may use and some layer has, ascending.
fn read_degrees(document: &PiperDocument, terms: Terms) -> Result<Vec<u32>, ProblemError> {
    let mut degrees = BTreeSet::new();
    for (i, node) in document.nodes.iter().enumerate() {
        for (key, configurations) in &node.configurations {
            let degree: u32 = key
                .parse()
                .ok()
                .filter(|degree: &u32| (1..=MAX_DEVICES).contains(degree) && degree.to_string() == *key)
                .ok_or_else(|| ProblemError::Range {
                    place: format!("a key of nodes[{i}].TMPCs"),
                    value: format!("`{key}`"),
                    range: "a number of devices, 1 to 65536",
                })?;
            let is_used = degree <= document.max_devices && (terms.tensor || degree == 1);
            if is_used && !configurations.is_empty() {
                degrees.insert(degree);
            }
        }
    }
    Ok(degrees.into_iter().collect())
}

impl Problem {
    /// Validates a document. O(size of the document).
    ///
    /// # Errors
    /// If numbers are out of range, ids do not fit together, or the edges form a cycle.
    pub fn new(document: &PiperDocument, terms: Terms) -> Result<Problem, ProblemError> {
        let microbatches = check_sizes(document)?;
        let count = document.nodes.len();
        let mut by_id = FxHashMap::default();
        for (second, node) in document.nodes.iter().enumerate() {
            if let Some(first) = by_id.insert(node.id, second) {
                return Err(ProblemError::SameLayer { first, second });
            }
        }
        let edges = read_edges(document, &by_id)?;
        let (mut inputs, mut outputs) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        for (index, &Edge { source, target }) in edges.iter().enumerate() {
            outputs[source].push(index);
            inputs[target].push(index);
        }
        let mut problem = Problem {
            layers: Vec::with_capacity(count),
            degrees: read_degrees(document, terms)?,
            edges,
            inputs,
            outputs,
            devices: document.max_devices,
            memory: document.max_memory_per_device,
            bandwidth: document.bandwidth,
            microbatches,
            copies: divisors(microbatches, if terms.data { document.max_devices } else { 1 }),
            terms,
        };
        for i in 0..count {
            let layer = problem.layer(document, i, &by_id)?;
            problem.layers.push(layer);
        }
        match problem.on_a_cycle() {
            Some(layer) => Err(ProblemError::Cycle { id: document.nodes[layer].id }),
            None => Ok(problem),
        }
    }

    fn layer(
        &self,
        document: &PiperDocument,
        i: usize,
        by_id: &FxHashMap<i64, usize>,
    ) -> Result<Layer, ProblemError> {
        let mut configurations = vec![Vec::new(); self.degrees.len()];
        for (key, of_degree) in &document.nodes[i].configurations {
            let place = |c: usize| format!("nodes[{i}].TMPCs.{key}[{c}]");
            let read = |(c, from)| self.configuration(document, i, c as u32, from, &place(c), by_id);
            let mut read: Vec<Configuration> =
                of_degree.iter().enumerate().map(read).collect::<Result<_, _>>()?;
            let degree = key.parse().unwrap_or(0);
            let Ok(index) = self.degrees.binary_search(&degree) else { continue };
            if self.terms.workspace == RecomputeWorkspace::Max {
                let least =
                    read.iter().map(|configuration| configuration.fixed).fold(f64::INFINITY, f64::min);
                for configuration in &mut read {
                    configuration.workspace = configuration.fixed - least;
                    configuration.fixed = least;
                }
            }
            if !self.terms.recompute {
                read.truncate(1);
            }
            configurations[index].extend(read);
        }
        Ok(Layer { configurations })
    }

    fn configuration(
        &self,
        document: &PiperDocument,
        i: usize,
        index: u32,
        from: &PiperConfigurationDocument,
        place: &str,
        by_id: &FxHashMap<i64, usize>,
    ) -> Result<Configuration, ProblemError> {
        for (field, value) in [
            ("timePerSample", from.time_per_sample),
            ("parameterSize", from.parameter_size),
            ("memoryUsageA", from.memory_usage_a),
            ("memoryUsageB", from.memory_usage_b),
        ] {
            amount(format!("{place}.{field}"), value)?;
        }
        // The keys of the file are neighbours; a neighbour without a key costs the layer no transfer.
        let seconds = |field: &str, listed: &BTreeMap<i64, f64>, edges: &[usize], end: fn(&Edge) -> usize| {
            for (id, &bytes) in listed {
                let place = format!("{place}.{field}.{id}");
                let is_neighbour = by_id
                    .get(id)
                    .is_some_and(|&other| edges.iter().any(|&edge| end(&self.edges[edge]) == other));
                if !is_neighbour {
                    return Err(ProblemError::Unknown {
                        place: format!("the neighbour of {place}"),
                        id: *id,
                    });
                }
                amount(place, bytes)?;
            }
            let seconds = |&edge: &usize| {
                let sync = listed.get(&document.nodes[end(&self.edges[edge])].id).copied().unwrap_or(0.0);
                2.0 * (document.edges[edge].communication_cost + sync) / self.bandwidth
            };
            Ok(edges.iter().map(seconds).collect::<Vec<f64>>())
        };
        Ok(Configuration {
            index,
            seconds: from.time_per_sample / self.terms.per_second,
            parameters: from.parameter_size,
            activations: from.memory_usage_a,
            fixed: from.memory_usage_b,
            workspace: 0.0,
            input_seconds: seconds("syncTimeFw", &from.sync_time_fw, &self.inputs[i], |edge| edge.source)?,
            output_seconds: seconds("syncTimeBw", &from.sync_time_bw, &self.outputs[i], |edge| edge.target)?,
        })
    }

    /// A layer on a cycle, if there is one.
    fn on_a_cycle(&self) -> Option<usize> {
        let order = self.topological_order();
        let mut is_in = vec![false; self.layers.len()];
        order.iter().for_each(|&layer| is_in[layer] = true);
        is_in.iter().position(|&is_in| !is_in)
    }

    /// Layers in topological order, depth first, so that neighbours of a chain are adjacent. Layers on a cycle or
    /// downstream of one are omitted.
    pub(crate) fn topological_order(&self) -> Vec<usize> {
        let mut missing: Vec<usize> = self.inputs.iter().map(Vec::len).collect();
        let mut ready: Vec<usize> = (0..missing.len()).filter(|&layer| missing[layer] == 0).rev().collect();
        let mut order = Vec::with_capacity(missing.len());
        while let Some(layer) = ready.pop() {
            order.push(layer);
            for &edge in self.outputs[layer].iter().rev() {
                let target = self.edges[edge].target;
                missing[target] -= 1;
                if missing[target] == 0 {
                    ready.push(target);
                }
            }
        }
        order
    }

    /// Seconds per microbatch that `copies` of a stage need to synchronise a byte of parameters: once per batch, each
    /// copy sends and receives twice as many bytes as with PipeDream's parameter server.
    pub(crate) fn synchronisation(&self, copies: u32) -> f64 {
        let share = f64::from(copies - 1) / f64::from(copies);
        4.0 * share / f64::from(self.microbatches) / self.bandwidth
    }

    /// Maximum sum of the copies of all stages: every copy has a microbatch in flight.
    pub(crate) fn most_copies(&self) -> u32 {
        self.microbatches.min(self.devices)
    }
}

fn whole(place: &str, value: u32, limit: u32, range: &'static str) -> Result<(), ProblemError> {
    match (1..=limit).contains(&value) {
        true => Ok(()),
        false => Err(ProblemError::Range { place: place.into(), value: value.to_string(), range }),
    }
}

fn amount(place: String, value: f64) -> Result<(), ProblemError> {
    match (0.0..=LARGEST).contains(&value) {
        true => Ok(()),
        false => Err(ProblemError::Range { place, value: value.to_string(), range: "from 0 to 1e200" }),
    }
}

/// Divisors of a number up to `limit`, ascending.
fn divisors(number: u32, limit: u32) -> Vec<u32> {
    (1..=limit.min(number)).filter(|divisor| number.is_multiple_of(*divisor)).collect()
}
