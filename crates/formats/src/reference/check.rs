//! Requirements of the reference package on a model, checked in its own terms: by id, and with the field
//! names of the file.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use super::file::{Edge, ModelFile, Node};
use crate::code::R::*;
use crate::error::{InputError, Result};

/// Edges out of one node are profiles of one tensor: the package treats their costs as equal up to this many
/// ms, and rejects larger differences.
const SAME_COST_MS: f64 = 1e-6;

/// Largest plausible number of devices.
const MAX_DEVICES: f64 = 1e6;

/// Number of ids that an error lists; further ones are only counted.
const IDS_NAMED: usize = 8;

/// A valid model.
pub(super) struct Checked {
    /// Index of each node by its id.
    pub(super) by_id: BTreeMap<i64, usize>,
    /// Every edge as a pair of node indices, in file order.
    pub(super) edges: Vec<(usize, usize)>,
    /// Number of accelerators.
    pub(super) fpgas: u32,
    /// Number of processors.
    pub(super) cpus: u32,
}

/// Checks a model; the first fault in file order is the error.
pub(super) fn check(label: &str, file: &ModelFile) -> Result<Checked> {
    let fpgas = count(label, "maxFPGAs", file.max_fpgas)?;
    let cpus = count(label, "maxCPUs", file.max_cpus)?;
    not_negative(label, "maxSizePerFPGA", file.max_size_per_fpga)?;
    let by_id = check_nodes(label, &file.nodes)?;
    let edges = check_edges(label, file, &by_id)?;
    if let Some(cycle) = cycle(file.nodes.len(), &edges) {
        let ids: Vec<i64> = cycle.iter().map(|&v| file.nodes[v].id).collect();
        let message = format!("the edges form a cycle through the nodes {}", list(&ids));
        let help = "make the model acyclic: unroll loops, and give every gradient its own backward node";
        return Err(InputError::at_path(R006, label, "edges", message, help));
    }
    Ok(Checked { by_id, edges, fpgas, cpus })
}

fn check_nodes(label: &str, nodes: &[Node]) -> Result<BTreeMap<i64, usize>> {
    if nodes.is_empty() {
        let help = "give at least one node";
        return Err(InputError::at_path(R009, label, "nodes", "the model has no nodes", help));
    }
    let mut by_id = BTreeMap::new();
    for (i, node) in nodes.iter().enumerate() {
        for (field, value) in [
            ("cpuLatency", node.cpu_latency),
            ("fpgaLatency", node.fpga_latency),
            ("size", node.size.unwrap_or(0.0)),
        ] {
            not_negative(label, &format!("nodes[{i}].{field}"), value)?;
        }
        match by_id.entry(node.id) {
            Entry::Vacant(free) => free.insert(i),
            Entry::Occupied(taken) => {
                let message = format!("the id {} is already used by nodes[{}]", node.id, taken.get());
                let help = "give every node a unique id; ids may have gaps";
                return Err(InputError::at_path(R001, label, format!("nodes[{i}].id"), message, help));
            }
        };
    }
    Ok(by_id)
}

fn check_edges(label: &str, file: &ModelFile, by_id: &BTreeMap<i64, usize>) -> Result<Vec<(usize, usize)>> {
    let mut pairs = Vec::with_capacity(file.edges.len());
    let mut first_cost: Vec<Option<(usize, f64)>> = vec![None; file.nodes.len()];
    for (i, edge) in file.edges.iter().enumerate() {
        let path = |field: &str| format!("edges[{i}].{field}");
        let end = |field: &str, id: i64| {
            by_id.get(&id).copied().ok_or_else(|| {
                let message = format!("no node has the id {id}");
                InputError::at_path(R002, label, path(field), message, "add the node or remove the edge")
            })
        };
        let Edge { source_id, dest_id, cost, size } = *edge;
        let (source, dest) = (end("sourceId", source_id)?, end("destId", dest_id)?);
        if source == dest {
            let message = format!("the edge joins the node {source_id} to itself");
            return Err(InputError::at_path(R003, label, format!("edges[{i}]"), message, "remove it"));
        }
        not_negative(label, &path("cost"), cost)?;
        not_negative(label, &path("size"), size.unwrap_or(0.0))?;
        let (first, expected) = *first_cost[source].get_or_insert((i, cost));
        if (cost - expected).abs() > SAME_COST_MS {
            let message =
                format!("the cost {cost} differs from {expected} of edges[{first}] out of node {source_id}");
            let help = "make the costs equal, or give each tensor its own node: a node sends one tensor, to every \
                        reader at the same cost";
            return Err(InputError::at_path(R004, label, path("cost"), message, help));
        }
        if file.nodes[source].is_backward_node && !file.nodes[dest].is_backward_node {
            let message =
                format!("the edge leads from the backward node {source_id} to the forward node {dest_id}");
            let help = "correct `isBackwardNode` or remove the edge: forward nodes run before backward ones";
            return Err(InputError::at_path(R005, label, format!("edges[{i}]"), message, help));
        }
        pairs.push((source, dest));
    }
    Ok(pairs)
}

fn count(label: &str, field: &str, value: f64) -> Result<u32> {
    if !(0.0..=MAX_DEVICES).contains(&value) || value.fract() != 0.0 {
        let message = format!("{value} is not a number of devices");
        let help = format!("write a whole number from 0 to {MAX_DEVICES}");
        return Err(InputError::at_path(R008, label, field, message, help));
    }
    Ok(value as u32)
}

fn not_negative(label: &str, path: &str, value: f64) -> Result<()> {
    // Written so that NaN fails.
    if value >= 0.0 && value.is_finite() {
        return Ok(());
    }
    let message = format!("{value} is not a time, size or cost");
    let help = "write a finite number that is not negative";
    Err(InputError::at_path(R007, label, path, message, help))
}

/// Nodes of some cycle in order, if there is one.
fn cycle(nodes: usize, edges: &[(usize, usize)]) -> Option<Vec<usize>> {
    let mut graph: DiGraph<(), (), usize> = DiGraph::with_capacity(nodes, edges.len());
    for _ in 0..nodes {
        graph.add_node(());
    }
    for &(u, v) in edges {
        graph.add_edge(NodeIndex::new(u), NodeIndex::new(v), ());
    }
    // Kosaraju's, because Tarjan's in petgraph recurses and long chains would overflow the stack.
    let components = kosaraju_scc(&graph);
    let knot = components.into_iter().find(|component| component.len() > 1)?;
    let mut within = vec![false; nodes];
    for v in &knot {
        within[v.index()] = true;
    }
    // Every node has a successor within the component, so the walk must return to a node that it visited.
    let mut place_on_way = vec![usize::MAX; nodes];
    let mut way = Vec::new();
    let mut current = knot.iter().map(|v| v.index()).min()?;
    while place_on_way[current] == usize::MAX {
        place_on_way[current] = way.len();
        way.push(current);
        current =
            graph.neighbors(NodeIndex::new(current)).map(NodeIndex::index).filter(|&v| within[v]).min()?;
    }
    Some(way.split_off(place_on_way[current]))
}

/// Formats ids for an error: the first few, then the number of the others.
pub(super) fn list(ids: &[i64]) -> String {
    let named: Vec<String> = ids.iter().take(IDS_NAMED).map(i64::to_string).collect();
    match ids.len().saturating_sub(IDS_NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
