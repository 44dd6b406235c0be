//! Layer granularity: merges the operators of a layer path into one operator per pass.
//!
//! Layers that feed each other (such as an unrolled decoder layer and the attention that it steers) are merged until
//! the graph of layers is acyclic: into the strongly connected components of the forward tensors and the reversed
//! backward tensors. Costs add up. Tensors inside a merged operator vanish, and tensors with the same producer and
//! consumers are merged, so a layer stashes a single tensor for its own backward pass. A layer has the launches of all
//! its operators, and its workspace is their peak memory when they run in sequence, including tensors inside the layer.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use stagewright_core::document::{OperatorDocument, Pass, Role, role};
use stagewright_core::graph::{OpId, TensorId};
use stagewright_core::ids::Keyed;

use super::draft::{Draft, Edge, Shared};

/// Merges the operators of each layer and pass, in O(n log n) time for n operators and pins.
pub(super) fn layers(draft: Draft) -> Draft {
    let (layer_of, names) = acyclic_layers(&draft);
    let draft = draft.fused(|a, b| layer_of[a] == layer_of[b]);
    let mut merged = Draft::default();
    let mut index: BTreeMap<(usize, Pass), OpId> = BTreeMap::new();
    let mut target = Keyed::from(Vec::with_capacity(draft.operators.len()));
    let mut unlisted = BTreeSet::new();
    for (operator, &layer) in draft.operators.iter().zip(&layer_of) {
        let group = *index.entry((layer, operator.pass)).or_insert_with(|| {
            let name = &names[layer];
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
                launches: Some(0.0),
                ..OperatorDocument::named(whole)
            })
        });
        add(&mut merged.operators[group], operator);
        if operator.kernels.is_empty() && operator.flop.is_some_and(|flop| flop > 0.0) && is_product(operator)
        {
            unlisted.insert(group);
        }
        target.push(group);
    }
    // Kernels can price a layer only if they cover all its products.
    for group in unlisted {
        merged.operators[group].kernels.clear();
    }
    for (operator, bytes) in merged.operators.iter_mut().zip(&inside(&draft, &target)) {
        operator.workspace_bytes = *bytes;
    }
    let readers = |shared: &Shared| {
        let mut readers: Vec<OpId> = shared.readers.iter().map(|&op| target[op]).collect();
        readers.sort_unstable();
        readers.dedup();
        readers
    };
    merged.shared =
        draft.shared.iter().map(|shared| Shared { readers: readers(shared), ..shared.clone() }).collect();
    merged.edges = edges(&draft.edges, &target);
    merged
}

/// Peak bytes of workspace and inner tensors in each merged operator while the operators merged into it run in order.
fn inside(draft: &Draft, target: &Keyed<OpId, OpId>) -> Keyed<OpId, f64> {
    // Bytes allocated and freed at each operator; an inner tensor lives from its producer to its last reader.
    let mut comes = Keyed::filled(0.0, target.len());
    let mut goes = Keyed::filled(0.0, target.len());
    for edge in &draft.edges {
        let producer = edge.producer;
        let stays = edge.consumers.iter().all(|&consumer| target[consumer] == target[producer]);
        if let (Some(&last), true) = (edge.consumers.iter().max(), stays && !edge.is_output) {
            comes[producer] += edge.bytes;
            goes[last] += edge.bytes;
        }
    }
    let merged = target.iter().max().map_or(0, |&last| last.index() + 1);
    let (mut live, mut peak) = (Keyed::filled(0.0, merged), Keyed::filled(0.0, merged));
    for (op, &group) in target.enumerate() {
        live[group] += comes[op];
        peak[group] = f64::max(peak[group], live[group] + draft.operators[op].workspace_bytes);
        live[group] -= goes[op];
    }
    peak
}

/// Whether an operator is a product or a convolution, or the gradient of one.
fn is_product(operator: &OperatorDocument) -> bool {
    let kind = operator.kind.as_deref().unwrap_or_default();
    let kind = kind.split("_grad").next().unwrap_or(kind);
    matches!(role(kind), Role::Product | Role::Window)
}

fn add(sum: &mut OperatorDocument, part: &OperatorDocument) {
    if sum.kind != part.kind {
        sum.kind = Some("layer".into());
    }
    sum.flop = Some(sum.flop.unwrap_or(0.0) + part.flop.unwrap_or(0.0));
    sum.bytes_moved = Some(sum.bytes_moved.unwrap_or(0.0) + part.bytes_moved.unwrap_or(0.0));
    sum.kernels.extend_from_slice(&part.kernels);
    if let Some(launches) = &mut sum.launches {
        *launches += part.launches.unwrap_or(1.0);
    }
    sum.parameter_bytes += part.parameter_bytes;
    sum.optimizer_bytes += part.optimizer_bytes;
}

