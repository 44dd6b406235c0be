//! Layer granularity: the operators of a layer path as one operator for each pass.
//!
//! Layers that feed each other (a decoder layer and the attention that it steers, unrolled) are merged until the
//! graph of layers has no cycle: the strongly connected components of the forward pass. The backward pass mirrors
//! it. Costs add up; workspace, which one operator after another uses, is the largest. Tensors inside a merged
//! operator vanish, and tensors with the same producer and consumers become one, so that what a layer stashes for
//! its own backward pass is one tensor.

use std::collections::BTreeMap;

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use stagewright_core::document::{OperatorDocument, Pass};

use super::draft::{Draft, Edge};

/// Merges the operators of each layer and pass, in time O((operators + pins) log).
pub(super) fn layers(draft: Draft) -> Draft {
    let (layer_of, names) = acyclic_layers(&draft);
    let mut merged = Draft::default();
    let mut index: BTreeMap<(u32, Pass), u32> = BTreeMap::new();
    let mut target = Vec::with_capacity(draft.operators.len());
    for (operator, &layer) in draft.operators.into_iter().zip(&layer_of) {
        let at = *index.entry((layer, operator.pass)).or_insert_with(|| {
            let name = &names[layer as usize];
            let whole = match operator.pass {
                Pass::Forward => name.clone(),
                Pass::Backward => format!("{name}.backward"),
                Pass::Update => format!("{name}.update"),
            };
            merged.operator(OperatorDocument {
                kind: operator.kind.clone(),
                pass: operator.pass,
                colocation: operator.colocation.as_ref().map(|_| name.clone()),
                layer: operator.layer.as_ref().map(|_| name.clone()),
                ..OperatorDocument::named(whole)
            })
        });
        add(&mut merged.operators[at as usize], &operator);
        target.push(at);
    }
    merged.edges = edges(&draft.edges, &target);
    merged
}

fn add(sum: &mut OperatorDocument, part: &OperatorDocument) {
    if sum.kind != part.kind {
        sum.kind = Some("layer".into());
    }
    sum.flop = Some(sum.flop.unwrap_or(0.0) + part.flop.unwrap_or(0.0));
    sum.bytes_moved = Some(sum.bytes_moved.unwrap_or(0.0) + part.bytes_moved.unwrap_or(0.0));
    sum.parameter_bytes += part.parameter_bytes;
    sum.optimizer_bytes += part.optimizer_bytes;
    sum.activation_bytes += part.activation_bytes;
    sum.workspace_bytes = sum.workspace_bytes.max(part.workspace_bytes);
}

/// Per operator its layer, and the names of the layers in order of first appearance.
fn acyclic_layers(draft: &Draft) -> (Vec<u32>, Vec<String>) {
    let mut by_name: BTreeMap<&str, u32> = BTreeMap::new();
    let mut names: Vec<&str> = Vec::new();
    let mut graph: DiGraph<(), ()> = DiGraph::new();
    let mut layer_of = Vec::with_capacity(draft.operators.len());
    for operator in &draft.operators {
        // An operator without a layer is one of its own, with whatever belongs to it.
        let own = operator.colocation.as_deref().unwrap_or(&operator.name);
        let name = operator.layer.as_deref().unwrap_or(own);
        layer_of.push(*by_name.entry(name).or_insert_with(|| {
            names.push(name);
            graph.add_node(()).index() as u32
        }));
    }
    let forward = |op: u32| draft.operators[op as usize].pass == Pass::Forward;
    for edge in draft.edges.iter().filter(|edge| forward(edge.producer)) {
        for &consumer in edge.consumers.iter().filter(|&&consumer| forward(consumer)) {
            let (from, to) = (layer_of[edge.producer as usize], layer_of[consumer as usize]);
            if from != to {
                graph.update_edge(NodeIndex::new(from as usize), NodeIndex::new(to as usize), ());
            }
        }
    }
    let mut component_of = vec![0; names.len()];
    let mut joined: Vec<(u32, String)> = Vec::new();
    for component in kosaraju_scc(&graph) {
        let mut members: Vec<usize> = component.iter().map(|node| node.index()).collect();
        members.sort_unstable();
        for &member in &members {
            component_of[member] = joined.len();
        }
        let parts: Vec<&str> = members.iter().map(|&member| names[member]).collect();
        joined.push((members.first().map_or(0, |&first| first as u32), parts.join("+")));
    }
    // Components are numbered by their first layer, whatever the order in which they were found.
    let mut order: Vec<usize> = (0..joined.len()).collect();
    order.sort_unstable_by_key(|&component| joined[component].0);
    let mut rank = vec![0; joined.len()];
    for (at, &component) in order.iter().enumerate() {
        rank[component] = at as u32;
    }
    let layer_of = layer_of.into_iter().map(|layer| rank[component_of[layer as usize]]).collect();
    let names = order.into_iter().map(|component| std::mem::take(&mut joined[component].1)).collect();
    (layer_of, names)
}

/// The tensors between merged operators, those of the same pins as one.
fn edges(edges: &[Edge], target: &[u32]) -> Vec<Edge> {
    let mut merged: Vec<Edge> = Vec::new();
    let mut index: BTreeMap<(u32, Vec<u32>), usize> = BTreeMap::new();
    for edge in edges {
        let producer = target[edge.producer as usize];
        let mut consumers: Vec<u32> =
            edge.consumers.iter().map(|&consumer| target[consumer as usize]).collect();
        consumers.retain(|&consumer| consumer != producer);
        consumers.sort_unstable();
        consumers.dedup();
        if consumers.is_empty() {
            continue;
        }
        let at = *index.entry((producer, consumers.clone())).or_insert_with(|| {
            merged.push(Edge { producer, consumers, bytes: 0.0 });
            merged.len() - 1
        });
        merged[at].bytes += edge.bytes;
    }
    merged
}
