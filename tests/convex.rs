//! `auto` on convex splits, compared with brute force. Without HiGHS it returns the best contiguous split, which is convex.

use std::time::Duration;

use stagewright::portfolio::auto;
use stagewright_core::cluster::Cluster;
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, GRAPH_SCHEMA_2, GraphDocument, KindDocument, LinkDocument,
    OperatorDocument, Schedule, Split, TensorDocument,
};
use stagewright_core::graph::Graph;
use stagewright_core::objective::Throughput;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Limits, Silent, Solution};
use stagewright_testing::brute_force;
use stagewright_testing::random::{self, Size};

/// Operators with their seconds. The only split into equal halves, {a, d} and {b, c}, is convex but not contiguous: one tensor
/// leads from the first half to the second, and one back.
const SECONDS: [(&str, f64); 4] = [("a", 5.0), ("b", 4.0), ("c", 3.0), ("d", 2.0)];
const TENSORS: [(&str, &str); 2] = [("a", "b"), ("c", "d")];
const HALF: f64 = 7.0;

fn crossed() -> Problem {
    let mut graph = GraphDocument::new(GRAPH_SCHEMA_2, "crossed");
    graph.operators = SECONDS
        .map(|(name, seconds)| OperatorDocument {
            seconds: [("accelerator".to_owned(), seconds)].into(),
            ..OperatorDocument::named(name)
        })
        .into();
    graph.tensors = TENSORS
        .map(|(producer, consumer)| TensorDocument {
            name: None,
            producer: producer.into(),
            consumers: vec![consumer.into()],
            bytes: 0.0,
            seconds: Default::default(),
        })
        .into();
    let link = Some(LinkDocument { latency_s: 0.0, bandwidth: 1e9 });
    let kind = KindDocument { link, ..KindDocument::named("accelerator", 2) };
    let cluster = ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: String::new(),
        classes: Default::default(),
        kinds: vec![kind],
        groups: Vec::new(),
        matrix: None,
    };
    let graph = Graph::from_document(graph).expect("a valid graph");
    let cluster = Cluster::from_document(cluster).expect("a valid cluster");
    Problem::new(graph, cluster, Throughput::default()).expect("a valid problem")
}

/// The problem under a split rule, without a schedule and without replicas.
fn under(problem: &Problem, split: Split) -> Problem {
    let rules = problem.objective().rules();
    let rules = Throughput { split, schedule: Schedule::None, microbatches: 1, max_replicas: 1, ..rules };
    problem.with_objective(rules).expect("valid rules")
}

fn solved(problem: &Problem) -> Solution {
    let solver = auto(problem.objective()).expect("convex splits are supported").solver;
    // Where a gap is left, large neighbourhoods use all of the time.
    let limits = Limits { time: Some(Duration::from_secs(2)), ..Limits::default() };
    let mut silent = Silent;
    solver.solve(problem, &mut Context::new(limits, &mut silent)).expect("a convex problem")
}

/// Compares the plan and the bound of `auto` with brute force; returns the values of the best convex and the best contiguous
/// split.
fn agreed(problem: &Problem, label: &str) -> (Option<f64>, Option<f64>) {
    let convex = under(problem, Split::Convex);
    let solution = solved(&convex);
    let optimum = brute_force::optimum(&convex);
    let contiguous = brute_force::optimum(&under(problem, Split::Contiguous));
    let expected = if cfg!(feature = "milp") { optimum } else { contiguous };
    let found = solution.plan.map(|plan| plan.value());
    assert_eq!(found.is_some(), expected.is_some(), "{label}");
    if let Some((found, expected)) = found.zip(expected) {
        // The arithmetic of the integer program resolves no smaller differences.
        assert!((found - expected).abs() <= 1e-5 * expected.max(1e-3), "{label}: {found}, not {expected}");
    }
    if let Some(optimum) = optimum {
        assert!(solution.bound.value <= optimum, "{label}: bound {} > {optimum}", solution.bound.value);
    }
    (optimum, contiguous)
}

#[test]
fn random_problems_agree_with_brute_force() {
    let mut feasible = 0;
    for number in 0..24 {
        let problem = random::problem(number, Size { operators: 5, devices: 3, groups: number % 2 == 0 });
        feasible += u32::from(agreed(&problem, &number.to_string()).0.is_some());
    }
    assert!(feasible > 12, "{feasible}");
}

#[test]
fn a_convex_split_may_be_better_than_any_contiguous_one() {
    let (convex, contiguous) = agreed(&crossed(), "crossed");
    assert_eq!(convex, Some(HALF));
    assert!(contiguous > Some(HALF), "{contiguous:?}");
}
