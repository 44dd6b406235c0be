//! End-to-end tests of the command line, with the built binary.

mod claims;
mod commands;
mod flow;
mod inputs;
mod instances;
mod joint;
mod kept_clusters;
mod language;
mod limits;
mod local;
mod measured;
mod memory;
mod models;
mod outputs;
mod pages;
mod placements;
mod prices;
mod serving;
mod show;
mod siblings;
mod strategies;
mod suites;

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use stagewright::core::document::PlanDocument;

fn root() -> &'static Path {
    Path::new(crate::ROOT)
}

fn demo(file: &str) -> String {
    root().join("data/demo").join(file).display().to_string()
}

/// A file of the inputs of the pages.
fn input(file: &str) -> String {
    root().join("tests/pages/inputs").join(file).display().to_string()
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stagewright"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the program starts")
}

/// Runs the program with an input on standard input.
fn run_with_input(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    child.stdin.take().expect("it was piped").write_all(input).expect("the program reads");
    child.wait_with_output().expect("the program ends")
}

/// Timeout for anything that still runs, even on a busy machine.
const MOST: Duration = Duration::from_secs(600);

/// Runs the program, which must end in [`MOST`].
fn run_in_time(arguments: &[&str]) -> Output {
    let file = || tempfile::tempfile().expect("there is room for a file");
    let (stdout, stderr) = (file(), file());
    let same = |file: &File| file.try_clone().expect("it is open");
    let mut child = command(arguments).stdout(same(&stdout)).stderr(same(&stderr)).spawn();
    let child = child.as_mut().expect("the program starts");
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("it is a child") {
            break status;
        }
        if began.elapsed() >= MOST {
            child.kill().and_then(|()| child.wait()).expect("it can be ended");
            panic!("{arguments:?} goes on");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let content = |mut file: File| {
        let mut bytes = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut bytes)).expect("it can be read");
        bytes
    };
    Output { status, stdout: content(stdout), stderr: content(stderr) }
}

fn plan_demo(more: &[&str]) -> Output {
    let (model, cluster) = (demo("model.json"), demo("cluster.toml"));
    run(&[&["plan", &model, "--cluster", &cluster], more].concat())
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("results are text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("the story is text")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("--json prints JSON")
}

/// Creates a temporary folder with the given files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("there is room for a file");
    }
    folder
}

