//! Makespans and bounds on sets of task graphs from the scheduling literature, beside the published or known values.
//!
//! | set | graphs | compared with |
//! | --- | --- | --- |
//! | GiPH | 48, 20 unequal devices (Hu et al., MLSys 2023), under `STAGEWRIGHT_SHARED` | the published makespan of HEFT |
//! | RGPOS | 18, drawn by the recipe of Kwok and Ahmad (JPDC 1999) | the optimum, known by construction |
//! | RGPOS, ports | 12 of them with fewer edges, the same schedules with ports | the same |
//! | RGBOS | 36, drawn by their recipe, four processors | the best plan found here |
//! | ogra | files of Davidović and Crainic (Computers & Operations Research 2006), if given | the published optimum |
//! | td | their random graphs, if given, on two and four processors | the best plan found here |
//!
//! A step runs without contention, unless the set says ports. Every solver gets the same time, and its column shows its
//! makespan divided by the value that it is compared with. The bound is the strongest one that needs no search, divided
//! by the optimum or by the best plan. A bound above a known optimum or above a plan, or a plan below a known optimum,
//! ends the bench with an error:
//!
//!     STAGEWRIGHT_SHARED=… cargo bench --bench published_makespan                        # two seconds a solver
//!     STAGEWRIGHT_SHARED=… cargo bench --bench published_makespan -- 10 ogra50_10_4.td   # seconds, files

#![allow(clippy::print_stdout, reason = "a bench prints its table")]

use std::path::Path;
use std::time::Duration;

use stagewright::registry::BOUNDS;
use stagewright::{portfolio, registry};
use stagewright_core::document::Execution;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Limits, Settings, Silent, Solution, Solver, Status};
use stagewright_core::tolerance;
use stagewright_testing::heterogeneous;
use stagewright_testing::kwok_ahmad::{rgbos, rgpos};
use stagewright_testing::task_graphs::{TaskGraph, known_length};

const SOLVERS: [&str; 4] = ["heft", "multilevel", "auto", "exact"];
const SECONDS: u64 = 2;
const RATIOS_OF_COMMUNICATION: [f64; 3] = [0.1, 1.0, 10.0];

/// Known values of an instance.
#[derive(Clone, Copy)]
enum Known {
    Nothing,
    Published(f64),
    Optimum(f64),
}

struct Instance {
    set: &'static str,
    name: String,
    problem: Problem,
    known: Known,
}

/// The results for an instance.
struct Row {
    set: &'static str,
    /// The values of the solvers, divided by the known or published value, or else by the best value.
    ratios: Vec<f64>,
    /// The bound without a search, divided by the optimum or, if it is unknown, by the best plan.
    bound: f64,
    /// The relative gap between the best plan and the best of all bounds.
    gap: f64,
    is_proved: bool,
}

fn main() {
    // Cargo passes its own flags.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let seconds = words.iter().find_map(|word| word.parse().ok()).unwrap_or(SECONDS);
    let limit = Duration::from_secs(seconds);
    let files = words.iter().filter(|word| word.ends_with(".td")).flat_map(|path| of_file(Path::new(path)));
    let instances = giph().into_iter().chain(with_known_optimum()).chain(small()).chain(files);

    println!("| set | instance | reference, s | {} | bound | gap | proved |", SOLVERS.join(" | "));
    println!("|{}", " --- |".repeat(SOLVERS.len() + 6));
    let rows: Vec<Row> = instances.map(|instance| measured(&instance, limit)).collect();
    println!("\n| set | instances | {} | bound | gap | proved |", SOLVERS.join(" | "));
    println!("|{}", " --- |".repeat(SOLVERS.len() + 5));
    for of_set in rows.chunk_by(|row, next| row.set == next.set) {
        let mean =
            |figure: &dyn Fn(&Row) -> f64| of_set.iter().map(figure).sum::<f64>() / of_set.len() as f64;
        let ratios: Vec<f64> = (0..SOLVERS.len()).map(|index| mean(&|row| row.ratios[index])).collect();
        let proved = of_set.iter().filter(|row| row.is_proved).count();
        let (bound, gap) = (mean(&|row| row.bound), 100.0 * mean(&|row| row.gap));
        let (set, count) = (of_set[0].set, of_set.len());
        println!("| {set} | {count} | {} | {bound:.4} | {gap:.2}% | {proved} |", cells(&ratios));
    }
}

fn cells(ratios: &[f64]) -> String {
    ratios.iter().map(|ratio| format!("{ratio:.4}")).collect::<Vec<_>>().join(" | ")
}

