//! Brute force over all joint plans of tiny models.

use std::collections::BTreeMap;

use rand::RngExt;
use stagewright_core::document::{
    PiperConfigurationDocument, PiperDocument, PiperEdgeDocument, PiperNodeDocument, RecomputeWorkspace,
};
use stagewright_core::seed;
use stagewright_core::solver::Status;
use stagewright_joint::sample::Terms;

use crate::piper::{ALL, solved};

/// A random model of up to five layers.
fn random(number: u64) -> PiperDocument {
    let rng = &mut seed::stream(32, number);
    let count: i64 = rng.random_range(1..6);
    let mut edges = Vec::new();
    for source in 0..count {
        for target in source + 1..count {
            if rng.random_bool(0.5) {
                let communication_cost = f64::from(rng.random_range(0..6));
                edges.push(PiperEdgeDocument { source_id: source, dest_id: target, communication_cost });
            }
        }
    }
    let degrees: Vec<u32> = (1..4).filter(|&degree| degree == 1 || rng.random_bool(0.4)).collect();
    let mut nodes = Vec::new();
    for id in 0..count {
        let mut configurations = BTreeMap::new();
        for &degree in &degrees {
            let of_degree = (0..rng.random_range(1..3)).map(|index| PiperConfigurationDocument {
                id: format!("configuration {index}"),
                // Not a dyadic fraction: sums have rounding errors.
                time_per_sample: f64::from(rng.random_range(0..30) / degree) / 7.0,
                parameter_size: f64::from(rng.random_range(0..10)),
                memory_usage_a: f64::from(rng.random_range(0..8)),
                memory_usage_b: f64::from(rng.random_range(0..20)),
                sync_time_fw: edges
                    .iter()
                    .filter(|edge| edge.dest_id == id)
                    .map(|edge| (edge.source_id, f64::from(rng.random_range(0..4))))
                    .collect(),
                sync_time_bw: edges
                    .iter()
                    .filter(|edge| edge.source_id == id)
                    .map(|edge| (edge.dest_id, f64::from(rng.random_range(0..4))))
                    .collect(),
            });
            configurations.insert(degree.to_string(), of_degree.collect());
        }
        nodes.push(PiperNodeDocument { id, name: String::new(), configurations });
    }
    PiperDocument {
        max_devices: rng.random_range(1..6),
        max_memory_per_device: f64::from(rng.random_range(10..90)),
        bandwidth: f64::from(rng.random_range(1..6)),
        microbatches: Some(rng.random_range(1..7)),
        nodes,
        edges,
    }
}

/// Minimum time per sample over all plans, by recursion over the stages from the last to the first; infinite if there
/// is none.
fn brute_force(document: &PiperDocument, terms: Terms, after: u32, copies: u32, devices: u32) -> f64 {
    let count = document.nodes.len() as u32;
    if after == (1 << count) - 1 {
        return 0.0;
    }
    let batch = document.microbatches.unwrap();
    let mut best = f64::INFINITY;
    for stage in 1u32..1 << count {
        // The successors of a layer of the stage are in it or after it.
        let is_closed = document
            .edges
            .iter()
            .all(|edge| stage >> edge.source_id & 1 == 0 || (stage | after) >> edge.dest_id & 1 == 1);
        let is_rest = (stage | after) == (1 << count) - 1;
        if stage & after != 0 || !is_closed || (!terms.pipeline && !is_rest) {
            continue;
        }
        for data in (1..=batch).filter(|&data| batch.is_multiple_of(data) && (terms.data || data == 1)) {
            for tensor in (1..4).filter(|&tensor| terms.tensor || tensor == 1) {
                let (copies, devices) = (copies + data, devices + data * tensor);
                if copies > batch || devices > document.max_devices {
                    continue;
                }
                let seconds = fastest(document, terms, stage, data, tensor, copies.div_ceil(data));
                if seconds < best {
                    best =
                        best.min(seconds.max(brute_force(document, terms, after | stage, copies, devices)));
                }
            }
        }
    }
    best
}

