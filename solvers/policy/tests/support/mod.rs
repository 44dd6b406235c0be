//! Random problems and networks shared by the tests.

#![allow(dead_code, reason = "every test uses what it needs")]

use stagewright_testing::random;

use candle_core::{DType, Device, Tensor};
use rand::RngExt;
use random::Size;
use stagewright_core::cluster::Cluster;
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, Execution, KindDocument, LinkDocument, ObjectiveKind, OperatorDocument,
};
use stagewright_core::graph::GraphBuilder;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_makespan::instance::Instance;
use stagewright_makespan::schedule::{Evaluator, Schedule};
use stagewright_policy::features::{Input, input};
use stagewright_policy::network::{Config, Network};
use stagewright_policy::subject::{Base, Subject};

/// The configuration of a small network.
pub(crate) fn small() -> Config {
    Config { width: 8, layers: 2, heads: 2, segment: 4, summaries: 2 }
}

/// A random step.
pub(crate) fn step(number: u64, operators: usize, devices: u32) -> Problem {
    let problem = random::problem(number, Size { operators, devices, groups: number.is_multiple_of(2) });
    let execution = if number % 3 == 1 { Execution::ContentionFree } else { Execution::Ports };
    let objective = Objective::Makespan { execution };
    problem.with_objective(objective).expect("a valid objective")
}

/// A random contiguous split.
pub(crate) fn split(number: u64, operators: usize, devices: u32) -> Problem {
    let problem = random::problem(number, Size { operators, devices, groups: false });
    problem.with_objective(Objective::default()).expect("a valid objective")
}

/// An empty graph, on two devices.
pub(crate) fn empty(kind: ObjectiveKind) -> Problem {
    let cluster = step(1, 2, 2).cluster().document().clone();
    let graph = GraphBuilder::new("nothing").build().expect("a valid graph");
    let cluster = Cluster::from_document(cluster).expect("a valid cluster");
    Problem::new(graph, cluster, kind).expect("a valid problem")
}

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

/// Identical operators on devices of several kinds. `sending` is the seconds of a transfer; a kind has a name, a number
/// of devices, and the seconds of an operator.
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

/// A random device for each unit among those that can run it.
pub(crate) fn any_schedule(subject: &Subject<'_, '_>, number: u64) -> Schedule {
    let mut rng = seed::stream(31, number);
    let instance = subject.instance();
    let mut homes = Vec::new();
    for unit in subject.level().ids() {
        let capable: Vec<_> =
            instance.problem().cluster().devices().filter(|&device| subject.can_run(unit, device)).collect();
        homes.push(capable[rng.random_range(0..capable.len())]);
    }
    Schedule::without_priority(subject.level().project(instance, &homes.into()))
}

/// The features of a step with a random plan to improve on; `None` if some operator can run nowhere.
pub(crate) fn figures(problem: &Problem, number: u64) -> Option<Input> {
    let instance = Instance::new(problem);
    if instance.impossible().is_some() || problem.graph().operator_count() == 0 {
        return None;
    }
    let subject = Subject::new(&instance, usize::MAX, false);
    let mut evaluator = Evaluator::new(&instance);
    let base = Base::new(&subject, &mut evaluator, &any_schedule(&subject, number));
    Some(input(&subject, &base, base.seconds, base.seconds / 2.0))
}

/// A network whose parameters are all random, including those that are initially zero.
pub(crate) fn random_network(config: Config, seed: u64, dtype: DType, device: &Device) -> Network {
    let network = Network::new(config, seed, dtype, device).expect("a network");
    for (index, var) in network.weights().vars().values().enumerate() {
        let mut rng = seed::stream(seed ^ 77, index as u64);
        let numbers: Vec<f64> = (0..var.elem_count()).map(|_| rng.random_range(-0.5..0.5)).collect();
        let noise = Tensor::from_vec(numbers, var.dims(), &Device::Cpu).expect("a tensor");
        let noise = noise.to_dtype(dtype).and_then(|noise| noise.to_device(device)).expect("a tensor");
        var.set(&var.as_tensor().add(&noise).expect("alike")).expect("alike");
    }
    network
}

/// All outputs of a network, in one vector.
pub(crate) fn all_of(network: &Network, inputs: &[&Input]) -> Vec<f64> {
    let batch = network.batch(inputs).expect("a batch");
    let output = network.forward(&batch).expect("an output");
    let parts = [&output.priority, &output.together, &output.affinity, &output.value];
    let numbers = |part: &Tensor| {
        part.flatten_all().and_then(|part| part.to_dtype(DType::F64)).and_then(|part| part.to_vec1::<f64>())
    };
    parts.into_iter().flat_map(|part| numbers(part).expect("numbers")).collect()
}
