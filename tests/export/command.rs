//! The command `export` of the built program.

use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stagewright"));
    command.args(arguments).stdin(Stdio::null()).output().expect("the program starts")
}

fn outcome(output: &Output) -> (Option<i32>, &str, &str) {
    let text = |bytes| std::str::from_utf8(bytes).expect("output is text");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A folder with the given files.
fn folder(files: &[(&str, &Value)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    for (name, document) in files {
        std::fs::write(folder.path().join(name), document.to_string()).expect("there is room for a file");
    }
    folder
}

fn path(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

/// A chain of operators, and a cluster of two devices that each hold half of them.
fn model(names: &[&str]) -> Value {
    let operators: Vec<Value> = names
        .iter()
        .map(|name| json!({"name": name, "seconds": {"gpu": 1.0}, "parameter_bytes": 4.0}))
        .collect();
    let tensors: Vec<Value> = names
        .windows(2)
        .map(|pair| json!({"producer": pair[0], "consumers": [pair[1]], "bytes": 1.0}))
        .collect();
    let kind = json!({"name": "acc", "class": "gpu", "count": 2, "memory_bytes": 4.0 * names.len().div_ceil(2) as f64,
        "link": {"bandwidth": 1e9}});
    let cluster = json!({"schema": "stagewright.cluster/1", "kinds": [kind]});
    json!({"schema": "stagewright.graph/1", "operators": operators, "tensors": tensors, "cluster": cluster})
}

/// Plans a chain of operators. The returned folder contains `model.json` and `plan.json`.
fn planned(names: &[&str]) -> tempfile::TempDir {
    let folder = folder(&[("model.json", &model(names))]);
    let output = run(&["plan", &path(&folder, "model.json"), "--out", &path(&folder, "plan.json")]);
    assert!(output.status.code().is_some_and(|code| code == 0 || code == 3), "{output:?}");
    folder
}

#[test]
fn a_file_has_what_standard_output_would_have() {
    let folder = planned(&["embed", "layers.0", "layers.1", "head"]);
    let (plan, out) = (path(&folder, "plan.json"), path(&folder, "out"));
    let printed = run(&["export", &plan, "--to", "dot"]).stdout;
    assert!(!printed.is_empty());
    assert!(run(&["export", &plan, "--to", "dot", "--out", &out]).stdout.is_empty());
    assert_eq!(std::fs::read(out).expect("it was written"), printed);
}

#[test]
fn hostile_names_stay_inside_their_quotes_and_out_of_the_terminal() {
    let names = ["a\"];\nimport os #", "layers.0.\u{1b}[2J", "layers.1.é\\", "]} -->|x| b[\"c\"]"];
    let folder = planned(&names);
    let (plan, model) = (path(&folder, "plan.json"), path(&folder, "model.json"));
    for target in [
        "dot",
        "mermaid",
        "accelerate",
        "openvino",
        "deepspeed",
        "torchgpipe",
        "pipedream",
        "torch-pipelining",
    ] {
        let output = run(&["export", &plan, "--to", target, "--model", &model]);
        let (code, text, notes) = outcome(&output);
        assert_eq!(code, Some(0), "{target}: {notes}");
        assert!(!notes.contains('\u{1b}') && !text.contains('\u{1b}'), "{target}: {text}");
        assert!(!text.lines().any(|line| line.starts_with("import os")), "{target}: {text}");
    }
    let output = run(&["export", &plan, "--to", "accelerate", "--model", &model]);
    let map: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(map[names[0]], json!(0));
    // Names in errors are escaped too.
    let cut = folder_with_cut(&names);
    let output = run(&["export", &path(&cut, "plan.json"), "--to", "vllm"]);
    let (code, _, story) = outcome(&output);
    assert_eq!(code, Some(2));
    assert!(!story.contains('\u{1b}') && story.contains("layers.0.\\u{1b}[2J"), "{story}");
    // Plans with two stacks, with a gap in a stack, and with a host.
    let device = |name: &str, kind: &str, stage: usize, ops: &[&str]| {
        json!({"name": name, "kind": kind, "stage": stage, "replicas": 1, "load_s": 0.0, "compute_s": 0.0,
            "communication_s": 0.0, "memory_bytes": 0.0, "ops": ops})
    };
    let mut plan: Value =
        serde_json::from_slice(&std::fs::read(path(&folder, "plan.json")).expect("it is there"))
            .expect("JSON");
    for (devices, code) in [
        (json!([device("acc0", "acc", 0, &["\u{1b}[2Ja.0", "\u{1b}[2Jb.0"])]), "E014"),
        (json!([device("acc0", "acc", 0, &["\u{1b}[2Ja.0", "\u{1b}[2Ja.2"])]), "E014"),
        (json!([device("\u{1b}[2Jhost", "cpu", 0, &["a.0"])]), "E016"),
    ] {
        plan["devices"] = devices;
        std::fs::write(path(&folder, "hostile.json"), plan.to_string()).expect("there is room");
        let output = run(&["export", &path(&folder, "hostile.json"), "--to", "vllm"]);
        let story = outcome(&output).2;
        assert!(story.starts_with(&format!("error[{code}]: ")), "{story}");
        assert!(!story.contains('\u{1b}') && story.contains("\\u{1b}[2J"), "{story}");
    }
}

/// A folder with a plan that places `layers.0` on both devices.
fn folder_with_cut(names: &[&str]) -> tempfile::TempDir {
    let folder = planned(names);
    let text = std::fs::read_to_string(folder.path().join("plan.json")).expect("it was written");
    let mut plan: Value = serde_json::from_str(&text).expect("it is JSON");
    plan["devices"][1]["ops"].as_array_mut().expect("a list").push("layers.0.x".into());
    std::fs::write(folder.path().join("plan.json"), plan.to_string()).expect("there is room");
    folder
}
