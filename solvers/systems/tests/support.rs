//! Problems on which there is something to learn.

use stagewright_core::cluster::Cluster;
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, Execution, KindDocument, LinkDocument, OperatorDocument,
};
use stagewright_core::graph::GraphBuilder;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;

/// A chain of operators of one second each, with transfers of 100 seconds each.
pub(crate) fn slow_links(operators: usize, devices: u32) -> Problem {
    let edges = (1..operators).map(|index| (index - 1, index)).collect();
    alike_operators(operators, edges, 100.0, &[("gpu", devices, 1.0)])
}

/// Diamonds as in [`diamonds`], with links like those of [`slow_links`].
pub(crate) fn slow_links_between_diamonds(operators: usize, devices: u32) -> Problem {
    alike_operators(operators, diamonds(operators), 100.0, &[("gpu", devices, 1.0)])
}

/// Diamonds on two devices: an operator takes two seconds on the first and one on the second. A transfer takes half a
/// second, so that running an operator in parallel on the other device finishes too late.
pub(crate) fn second_is_faster(operators: usize) -> Problem {
    alike_operators(operators, diamonds(operators), 0.5, &[("old", 1, 2.0), ("gpu", 1, 1.0)])
}

/// Diamonds in series: the last operator of each is the first of the next.
fn diamonds(operators: usize) -> Vec<(usize, usize)> {
    let ends =
        |first| [(first, first + 1), (first, first + 2), (first + 1, first + 3), (first + 2, first + 3)];
    (0..operators).step_by(3).flat_map(ends).filter(|&(_, to)| to < operators).collect()
}

/// Identical operators on devices of several kinds. `sending` is the time of a transfer in seconds; a kind is given by
/// a name, a number of devices, and the seconds of an operator.
fn alike_operators(
    operators: usize,
    edges: Vec<(usize, usize)>,
    sending: f64,
    kinds: &[(&str, u32, f64)],
) -> Problem {
    let mut graph = GraphBuilder::new("a test");
    let names: Vec<String> = (0..operators).map(|index| format!("o{index}")).collect();
    for name in &names {
        let seconds = kinds.iter().map(|&(kind, _, seconds)| (kind.to_owned(), seconds)).collect();
        graph.operator(OperatorDocument {
            kind: Some("relu".into()),
            seconds,
            ..OperatorDocument::named(name)
        });
    }
    for (from, to) in edges {
        graph.tensor(&names[from], [names[to].as_str()], sending);
    }
    let kind = |&(name, count, _): &(&str, u32, f64)| KindDocument {
        reserve_bytes: None,
        name: name.into(),
        class: name.into(),
        count,
        host: false,
        memory_bytes: None,
        link: Some(LinkDocument { latency_s: 0.0, bandwidth: 1.0 }),
        group: None,
        server: None,
        ram: None,
    };
    let cluster = ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: "slow".into(),
        classes: Default::default(),
        kinds: kinds.iter().map(kind).collect(),
        groups: Vec::new(),
        matrix: None,
    };
    let cluster = Cluster::from_document(cluster).expect("a valid cluster");
    let objective = Objective::Makespan { execution: Execution::Ports };
    let graph = graph.build().expect("a valid graph");
    Problem::new(graph, cluster, objective).expect("a valid problem")
}
