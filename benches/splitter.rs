//! The exact splitter on the published instances, from bytes to a proof, on one thread. The textbook program runs
//! beside it on the instances where it finishes.
//!
//!     STAGEWRIGHT_SHARED=../shared cargo bench --bench splitter
//!
//! Without `STAGEWRIGHT_SHARED`, the bench has no instances and says so.

#![allow(
    missing_docs,
    clippy::print_stdout,
    reason = "a bench prints, and its macros make undocumented items"
)]

use stagewright_testing::textbook;

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use stagewright::formats::import_graph;
use stagewright_core::cluster::Cluster;
use stagewright_core::contraction::Units;
use stagewright_core::graph::Graph;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Limits, Silent, Solver};
use stagewright_dp::Dp;

/// Number of ideals above which the textbook program is skipped: its time is quadratic in them.
const TEXTBOOK_IDEALS: usize = 500;

fn problem(name: &str, bytes: &[u8]) -> Problem {
    let model = import_graph(name, bytes, None).expect("a sound file");
    let cluster =
        Cluster::from_document(model.graph.cluster.clone().expect("its own cluster")).expect("a cluster");
    let graph = Graph::from_document(model.graph).expect("a graph");
    Problem::new(graph, cluster, Objective::default()).expect("a problem")
}

fn solve(problem: &Problem) -> f64 {
    let mut silent = Silent;
    let mut context = Context::new(Limits::default(), &mut silent);
    Dp.solve(problem, &mut context).expect("a contiguous problem").value().expect("a plan")
}

fn splitter(criterion: &mut Criterion) {
    let Some(shared) = std::env::var_os("STAGEWRIGHT_SHARED") else {
        println!("skipped: STAGEWRIGHT_SHARED is not set");
        return;
    };
    let folder = Path::new(&shared).join("data/msr/throughput");
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).expect("the inputs").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let mut group = criterion.benchmark_group("splitter");
    group.sample_size(10).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(3));
    for path in files {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let bytes = fs::read(&path).expect("a readable file");
        group.bench_function(format!("dp/{name}"), |bencher| {
            bencher.iter(|| solve(&problem(&name, black_box(&bytes))));
        });
        let small = problem(&name, &bytes);
        if textbook::count_ideals(&Units::new(&small), TEXTBOOK_IDEALS).is_some() {
            group.bench_function(format!("textbook/{name}"), |bencher| {
                bencher.iter(|| textbook::optimum(&problem(&name, black_box(&bytes)), TEXTBOOK_IDEALS));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, splitter);
criterion_main!(benches);
