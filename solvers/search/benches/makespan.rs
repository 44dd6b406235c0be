//! Makespans of every solver on the 48 published heterogeneous task graphs, at equal time budgets.
//!
//! The graphs, and the makespans that HEFT reaches there, are GiPH's (Hu et al., MLSys 2023), read from
//! `oracles/heterogeneous_tasks.json` under `STAGEWRIGHT_SHARED`; a step runs without contention, as in its
//! simulator. For each solver and budget the bench prints the mean over the graphs of the makespan over the
//! longest path at the fastest devices, the mean of the makespan over the published one, and the mean time it
//! took:
//!
//!     STAGEWRIGHT_SHARED=… cargo bench -p stagewright-search --bench makespan               # all, 10 ms to 1 s
//!     STAGEWRIGHT_SHARED=… cargo bench -p stagewright-search --bench makespan -- 100 heft   # milliseconds, names
//!
//! Native graphs that carry their cluster are solved instead, one by one and under ports, where they are given:
//!
//!     cargo bench -p stagewright-search --bench makespan -- 10000 model.json

#![allow(clippy::print_stdout, reason = "a bench prints its table")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde::Deserialize;
use stagewright_core::cluster::Cluster;
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, Execution, GraphDocument, KindDocument, LinkDocument, MatrixDocument,
    ObjectiveKind, OperatorDocument, PinsDocument, TensorDocument,
};
use stagewright_core::graph::{Graph, GraphBuilder};
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Limits, Silent, Solver};
use stagewright_search::makespan::SOLVERS;

/// Budgets in milliseconds.
const BUDGETS: [u64; 3] = [10, 100, 1000];
const THREADS: usize = 1;

#[derive(Deserialize)]
struct File {
    instances: Vec<Task>,
}

#[derive(Deserialize)]
struct Task {
    compute: Vec<f64>,
    edges: Vec<(usize, usize, f64)>,
    speed: Vec<f64>,
    delay: Vec<Vec<f64>>,
    sec_per_byte: Vec<Vec<f64>>,
    allowed: Vec<Vec<usize>>,
    heft_makespan: f64,
}

impl Task {
    /// A kind for every device, an operator without seconds on those that it may not use.
    fn problem(&self) -> Problem {
        let class = |device: usize| format!("device{device}");
        let mut builder = GraphBuilder::new("task");
        for (op, (compute, allowed)) in self.compute.iter().zip(&self.allowed).enumerate() {
            let seconds: BTreeMap<String, f64> =
                allowed.iter().map(|&device| (class(device), compute / self.speed[device])).collect();
            builder.operator(OperatorDocument { seconds, ..OperatorDocument::named(format!("op{op}")) });
        }
        for &(from, to, bytes) in &self.edges {
            builder.timed_tensor(TensorDocument {
                name: None,
                producer: format!("op{from}"),
                consumers: vec![format!("op{to}")],
                bytes,
                seconds: Default::default(),
            });
        }
        let kind = |device| KindDocument {
            name: class(device),
            class: class(device),
            count: 1,
            host: false,
            memory_bytes: None,
            // The matrix says what is on the way.
            link: Some(LinkDocument { latency_s: 0.0, bandwidth: 1.0 }),
            group: None,
        };
        let cluster = ClusterDocument {
            schema: CLUSTER_SCHEMA.into(),
            name: String::new(),
            classes: Default::default(),
            kinds: (0..self.speed.len()).map(kind).collect(),
            groups: Vec::new(),
            matrix: Some(MatrixDocument {
                delay_s: self.delay.clone(),
                seconds_per_byte: self.sec_per_byte.clone(),
            }),
        };
        let objective = Objective {
            kind: ObjectiveKind::Makespan,
            execution: Execution::ContentionFree,
            ..Objective::default()
        };
        let cluster = Cluster::from_document(cluster).expect("a sound cluster");
        Problem::new(builder.build().expect("a sound graph"), cluster, objective, PinsDocument::default())
            .expect("a sound problem")
    }

    /// The longest path where every operator is on its fastest device.
    fn critical_path(&self, problem: &Problem) -> f64 {
        let graph = problem.graph();
        let mut end = vec![0.0f64; graph.operator_count()];
        for &op in graph.topological() {
            let begin = graph.predecessors(op).iter().map(|before| end[before.index()]).fold(0.0, f64::max);
            let fastest =
                self.allowed[op.index()].iter().map(|&device| self.speed[device]).fold(0.0, f64::max);
            end[op.index()] = begin + self.compute[op.index()] / fastest;
        }
        end.into_iter().fold(0.0, f64::max)
    }
}

