//! Time limits on large graphs: random limits with random graphs, clusters and objectives.
//!
//! Each case solves one problem with `auto` on one thread and writes its plan. The graphs defeat quadratic algorithms:
//! tensors, parameters and colocation groups that span all operators, deep chains, wide and dense layers, isolated
//! operators, with up to half a million operators. The clusters have few devices, little memory, or hundreds of kinds.
//! The overrun of a case is the time beyond its limit, from the start of the solve until the plan is written: the
//! smaller of wall-clock and processor time, so that other programs on the machine do not count. The bench fails if a
//! case overruns by more than half a second, or has neither a plan nor a bound.
//!
//!     cargo bench --no-default-features --features milp --bench limits            # 100 cases
//!     cargo bench --no-default-features --features milp --bench limits -- 20 500  # cases 500 to 519

#![allow(clippy::print_stdout, reason = "a bench prints its table")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};
use stagewright::bounds::Proving;
use stagewright::core::cluster::Cluster;
use stagewright::core::document::{
    CLUSTER_SCHEMA, ClassDocument, ClusterDocument, GRAPH_SCHEMA_2, GraphDocument, GroupDocument,
    KindDocument, LinkDocument, ObjectiveKind, OperatorDocument, ParameterDocument, Pass, Schedule, Split,
    TensorDocument,
};
use stagewright::core::graph::Graph;
use stagewright::core::objective::{Objective, Throughput};
use stagewright::core::problem::Problem;
use stagewright::core::seed;
use stagewright::core::solver::{Context, Limits, Silent, Solver, Status};
use stagewright::formats::write_plan;
use stagewright::portfolio;
use stagewright::report::document::{Provenance, plan_document};

/// Largest overrun in seconds with which a case passes.
const MAX_OVERRUN: f64 = 0.5;
/// Minimum and maximum time limit of a case in seconds.
const LIMITS: [f64; 2] = [0.5, 5.0];
/// Minimum and maximum number of operators.
const OPERATORS: [f64; 2] = [1e3, 5e5];
/// Maximum product of operators and kinds, so that the tables of costs fit in the memory of a small machine.
const MAX_COSTS: usize = 1 << 24;
/// Maximum number of pins of dense layers.
const MAX_PINS: usize = 1 << 20;

/// Minimum and maximum bytes of the parameters of an operator.
const PARAMETERS: [f64; 2] = [1e3, 1e5];

const GRAPHS: [(&str, MakeGraph); 14] = [
    ("chain", |count, rng| with_tensors(count, chain(count), rng)),
    ("star", |count, rng| with_tensors(count, vec![(0, (1..count).collect())], rng)),
    ("stars", |count, rng| {
        with_tensors(count, (0..8).map(|from| (from, (8..count).collect())).collect(), rng)
    }),
    ("sink", |count, rng| {
        with_tensors(count, (1..count).map(|from| (from - 1, vec![count - 1])).collect(), rng)
    }),
    ("isolated", |count, rng| with_tensors(count, Vec::new(), rng)),
    ("tree", |count, rng| {
        let children = |from: usize| (2 * from + 1..(2 * from + 3).min(count)).collect();
        with_tensors(count, (0..count / 2).map(|from| (from, children(from))).collect(), rng)
    }),
    ("random", |count, rng| {
        let reader = |from: usize, rng: &mut dyn Rng| rng.random_range(from + 1..(from + 100).min(count));
        let tensors = (0..count - 1).map(|from| (from, vec![reader(from, rng), reader(from, rng)])).collect();
        with_tensors(count, tensors, rng)
    }),
    ("wide-layers", |count, rng| {
        let width = count / 20;
        let reader = |from: usize, rng: &mut dyn Rng| (from / width + 1) * width + rng.random_range(0..width);
        let tensors = (0..count - 2 * width)
            .map(|from| (from, (0..3).map(|_| reader(from, rng).min(count - 1)).collect()))
            .collect();
        with_tensors(count, tensors, rng)
    }),
    ("dense-layers", |count, rng| {
        let width = (MAX_PINS / count).clamp(2, count / 2);
        let layer = |from: usize| ((from / width + 1) * width..(from / width + 2) * width).collect();
        let tensors = (0..(count / width - 1) * width).map(|from| (from, layer(from))).collect();
        with_tensors(count, tensors, rng)
    }),
    ("shared-parameters", |count, rng| {
        let mut graph = with_tensors(count, chain(count), rng);
        let readers = |parameter: usize| (parameter..count).step_by(parameter + 1);
        graph.parameters = (0..4).map(|number| parameter(number, readers(number), false)).collect();
        graph
    }),
    ("one-group", |count, rng| {
        let mut graph = with_tensors(count, chain(count), rng);
        for operator in graph.operators.iter_mut().step_by(2) {
            operator.colocation = Some("all".into());
        }
        graph
    }),
    ("many-groups", |count, rng| {
        let mut graph = with_tensors(count, vec![(0, (1..count).collect())], rng);
        for (number, operator) in graph.operators.iter_mut().enumerate() {
            operator.colocation = Some(format!("group{}", number / 3));
        }
        graph
    }),
    ("training", |count, rng| {
        let half = count / 2;
        let mut tensors = chain(2 * half);
        for (from, readers) in tensors.iter_mut().take(half - 1) {
            readers.push(2 * half - 1 - *from);
        }
        tensors.push((0, (half..2 * half - 1).collect()));
        training(half, tensors, rng)
    }),
    ("one-tensor-kept", |count, rng| {
        let half = count / 2;
        training(half, vec![(0, (1..2 * half).collect())], rng)
    }),
];

