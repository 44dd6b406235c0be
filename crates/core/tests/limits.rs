//! Computations that a limit can end, and computations that are linear however many readers a tensor has, checked
//! against their definitions.

use std::time::Duration;

use rand::RngExt;
use stagewright_core::bound::{CLOSED_FORMS, strongest, strongest_before, strongest_of};
use stagewright_core::cluster::{Cluster, DeviceId};
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, KindDocument, LinkDocument, ObjectiveKind, OperatorDocument, Split,
    TensorDocument,
};
use stagewright_core::evaluate::{Violation, evaluate};
use stagewright_core::graph::{Graph, GraphBuilder, OpId};
use stagewright_core::objective::{Objective, Throughput};
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::Stop;
use stagewright_testing::devices::devices;
use stagewright_testing::random;

/// A graph of operators that take one to two seconds on each of `kinds` classes, with random tensors between them.
fn graph(count: usize, kinds: usize, density: f64, rng: &mut impl rand::Rng) -> Graph {
    let mut builder = GraphBuilder::new("random");
    let class = |index: usize| if index == 0 { "acc".to_string() } else { format!("acc{index}") };
    for index in 0..count {
        let seconds = (0..kinds).map(|kind| (class(kind), rng.random_range(1.0..2.0))).collect();
        builder.operator(OperatorDocument { seconds, ..OperatorDocument::named(format!("o{index}")) });
    }
    for from in 0..count {
        let readers = (from + 1..count.min(from + 50)).filter(|_| rng.random_bool(density));
        let consumers: Vec<String> = readers.map(|to| format!("o{to}")).collect();
        if !consumers.is_empty() {
            let seconds = (0..kinds).map(|kind| (class(kind), 0.5)).collect();
            let producer = format!("o{from}");
            builder.timed_tensor(TensorDocument { name: None, producer, consumers, bytes: 0.0, seconds });
        }
    }
    builder.build().expect("a valid graph")
}

/// Whether some path leaves a device and returns to it at operator `to`.
fn comes_back(graph: &Graph, device_of: &[DeviceId], device: DeviceId, to: OpId) -> bool {
    let mut left = vec![false; graph.operator_count()];
    for &op in graph.topological() {
        for &next in graph.successors(op) {
            let leaves = device_of[op.index()] == device && device_of[next.index()] != device;
            left[next.index()] |= left[op.index()] || leaves;
        }
    }
    device_of[to.index()] == device && left[to.index()]
}

#[test]
fn convexity_is_that_of_every_device_by_itself() {
    let (mut broken, mut whole) = (0, 0);
    for number in 0..60 {
        let mut rng = seed::stream(number, 71);
        let count = rng.random_range(1..150);
        let graph = graph(count, 1, 0.03, &mut rng);
        let objective = Throughput { split: Split::Convex, ..Throughput::default() };
        let problem = Problem::new(graph, devices(150, None), objective).expect("a valid problem");
        // Most operators get a device of their own, so that more than 64 are in use.
        let device_of: Vec<DeviceId> = (0..count)
            .map(|index| DeviceId::new(if rng.random_bool(0.1) { rng.random_range(0..count) } else { index }))
            .collect();
        let placement = Placement::new(device_of.clone());
        let found: Vec<(String, String)> = evaluate(&problem, &placement)
            .violations
            .into_iter()
            .filter_map(|violation| match violation {
                Violation::Convexity { device, operator } => Some((device, operator)),
                _ => None,
            })
            .collect();
        let (graph, cluster) = (problem.graph(), problem.cluster());
        let first = |device: DeviceId| {
            let back = |&&op: &&OpId| comes_back(graph, &device_of, device, op);
            let op = graph.topological().iter().find(back)?;
            Some((cluster.device_name(device), graph.operator(*op).name.clone()))
        };
        let expected: Vec<(String, String)> = placement.used().into_iter().filter_map(first).collect();
        assert_eq!(found, expected, "{number}");
        broken += found.len();
        whole += usize::from(found.is_empty());
    }
    assert!(broken > 10 && whole > 10, "{broken} devices with a path back, {whole} convex placements");
}

#[test]
fn memory_is_that_of_live_ranges_by_definition() {
    const SIZE: random::Size = random::Size { operators: 12, devices: 2, groups: false };
    let (mut stashed, mut compared) = (0, 0);
    for number in 0..400 {
        let problem = random::problem(number, SIZE);
        let (graph, memory) = (problem.graph(), problem.memory());
        if memory.is_sum() {
            continue;
        }
        let mut rng = seed::stream(number, 72);
        let order: Vec<OpId> = graph.work_order().into_iter().filter(|_| rng.random_bool(0.6)).collect();
        let place = |op: &OpId| order.iter().position(|other| other == op);
        let (mut live, mut stash) = (vec![0.0; order.len()], 0.0);
        for tensor in graph.tensors() {
            let readers: Vec<usize> = graph.consumers(tensor).iter().filter_map(place).collect();
            let producer = place(&graph.producer(tensor));
            let Some(first) = readers.iter().copied().chain(producer).min() else { continue };
            let last = match graph.consumers(tensor).is_empty() {
                true => order.len() - 1,
                false => readers.iter().copied().max().unwrap_or(first),
            };
            live[first..=last].iter_mut().for_each(|sum| *sum += graph.bytes(tensor));
            if graph.is_forward(graph.producer(tensor))
                && readers.iter().any(|&reader| !graph.is_forward(order[reader]))
            {
                stash += graph.bytes(tensor);
            }
        }
        let peak = order.iter().zip(&live).map(|(&op, live)| live + graph.operator(op).workspace_bytes);
        let peak = peak.fold(0.0, f64::max);
        let found = memory.of(order.iter().copied());
        assert!(
            (found.peak - peak).abs() < 1e-9 && (found.stash - stash).abs() < 1e-9,
            "{number}: {found:?}"
        );
        stashed += usize::from(stash > 0.0);
        compared += 1;
    }
    assert!(stashed > 10 && compared > 100, "{stashed} with a stash, {compared} compared");
}

/// A problem with forty kinds of one device each, so that the bounds from heads and tails take long.
fn many_kinds() -> Problem {
    const KINDS: usize = 40;
    let graph = graph(500, KINDS, 0.05, &mut seed::stream(73, 0));
    let kind = |index: usize| KindDocument {
        server: None,
        ram: None,
        name: format!("k{index}x"),
        class: if index == 0 { "acc".into() } else { format!("acc{index}") },
        count: 1,
        host: false,
        memory_bytes: None,
        reserve_bytes: None,
        link: Some(LinkDocument { latency_s: 0.0, bandwidth: 1.0 }),
        group: None,
    };
    let cluster = ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: String::new(),
        classes: Default::default(),
        kinds: (0..KINDS).map(kind).collect(),
        groups: Vec::new(),
        matrix: None,
    };
    let cluster = Cluster::from_document(cluster).expect("a valid cluster");
    Problem::new(graph, cluster, Objective::from(ObjectiveKind::Makespan)).expect("a valid problem")
}

#[test]
fn bounds_that_a_limit_omits_are_computed_later() {
    let problem = many_kinds();
    let over = Stop::new(Some(Duration::ZERO), Default::default());
    let early = strongest_before(&problem, &over);
    let all = strongest_of(&CLOSED_FORMS, &problem);
    assert!(early.value > 0.0 && early.value <= all.value, "{early:?} {all:?}");
    assert!(["critical-path", "fluid", "heaviest-unit"].contains(&early.source), "{}", early.source);
    assert_eq!(strongest(&problem), all);
    assert_eq!(strongest_before(&problem, &over), all);
}
