//! Makespans of every solver on the 48 published heterogeneous task graphs, at equal time budgets.
//!
//! The graphs, and HEFT's makespans on them, are GiPH's (Hu et al., MLSys 2023), read from
//! The graphs, and HEFT's makespans on them, are GiPH's (Hu et al., MLSys 2023), read from
//! `oracles/heterogeneous_tasks.json` under `STAGEWRIGHT_SHARED`; a step runs without contention, as in GiPH's
//! simulator. For each solver and budget the bench prints means over the graphs: makespan divided by the longest path
//! with every operator on its fastest device, makespan divided by the published one, and solve time:
//!     STAGEWRIGHT_SHARED=… cargo bench -p stagewright-makespan --bench makespan               # all, 10 ms to 1 s
//!     STAGEWRIGHT_SHARED=… cargo bench -p stagewright-makespan --bench makespan -- 100 heft   # milliseconds, names
//!
//! Native graphs that contain their cluster are solved instead if they are given, one by one and with ports:
//! If native graphs that contain their cluster are given, they are solved instead, one by one and with ports:
//!     cargo bench -p stagewright-makespan --bench makespan -- 10000 model.json

#![allow(clippy::print_stdout, reason = "a bench prints its table")]

use stagewright_testing::heterogeneous;

use std::time::{Duration, Instant};

use heterogeneous::Task;
use stagewright_core::cluster::Cluster;
use stagewright_core::document::{Execution, GraphDocument};
use stagewright_core::graph::Graph;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Limits, Settings, Silent, Solver};
use stagewright_makespan::SOLVERS;

/// Budgets in milliseconds.
const BUDGETS: [u64; 3] = [10, 100, 1000];
const THREADS: usize = 1;

/// Command line arguments.
struct Asked {
    budgets: Vec<u64>,
    graphs: Vec<String>,
    names: Vec<String>,
}

impl Asked {
    fn parse() -> Asked {
        // Cargo passes its own flags.
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

/// Prints the makespans on a graph that contains its cluster.
fn native(asked: &Asked, path: &str) {
    let bytes = std::fs::read(path).expect("a file");
    let document: GraphDocument = serde_json::from_slice(&bytes).expect("a native graph");
    let cluster =
        Cluster::from_document(document.cluster.clone().expect("a cluster")).expect("a sound cluster");
    let graph = Graph::from_document(document).expect("a sound graph");
    let objective = Objective::Makespan { execution: Execution::Ports };
    let problem = Problem::new(graph, cluster, objective).expect("a sound problem");
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
    let Some(tasks) = heterogeneous::tasks() else { return };
    let problems: Vec<Problem> = tasks.iter().map(Task::problem).collect();
    let shortest: Vec<f64> =
        tasks.iter().zip(&problems).map(|(task, problem)| task.longest_path(problem)).collect();

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

/// The makespan that a solver reaches, and its solve time in seconds.
fn run(solver: &dyn Solver, problem: &Problem, budget: u64) -> (f64, f64) {
    let limits = Limits { time: Some(Duration::from_millis(budget)), ..Limits::default() };
    let mut silent = Silent;
    let begin = Instant::now();
    let mut context = Context::new(Settings { limits, threads: THREADS, ..Settings::default() }, &mut silent);
    let solution = solver.solve(problem, &mut context).expect("a solver that takes the objective");
    (solution.value().unwrap_or(f64::INFINITY), begin.elapsed().as_secs_f64())
}

fn mean(figures: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = figures.len() as f64;
    figures.sum::<f64>() / count
}
