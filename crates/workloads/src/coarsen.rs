//! Layer granularity: merges the operators of a layer path into one operator per pass.
//!
//! Layers that feed each other (a decoder layer and the attention it steers, unrolled) are merged until the graph of
//! layers is acyclic: into the strongly connected components of the forward tensors and the reversed backward tensors.
//! Costs add up; the workspace is the maximum, since one operator after another uses it. Tensors inside a merged
//! operator vanish, and tensors with the same producer and consumers are merged, so that all that a layer stashes for
//! its own backward pass is one tensor. Under the second rules, the launches of a layer are the sum over its operators,
//! and its workspace is the peak of what they need one after the other, tensors inside the layer included.

use std::collections::BTreeMap;

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use stagewright_core::document::{OperatorDocument, Pass};

use super::draft::{Draft, Edge, Shared};
use stagewright_formats::CostRules;

/// Merges the operators of each layer and pass, in time O((operators + pins) log).
pub(super) fn layers(draft: Draft) -> Draft {
    let (layer_of, names) = acyclic_layers(&draft);
    let rules = draft.rules;
    let draft = match rules {
        CostRules::One => draft,
        CostRules::Two => draft.fused(|a, b| layer_of[a] == layer_of[b]),
    };
    let mut merged = Draft { rules, ..Draft::default() };
    let mut index: BTreeMap<(u32, Pass), u32> = BTreeMap::new();
    let mut target = Vec::with_capacity(draft.operators.len());
    for (operator, &layer) in draft.operators.iter().zip(&layer_of) {
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
                precision: operator.precision,
                launches: (rules == CostRules::Two).then_some(0.0),
                ..OperatorDocument::named(whole)
            })
        });
        add(&mut merged.operators[at as usize], operator);
        target.push(at);
    }
    if rules == CostRules::Two {
        for (operator, bytes) in merged.operators.iter_mut().zip(inside(&draft, &target)) {
            operator.workspace_bytes = bytes;
        }
    }
    let readers = |shared: &Shared| {
        let mut readers: Vec<u32> = shared.readers.iter().map(|&op| target[op as usize]).collect();
        readers.sort_unstable();
        readers.dedup();
        readers
    };
    merged.shared =
        draft.shared.iter().map(|shared| Shared { readers: readers(shared), ..shared.clone() }).collect();
    merged.edges = edges(&draft.edges, &target);
    merged
}

/// Peak bytes per merged operator of workspace and inner tensors while its operators run in order.
fn inside(draft: &Draft, target: &[u32]) -> Vec<f64> {
    // Bytes allocated and freed at each operator; an inner tensor lives from its producer to its last reader.
    let mut comes = vec![0.0; target.len()];
    let mut goes = vec![0.0; target.len()];
    for edge in &draft.edges {
        let producer = edge.producer as usize;
        let stays = edge.consumers.iter().all(|&consumer| target[consumer as usize] == target[producer]);
        if let (Some(&last), true) = (edge.consumers.iter().max(), stays && !edge.is_output) {
            comes[producer] += edge.bytes;
            goes[last as usize] += edge.bytes;
        }
    }
    let merged = target.iter().max().map_or(0, |&last| last as usize + 1);
    let (mut live, mut most) = (vec![0.0; merged], vec![0.0; merged]);
    for (op, &at) in target.iter().enumerate() {
        let at = at as usize;
        live[at] += comes[op];
        most[at] = f64::max(most[at], live[at] + draft.operators[op].workspace_bytes);
        live[at] -= goes[op];
    }
    most
}

fn add(sum: &mut OperatorDocument, part: &OperatorDocument) {
    if sum.kind != part.kind {
        sum.kind = Some("layer".into());
    }
    sum.flop = Some(sum.flop.unwrap_or(0.0) + part.flop.unwrap_or(0.0));
    sum.bytes_moved = Some(sum.bytes_moved.unwrap_or(0.0) + part.bytes_moved.unwrap_or(0.0));
    if let Some(launches) = &mut sum.launches {
        *launches += part.launches.unwrap_or(1.0);
    }
    sum.parameter_bytes += part.parameter_bytes;
    sum.optimizer_bytes += part.optimizer_bytes;
    sum.activation_bytes += part.activation_bytes;
    sum.workspace_bytes = sum.workspace_bytes.max(part.workspace_bytes);
}

