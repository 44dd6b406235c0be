//! `simulate` and `plan --trace` of the built program, end to end.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

pub(crate) fn demo(file: &str) -> String {
    Path::new(crate::ROOT).join("data/demo").join(file).display().to_string()
}

pub(crate) fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stagewright"));
    command.args(arguments).stdin(Stdio::null()).output().expect("the program starts")
}

pub(crate) fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("results are text")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("the story is text")
}

pub(crate) fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("--json prints JSON")
}

pub(crate) fn file(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

pub(crate) fn written(path: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("it was written")).expect("it is JSON")
}

#[test]
fn plans_of_every_objective_have_a_step_and_a_trace() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let (model, cluster) = (demo("model.json"), demo("cluster.toml"));
    let asked: [&[&str]; 2] = [&[], &["--objective", "latency", "--solver", "dp"]];
    for (index, more) in asked.into_iter().enumerate() {
        let [plan, traced, again] =
            ["plan", "trace", "again"].map(|name| file(&folder, &format!("{name}{index}.json")));
        let arguments = ["plan", &model, "--cluster", &cluster, "--out", &plan, "--trace", &traced];
        let output = run(&[&arguments, more].concat());
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        let played = run(&["simulate", &model, &plan, "--cluster", &cluster, "--trace", &again, "--json"]);
        assert_eq!(code(&played), Some(0), "{}", stderr(&played));
        let trace = written(&traced);
        assert_eq!(trace, written(&again), "the same step");
        let operators = json(&played)["operators"].as_array().map_or(0, Vec::len);
        let events = trace["traceEvents"].as_array().cloned().unwrap_or_default();
        let ran = events.iter().filter(|event| event["ph"] == "X" && event["cat"] != "transfer");
        assert_eq!(ran.count(), operators);
        assert!(operators > 0);
    }
}

#[test]
fn a_trace_that_cannot_be_written_loses_nothing() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let [model, cluster, plan] = iteration(&folder);
    let nowhere = file(&folder, "missing/trace.json");
    let played = run(&["simulate", &model, &plan, "--cluster", &cluster, "--trace", &nowhere]);
    assert_eq!(code(&played), Some(2));
    assert!(stdout(&played).starts_with("makespan"), "{}", stdout(&played));
    assert!(stderr(&played).starts_with("error[I002]: "), "{}", stderr(&played));
}

/// A plan of the demo for one iteration of four microbatches under 1F1B.
fn iteration(folder: &tempfile::TempDir) -> [String; 3] {
    let names = [demo("model.json"), demo("cluster.toml"), file(folder, "plan.json")];
    let [model, cluster, plan] = &names;
    let schedule = ["--schedule", "1f1b", "--microbatches", "4"];
    let planned = run(&[&["plan", model, "--cluster", cluster, "--out", plan], &schedule[..]].concat());
    assert_eq!(code(&planned), Some(0), "{}", stderr(&planned));
    names
}

#[test]
fn an_iteration_takes_what_its_plan_says() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let [model, cluster, plan] = iteration(&folder);
    let simulate =
        |rest: &[&str]| run(&[&["simulate", &model, &plan, "--cluster", &cluster, "--json"], rest].concat());
    let value = written(&plan)["objective"]["value_s"].as_f64().expect("a value");
    let same = simulate(&["--schedule", "1f1b"]);
    assert_eq!(code(&same), Some(0), "{}", stderr(&same));
    let seconds = |played: &Output| json(played)["iteration_s"].as_f64().expect("an iteration");
    assert!((seconds(&same) - value).abs() <= 1e-9 * value, "{} and {value}", seconds(&same));
    // Every stage runs every microbatch forward and backward, sequentially.
    for device in json(&same)["devices"].as_array().expect("devices") {
        let tasks = device["tasks"].as_array().expect("tasks");
        assert_eq!(tasks.len(), 8);
        let ends = tasks.iter().map(|task| task["end_s"].as_f64().expect("an end"));
        let starts = tasks.iter().skip(1).map(|task| task["start_s"].as_f64().expect("a start"));
        assert!(ends.zip(starts).all(|(end, start)| end <= start));
    }
    // A schedule that runs all forward passes first has at least as many microbatches in flight and, at equal loads,
    // takes at least as long.
    let gpipe = simulate(&["--schedule", "gpipe"]);
    assert!(seconds(&gpipe) >= seconds(&same) * (1.0 - 1e-9));
    assert!(
        json(&gpipe)["devices"][0]["in_flight"].as_u64() >= json(&same)["devices"][0]["in_flight"].as_u64()
    );
}

#[test]
fn stages_are_divided_into_a_v_under_dualpipe_v() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let [model, plan] = ["model.json", "plan.json"].map(|name| file(&folder, name));
    let done = |arguments: &[&str]| {
        let output = run(arguments);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        output
    };
    let sizes = ["--variant", "3-8b", "--layers", "4", "--sequence", "64", "--batch", "1", "--training"];
    done(&[&["workload", "llama", "--out", &model], &sizes[..]].concat());
    let on = ["--cluster", "2xh100", "--schedule"];
    done(&[&["plan", &model, "--out", &plan], &on[..], &["zero-bubble", "--microbatches", "8"]].concat());
    let played = done(&[&["simulate", &model, &plan, "--json"], &on[..], &["dualpipe-v"]].concat());
    for (device, tasks) in (0..).zip(json(&played)["devices"].as_array().expect("devices")) {
        let tasks = tasks["tasks"].as_array().expect("tasks");
        let is_own = |task: &Value| [device, 3 - device].contains(&task["stage"].as_u64().expect("a stage"));
        assert_eq!(tasks.len(), 2 * 3 * 8, "two stages, three passes, all microbatches");
        assert!(tasks.iter().all(is_own), "device {device}");
    }
    let few = ["dualpipe-v", "--microbatches", "3"];
    let few = run(&[&["simulate", &model, &plan], &on[..], &few[..]].concat());
    assert_eq!(code(&few), Some(2));
    assert!(stderr(&few).starts_with("error[T014]"), "{}", stderr(&few));
}

#[test]
fn stages_are_divided_under_the_interleaved_schedule() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let [model, cluster, plan] = iteration(&folder);
    let stages = written(&plan)["devices"].as_array().expect("devices").len() as u64;
    let microbatches = (2 * stages).to_string();
    let played = |chunks: &str| {
        let schedule = ["--schedule", "interleaved", "--microbatches", &microbatches, "--chunks", chunks];
        run(&[&["simulate", &model, &plan, "--cluster", &cluster, "--json"], &schedule[..]].concat())
    };
    let two = played("2");
    assert_eq!(code(&two), Some(0), "{}", stderr(&two));
    let mut seen = Vec::new();
    for device in json(&two)["devices"].as_array().expect("devices") {
        let tasks = device["tasks"].as_array().expect("tasks");
        assert_eq!(tasks.len() as u64, 2 * 2 * 2 * stages, "two chunks, two passes, all microbatches");
        seen.extend(tasks.iter().map(|task| task["stage"].as_u64().expect("a stage")));
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, (0..2 * stages).collect::<Vec<u64>>());
    let many = played("4294967295");
    assert_eq!(code(&many), Some(2), "{}", stdout(&many));
    assert!(stderr(&many).contains("error["), "{}", stderr(&many));
}