fn path(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

/// A cluster of `count` devices with 10 bytes of memory each.
fn cluster(count: u32) -> String {
    format!(
        "schema = \"stagewright.cluster/1\"\n[[kinds]]\nname = \"acc\"\nclass = \"gpu\"\ncount = {count}\n\
         memory_bytes = 10\nlink = {{ bandwidth = 1e9 }}\n"
    )
}

/// A chain of operators of 1 s and 4 bytes each.
fn chain(length: usize) -> String {
    let operators: Vec<Value> = (0..length)
        .map(|index| serde_json::json!({"name": format!("op{index}"), "seconds": {"gpu": 1.0}, "parameter_bytes": 4.0}))
        .collect();
    let tensors: Vec<Value> = (1..length)
        .map(|index| serde_json::json!({"producer": format!("op{}", index - 1), "consumers": [format!("op{index}")]}))
        .collect();
    serde_json::json!({"schema": "stagewright.graph/1", "operators": operators, "tensors": tensors})
        .to_string()
}

#[test]
fn json_is_a_plan_document_and_the_file_is_the_same() {
    let folder = folder(&[]);
    let out = path(&folder, "plan.json");
    let output = plan_demo(&["--json", "--out", &out, "--solver", "dp", "--seed", "7"]);
    assert_eq!(stdout(&output), std::fs::read_to_string(out).expect("the plan was written"));
    let plan: PlanDocument = serde_json::from_slice(&output.stdout).expect("it is a plan");
    assert_eq!((plan.solver.as_str(), plan.seed, plan.gap), ("dp", 7, Some(0.0)));
    assert_eq!(plan.bound.source, "exhausted");
    let stages: Vec<_> = plan.devices.iter().map(|device| device.stage).collect();
    assert_eq!(stages, (0..plan.devices.len() as u32).map(Some).collect::<Vec<_>>());
    assert_eq!(json(&output)["devices"][0]["calls"], Value::Null);
}

#[test]
fn a_drawing_has_every_operator_once() {
    let folder = folder(&[]);
    let drawing = path(&folder, "plan.dot");
    let output = plan_demo(&["--json", "--dot", &drawing]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let drawing = std::fs::read_to_string(drawing).expect("a drawing");
    let plan: PlanDocument = serde_json::from_slice(&output.stdout).expect("it is a plan");
    let operators: Vec<&String> = plan.devices.iter().flat_map(|device| &device.ops).collect();
    assert!(!operators.is_empty());
    for operator in operators {
        assert_eq!(drawing.matches(&format!("[label=\"{operator}\",")).count(), 1, "{operator}");
    }
}

#[test]
fn threads_do_not_change_a_byte_but_the_seconds() {
    let plan = |threads: &str| {
        let mut plan = json(&plan_demo(&["--json", "--threads", threads]));
        // The command and the date belong to the run.
        (plan["seconds"], plan["origin"]) = (Value::Null, Value::Null);
        plan.to_string()
    };
    assert_eq!(plan("1"), plan("2"));
}

#[test]
fn a_model_may_come_from_standard_input() {
    let model = std::fs::read(demo("model.json")).expect("the demo is there");
    let output = run_with_input(&["plan", "-", "--cluster", &demo("cluster.toml"), "--json"], &model);
    assert_eq!((code(&output), json(&output)["status"].as_str()), (Some(0), Some("optimal")));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = command(&["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    let mut story = String::new();
    child.stderr.take().expect("it was piped").read_to_string(&mut story).expect("it is text");
    assert_eq!((child.wait().expect("the program ends").code(), story.as_str()), (Some(0), ""));
}

#[test]
fn a_plan_that_cannot_be_written_is_still_printed() {
    let output = plan_demo(&["--out", "/nonexistent/folder/plan.json"]);
    assert_eq!(code(&output), Some(2));
    assert!(stdout(&output).contains("optimal"));
    assert!(stderr(&output).starts_with("error[I002]: "), "{}", stderr(&output));
    assert!(stderr(&output).contains("\n  --> /nonexistent/folder/plan.json\n  help: "));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_with_a_code() {
    let output = plan_demo(&["--out", "/dev/full"]);
    assert_eq!(code(&output), Some(2));
    assert!(stdout(&output).contains("optimal"));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let output = command(&["completions", "bash"]).stdout(full).output().expect("the program starts");
    assert_eq!(code(&output), Some(2));
    assert!(stderr(&output).starts_with("error[I003]"), "{}", stderr(&output));
}

#[test]
fn conversion_there_and_back_changes_nothing() {
    let folder = folder(&[]);
    let (there, back) = (path(&folder, "cluster.json"), path(&folder, "cluster.toml"));
    assert_eq!(code(&run(&["convert", &demo("cluster.toml"), &there])), Some(0));
    assert_eq!(code(&run(&["convert", &there, &back])), Some(0));
    let again = run(&["convert", &back, "-", "--to", "json"]);
    assert_eq!(stdout(&again), std::fs::read_to_string(&there).expect("it was written"));
    let model = run(&["convert", &demo("model.json"), "-", "--cluster", &back]);
    assert_eq!(json(&model)["cluster"]["kinds"][0]["name"], "gpu");
}

/// A plan with operators priced too low must be distinguishable from others.
#[test]
fn operators_whose_work_is_not_known_are_told_of() {
    let model = |flop: &str| {
        format!(
            r#"{{"schema": "stagewright.graph/1", "operators": [
              {{"name": "a", "kind": "Attention\u001b[2J", {flop} "bytes_moved": 8.0}},
              {{"name": "b", "kind": "Attention\u001b[2J", "bytes_moved": 8.0}},
              {{"name": "c", "kind": "Timed", "bytes_moved": 8.0, "seconds": {{"gpu": 1.0}}}}]}}"#
        )
    };
    let folder = folder(&[("none.json", &model("")), ("one.json", &model("\"flop\": 1.0,"))]);
    for (file, count) in [("none.json", 2), ("one.json", 1)] {
        let output = run(&["convert", &path(&folder, file), &path(&folder, "out.json")]);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        let told = format!("bytes that they move: {count} Attention\\u{{1b}}[2J\n");
        assert!(stderr(&output).ends_with(&told), "{}", stderr(&output));
    }
    assert_eq!(stderr(&plan_demo(&["--json"])), "", "the demo is priced");
}

/// Whether candle starts its own threads during a solve on `threads` threads. Ends at the first such thread, or with
/// the solve.
#[cfg(all(target_os = "linux", feature = "policy"))]
fn has_threads_of_its_own(threads: &str, simulations: &str) -> bool {
    let (model, cluster) = (demo("model.json"), demo("cluster.toml"));
    let arguments = ["plan", &model, "--cluster", &cluster, "--objective", "makespan", "--solver", "hdp"];
    let limits = ["--time-limit", "10m", "--simulations", simulations, "--threads", threads];
    let mut child = command(&[&arguments[..], &limits[..]].concat());
    // `--threads` takes precedence over the environment.
    child.env("RAYON_NUM_THREADS", "2").stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = child.spawn().expect("the program starts");
    let tasks = format!("/proc/{}/task", child.id());
    let is_own = |task: std::io::Result<std::fs::DirEntry>| {
        let name = task.and_then(|task| std::fs::read_to_string(task.path().join("comm")));
        name.is_ok_and(|name| name.starts_with("candle-bp"))
    };
    loop {
        if std::fs::read_dir(&tasks).is_ok_and(|mut all| all.any(is_own)) {
            child.kill().and_then(|()| child.wait()).expect("it can be ended");
            return true;
        }
        if let Some(status) = child.try_wait().expect("it can be asked") {
            assert!(status.success(), "{status}");
            return false;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// By default, candle starts a thread for every core; only the environment changes that.
#[cfg(all(target_os = "linux", feature = "policy"))]
#[test]
fn candle_takes_as_many_threads_as_are_asked_for() {
    assert!(!has_threads_of_its_own("1", "12"));
    // On one processor there are no further threads.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    // Otherwise, the solve continues until one is seen.
    let simulations = if processors > 1 { "1000000" } else { "12" };
    assert_eq!(has_threads_of_its_own("2", simulations), processors > 1);
}
