//! Absorption: free operators at the rim of the graph are merged into their only neighbour.
//!
//! The reference package does this before it searches, so it is part of the problem that its files state, and
//! its published values hold for the problem after absorption. Here it becomes colocation, which every solver
//! and the checker see alike.
//!
//! # The rule
//!
//! Contract each colour class (a node without one is a class of its own), forward and backward nodes
//! separately. A class of backward nodes alone gets an artificial forward node of zero cost, and for every
//! edge u → v between contracted backward nodes of which one is in such a class, an artificial edge v' → u'
//! between the forward nodes of their classes. Fuse the strongly connected components of the forward graph,
//! which contraction may have created, and contract again. Now, while one exists, take a forward node n
//!
//! - whose times are below 10⁻⁶ ms, on processor and accelerator each,
//! - with no edge to or from any backward node,
//! - with exactly one forward neighbour, counted over edges: a true and an artificial edge to one node are
//!   two, and so are edges to two nodes,
//! - in a class whose backward nodes together take below 10⁻⁶ ms,
//!
//! merge its class into that of the neighbour, and contract again.
//!
//! # Why one pass suffices
//!
//! The package starts over after every merge. This is unnecessary: n has a single edge, which becomes internal, so a
//! merge decrements the degree of the neighbour, adds n's times to it, and changes nothing else; n's backward node
//! contributes only edges between backward nodes, or into them, whose ends were barred before. A worklist is exact, and
//! linear after sorting.
//!
//! The order does not matter either. An edge can be merged away from u towards v only when everything downstream of u
//! has been merged into u, and whether u is then light enough depends on a sum over the nodes downstream of it. So
//! every order merges away the same edges, up to rounding in that sum. (If a whole tree is free, the order decides
//! which node is merged into which, but not the outcome, which is one class.) Candidates are taken first in, first out,
//! starting in file order.
//!
//! # Result
//!
//! A colocation name for every operator: the name of its class, or of the class that absorbed it. If fused components
//! are involved, the classes of an absorbed component join the class of the other component that holds the neighbour
//! (by the first such edge of the file). Fusion itself is not colocation: it belongs to contiguous splits, and would
//! restrict free splits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use super::file::Node;

/// Times below this many ms count as zero.
const NO_COST_MS: f64 = 1e-6;

/// Colour classes of the file; a node without a colour is a class of its own.
struct Classes {
    /// The class of each node.
    of: Vec<usize>,
    /// The first node of each class.
    first: Vec<usize>,
}

/// A node of the contracted forward graph with its components fused.
#[derive(Default)]
struct Unit {
    classes: Vec<usize>,
    /// Milliseconds of the forward nodes on a processor.
    cpu: f64,
    /// Milliseconds of the forward nodes on an accelerator.
    fpga: f64,
    /// Milliseconds of the backward nodes on both together.
    backward: f64,
    has_backward_neighbour: bool,
    /// Indices of the links at this unit.
    links: Vec<usize>,
}

/// An edge between two units, given by the classes that its first edge in the file joins.
struct Link {
    ends: [usize; 2],
    gone: bool,
}

/// Colocation name of every node; `None` if it is colocated with no other node.
///
/// Takes O((n + m) log m) time for n nodes and m edges.
pub(super) fn colocate(nodes: &[Node], edges: &[(usize, usize)]) -> Vec<Option<String>> {
    let classes = Classes::new(nodes);
    let forward = forward_edges(nodes, edges, &classes);
    let (mut units, unit_of, mut links) = fuse(nodes, edges, &classes, &forward);
    let into = absorb(&mut units, &unit_of, &mut links, classes.first.len());

    let mut is_target = vec![false; classes.first.len()];
    for (class, &target) in into.iter().enumerate() {
        is_target[target] |= class != target;
    }
    let name = |v: usize| {
        let target = into[classes.of[v]];
        let holder = &nodes[classes.first[target]];
        match holder.color_class {
            Some(color) => Some(format!("color{color}")),
            None if is_target[target] => Some(format!("node{}", holder.id)),
            None => None,
        }
    };
    (0..nodes.len()).map(name).collect()
}

impl Classes {
    fn new(nodes: &[Node]) -> Self {
        let mut by_color = BTreeMap::new();
        let mut first = Vec::new();
        let class_of = nodes
            .iter()
            .enumerate()
            .map(|(v, node)| {
                let fresh = first.len();
                let class = node.color_class.map_or(fresh, |color| *by_color.entry(color).or_insert(fresh));
                if class == fresh {
                    first.push(v);
                }
                class
            })
            .collect();
        Classes { of: class_of, first }
    }
}

