//! Problems with too little memory: the devices can hold only part of the parameters, some of which are shared.

use std::collections::BTreeMap;

use rand::RngExt;
use stagewright_core::cluster::Cluster;
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, GRAPH_SCHEMA_2, KindDocument, LinkDocument, OperatorDocument,
    ParameterDocument,
};
use stagewright_core::graph::{Graph, GraphBuilder};
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::seed;

/// Redraws the parameters and memories of a problem from a seed. In half of the problems all operators with parameters
/// have the same size. Half of the problems of version 1 become version 2, with shared parameters. Most hosts have
/// unlimited memory.
pub fn tight(problem: &Problem, number: u64) -> Problem {
    let mut rng = seed::stream(0x716, number);
    let mut graph = problem.graph().document().clone();
    if rng.random_bool(0.5) {
        graph.schema = GRAPH_SCHEMA_2.into();
    }
    let is_version_2 = graph.schema == GRAPH_SCHEMA_2;
    let sizes: &[f64] = if rng.random_bool(0.5) { &[0.0, 4.0, 4.0] } else { &[0.0, 1.0, 2.0, 3.0, 5.0, 8.0] };
    for operator in &mut graph.operators {
        operator.parameter_bytes = sizes[rng.random_range(0..sizes.len())];
    }
    let names: Vec<String> = graph.operators.iter().map(|operator| operator.name.clone()).collect();
    for index in 0..if is_version_2 { rng.random_range(0..2) } else { 0 } {
        let readers: Vec<String> = names.iter().filter(|_| rng.random_bool(0.4)).cloned().collect();
        if !readers.is_empty() {
            graph.parameters.push(ParameterDocument {
                name: format!("tight{index}"),
                bytes: f64::from(rng.random_range(1..8)),
                optimizer_bytes: 0.0,
                readers,
                trained: rng.random_bool(0.5),
                together: false,
            });
        }
    }
    let shared: f64 = graph.parameters.iter().map(|parameter| parameter.bytes).sum();
    let own: f64 = graph.operators.iter().map(|operator| operator.parameter_bytes).sum();
    let mut cluster = problem.cluster().document().clone();
    for kind in &mut cluster.kinds {
        let share = rng.random_range(0.2..0.8);
        let memory = (share * (own + shared)).round() + f64::from(rng.random_range(0..6));
        kind.reserve_bytes = Some(0.0);
        kind.memory_bytes = (!kind.host || rng.random_bool(0.2)).then_some(memory);
    }
    let graph = Graph::from_document(graph).expect("a valid graph");
    let cluster = Cluster::from_document(cluster).expect("a valid cluster");
    let pins = if rng.random_bool(0.5) { problem.pins().clone() } else { Default::default() };
    Problem::pinned(graph, cluster, *problem.objective(), pins).expect("a valid problem")
}

/// Operators with small tensors on a slow host and one or two cards, for some seeds also one of another kind; the cards
/// hold only part of the operators.
pub fn beside_a_host(number: u64, operators: usize, objective: impl Into<Objective>) -> Problem {
    let mut rng = seed::stream(0x8057, number);
    let mut builder = GraphBuilder::new("beside a host");
    let has_classes = rng.random_bool(0.3);
    for index in 0..operators {
        let quick = f64::from(rng.random_range(1..=4)) / 4.0;
        let slow = quick * f64::from(rng.random_range(2..=12));
        let old = quick * f64::from(rng.random_range(1..=3));
        builder.operator(OperatorDocument {
            seconds: BTreeMap::from([("card".into(), quick), ("old".into(), old), ("cpu".into(), slow)]),
            colocation: (has_classes && rng.random_bool(0.5))
                .then(|| format!("class{}", rng.random_range(0..2))),
            ..OperatorDocument::named(format!("o{index}"))
        });
    }
    let density = [0.1, 0.4, 0.9][rng.random_range(0..3)];
    for from in 0..operators {
        let readers: Vec<String> =
            (from + 1..operators).filter(|_| rng.random_bool(density)).map(|to| format!("o{to}")).collect();
        if !readers.is_empty() {
            builder.tensor(&format!("o{from}"), readers.iter().map(String::as_str), 0.5);
        }
    }
    let kind = |name: &str, count: u32| KindDocument {
        server: None,
        ram: None,
        reserve_bytes: None,
        name: name.into(),
        class: name.into(),
        count,
        host: name == "cpu",
        memory_bytes: None,
        link: Some(LinkDocument { latency_s: 0.0, bandwidth: 16.0 }),
        group: None,
    };
    let cluster = Cluster::from_document(ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: String::new(),
        classes: BTreeMap::new(),
        kinds: vec![
            kind("card", rng.random_range(1..=2)),
            kind("old", rng.random_range(0..2)),
            kind("cpu", 1),
        ],
        groups: Vec::new(),
        matrix: None,
    });
    let (graph, cluster) = (builder.build().expect("a valid graph"), cluster.expect("a valid cluster"));
    let problem = Problem::new(graph, cluster, objective).expect("a valid problem");
    tight(&problem, number)
}