/// The layer of each operator, and the names of the layers in order of first appearance.
fn acyclic_layers(draft: &Draft) -> (Vec<usize>, Vec<String>) {
    let mut by_name: BTreeMap<&str, NodeIndex> = BTreeMap::new();
    let mut names: Vec<&str> = Vec::new();
    let mut graph: DiGraph<(), ()> = DiGraph::new();
    let mut layer_of: Keyed<OpId, NodeIndex> = Keyed::default();
    for operator in &draft.operators {
        // An operator without a layer forms a layer together with the operators colocated with it.
        let own = operator.colocation.as_deref().unwrap_or(&operator.name);
        let name = operator.layer.as_deref().unwrap_or(own);
        layer_of.push(*by_name.entry(name).or_insert_with(|| {
            names.push(name);
            graph.add_node(())
        }));
    }
    let pass = |op: OpId| draft.operators[op].pass;
    for edge in &draft.edges {
        for &consumer in edge.consumers.iter().filter(|&&consumer| pass(consumer) == pass(edge.producer)) {
            let (mut from, mut to) = (layer_of[edge.producer], layer_of[consumer]);
            if pass(consumer) == Pass::Backward {
                (from, to) = (to, from);
            }
            if from != to {
                graph.update_edge(from, to, ());
            }
        }
    }
    let mut component_of = vec![0; names.len()];
    let mut joined: Vec<(usize, String)> = Vec::new();
    for component in kosaraju_scc(&graph) {
        let mut members: Vec<usize> = component.iter().map(|node| node.index()).collect();
        members.sort_unstable();
        for &member in &members {
            component_of[member] = joined.len();
        }
        let parts: Vec<&str> = members.iter().map(|&member| names[member]).collect();
        joined.push((members.first().copied().unwrap_or(0), parts.join("+")));
    }
    // Components are numbered by their first layer, independently of the order in which they were found.
    let mut order: Vec<usize> = (0..joined.len()).collect();
    order.sort_unstable_by_key(|&component| joined[component].0);
    let mut rank = vec![0; joined.len()];
    for (position, &component) in order.iter().enumerate() {
        rank[component] = position;
    }
    let layer_of = layer_of.iter().map(|layer| rank[component_of[layer.index()]]).collect();
    let names = order.into_iter().map(|component| std::mem::take(&mut joined[component].1)).collect();
    (layer_of, names)
}

/// The tensors between merged operators; tensors with the same pins become one.
fn edges(edges: &[Edge], target: &Keyed<OpId, OpId>) -> Keyed<TensorId, Edge> {
    let mut merged: Keyed<TensorId, Edge> = Keyed::default();
    let mut index: BTreeMap<(OpId, Vec<OpId>, bool), TensorId> = BTreeMap::new();
    for edge in edges {
        let producer = target[edge.producer];
        let mut consumers: Vec<OpId> = edge.consumers.iter().map(|&consumer| target[consumer]).collect();
        consumers.retain(|&consumer| consumer != producer);
        consumers.sort_unstable();
        consumers.dedup();
        if consumers.is_empty() && !edge.is_output {
            continue;
        }
        let is_output = edge.is_output;
        let index = *index
            .entry((producer, consumers.clone(), is_output))
            .or_insert_with(|| merged.push(Edge { producer, consumers, bytes: 0.0, is_output }));
        merged[index].bytes += edge.bytes;
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

    /// Two layers that feed each other at every step, and a third that reads both.
    fn braid() -> Tape {
        let mut tape = Tape::new(Precision::Fp32, true);
        let mut x = tape.input("x", [2, 4]);
        for index in 0..3 {
            x = tape.scope("left", |tape| tape.linear(&format!("step{index}"), x, 4));
            x = tape.scope("right", |tape| tape.linear(&format!("step{index}"), x, 4));
        }
        tape.scope("head", |tape| tape.loss("loss", x, Loss::Square));
        tape.finish().unwrap()
    }

    #[test]
    fn layers_on_a_cycle_become_one() {
        let merged = layers(step::inference(&braid()));
        let names: Vec<&str> = merged.operators.iter().map(|operator| operator.name.as_str()).collect();
        assert_eq!(names, ["x", "left+right", "head"]);
        assert_eq!(merged.operators[OpId(1)].parameter_bytes, 6.0 * 4.0 * 20.0);
        let inner = merged.edges.iter().filter(|edge| !edge.is_output).count();
        assert_eq!(inner, 2, "what stays inside vanishes");
    }

    #[test]
    fn a_layer_stashes_one_tensor_for_its_backward_pass() {
        let merged = layers(step::training(&braid(), Optimizer::Sgd).unwrap());
        let find = |name: &str| merged.operators.ids().find(|&op| merged.operators[op].name == name).unwrap();
        let (forward, backward) = (find("left+right"), find("left+right.backward"));
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