/// Edges of the contracted forward graph, between classes: true ones, then artificial ones.
fn forward_edges(nodes: &[Node], edges: &[(usize, usize)], classes: &Classes) -> [Vec<(usize, usize)>; 2] {
    let mut has_forward = vec![false; classes.first.len()];
    for (v, node) in nodes.iter().enumerate() {
        has_forward[classes.of[v]] |= !node.is_backward_node;
    }
    let (mut real, mut artificial) = (Vec::new(), Vec::new());
    for &(u, v) in edges {
        let (cu, cv) = (classes.of[u], classes.of[v]);
        match (nodes[u].is_backward_node, nodes[v].is_backward_node) {
            (false, false) => real.push((cu, cv)),
            (true, true) if !has_forward[cu] || !has_forward[cv] => artificial.push((cv, cu)),
            _ => {}
        }
    }
    [real, artificial]
}

fn fuse(
    nodes: &[Node],
    edges: &[(usize, usize)],
    classes: &Classes,
    forward: &[Vec<(usize, usize)>; 2],
) -> (Vec<Unit>, Vec<usize>, Vec<Link>) {
    let count = classes.first.len();
    let mut graph: DiGraph<(), (), usize> =
        DiGraph::with_capacity(count, forward[0].len() + forward[1].len());
    for _ in 0..count {
        graph.add_node(());
    }
    for &(u, v) in forward.iter().flatten() {
        graph.add_edge(NodeIndex::new(u), NodeIndex::new(v), ());
    }
    let mut components = kosaraju_scc(&graph);
    for component in &mut components {
        component.sort_unstable();
    }
    components.sort_unstable();

    let mut unit_of = vec![0; count];
    let mut units = Vec::with_capacity(components.len());
    for component in components {
        for class in &component {
            unit_of[class.index()] = units.len();
        }
        units
            .push(Unit { classes: component.into_iter().map(NodeIndex::index).collect(), ..Unit::default() });
    }
    for (v, node) in nodes.iter().enumerate() {
        let unit = &mut units[unit_of[classes.of[v]]];
        if node.is_backward_node {
            unit.backward += node.cpu_latency + node.fpga_latency;
        } else {
            unit.cpu += node.cpu_latency;
            unit.fpga += node.fpga_latency;
        }
    }
    for &(u, v) in edges {
        if !nodes[u].is_backward_node && nodes[v].is_backward_node {
            units[unit_of[classes.of[u]]].has_backward_neighbour = true;
        }
    }
    let mut links = Vec::new();
    for edges in forward {
        let mut seen = BTreeSet::new();
        for &(u, v) in edges {
            let pair = (unit_of[u], unit_of[v]);
            if pair.0 != pair.1 && seen.insert(pair) {
                units[pair.0].links.push(links.len());
                units[pair.1].links.push(links.len());
                links.push(Link { ends: [u, v], gone: false });
            }
        }
    }
    (units, unit_of, links)
}

/// Class that each class is merged into in the end.
fn absorb(units: &mut [Unit], unit_of: &[usize], links: &mut [Link], classes: usize) -> Vec<usize> {
    let mut degree: Vec<usize> = units.iter().map(|unit| unit.links.len()).collect();
    let mut queue: VecDeque<usize> = (0..units.len()).collect();
    let mut merges: Vec<(usize, usize)> = Vec::new();
    while let Some(n) = queue.pop_front() {
        // A merged unit has no links left, so it is not a candidate.
        if degree[n] != 1 || !units[n].is_idle() {
            continue;
        }
        let Some(&link) = units[n].links.iter().find(|&&link| !links[link].gone) else { continue };
        links[link].gone = true;
        let [u, v] = links[link].ends;
        let target = if unit_of[u] == n { v } else { u };
        let m = unit_of[target];
        degree[n] = 0;
        degree[m] -= 1;
        units[m].cpu += units[n].cpu;
        units[m].fpga += units[n].fpga;
        units[m].backward += units[n].backward;
        merges.push((n, target));
        queue.push_back(m);
    }
    // The target of a merge may have been merged itself, but only later.
    let mut into: Vec<usize> = (0..classes).collect();
    for (n, target) in merges.into_iter().rev() {
        for &class in &units[n].classes {
            into[class] = into[target];
        }
    }
    into
}

impl Unit {
    fn is_idle(&self) -> bool {
        self.cpu < NO_COST_MS
            && self.fpga < NO_COST_MS
            && self.backward < NO_COST_MS
            && !self.has_backward_neighbour
    }
}
