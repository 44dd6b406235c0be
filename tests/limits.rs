//! `auto` without any time, on inputs for which quadratic algorithms are too slow: a single pass still yields a plan.

use std::time::Duration;

use stagewright::core::cluster::Cluster;
use stagewright::core::document::{
    CLUSTER_SCHEMA, ClusterDocument, GRAPH_SCHEMA_2, GraphDocument, GroupDocument, KindDocument,
    LinkDocument, ObjectiveKind, OperatorDocument, ParameterDocument, Schedule, Split, TensorDocument,
};
use stagewright::core::graph::Graph;
use stagewright::core::objective::{Objective, Throughput};
use stagewright::core::problem::Problem;
use stagewright::core::solver::{Context, Limits, Silent, Solution, Solver};
use stagewright::portfolio;
use stagewright_makespan::HEFT;

const OPERATORS: usize = 3000;

fn name(operator: usize) -> String {
    format!("o{operator}")
}

/// A graph of operators that take one second on every class, with the given tensors.
fn graph(kinds: usize, tensors: impl Iterator<Item = (usize, Vec<usize>)>) -> GraphDocument {
    let mut graph = GraphDocument::new(GRAPH_SCHEMA_2, "limits");
    let seconds: std::collections::BTreeMap<String, f64> =
        (0..kinds).map(|index| (format!("c{index}"), 1.0)).collect();
    let operator =
        |index| OperatorDocument { seconds: seconds.clone(), ..OperatorDocument::named(name(index)) };
    graph.operators = (0..OPERATORS).map(operator).collect();
    let tensor = |(producer, readers): (usize, Vec<usize>)| TensorDocument {
        name: None,
        producer: name(producer),
        consumers: readers.into_iter().map(name).collect(),
        bytes: 1.0,
        seconds: Default::default(),
    };
    graph.tensors = tensors.map(tensor).collect();
    graph
}

fn cluster(kinds: usize, count: u32) -> ClusterDocument {
    let link = LinkDocument { latency_s: 0.0, bandwidth: 1e3 };
    let kind = |index| KindDocument {
        server: None,
        ram: None,
        name: format!("k{index}x"),
        class: format!("c{index}"),
        count,
        host: false,
        memory_bytes: Some(1e9),
        reserve_bytes: Some(0.0),
        link: Some(link),
        group: Some(format!("g{index}")),
    };
    ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: String::new(),
        classes: Default::default(),
        kinds: (0..kinds).map(kind).collect(),
        groups: (0..kinds).map(|index| GroupDocument { name: format!("g{index}"), uplink: link }).collect(),
        matrix: None,
    }
}

/// Inputs: a tensor that all operators read, a parameter that all of them read, many kinds of devices, and isolated
/// operators.
fn inputs() -> Vec<(&'static str, GraphDocument, ClusterDocument)> {
    let chain = || (1..OPERATORS).map(|to| (to - 1, vec![to]));
    let mut shared = graph(1, chain());
    shared.parameters.push(ParameterDocument {
        name: "p".into(),
        bytes: 8.0,
        optimizer_bytes: 0.0,
        readers: (0..OPERATORS).map(name).collect(),
        trained: false,
        together: false,
    });
    vec![
        ("star", graph(1, std::iter::once((0, (1..OPERATORS).collect()))), cluster(1, 4)),
        ("shared parameter", shared, cluster(1, 4)),
        ("many kinds", graph(60, chain()), cluster(60, 1)),
        ("isolated", graph(1, std::iter::empty()), cluster(1, 4)),
    ]
}

fn objectives() -> Vec<Objective> {
    let split = |split| Throughput { split, ..Throughput::default() }.into();
    vec![
        split(Split::Contiguous),
        split(Split::Convex),
        split(Split::Free),
        Throughput { max_replicas: 2, ..Throughput::default() }.into(),
        Throughput { schedule: Schedule::OneFOneB, microbatches: 4, ..Throughput::default() }.into(),
        ObjectiveKind::Latency.into(),
        ObjectiveKind::Makespan.into(),
    ]
}

fn without_time(solver: &dyn Solver, problem: &Problem) -> Solution {
    let limits = Limits { time: Some(Duration::ZERO), ..Limits::default() };
    let mut silent = Silent;
    solver.solve(problem, &mut Context::new(limits, &mut silent)).expect("an answer")
}

#[test]
fn auto_has_a_plan_without_time_whatever_shares_a_tensor_a_parameter_or_a_kind() {
    for (what, graph, cluster) in inputs() {
        for objective in objectives() {
            let graph = Graph::from_document(graph.clone()).expect("a valid graph");
            let cluster = Cluster::from_document(cluster.clone()).expect("a valid cluster");
            let problem = Problem::new(graph, cluster, objective).expect("a valid problem");
            let auto = portfolio::auto(&objective).expect("auto supports it").solver;
            let solution = without_time(auto, &problem);
            let value = solution.value();
            assert!(value.is_some_and(|value| value >= solution.bound.value), "{what}: {solution:?}");
            assert!(solution.bound.value > 0.0, "{what}: {objective:?}");
            if objective.kind() == ObjectiveKind::Makespan {
                let heft = without_time(&HEFT, &problem).value();
                assert!(value <= heft, "{what}: {value:?} where list scheduling has {heft:?}");
            }
        }
    }
}

/// Three quarters of the operators are assigned to devices in turn, without a choice.
#[test]
fn a_schedule_completed_in_a_hurry_uses_every_device() {
    let (_, graph, cluster) = inputs().pop().expect("isolated operators");
    let graph = Graph::from_document(graph).expect("a valid graph");
    let cluster = Cluster::from_document(cluster).expect("a valid cluster");
    let problem =
        Problem::new(graph, cluster, Objective::from(ObjectiveKind::Makespan)).expect("a valid problem");
    let value = without_time(&HEFT, &problem).value().expect("a plan");
    assert!(value <= 1.01 * OPERATORS as f64 / 4.0, "{value}");
}