fn giph() -> Vec<Instance> {
    let tasks = heterogeneous::tasks().unwrap_or_default();
    let instance = |(index, task): (usize, &heterogeneous::Task)| Instance {
        set: "GiPH",
        name: index.to_string(),
        problem: task.problem(),
        known: Known::Published(task.heft_makespan),
    };
    tasks.iter().enumerate().map(instance).collect()
}

fn with_known_optimum() -> Vec<Instance> {
    let (mut free, mut ports) = (Vec::new(), Vec::new());
    for tasks in [50, 100, 200] {
        for processors in [2, 8] {
            for ccr in RATIOS_OF_COMMUNICATION {
                let drawn = rgpos(free.len() as u64, tasks, processors, ccr);
                let name = format!("{} tasks, {processors} processors, CCR {ccr}", drawn.graph.seconds.len());
                let known = Known::Optimum(f64::from(drawn.length));
                free.push(Instance { set: "RGPOS", name: name.clone(), problem: drawn.problem(), known });
                if tasks < 200 {
                    ports.push(Instance { set: "RGPOS, ports", name, problem: drawn.for_ports().1, known });
                }
            }
        }
    }
    free.into_iter().chain(ports).collect()
}

fn small() -> Vec<Instance> {
    let mut instances = Vec::new();
    for ccr in RATIOS_OF_COMMUNICATION {
        for tasks in (10..=32).step_by(2) {
            instances.push(Instance {
                set: "RGBOS",
                name: format!("{tasks} tasks, CCR {ccr}"),
                problem: rgbos(instances.len() as u64, tasks, ccr).problem(4, Execution::ContentionFree),
                known: Known::Nothing,
            });
        }
    }
    instances
}

/// The instances in a file of Davidović and Crainic. For `ogra<tasks>_<density>_<processors>.td`, the optimum is
/// published, but plans need not reach it, because some schedules of their model correspond to no plan. Other graphs
/// are run on two and on four processors.
fn of_file(path: &Path) -> Vec<Instance> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let graph = TaskGraph::from_td(&text).unwrap_or_else(|| panic!("{} is no task graph", path.display()));
    let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
    let on = |set, processors, known| Instance {
        set,
        name: format!("{name}, {processors} processors"),
        problem: graph.problem(processors, Execution::ContentionFree),
        known,
    };
    match name.strip_prefix("ogra").and_then(|rest| rest.rsplit('_').next()?.parse().ok()) {
        Some(processors) => {
            vec![on("ogra", processors, Known::Published(f64::from(known_length(graph.seconds.len()))))]
        }
        None => [2, 4].map(|processors| on("td", processors, Known::Nothing)).into(),
    }
}

/// Solves an instance with every solver, and prints its row.
fn measured(instance: &Instance, limit: Duration) -> Row {
    let Instance { set, name, problem, known } = instance;
    let bounds = BOUNDS.iter().filter(|bound| bound.applies(problem));
    let root = bounds.filter_map(|bound| bound.compute(problem)).map(|bound| bound.value).fold(0.0, f64::max);
    let solutions = SOLVERS.map(|solver| solved(solver, problem, limit));
    let values = solutions.each_ref().map(|solution| solution.value().expect("a plan"));
    let best = values.iter().copied().fold(f64::INFINITY, f64::min);
    let bound = solutions.iter().map(|solution| solution.bound.value).fold(root, f64::max);
    assert!(bound <= best, "{set} {name}: the bound {bound} is above the plan {best}");
    let reference = match *known {
        Known::Nothing => best,
        Known::Published(value) => value,
        Known::Optimum(value) => {
            assert!(bound <= value, "{set} {name}: the bound {bound} is above the optimum {value}");
            assert!(best >= value, "{set} {name}: the plan {best} is below the optimum {value}");
            value
        }
    };
    let row = Row {
        set,
        ratios: values.iter().map(|value| value / reference).collect(),
        bound: root / if let Known::Optimum(value) = *known { value } else { best },
        gap: tolerance::gap(best, bound),
        is_proved: solutions.iter().any(|solution| solution.status == Status::Optimal),
    };
    let Row { ratios, bound, gap, is_proved, .. } = &row;
    let (ratios, gap) = (cells(ratios), 100.0 * gap);
    println!("| {set} | {name} | {reference:.3} | {ratios} | {bound:.4} | {gap:.2}% | {is_proved} |");
    row
}

fn solved(name: &str, problem: &Problem, limit: Duration) -> Solution {
    let solver: &dyn Solver = match name {
        "auto" => portfolio::auto(problem.objective()).expect("a solver for the makespan").solver,
        name => registry::named(name).expect("a solver"),
    };
    let mut silent = Silent;
    let limits = Limits { time: Some(limit), ..Limits::default() };
    let mut context = Context::new(Settings { limits, threads: 1, ..Settings::default() }, &mut silent);
    solver.solve(problem, &mut context).expect("a step")
}
