//! The human-expert rules: the independent checker accepts each of their plans, on random problems with layers and on
//! built-in models, and the plans match what human experts would choose.

use stagewright_testing::random;

use std::collections::BTreeMap;

use rand::RngExt;
use random::{Size, problem};
use stagewright::report::document::{Provenance, plan_document};
use stagewright::workloads::{Granularity, Optimizer, Options, family};
use stagewright_core::cluster::{Cluster, DeviceId};
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClassDocument, ClusterDocument, KindDocument, LinkDocument, Schedule, Split, Training,
};
use stagewright_core::graph::Graph;
use stagewright_core::objective::Throughput;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Context, Plan, Settings, Silent, Solution, Solver, Status};
use stagewright_search::{
    ACCELERATE_BALANCED, EMBEDDINGS_ON_HOST, EQUAL_LAYERS, EQUAL_PARAMETERS, EQUAL_TIME, GRAPH_PARTITION,
    LAYER_PER_DEVICE,
};
use stagewright_verify::{BoundVerdict, check};

const RULES: [&dyn Solver; 7] = [
    &EQUAL_LAYERS,
    &EQUAL_PARAMETERS,
    &ACCELERATE_BALANCED,
    &EQUAL_TIME,
    &LAYER_PER_DEVICE,
    &EMBEDDINGS_ON_HOST,
    &GRAPH_PARTITION,
];

fn solve(rule: &dyn Solver, problem: &Problem, threads: usize) -> Solution {
    let mut silent = Silent;
    let mut context = Context::new(Settings { threads, ..Settings::default() }, &mut silent);
    rule.solve(problem, &mut context).unwrap_or_else(|error| panic!("{}: {error}", rule.name()))
}

/// Solves the problem and checks the plan.
fn checked(rule: &dyn Solver, problem: &Problem) -> Solution {
    let solution = solve(rule, problem, 1);
    let name = rule.name();
    if solution.plan.is_none() {
        assert_eq!(solution.status, Status::Unknown, "{name}");
        assert!(solution.reason.as_ref().is_some_and(|reason| !reason.is_empty()), "{name}");
        return solution;
    }
    let provenance = Provenance { solver: name.into(), seconds: 0.0, seed: 0 };
    let plan = plan_document(problem, &solution, provenance);
    let report = check(problem.graph().document(), problem.cluster().document(), None, &plan)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(report.violations.is_empty(), "{name}: {:?}", report.violations);
    assert!(!matches!(report.bound, BoundVerdict::Refuted { .. }), "{name}");
    solution
}

/// A random problem with operators in random layers and a random split rule.
fn layered(number: u64) -> Problem {
    let problem = problem(number, Size { operators: 8, devices: 5, groups: number.is_multiple_of(2) });
    let mut rng = seed::stream(0x1A7E2, number);
    let mut document = problem.graph().document().clone();
    let layers = rng.random_range(1..=5);
    for operator in &mut document.operators {
        let number: usize = operator.name[1..].parse().expect("a letter and a number");
        operator.layer = match number * (layers + 2) / 8 {
            0 if rng.random_bool(0.7) => Some("embedding".into()),
            _ if rng.random_bool(0.1) => None,
            layer => Some(format!("layer.{layer}.part")),
        };
    }
    let split = [Split::Contiguous, Split::Convex, Split::Free][rng.random_range(0..3)];
    let schedule = match split {
        Split::Contiguous => problem.objective().rules().schedule,
        Split::Convex | Split::Free => Schedule::None,
    };
    let microbatches = if schedule == Schedule::None { 1 } else { problem.objective().rules().microbatches };
    let given = *problem.objective();
    // A document cannot state the bottleneck of a schedule, and a schedule determines the order of the passes itself.
    let training = if schedule == Schedule::None { given.rules().training } else { Training::Combined };
    let objective =
        Throughput { split, schedule, microbatches, training, is_bottleneck: false, ..given.rules() };
    let graph = Graph::from_document(document).expect("a valid graph");
    Problem::pinned(graph, problem.cluster().clone(), objective, problem.pins().clone())
        .expect("a valid problem")
}

#[test]
fn every_plan_passes_the_checker() {
    let mut plans = BTreeMap::new();
    for number in 0..6000 {
        let problem = layered(number);
        for rule in RULES {
            if checked(rule, &problem).plan.is_some() {
                *plans.entry((rule.name(), problem.objective().rules().split as u8)).or_insert(0) += 1;
            }
        }
    }
    assert_eq!(plans.len(), 3 * RULES.len(), "{plans:?}");
    assert!(plans.values().all(|&count| count > 20), "{plans:?}");
}

#[test]
fn threads_do_not_change_a_plan() {
    for number in 0..200 {
        let problem = layered(number);
        for rule in RULES {
            let single = solve(rule, &problem, 1);
            let others: Vec<Solution> = std::thread::scope(|scope| {
                let started: Vec<_> = (0..3).map(|_| scope.spawn(|| solve(rule, &problem, 3))).collect();
                started.into_iter().map(|thread| thread.join().expect("a solution")).collect()
            });
            assert!(others.iter().all(|other| *other == single), "{number} {}", rule.name());
        }
    }
}

