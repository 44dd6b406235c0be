//! Times per sample found by Piper's own program.

#![expect(clippy::print_stdout, reason = "a skipped test says so")]

use stagewright_core::document::{PiperDocument, RecomputeWorkspace};
use stagewright_core::solver::{Context, Limits, Settings, Silent, Status};
use stagewright_joint::sample::{Problem, Solution, Terms, solve};

pub(crate) const ALL: Terms = Terms {
    workspace: RecomputeWorkspace::Sum,
    tensor: true,
    data: true,
    pipeline: true,
    recompute: true,
    per_second: 1.0,
};

pub(crate) fn solved(document: &PiperDocument, terms: Terms) -> Solution {
    let problem = Problem::new(document, terms).unwrap_or_else(|error| panic!("{error}"));
    let mut observer = Silent;
    let mut context = Context::new(
        Settings { limits: Limits { time: None, ..Limits::default() }, threads: 2, ..Settings::default() },
        &mut observer,
    );
    solve(&problem, &mut context).expect("a solution")
}

#[test]
fn the_published_program_finds_the_same_and_larger_workspaces_do_not_add_up() {
    let Some(shared) = std::env::var_os("STAGEWRIGHT_SHARED") else {
        println!("skipped: STAGEWRIGHT_SHARED is not set");
        return;
    };
    let folder = std::path::Path::new(&shared).join("data/piper");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("a readable file");
    let document: PiperDocument = serde_json::from_str(&read("bert32a100.json")).expect("a model");
    let known = read("known-joint.csv");
    let mut rows = 0;
    for line in known.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit())) {
        let row: Vec<f64> = line.split(',').map(|number| number.parse().expect("a number")).collect();
        let document = PiperDocument {
            max_memory_per_device: row[0] * f64::from(1 << 30),
            max_devices: row[1] as u32,
            microbatches: Some(row[2] as u32),
            bandwidth: 25.0 * f64::from(1 << 30),
            ..document.clone()
        };
        for (workspace, value) in [(RecomputeWorkspace::Sum, row[3]), (RecomputeWorkspace::Max, row[5])] {
            let solution = solved(&document, Terms { workspace, ..ALL });
            let found = solution.value.expect("a plan");
            assert_eq!(solution.status, Status::Optimal);
            assert!((found / value - 1.0).abs() < 1e-6, "{found} for {value}");
        }
        rows += 1;
    }
    assert!(rows > 0);
}
