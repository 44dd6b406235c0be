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

/// Operators x of 4 s and y of 1 s on `acc0`, both ready at the start; y feeds z of 5 s on `acc1`.
fn queue(folder: &tempfile::TempDir) -> [String; 3] {
    let operator = |name: &str, seconds: f64| {
        let seconds = serde_json::json!({"gpu": seconds});
        serde_json::json!({"name": name, "seconds": seconds, "parameter_bytes": 4.0})
    };
    let model = serde_json::json!({"schema": "stagewright.graph/1",
        "operators": [operator("x", 4.0), operator("y", 1.0), operator("z", 5.0)],
        "tensors": [{"name": "yz", "producer": "y", "consumers": ["z"], "bytes": 2.0}]});
    let cluster = "schema = \"stagewright.cluster/1\"\n[[kinds]]\nname = \"acc\"\nclass = \"gpu\"\n\
                   count = 2\nmemory_bytes = 10\nlink = { bandwidth = 1.0 }\n";
    let device = |name: &str, figures: [f64; 4], ops: &[&str]| {
        let [load, compute, communication, memory] = figures;
        serde_json::json!({"name": name, "kind": "acc", "stage": null, "replicas": 1, "calls": null,
            "load_s": load, "compute_s": compute, "communication_s": communication, "memory_bytes": memory,
            "ops": ops})
    };
    let plan = serde_json::json!({"schema": "stagewright.plan/1", "status": "feasible", "solver": "hand",
        "objective": {"kind": "makespan", "split": "free", "communication": "serial", "training": "combined",
                      "value_s": 8.0},
        "bound": {"value_s": null, "source": "none", "certificate": null},
        "gap": null, "seconds": 0.0, "seed": 0,
        "devices": [device("acc0", [7.0, 5.0, 2.0, 10.0], &["x", "y"]),
                    device("acc1", [7.0, 5.0, 2.0, 6.0], &["z"])],
        "priority": ["y", "x", "z"]});
    let names = ["model.json", "cluster.toml", "plan.json"].map(|name| file(folder, name));
    for (name, text) in names.iter().zip([model.to_string(), cluster.to_owned(), plan.to_string()]) {
        std::fs::write(name, text).expect("there is room for a file");
    }
    names
}

#[test]
fn a_plan_for_makespan_is_checked_and_played() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let [model, cluster, plan] = queue(&folder);
    let checked = run(&["check", &model, &plan, "--cluster", &cluster]);
    assert_eq!(code(&checked), Some(0), "{}{}", stdout(&checked), stderr(&checked));
    assert!(stdout(&checked).starts_with("objective  makespan of one step\n"), "{}", stdout(&checked));
    assert!(stdout(&checked).contains("utilisation"), "{}", stdout(&checked));

    let played = run(&["simulate", &model, &plan, "--cluster", &cluster]);
    assert_eq!((code(&played), stderr(&played).as_str()), (Some(0), ""));
    // y ends at 1, its tensor arrives at 3, z ends at 8.
    let text = stdout(&played);
    assert!(text.starts_with("makespan       8.0000 s\n"), "{text}");
    let parts = "75.00% compute, 25.00% transfers, 0% waiting for a device, 0% waiting for a link";
    assert!(text.contains(parts), "{text}");
    assert!(
        text.contains(
            "\nacc0    5.0000 s       62.50%  2.0000 s       0 s  3.0000 s         10 B  10 B    2\n"
        ),
        "{text}"
    );
    assert!(text.contains("\nz                    acc1          5.0000 s  62.50%  compute\n"), "{text}");

    let document = json(&run(&["simulate", &model, &plan, "--cluster", &cluster, "--json"]));
    assert_eq!(document["makespan_s"], 8.0);
    assert_eq!(document["operators"][2]["start_s"], 3.0);
    assert_eq!(
        document["transfers"][0],
        serde_json::json!(
        {"tensor": "yz", "from": "acc0", "to": "acc1", "start_s": 1.0, "end_s": 3.0})
    );
    assert_eq!(document["critical_path"]["steps"][1]["part"], "transfer");
}