const CLUSTERS: [(&str, MakeCluster); 7] = [
    ("4", |_| cluster(&[(4, 1e12)], false)),
    ("3x8", |_| cluster(&[(8, 1e11), (8, 2e11), (8, 4e11)], false)),
    ("little-memory", |_| cluster(&[(4, 3e9), (4, 2e9)], false)),
    ("scarce-memory", |bytes| cluster(&[(1, 0.1 * bytes), (2, 0.2 * bytes), (4, 0.3 * bytes)], false)),
    ("300-kinds", |_| cluster(&[(1, 1e12); 300], false)),
    ("1000-groups", |_| cluster(&[(1, 1e12); 1000], true)),
    ("1000-devices", |_| cluster(&[(1000, 1e12)], false)),
];

fn main() -> ExitCode {
    // Cargo adds flags; the remaining arguments are the numbers.
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let (cases, first) = (numbers.first().copied().unwrap_or(100), numbers.get(1).copied().unwrap_or(0));
    println!("| case | graph | operators | cluster | objective | limit | overrun | status | value | bound |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let (mut worst, mut failed) = (f64::NEG_INFINITY, 0);
    for number in first..first + cases {
        let (overrun, is_answered) = case(number);
        worst = worst.max(overrun);
        failed += u64::from(overrun > MAX_OVERRUN || !is_answered);
    }
    println!("\n{cases} cases, largest overrun {worst:.2} s, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Makes a graph with approximately the given number of operators.
type MakeGraph = fn(usize, &mut dyn Rng) -> GraphDocument;
/// Makes a cluster for a graph whose parameters take the given number of bytes.
type MakeCluster = fn(f64) -> ClusterDocument;

/// Solves a case and prints its row. Returns its overrun in seconds, and whether it has a plan or a bound.
fn case(number: u64) -> (f64, bool) {
    let mut rng = seed::stream(number, 0);
    let limit = rng.random_range(LIMITS[0]..LIMITS[1]);
    let (cluster_name, cluster) = CLUSTERS.choose(&mut rng).copied().expect("clusters");
    let max_operators = OPERATORS[1].min((MAX_COSTS / cluster(0.0).kinds.len()) as f64);
    let size = rng.random_range(OPERATORS[0].ln()..max_operators.ln()).exp() as usize;
    let cluster = cluster(size as f64 * 0.5 * (PARAMETERS[0] + PARAMETERS[1]));
    let (graph_name, graph) = GRAPHS.choose(&mut rng).copied().expect("graphs");
    let graph = graph(size, &mut rng);
    let objectives = objectives();
    let (objective_name, objective) = objectives.choose(&mut rng).cloned().expect("objectives");
    let graph = Graph::from_document(graph).expect("a valid graph");
    let cluster = Cluster::from_document(cluster).expect("a valid cluster");
    let problem = Problem::new(graph, cluster, objective).expect("a valid problem");
    let Ok(choice) = portfolio::auto(problem.objective()) else { return (f64::NEG_INFINITY, true) };
    let mut silent = Silent;
    let started = Clocks::now();
    let limits = Limits { time: Some(Duration::from_secs_f64(limit)), ..Limits::default() };
    let mut context = Context::new(limits, &mut silent);
    let solution = Proving(choice.solver).solve(&problem, &mut context).expect("an answer");
    let provenance = Provenance { solver: choice.solver.name().into(), seconds: limit, seed: 0 };
    std::hint::black_box(write_plan(&plan_document(&problem, &solution, provenance)));
    let overrun = started.elapsed() - limit;
    println!(
        "| {number} | {graph_name} | {size} | {cluster_name} | {objective_name} | {limit:.2} | {overrun:.2} | {:?} | {} | {:.4} |",
        solution.status,
        solution.value().map_or("-".into(), |value| format!("{value:.4}")),
        solution.bound.value,
    );
    (overrun, solution.plan.is_some() || solution.bound.value > 0.0 || solution.status == Status::Infeasible)
}

fn objectives() -> Vec<(&'static str, Objective)> {
    let with = |split, max_replicas, schedule| {
        let microbatches = if schedule == Schedule::None { 1 } else { 8 };
        Throughput { split, max_replicas, schedule, microbatches, ..Throughput::default() }.into()
    };
    vec![
        ("contiguous", Objective::default()),
        ("convex", with(Split::Convex, 1, Schedule::None)),
        ("free", with(Split::Free, 1, Schedule::None)),
        ("replicas", with(Split::Contiguous, 4, Schedule::None)),
        ("free-replicas", with(Split::Free, 4, Schedule::None)),
        ("1f1b", with(Split::Contiguous, 1, Schedule::OneFOneB)),
        ("gpipe", with(Split::Contiguous, 1, Schedule::GPipe)),
        ("latency", ObjectiveKind::Latency.into()),
        ("makespan", ObjectiveKind::Makespan.into()),
    ]
}

/// A tensor: its producer and its readers.
type Reads = (usize, Vec<usize>);

fn chain(count: usize) -> Vec<Reads> {
    (1..count).map(|to| (to - 1, vec![to])).collect()
}

fn name(operator: usize) -> String {
    format!("o{operator}")
}

/// A graph of random operators, connected by the given tensors.
fn with_tensors(count: usize, tensors: Vec<Reads>, rng: &mut dyn Rng) -> GraphDocument {
    let operator = |number| OperatorDocument {
        flop: Some(rng.random_range(1e8..2e9)),
        bytes_moved: Some(1e6),
        parameter_bytes: rng.random_range(PARAMETERS[0]..PARAMETERS[1]),
        ..OperatorDocument::named(name(number))
    };
    let tensor = |(producer, mut readers): Reads| {
        readers.sort_unstable();
        readers.dedup();
        TensorDocument {
            name: None,
            producer: name(producer),
            consumers: readers.into_iter().map(name).collect(),
            bytes: 1e5,
            seconds: Default::default(),
        }
    };
    let mut graph = GraphDocument::new(GRAPH_SCHEMA_2, "limits");
    graph.operators = (0..count).map(operator).collect();
    graph.tensors = tensors.into_iter().map(tensor).collect();
    graph
}

/// A training step: every forward operator has one backward operator, which shares its colocation class and its trained
/// parameter.
fn training(half: usize, tensors: Vec<Reads>, rng: &mut dyn Rng) -> GraphDocument {
    let mut graph = with_tensors(2 * half, tensors, rng);
    let mirrored = |operator: usize| 2 * half - 1 - operator;
    for operator in half..2 * half {
        graph.operators[operator].pass = Pass::Backward;
    }
    for operator in 0..half {
        for member in [operator, mirrored(operator)] {
            graph.operators[member].colocation = Some(format!("layer{operator}"));
        }
    }
    let trained = |operator: usize| parameter(operator, [operator, mirrored(operator)].into_iter(), true);
    graph.parameters = (0..half).map(trained).collect();
    graph
}

fn parameter(number: usize, readers: impl Iterator<Item = usize>, trained: bool) -> ParameterDocument {
    ParameterDocument {
        name: format!("p{number}"),
        bytes: 1e4,
        optimizer_bytes: 0.0,
        readers: readers.map(name).collect(),
        trained,
        together: false,
    }
}

/// A cluster from the number and memory of the devices of every kind. Each kind has a class and, if requested, a group
/// of its own.
fn cluster(kinds: &[(u32, f64)], in_groups: bool) -> ClusterDocument {
    let link = LinkDocument { latency_s: 0.0, bandwidth: 1e10 };
    let class = |kind: usize| ClassDocument {
        peak_flops: Some(1e13 + kind as f64 * 1e10),
        memory_bandwidth: Some(1e12),
        ..ClassDocument::default()
    };
    let kind = |(kind, &(count, memory)): (usize, &(u32, f64))| KindDocument {
        server: None,
        ram: None,
        name: format!("k{kind}x"),
        class: format!("c{kind}"),
        count,
        host: false,
        memory_bytes: Some(memory),
        reserve_bytes: None,
        link: Some(link),
        group: in_groups.then(|| format!("g{kind}")),
    };
    let groups = if in_groups { kinds.len() } else { 0 };
    ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: String::new(),
        classes: (0..kinds.len()).map(|kind| (format!("c{kind}"), class(kind))).collect(),
        kinds: kinds.iter().enumerate().map(kind).collect(),
        groups: (0..groups).map(|group| GroupDocument { name: format!("g{group}"), uplink: link }).collect(),
        matrix: None,
    }
}

/// Wall-clock and processor time of this process at one moment.
struct Clocks {
    clock: Instant,
    processor: Option<f64>,
}

impl Clocks {
    fn now() -> Clocks {
        Clocks { clock: Instant::now(), processor: processor_seconds() }
    }

    /// Seconds since that moment: the smaller of wall-clock and processor time.
    fn elapsed(&self) -> f64 {
        let clock = self.clock.elapsed().as_secs_f64();
        match (self.processor, processor_seconds()) {
            (Some(before), Some(now)) => clock.min(now - before),
            _ => clock,
        }
    }
}

/// Seconds for which processors have run this process, if the system reports them in `/proc`.
fn processor_seconds() -> Option<f64> {
    /// Ticks per second in which the system counts user and system time.
    const TICKS: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS)
}