/// Minimum time of a stage over all choices of configurations.
fn fastest(
    document: &PiperDocument,
    terms: Terms,
    stage: u32,
    data: u32,
    tensor: u32,
    in_flight: u32,
) -> f64 {
    let nodes: Vec<&PiperNodeDocument> =
        document.nodes.iter().filter(|node| stage >> node.id & 1 == 1).collect();
    let listed: Option<Vec<_>> =
        nodes.iter().map(|node| node.configurations.get(&tensor.to_string())).collect();
    let Some(listed) = listed else { return f64::INFINITY };
    let mut best = f64::INFINITY;
    let number_of = |configurations: &Vec<PiperConfigurationDocument>| {
        if terms.recompute { configurations.len() } else { 1 }
    };
    for mut number in 0..listed.iter().map(|configurations| number_of(configurations)).product() {
        let (mut seconds, mut bytes, mut workspace) = (0.0, 0.0, 0.0f64);
        for (node, configurations) in nodes.iter().zip(&listed) {
            let configuration = &configurations[number % number_of(configurations)];
            number /= number_of(configurations);
            let mut moved = 0.0;
            for edge in &document.edges {
                if edge.dest_id == node.id && stage >> edge.source_id & 1 == 0 {
                    moved += 2.0 * (edge.communication_cost + configuration.sync_time_fw[&edge.source_id]);
                }
                if edge.source_id == node.id && stage >> edge.dest_id & 1 == 0 {
                    moved += 2.0 * (edge.communication_cost + configuration.sync_time_bw[&edge.dest_id]);
                }
            }
            let (data, batch) = (f64::from(data), f64::from(document.microbatches.unwrap()));
            let resynced = 4.0 * (data - 1.0) / data * configuration.parameter_size / batch;
            seconds += configuration.time_per_sample / data + (moved / data + resynced) / document.bandwidth;
            bytes += configuration.memory_usage_a * f64::from(in_flight) + configuration.memory_usage_b;
            let considered = configurations.iter().take(number_of(configurations));
            let least =
                considered.map(|configuration| configuration.memory_usage_b).fold(f64::INFINITY, f64::min);
            if terms.workspace == RecomputeWorkspace::Max {
                bytes -= configuration.memory_usage_b - least;
                workspace = workspace.max(configuration.memory_usage_b - least);
            }
        }
        if bytes + workspace <= document.max_memory_per_device * (1.0 + 1e-12) {
            best = best.min(seconds);
        }
    }
    best
}

#[test]
fn plans_of_tiny_models_are_the_best_of_all() {
    let (mut optimal, mut infeasible) = (0, 0);
    for number in 0..1000 {
        let document = random(number);
        let rng = &mut seed::stream(33, number);
        let some = |rng: &mut _| rand::RngExt::random_bool(rng, 0.8);
        let terms = Terms {
            workspace: if some(rng) { RecomputeWorkspace::Max } else { RecomputeWorkspace::Sum },
            tensor: some(rng),
            data: some(rng),
            pipeline: some(rng),
            recompute: some(rng),
            ..ALL
        };
        let solution = solved(&document, terms);
        let best = brute_force(&document, terms, 0, 0, 0);
        match solution.status {
            Status::Optimal => {
                let (value, bound) = (solution.value.unwrap(), solution.bound.unwrap());
                assert!((value - best).abs() <= 1e-9 * best, "{number}: {value}, but {best} is possible");
                assert!(bound <= best, "{number}: the bound is {bound}, but {best} is possible");
                optimal += 1;
            }
            Status::Infeasible => {
                assert_eq!(best, f64::INFINITY, "{number}");
                infeasible += 1;
            }
            status => panic!("{number}: {status:?} without a limit"),
        }
    }
    assert!(optimal > 500 && infeasible > 50, "{optimal} and {infeasible}");
}