/// The layer of each operator, and the names of the layers in order of first appearance.
fn acyclic_layers(draft: &Draft) -> (Vec<u32>, Vec<String>) {
    let mut by_name: BTreeMap<&str, u32> = BTreeMap::new();
    let mut names: Vec<&str> = Vec::new();
    let mut graph: DiGraph<(), ()> = DiGraph::new();
    let mut layer_of = Vec::with_capacity(draft.operators.len());
    for operator in &draft.operators {
        // An operator without a layer forms one of its own, together with the operators colocated with it.
        let own = operator.colocation.as_deref().unwrap_or(&operator.name);
        let name = operator.layer.as_deref().unwrap_or(own);
        layer_of.push(*by_name.entry(name).or_insert_with(|| {
            names.push(name);
            graph.add_node(()).index() as u32
        }));
    }
    let pass = |op: u32| draft.operators[op as usize].pass;
    for edge in &draft.edges {
        for &consumer in edge.consumers.iter().filter(|&&consumer| pass(consumer) == pass(edge.producer)) {
            let (mut from, mut to) = (layer_of[edge.producer as usize], layer_of[consumer as usize]);
            if pass(consumer) == Pass::Backward {
                (from, to) = (to, from);
            }
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
    // Components are numbered by their first layer, independently of the order in which they were found.
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

/// The tensors between merged operators; tensors with the same pins become one.
fn edges(edges: &[Edge], target: &[u32]) -> Vec<Edge> {
    let mut merged: Vec<Edge> = Vec::new();
    let mut index: BTreeMap<(u32, Vec<u32>, bool), usize> = BTreeMap::new();
    for edge in edges {
        let producer = target[edge.producer as usize];
        let mut consumers: Vec<u32> =
            edge.consumers.iter().map(|&consumer| target[consumer as usize]).collect();
        consumers.retain(|&consumer| consumer != producer);
        consumers.sort_unstable();
        consumers.dedup();
        if consumers.is_empty() && !edge.is_output {
            continue;
        }
        let is_output = edge.is_output;
        let at = *index.entry((producer, consumers.clone(), is_output)).or_insert_with(|| {
            merged.push(Edge { producer, consumers, bytes: 0.0, is_output });
            merged.len() - 1
        });
        merged[at].bytes += edge.bytes;
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::super::Precision;
    use super::super::operators::Loss;
    use super::super::optimizer::Optimizer;
    use super::super::step;
    use super::super::tape::Tape;
    use super::*;

    /// Two layers that feed each other at every step, and one that reads both.
    fn braid() -> Tape {
        let mut tape = Tape::new(Precision::Fp32, true);
        let mut x = tape.input("x", [2, 4]);
        for at in 0..3 {
            x = tape.scope("left", |tape| tape.linear(&format!("step{at}"), x, 4));
            x = tape.scope("right", |tape| tape.linear(&format!("step{at}"), x, 4));
        }
        tape.scope("head", |tape| tape.loss("loss", x, Loss::Square));
        tape.finish().unwrap()
    }

    #[test]
    fn layers_on_a_cycle_become_one() {
        let merged = layers(step::inference(&braid(), CostRules::One));
        let names: Vec<&str> = merged.operators.iter().map(|operator| operator.name.as_str()).collect();
        assert_eq!(names, ["x", "left+right", "head"]);
        assert_eq!(merged.operators[1].parameter_bytes, 6.0 * 4.0 * 20.0);
        assert_eq!(merged.edges.len(), 2, "what stays inside vanishes");
    }

    #[test]
    fn a_layer_stashes_one_tensor_for_its_backward_pass() {
        let merged = layers(step::training(&braid(), Optimizer::Sgd, CostRules::One).unwrap());
        let at = |name: &str| merged.operators.iter().position(|op| op.name == name).unwrap() as u32;
        let (forward, backward) = (at("left+right"), at("left+right.backward"));
        let stash: Vec<f64> = merged
            .edges
            .iter()
            .filter(|edge| edge.producer == forward && edge.consumers == [backward])
            .map(|edge| edge.bytes)
            .collect();
        // The inputs of five of the six products; the input of the first comes from outside.
        assert_eq!(stash, [5.0 * 4.0 * 8.0]);
    }
}