/// What the command line asks for.
struct Asked {
    budgets: Vec<u64>,
    graphs: Vec<String>,
    names: Vec<String>,
}

impl Asked {
    fn parse() -> Asked {
        // Cargo passes a flag of its own.
        let words = std::env::args().skip(1).filter(|word| !word.starts_with("--"));
        let mut asked = Asked { budgets: Vec::new(), graphs: Vec::new(), names: Vec::new() };
        for word in words {
            match word.parse() {
                Ok(budget) => asked.budgets.push(budget),
                Err(_) if word.ends_with(".json") => asked.graphs.push(word),
                Err(_) => asked.names.push(word),
            }
        }
        if asked.budgets.is_empty() {
            asked.budgets = BUDGETS.to_vec();
        }
        asked
    }

    fn solvers(&self) -> impl Iterator<Item = &'static dyn Solver> {
        let is_asked = |name: &str| self.names.is_empty() || self.names.iter().any(|asked| asked == name);
        SOLVERS.iter().copied().filter(move |solver| is_asked(solver.name()))
    }
}

fn main() {
    let asked = Asked::parse();
    match asked.graphs.is_empty() {
        true => published(&asked),
        false => asked.graphs.iter().for_each(|path| native(&asked, path)),
    }
}

/// Makespans on a graph that carries its cluster.
fn native(asked: &Asked, path: &str) {
    let bytes = std::fs::read(path).expect("a file");
    let document: GraphDocument = serde_json::from_slice(&bytes).expect("a native graph");
    let cluster =
        Cluster::from_document(document.cluster.clone().expect("a cluster")).expect("a sound cluster");
    let graph = Graph::from_document(document).expect("a sound graph");
    let objective = Objective { kind: ObjectiveKind::Makespan, ..Objective::default() };
    let problem = Problem::new(graph, cluster, objective, PinsDocument::default()).expect("a sound problem");
    println!("| {path} | budget, ms | makespan, s | took, ms |");
    println!("| --- | --- | --- | --- |");
    for solver in asked.solvers() {
        for &budget in &asked.budgets {
            let (makespan, took) = run(solver, &problem, budget);
            println!("| {} | {budget} | {makespan:.6} | {:.1} |", solver.name(), 1e3 * took);
        }
    }
}

fn published(asked: &Asked) {
    let Some(folder) = std::env::var_os("STAGEWRIGHT_SHARED").map(PathBuf::from) else {
        println!("skipped: STAGEWRIGHT_SHARED is not set");
        return;
    };
    let bytes = std::fs::read(folder.join("oracles/heterogeneous_tasks.json")).expect("the published graphs");
    let tasks = serde_json::from_slice::<File>(&bytes).expect("a sound file").instances;
    let problems: Vec<Problem> = tasks.iter().map(Task::problem).collect();
    let shortest: Vec<f64> = tasks.iter().zip(&problems).map(|(task, of)| task.critical_path(of)).collect();

    println!("| solver | budget, ms | makespan / critical path | makespan / published HEFT | took, ms |");
    println!("| --- | --- | --- | --- | --- |");
    let published = tasks.iter().zip(&shortest).map(|(task, path)| task.heft_makespan / path);
    println!("| published HEFT | | {:.4} | 1.0000 | |", mean(published));
    for solver in asked.solvers() {
        for &budget in &asked.budgets {
            let runs: Vec<(f64, f64)> = problems.iter().map(|problem| run(solver, problem, budget)).collect();
            let over = |base: Vec<f64>| mean(runs.iter().zip(base).map(|(run, base)| run.0 / base));
            let published = tasks.iter().map(|task| task.heft_makespan).collect();
            println!(
                "| {} | {budget} | {:.4} | {:.4} | {:.1} |",
                solver.name(),
                over(shortest.clone()),
                over(published),
                1e3 * mean(runs.iter().map(|run| run.1))
            );
        }
    }
}

/// The makespan that a solver reaches, and the seconds that it took.
fn run(solver: &dyn Solver, problem: &Problem, budget: u64) -> (f64, f64) {
    let limits = Limits { time: Some(Duration::from_millis(budget)), ..Limits::default() };
    let mut silent = Silent;
    let begin = Instant::now();
    let mut context = Context::new(limits, Arc::new(AtomicBool::new(false)), &mut silent);
    context.threads = THREADS;
    let solution = solver.solve(problem, &mut context).expect("a solver that takes the objective");
    (solution.value().unwrap_or(f64::INFINITY), begin.elapsed().as_secs_f64())
}

fn mean(figures: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = figures.len() as f64;
    figures.sum::<f64>() / count
}
