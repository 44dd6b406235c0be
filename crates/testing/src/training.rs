//! Random training graphs: a chain of layers with occasional skips. Each layer has a forward operator and separate
//! operators for the gradients of its inputs and of its weights.

use rand::{Rng, RngExt};
use stagewright_core::cluster::Cluster;
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, Communication, KindDocument, OperatorDocument, Pass, Schedule,
    TensorDocument,
};
use stagewright_core::graph::GraphBuilder;
use stagewright_core::objective::Throughput;
use stagewright_core::problem::Problem;
use stagewright_core::seed;

/// The problem drawn from seed `number` under a schedule: at most `layers` layers, on at most `devices` devices of two
/// kinds.
pub fn training(number: u64, schedule: Schedule, layers: usize, devices: u32) -> Problem {
    let mut rng = seed::stream(number, 0x5C4E);
    let layers = rng.random_range(2..=layers);
    let mut builder = GraphBuilder::new("training");
    let mut operator = |rng: &mut _, name: &str, layer: usize, pass: Pass| {
        let seconds = |rng: &mut _| quarter(rng, 12);
        builder.operator(OperatorDocument {
            pass,
            seconds: [("acc".to_string(), seconds(rng)), ("slow".to_string(), seconds(rng))].into(),
            colocation: Some(format!("layer {layer}")),
            parameter_bytes: if pass == Pass::Forward { quarter(rng, 8) } else { 0.0 },
            activation_bytes: if pass == Pass::Forward { quarter(rng, 8) } else { 0.0 },
            ..OperatorDocument::named(format!("{name}{layer}"))
        });
    };
    for layer in 0..layers {
        operator(&mut rng, "f", layer, Pass::Forward);
        operator(&mut rng, "b", layer, Pass::Backward);
        operator(&mut rng, "w", layer, Pass::Backward);
    }
    let mut tensor = |rng: &mut _, producer: String, consumers: Vec<String>| {
        let seconds = quarter(rng, 3);
        builder.timed_tensor(TensorDocument {
            name: None,
            producer,
            consumers,
            bytes: 0.0,
            seconds: [("acc".to_string(), seconds), ("slow".to_string(), 2.0 * seconds)].into(),
        });
    };
    for layer in 1..layers {
        // Without this edge the two layers can be placed in either order.
        if rng.random_bool(0.85) {
            tensor(&mut rng, format!("f{}", layer - 1), vec![format!("f{layer}")]);
        }
        let before = layer - 1;
        tensor(&mut rng, format!("b{layer}"), vec![format!("b{before}"), format!("w{before}")]);
    }
    if layers > 2 && rng.random_bool(0.3) {
        tensor(&mut rng, "f0".into(), vec![format!("f{}", layers - 1)]);
    }
    let memory = rng.random_bool(0.3).then(|| 2.0 + quarter(&mut rng, 60));
    let slow = rng.random_range(0..=1);
    let kind = |name: &str, count| KindDocument {
        reserve_bytes: None,
        name: name.into(),
        class: name.into(),
        count,
        host: false,
        memory_bytes: memory,
        link: None,
        group: None,
        server: None,
        ram: None,
    };
    let cluster = ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: String::new(),
        classes: Default::default(),
        kinds: vec![kind("acc", rng.random_range(1..=devices - slow)), kind("slow", slow)],
        groups: Vec::new(),
        matrix: None,
    };
    let objective = Throughput {
        schedule,
        microbatches: rng.random_range(1..=6),
        communication: [Communication::Serial, Communication::Overlap][usize::from(rng.random_bool(0.3))],
        ..Throughput::default()
    };
    let graph = builder.build().expect("a graph");
    let cluster = Cluster::from_document(cluster).expect("a cluster");
    // With two layers no weight gradient branches off, which zero-bubble rejects.
    match Problem::new(graph.clone(), cluster.clone(), objective) {
        Ok(problem) => problem,
        Err(_) => {
            let objective = Throughput { schedule: Schedule::OneFOneB, ..objective };
            Problem::new(graph, cluster, objective).expect("a problem")
        }
    }
}

/// Random multiple of a quarter, up to `limit` quarters.
fn quarter(rng: &mut impl Rng, limit: u32) -> f64 {
    f64::from(rng.random_range(0..=limit)) / 4.0
}
