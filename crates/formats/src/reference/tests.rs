//! Absorption against a literal replay of the package's steps, on small random graphs.

use std::collections::{BTreeMap, BTreeSet};

use super::absorb::colocate;
use super::file::Node;
use super::*;

/// A stream of small numbers (splitmix64).
struct Stream(u64);

impl Stream {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

fn random_model(seed: u64) -> (Vec<Node>, Vec<(usize, usize)>) {
    let mut random = Stream(seed);
    let n = 2 + random.below(9) as usize;
    let training = random.below(2) == 1;
    let forward = if training { 1 + random.below(n as u64) as usize } else { n };
    let colors = 1 + random.below(2 * n as u64) as i64;
    let nodes: Vec<Node> = (0..n)
        .map(|v| Node {
            id: v as i64,
            name: None,
            supported_on_fpga: true,
            // Sums of the small times stay on one side of the threshold whatever their order.
            cpu_latency: [0.0, 0.0, 0.0, 4e-7, 1.0][random.below(5) as usize],
            fpga_latency: [0.0, 0.0, 0.0, 0.0, 1.0][random.below(5) as usize],
            is_backward_node: v >= forward,
            color_class: (random.below(4) > 0).then(|| random.below(colors as u64) as i64),
            layer_id: None,
            size: None,
        })
        .collect();
    let density = 1 + random.below(4);
    let mut edges = Vec::new();
    for v in 1..n {
        for u in 0..v {
            if random.below(n as u64) < density {
                edges.push((u, v));
            }
        }
    }
    (nodes, edges)
}

/// A contracted node of the replay: its class, and whether it is backward.
type Vertex = (usize, bool);

/// Replays the package step by step: contract, add artificial nodes, fuse, then merge one node at a time and
/// start over. Returns the class of each node after fusing, and at the end.
fn replay(nodes: &[Node], edges: &[(usize, usize)]) -> (Vec<usize>, Vec<usize>) {
    let mut fresh = 1000;
    let class: Vec<usize> = nodes
        .iter()
        .map(|node| match node.color_class {
            Some(color) => color as usize,
            None => {
                fresh += 1;
                fresh
            }
        })
        .collect();
    let has_forward = |c: usize| nodes.iter().zip(&class).any(|(node, &d)| c == d && !node.is_backward_node);
    let mut links: Vec<(Vertex, Vertex, bool)> = Vec::new();
    for &(u, v) in edges {
        let (a, b) = ((class[u], nodes[u].is_backward_node), (class[v], nodes[v].is_backward_node));
        links.push((a, b, false));
        if a.1 && b.1 && a.0 != b.0 && (!has_forward(a.0) || !has_forward(b.0)) {
            links.push(((b.0, false), (a.0, false), true));
        }
    }
    let classes: BTreeSet<usize> = class.iter().copied().collect();
    let mut reach: BTreeSet<(usize, usize)> =
        links.iter().filter(|(a, b, _)| !a.1 && !b.1).map(|(a, b, _)| (a.0, b.0)).collect();
    for &k in &classes {
        for &i in &classes {
            for &j in &classes {
                if reach.contains(&(i, k)) && reach.contains(&(k, j)) {
                    reach.insert((i, j));
                }
            }
        }
    }
    let fused: BTreeMap<usize, usize> = classes
        .iter()
        .map(|&c| {
            let mates = classes.iter().filter(|&&d| reach.contains(&(c, d)) && reach.contains(&(d, c)));
            (c, mates.copied().chain([c]).min().unwrap())
        })
        .collect();
    let mut group = fused.clone();
    loop {
        let mut contracted: BTreeMap<Vertex, (f64, f64)> = BTreeMap::new();
        for c in &classes {
            contracted.entry((group[c], false)).or_default();
        }
        for (node, c) in nodes.iter().zip(&class) {
            let times = contracted.entry((group[c], node.is_backward_node)).or_default();
            times.0 += node.cpu_latency;
            times.1 += node.fpga_latency;
        }
        let set: BTreeSet<_> = links
            .iter()
            .map(|&(a, b, artificial)| ((group[&a.0], a.1), (group[&b.0], b.1), artificial))
            .filter(|(a, b, _)| a != b)
            .collect();
        let merge = contracted.iter().find_map(|(&n, &(cpu, fpga))| {
            let ends = set.iter().filter_map(|&(a, b, _)| match (a == n, b == n) {
                (true, _) => Some(b),
                (_, true) => Some(a),
                _ => None,
            });
            let (backward, forward): (Vec<_>, Vec<_>) = ends.partition(|end| end.1);
            let mate = contracted.get(&(n.0, true)).map_or(0.0, |times| times.0 + times.1);
            let idle = !n.1 && cpu < 1e-6 && fpga < 1e-6 && mate < 1e-6;
            (idle && backward.is_empty() && forward.len() == 1).then(|| (n.0, forward[0].0))
        });
        let Some((from, to)) = merge else { break };
        for target in group.values_mut().filter(|target| **target == from) {
            *target = to;
        }
    }
    (class.iter().map(|c| fused[c]).collect(), class.iter().map(|c| group[c]).collect())
}

/// Represents a partition by the first member of each part.
fn parts<T: Ord + Clone>(labels: &[T]) -> Vec<usize> {
    let mut first = BTreeMap::new();
    labels.iter().enumerate().map(|(i, label)| *first.entry(label.clone()).or_insert(i)).collect()
}

#[test]
fn absorption_merges_what_the_package_merges() {
    let mut merged = 0;
    for seed in 0..20_000 {
        let (nodes, edges) = random_model(seed);
        let (fused, expected) = replay(&nodes, &edges);
        let colocation = colocate(&nodes, &edges);
        // Colocation does not include fusion, so join the fused classes: then the parts are those of the
        // package.
        let mut labels: Vec<String> = colocation
            .iter()
            .enumerate()
            .map(|(v, name)| name.clone().unwrap_or_else(|| format!("alone{v}")))
            .collect();
        loop {
            let by_fused = parts(&fused);
            let before = labels.clone();
            for v in 0..labels.len() {
                let (from, to) = (labels[v].clone(), labels[by_fused[v]].clone());
                labels.iter_mut().filter(|label| **label == from).for_each(|label| label.clone_from(&to));
            }
            if labels == before {
                break;
            }
        }
        assert_eq!(parts(&labels), parts(&expected), "seed {seed}: {nodes:?} {edges:?}");
        merged += usize::from(parts(&fused) != parts(&expected));
    }
    assert!(merged > 2_000, "only {merged} of the graphs had anything to absorb");
}

#[test]
fn fusion_is_no_colocation() {
    // Colours 1 and 2 feed each other, and everything takes time.
    let node = |id, color| Node {
        id,
        name: None,
        supported_on_fpga: true,
        cpu_latency: 1.0,
        fpga_latency: 1.0,
        is_backward_node: false,
        color_class: Some(color),
        layer_id: None,
        size: None,
    };
    let nodes = [node(0, 1), node(1, 2), node(2, 1)];
    let names = colocate(&nodes, &[(0, 1), (1, 2)]);
    assert_eq!(names, [Some("color1".to_owned()), Some("color2".to_owned()), Some("color1".to_owned())]);
}

#[test]
fn a_long_chain_of_free_nodes_is_absorbed_in_linear_time() {
    let n = 50_000;
    let nodes: Vec<Node> = (0..n)
        .map(|id| Node {
            id,
            name: None,
            supported_on_fpga: true,
            cpu_latency: 0.0,
            fpga_latency: if id == 0 { 1.0 } else { 0.0 },
            is_backward_node: false,
            color_class: None,
            layer_id: None,
            size: None,
        })
        .collect();
    let edges: Vec<(usize, usize)> = (1..n as usize).map(|v| (v - 1, v)).collect();
    assert!(colocate(&nodes, &edges).iter().all(|name| name.as_deref() == Some("node0")));
}

#[test]
fn names_that_repeat_are_told_apart_by_id() {
    let model = r#"{"maxFPGAs": 1, "maxCPUs": 1, "maxSizePerFPGA": 1, "edges": [], "nodes": [
        {"id": 7, "name": "a", "supportedOnFpga": 1, "cpuLatency": 1, "fpgaLatency": 1, "isBackwardNode": 0},
        {"id": 9, "name": "a", "supportedOnFpga": 1, "cpuLatency": 1, "fpgaLatency": 1, "isBackwardNode": 0},
        {"id": 8, "name": "a#7", "supportedOnFpga": 1, "cpuLatency": 1, "fpgaLatency": 1, "isBackwardNode": 0},
        {"id": -5, "supportedOnFpga": true, "cpuLatency": 1, "fpgaLatency": 1, "isBackwardNode": false}]}"#;
    let imported = import("model.json", model.as_bytes(), &ImportOptions::default()).unwrap();
    let names: Vec<&str> = imported.graph.operators.iter().map(|operator| operator.name.as_str()).collect();
    assert_eq!(names, ["a#7#7", "a#9", "a#7", "node-5"]);
}
