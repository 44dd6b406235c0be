//! Graphs for the unit tests of the systems.

use stagewright_core::cluster::Cluster;
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, Execution, KindDocument, LinkDocument, OperatorDocument,
};
use stagewright_core::graph::GraphBuilder;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;

/// 0 sends to 1 and 2, both send to 3, and 3 sends to 4.
pub(crate) const DIAMOND: [(usize, usize); 5] = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)];

/// A makespan problem with operators of 1 s, 2 s, … and the given edges, on identical devices.
pub(crate) fn graph(operators: usize, edges: &[(usize, usize)], devices: u32) -> Problem {
    let mut graph = GraphBuilder::new("a test");
    let names: Vec<String> = (0..operators).map(|index| format!("o{index}")).collect();
    for (index, name) in names.iter().enumerate() {
        let seconds = [("gpu".to_owned(), 1.0 + index as f64)].into_iter().collect();
        graph.operator(OperatorDocument { seconds, ..OperatorDocument::named(name) });
    }
    for &(from, to) in edges {
        graph.tensor(&names[from], [names[to].as_str()], 1.0);
    }
    let kind = KindDocument {
        reserve_bytes: None,
        name: "gpu".into(),
        class: "gpu".into(),
        count: devices,
        host: false,
        memory_bytes: None,
        link: Some(LinkDocument { latency_s: 0.0, bandwidth: 1.0 }),
        group: None,
        server: None,
        ram: None,
    };
    let cluster = ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: "alike".into(),
        classes: Default::default(),
        kinds: vec![kind],
        groups: Vec::new(),
        matrix: None,
    };
    let cluster = Cluster::from_document(cluster).expect("a valid cluster");
    let objective = Objective::Makespan { execution: Execution::Ports };
    let graph = graph.build().expect("a valid graph");
    Problem::new(graph, cluster, objective).expect("a valid problem")
}