#[test]
fn what_a_busy_device_keeps_waiting_is_told() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let [model, cluster, plan] = queue(&folder);
    let mut worse = written(&plan);
    worse["priority"] = serde_json::json!(["x", "y", "z"]);
    let worse_plan = file(&folder, "worse.json");
    std::fs::write(&worse_plan, worse.to_string()).expect("there is room for a file");
    let checked = run(&["check", &model, &worse_plan, "--cluster", &cluster]);
    assert_eq!(code(&checked), Some(1), "{}", stdout(&checked));
    assert!(stdout(&checked).contains("\nvalue: the plan claims a value of 8.0 s, but it is 12.0 s\n"));
    let document = json(&run(&["simulate", &model, &worse_plan, "--cluster", &cluster, "--json"]));
    assert_eq!(document["critical_path"]["device_busy_s"], 4.0);
    assert_eq!(document["critical_path"]["compute_s"], 6.0);
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
fn a_plan_that_cannot_run_is_refused_and_one_that_does_not_fit_is_told_of() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let [model, cluster, plan] = queue(&folder);
    let small = std::fs::read_to_string(&cluster)
        .expect("a cluster")
        .replace("memory_bytes = 10", "memory_bytes = 9");
    let small_cluster = file(&folder, "small.toml");
    std::fs::write(&small_cluster, small).expect("there is room for a file");
    let played = run(&["simulate", &model, &plan, "--cluster", &small_cluster]);
    assert_eq!(code(&played), Some(0));
    assert!(stderr(&played).contains("note: the plan is infeasible as one step: acc0 needs 10 bytes of 9"));
    assert!(stdout(&played).contains("does not fit"), "{}", stdout(&played));
    let fits = |cluster: &str| -> Vec<Value> {
        let document = json(&run(&["simulate", &model, &plan, "--cluster", cluster, "--json"]));
        document["devices"].as_array().into_iter().flatten().map(|device| device["fits"].clone()).collect()
    };
    assert_eq!(fits(&small_cluster), [false, true]);
    assert_eq!(fits(&cluster), [true, true]);

    let other =
        std::fs::read_to_string(&cluster).expect("a cluster").replace("class = \"gpu\"", "class = \"tpu\"");
    let other_cluster = file(&folder, "other.toml");
    std::fs::write(&other_cluster, other).expect("there is room for a file");
    let spoilt = |change: &dyn Fn(&mut Value)| {
        let mut spoilt = written(&plan);
        change(&mut spoilt);
        let path = file(&folder, "spoilt.json");
        std::fs::write(&path, spoilt.to_string()).expect("there is room for a file");
        run(&["simulate", &model, &path, "--cluster", &cluster])
    };
    let cases = [
        (run(&["simulate", &model, &plan, "--cluster", &other_cluster]), "error[U006]"),
        (spoilt(&|plan| plan["devices"][1]["name"] = "acc2".into()), "error[L001]"),
        (spoilt(&|plan| plan["devices"][1]["ops"][0] = "w".into()), "error[L002]"),
        (spoilt(&|plan| plan["priority"][0] = "w".into()), "error[L002]"),
        (spoilt(&|plan| plan["devices"][1]["ops"][0] = "x".into()), "error[L003]"),
        (spoilt(&|plan| plan["devices"] = Value::Array(Vec::new())), "error[L004]"),
    ];
    for (output, start) in cases {
        assert_eq!(code(&output), Some(2), "{start}");
        assert!(stderr(&output).starts_with(start), "{start}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{start}");
    }
}

#[test]
fn a_trace_that_cannot_be_written_loses_nothing() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let [model, cluster, plan] = queue(&folder);
    let nowhere = file(&folder, "missing/trace.json");
    let played = run(&["simulate", &model, &plan, "--cluster", &cluster, "--trace", &nowhere]);
    assert_eq!(code(&played), Some(2));
    assert!(stdout(&played).starts_with("makespan"), "{}", stdout(&played));
    assert!(stderr(&played).starts_with("error[I002]: "), "{}", stderr(&played));
}

#[test]
fn where_there_is_no_plan_there_is_no_trace() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let [model, cluster, _] = queue(&folder);
    let small = std::fs::read_to_string(&cluster)
        .expect("a cluster")
        .replace("memory_bytes = 10", "memory_bytes = 3");
    std::fs::write(&cluster, small).expect("there is room for a file");
    let traced = file(&folder, "trace.json");
    let output = run(&["plan", &model, "--cluster", &cluster, "--trace", &traced]);
    assert_eq!(code(&output), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("no timeline was written"), "{}", stderr(&output));
    assert!(!Path::new(&traced).exists());
}

/// A plan of the demo for an iteration of four microbatches under 1F1B.
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

#[test]
fn an_iteration_needs_its_microbatches_and_has_no_trace() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let [model, cluster, plan] = queue(&folder);
    let simulate = |rest: &[&str]| run(&[&["simulate", &model, &plan, "--cluster", &cluster], rest].concat());
    let unsaid = simulate(&["--schedule", "gpipe"]);
    assert_eq!(code(&unsaid), Some(2));
    assert!(stderr(&unsaid).contains("error[U001]"), "{}", stderr(&unsaid));
    assert_eq!(code(&simulate(&["--schedule", "gpipe", "--trace", &file(&folder, "trace.json")])), Some(2));
    assert_eq!(code(&simulate(&["--microbatches", "4"])), Some(2));
}
