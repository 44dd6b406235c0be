//! Strategy problems from standard input, and one of the contest.

#![expect(clippy::print_stdout, reason = "a skipped test says so")]

use std::io::Write;

use super::{code, command, folder, input, json, path, run, run_with_input, stderr, stdout};
use flate2::Compression;
use flate2::write::GzEncoder;

#[test]
fn a_packed_problem_may_come_from_standard_input() {
    let problem = std::fs::read(input("strategies/two.json")).expect("a problem");
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(&problem).expect("memory");
    let packed = packed.finish().expect("memory");
    for input in [problem, packed] {
        let made = run_with_input(&["plan", "-", "--json"], &input);
        assert_eq!(code(&made), Some(0), "{}", stderr(&made));
        assert_eq!(json(&made)["cost"], 4);
    }
}

/// An instance of the contest; the best published bound was 216,931.
#[test]
fn an_instance_of_the_contest_is_proved_optimal() {
    let Some(shared) = std::env::var_os("STAGEWRIGHT_SHARED") else {
        println!("skipped: STAGEWRIGHT_SHARED is not set");
        return;
    };
    let problem = std::path::Path::new(&shared).join("data/iopddl/G.json.gz").display().to_string();
    let files = folder(&[]);
    let plan = path(&files, "plan.json");
    let made =
        command(&["plan", &problem, "--time-limit", "none", "--threads", "1", "--out", &plan]).output();
    let made = made.expect("the program starts");
    assert!(stdout(&made).contains("cost        217039\nbound       217039"), "{}", stdout(&made));
    let checked = run(&["check", &problem, &plan]);
    assert_eq!(code(&checked), Some(0), "{}", stdout(&checked));
}
