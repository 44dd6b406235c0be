//! The published instances: plans are proved optimal where possible, are as good as the published values, and are
//! accepted by the independent checker.
//!
//! Every file in the reference folder is solved, and compared if the published tables contain it. Without
//! `STAGEWRIGHT_SHARED`, the tests print that they were skipped.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]

mod compare;
mod latency;
mod throughput;

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use stagewright::formats::{Imported, import_graph};
use stagewright_core::cluster::Cluster;
use stagewright_core::graph::Graph;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Event, Observer};

/// Relative tolerance for values published to six digits.
const PUBLISHED: f64 = 1e-5;

fn shared() -> Option<PathBuf> {
    let folder = std::env::var_os("STAGEWRIGHT_SHARED").map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: STAGEWRIGHT_SHARED is not set");
    }
    folder
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no files in {}", folder.display());
    files
}

fn stem(path: &Path) -> &str {
    path.file_stem().and_then(|stem| stem.to_str()).expect("a file name in UTF-8")
}

fn import(path: &Path) -> Imported {
    import_graph(stem(path), &fs::read(path).expect("a readable file"), None).expect("a sound file")
}

fn problem(model: &Imported) -> Problem {
    let cluster =
        Cluster::from_document(model.graph.cluster.clone().expect("its own cluster")).expect("a cluster");
    let graph = Graph::from_document(model.graph.clone()).expect("a graph");
    Problem::new(graph, cluster, Objective::default()).expect("a problem")
}

/// A column of a published table: seconds by input.
fn published(shared: &Path, table: &str, column: &str) -> BTreeMap<String, f64> {
    let text = fs::read_to_string(shared.join(format!("design/reference-{table}.csv")))
        .expect("the published values");
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let header: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let index = header.iter().position(|name| *name == column).expect("a known column");
    lines
        .filter_map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            Some((cells[0].to_owned(), cells.get(index)?.parse::<f64>().ok()? / 1e3))
        })
        .collect()
}

fn assert_close(name: &str, found: f64, expected: f64) {
    assert!((found - expected).abs() <= PUBLISHED * expected, "{name}: {found}, published {expected}");
}

/// Stops a search after a number of rounds, which gives the same result on every machine.
struct Rounds(u64);

impl Observer for Rounds {
    fn event(&mut self, event: &Event) -> ControlFlow<()> {
        match event {
            Event::Progress { done, .. } if *done >= self.0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}