/// A model on accelerators of 10 TFLOP/s and 1 TB/s with links of 16 GB/s, and on a host with a hundredth of that
/// compute and memory bandwidth.
fn model(name: &str, training: bool, granularity: Granularity, split: Split, accelerators: u32) -> Problem {
    let options = Options { training: training.then_some(Optimizer::Sgd), granularity, ..Options::default() };
    let document = family(name).and_then(|family| family.generate(None, &options)).expect("a model");
    let class = |share: f64| ClassDocument {
        peak_flops: Some(1e13 * share),
        memory_bandwidth: Some(1e12 * share),
        ..Default::default()
    };
    let kind = |name: &str, count, host| KindDocument {
        reserve_bytes: None,
        name: name.into(),
        class: name.into(),
        count,
        host,
        memory_bytes: None,
        link: Some(LinkDocument { latency_s: 0.0, bandwidth: 16e9 }),
        group: None,
        server: None,
        ram: None,
    };
    let cluster = Cluster::from_document(ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: "accelerators".into(),
        classes: [("acc".to_owned(), class(1.0)), ("cpu".to_owned(), class(0.01))].into(),
        kinds: vec![kind("acc", accelerators, false), kind("cpu", 1, true)],
        groups: Vec::new(),
        matrix: None,
    });
    let graph = Graph::from_document(document).expect("a valid graph");
    let objective = Throughput { split, ..Throughput::default() };
    Problem::new(graph, cluster.expect("a valid cluster"), objective).expect("a valid problem")
}

/// Numbers of the layers on a device that are below a path such as `decoder.layer`.
fn layers_on(problem: &Problem, plan: &Plan, device: u32, path: &str) -> Vec<usize> {
    let graph = problem.graph();
    let here = graph.operators().filter(|&op| plan.placement.device_of(op) == DeviceId(device));
    let mut layers: Vec<usize> = here
        .filter_map(|op| {
            let rest = graph.operator(op).layer.as_deref()?.strip_prefix(path)?.strip_prefix('.')?;
            rest.split('.').next()?.parse().ok()
        })
        .collect();
    layers.sort_unstable();
    layers.dedup();
    layers
}

/// Devices of the operators in a layer, which is given by its path.
fn devices_of(problem: &Problem, plan: &Plan, layer: &str) -> Vec<u32> {
    let graph = problem.graph();
    let chosen = graph.operators().filter(|&op| graph.operator(op).layer.as_deref() == Some(layer));
    let mut devices: Vec<u32> = chosen.map(|op| plan.placement.device_of(op).0).collect();
    devices.sort_unstable();
    devices.dedup();
    devices
}

#[test]
fn gpt_has_three_layers_on_each_of_four_devices() {
    for training in [false, true] {
        for granularity in [Granularity::Operator, Granularity::Layer] {
            let problem = model("gpt", training, granularity, Split::Contiguous, 4);
            for rule in RULES {
                checked(rule, &problem);
            }
            let plan = solve(&EQUAL_LAYERS, &problem, 1).plan.expect("a plan");
            for device in 0..4 {
                let first = 3 * device as usize;
                assert_eq!(
                    layers_on(&problem, &plan, device, "decoder.layer"),
                    [first, first + 1, first + 2],
                    "training {training}, {granularity:?}"
                );
            }
        }
    }
}

#[test]
fn gnmt_has_each_layer_on_its_own_device() {
    let problem = model("gnmt", false, Granularity::Operator, Split::Free, 4);
    for rule in RULES {
        assert!(checked(rule, &problem).plan.is_some(), "{}", rule.name());
    }
    let plan = solve(&LAYER_PER_DEVICE, &problem, 1).plan.expect("a plan");
    for device in 0..4 {
        for half in ["encoder.layer", "decoder.layer"] {
            assert_eq!(layers_on(&problem, &plan, device, half), [device as usize]);
        }
    }
    assert_eq!(devices_of(&problem, &plan, "embedding"), [0]);
    assert_eq!(devices_of(&problem, &plan, "decoder.attention"), [3]);
    assert_eq!(devices_of(&problem, &plan, "classifier"), [3]);
    let plan = solve(&EMBEDDINGS_ON_HOST, &problem, 1).plan.expect("a plan");
    assert_eq!(devices_of(&problem, &plan, "embedding"), [4]);
    assert_eq!(devices_of(&problem, &plan, "classifier"), [3]);
}

#[test]
fn every_family_has_layers() {
    for family in stagewright::workloads::FAMILIES {
        let problem = model(family.name(), false, Granularity::Layer, Split::Contiguous, 4);
        let solution = checked(&EQUAL_LAYERS, &problem);
        assert!(solution.plan.is_some(), "{}: {:?}", family.name(), solution.reason);
    }
}
