//! Small random problems that cover all features: classes, hosts, memory, colocation, pins, unsupported operators,
//! backward passes, every communication and training mode, schedules and replicas.

use std::collections::BTreeMap;

use rand::{Rng, RngExt};
use stagewright_core::cluster::Cluster;
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, Communication, GRAPH_SCHEMA_2, GroupDocument, KindDocument,
    LinkDocument, OperatorDocument, ParameterDocument, Pass, PinTargets, PinsDocument, Schedule,
    TensorDocument, Training,
};
use stagewright_core::graph::{Graph, GraphBuilder};
use stagewright_core::objective::{Objective, Throughput};
use stagewright_core::problem::Problem;
use stagewright_core::seed;

/// Limits of a random problem.
#[derive(Clone, Copy)]
pub struct Size {
    /// Maximum number of operators.
    pub operators: usize,
    /// Maximum number of devices.
    pub devices: u32,
    /// Whether devices may be in groups with uplinks.
    pub groups: bool,
}

/// The problem drawn from a seed.
pub fn problem(number: u64, size: Size) -> Problem {
    let mut rng = seed::stream(0xD1CE, number);
    let mut graph = graph(&mut rng, size.operators);
    let mut cluster = cluster(&mut rng, size);
    let pins = pins(&mut rng, &graph, &cluster);
    let objective = objective(&mut rng);
    // A separate stream keeps the problems of version 1 unchanged.
    let mut rng = seed::stream(0x5A4E, number);
    if rng.random_bool(0.5) {
        graph = of_version_2(&mut rng, &graph);
        cluster = with_reserves(&mut rng, &cluster);
    }
    Problem::pinned(graph, cluster, objective, pins).expect("a valid problem")
}

fn cost(rng: &mut impl Rng) -> f64 {
    if rng.random_bool(0.2) { 0.0 } else { f64::from(rng.random_range(1..=20)) / 4.0 }
}

fn graph(rng: &mut impl Rng, max_operators: usize) -> Graph {
    let forward = rng.random_range(1..=max_operators);
    let training = rng.random_bool(0.4);
    let mut builder = GraphBuilder::new("random");
    let mut names = Vec::new();
    for index in 0..forward {
        names.push(operator(rng, &mut builder, format!("f{index}"), Pass::Forward, None));
    }
    let mut links: Vec<(usize, usize)> = Vec::new();
    for to in 1..forward {
        for from in 0..to {
            if rng.random_bool(0.35) {
                links.push((from, to));
            }
        }
    }
    tensors(rng, &mut builder, &links, |index| format!("f{index}"));
    if training {
        // Backward operators mirror the forward ones. Some of these have no backward operator, and some backward
        // operators are not colocated with a forward one.
        let present: Vec<usize> = (0..forward).filter(|_| rng.random_bool(0.7)).collect();
        for &index in &present {
            let colocation = rng.random_bool(0.7).then(|| format!("c{index}"));
            let pass = if rng.random_bool(0.9) { Pass::Backward } else { Pass::Update };
            operator(rng, &mut builder, format!("b{index}"), pass, colocation);
        }
        let back: Vec<(usize, usize)> = links
            .iter()
            .filter(|(from, to)| present.contains(from) && present.contains(to))
            .map(|&(from, to)| (to, from))
            .collect();
        tensors(rng, &mut builder, &back, |index| format!("b{index}"));
        for &index in &present {
            if rng.random_bool(0.4) {
                let (from, to) = (format!("f{index}"), format!("b{index}"));
                builder.timed_tensor(tensor(rng, from, vec![to]));
            }
        }
    }
    // Colocates the forward operators by rebuilding their documents.
    let mut document = builder.document().clone();
    for operator in &mut document.operators {
        if let Some(number) = operator.name.strip_prefix('f') {
            operator.colocation = Some(format!("c{number}"));
        }
    }
    if forward > 2 && rng.random_bool(0.3) {
        let (a, b) = (rng.random_range(0..forward), rng.random_range(0..forward));
        for operator in &mut document.operators {
            if operator.colocation.as_deref() == Some(&format!("c{b}")) {
                operator.colocation = Some(format!("c{a}"));
            }
        }
    }
    Graph::from_document(document).expect("a valid graph")
}

/// Converts the graph to version 2, with shared parameters, workspace and outputs of the model.
fn of_version_2(rng: &mut impl Rng, graph: &Graph) -> Graph {
    let mut document = graph.document().clone();
    document.schema = GRAPH_SCHEMA_2.into();
    for operator in &mut document.operators {
        operator.workspace_bytes = f64::from(rng.random_range(0..3));
        if rng.random_bool(0.5) {
            operator.activation_bytes = 0.0;
        }
    }
    let names: Vec<String> = document.operators.iter().map(|operator| operator.name.clone()).collect();
    for index in 0..rng.random_range(0..4) {
        let readers: Vec<String> = names.iter().filter(|_| rng.random_bool(0.3)).cloned().collect();
        if !readers.is_empty() {
            document.parameters.push(ParameterDocument {
                name: format!("shared{index}"),
                bytes: f64::from(rng.random_range(0..6)),
                optimizer_bytes: f64::from(rng.random_range(0..2)),
                readers,
                trained: rng.random_bool(0.6),
                together: rng.random_bool(0.1),
            });
        }
    }
    for name in names {
        if rng.random_bool(0.1) {
            document.tensors.push(tensor(rng, name, Vec::new()));
        }
    }
    Graph::from_document(document).expect("a valid graph")
}

/// Reserves part of the cluster's memory.
fn with_reserves(rng: &mut impl Rng, cluster: &Cluster) -> Cluster {
    let mut document = cluster.document().clone();
    for kind in &mut document.kinds {
        kind.reserve_bytes = Some(f64::from(rng.random_range(0..3)));
        // Version 2 also counts live tensors.
        kind.memory_bytes = kind.memory_bytes.map(|bytes| bytes + f64::from(rng.random_range(0..12)));
    }
    Cluster::from_document(document).expect("a valid cluster")
}

fn operator(
    rng: &mut impl Rng,
    builder: &mut GraphBuilder,
    name: String,
    pass: Pass,
    colocation: Option<String>,
) -> String {
    let mut seconds = BTreeMap::new();
    for (class, chance) in [("fast", 0.95), ("slow", 0.9), ("cpu", 0.8)] {
        if rng.random_bool(chance) {
            seconds.insert(class.to_owned(), cost(rng));
        }
    }
    builder.operator(OperatorDocument {
        pass,
        colocation,
        seconds,
        parameter_bytes: f64::from(rng.random_range(0..4)),
        activation_bytes: f64::from(rng.random_range(0..3)),
        ..OperatorDocument::named(name.clone())
    });
    name
}

fn tensor(rng: &mut impl Rng, producer: String, consumers: Vec<String>) -> TensorDocument {
    TensorDocument {
        name: None,
        producer,
        consumers,
        bytes: f64::from(rng.random_range(0..4)),
        seconds: if rng.random_bool(0.5) { [("fast".to_owned(), cost(rng))].into() } else { BTreeMap::new() },
    }
}

fn tensors(
    rng: &mut impl Rng,
    builder: &mut GraphBuilder,
    links: &[(usize, usize)],
    name: impl Fn(usize) -> String,
) {
    let mut consumers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for &(from, to) in links {
        consumers.entry(from).or_default().push(to);
    }
    for (from, to) in consumers {
        // One tensor for all consumers, or one for each.
        let groups =
            if rng.random_bool(0.6) { vec![to] } else { to.into_iter().map(|to| vec![to]).collect() };
        for group in groups {
            builder.timed_tensor(tensor(rng, name(from), group.into_iter().map(&name).collect()));
        }
    }
}

fn cluster(rng: &mut impl Rng, size: Size) -> Cluster {
    let mut kinds = Vec::new();
    let mut left = size.devices;
    for (name, host) in [("fast", false), ("slow", false), ("cpu", true)] {
        let count = rng.random_range(0..=left.min(3));
        left -= count;
        kinds.push(KindDocument {
            server: None,
            ram: None,
            reserve_bytes: None,
            name: name.into(),
            class: name.into(),
            count,
            host,
            memory_bytes: rng.random_bool(0.6).then(|| f64::from(rng.random_range(2..18))),
            link: Some(LinkDocument {
                latency_s: f64::from(rng.random_range(0..2)) * 0.25,
                bandwidth: f64::from(rng.random_range(1..=4)),
            }),
            group: (size.groups && rng.random_bool(0.5)).then(|| "pod".into()),
        });
    }
    if kinds.iter().all(|kind| kind.count == 0) {
        kinds[0].count = 1;
    }
    Cluster::from_document(ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: "random".into(),
        classes: BTreeMap::new(),
        kinds,
        groups: vec![GroupDocument {
            name: "pod".into(),
            uplink: LinkDocument { latency_s: 0.0, bandwidth: f64::from(rng.random_range(1..=4)) },
        }],
        matrix: None,
    })
    .expect("a valid cluster")
}

fn pins(rng: &mut impl Rng, graph: &Graph, cluster: &Cluster) -> PinsDocument {
    let mut pins = PinsDocument::default();
    for op in graph.operators() {
        if rng.random_bool(0.06) {
            let devices: Vec<_> = cluster.devices().collect();
            let device = devices[rng.random_range(0..devices.len())];
            let target = match rng.random_bool(0.5) {
                true => cluster.device_name(device),
                false => cluster.kind(cluster.kind_of(device)).name.clone(),
            };
            pins.0.insert(graph.operator(op).name.clone(), PinTargets::One(target));
        }
    }
    pins
}

fn objective(rng: &mut impl Rng) -> Objective {
    let schedule =
        [Schedule::None, Schedule::None, Schedule::GPipe, Schedule::OneFOneB][rng.random_range(0..4)];
    let separate = rng.random_bool(0.3);
    // The value under a schedule is the iteration time; the searches relax it to the bottleneck.
    let is_bottleneck = schedule != Schedule::None && (separate || rng.random_bool(0.4));
    let rules = Throughput {
        communication: [
            Communication::Serial,
            Communication::Serial,
            Communication::Overlap,
            Communication::Duplex,
        ][rng.random_range(0..4)],
        training: if separate { Training::Separate } else { Training::Combined },
        schedule,
        is_bottleneck,
        microbatches: if schedule == Schedule::None { 1 } else { rng.random_range(1..=3) },
        max_replicas: if rng.random_bool(0.3) { 2 } else { 1 },
        ..Throughput::default()
    };
    rules.into()
}
