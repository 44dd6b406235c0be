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
fn a_plan_goes_to_standard_output_and_what_goes_with_it_to_standard_error() {
    let folder = planned(&["embed", "layers.0", "layers.1", "head"]);
    let plan = path(&folder, "plan.json");
    let output = run(&["export", &plan, "--to", "vllm", "--model", &path(&folder, "model.json")]);
    let notes = "note: run vLLM with --pipeline-parallel-size 2\nnote: stages in order: acc0, acc1\n";
    assert_eq!(outcome(&output), (Some(0), "VLLM_PP_LAYER_PARTITION=1,1\n", notes));
    let out = path(&folder, "split.py");
    let output = run(&[
        "export",
        &plan,
        "--to",
        "torch-pipelining",
        "--model",
        &path(&folder, "model.json"),
        "--out",
        &out,
    ]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0), "{output:?}");
    let written = std::fs::read_to_string(out).expect("it was written");
    assert!(written.ends_with("split_spec = {\n    \"layers.1\": SplitPoint.BEGINNING\n}\n"), "{written}");
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

#[test]
fn the_list_says_what_each_target_cannot_express() {
    let output = run(&["export", "--list"]);
    let (code, text, notes) = outcome(&output);
    assert_eq!((code, notes), (Some(0), ""));
    for target in stagewright::export::TARGETS {
        let line = text.lines().position(|line| line.starts_with(&format!("{} ", target.name)));
        let line = line.unwrap_or_else(|| panic!("{} is listed", target.name));
        assert!(
            text.lines().nth(line + 1).is_some_and(|next| next.contains(target.limits)),
            "{}",
            target.name
        );
    }
}

#[test]
fn what_is_wrong_is_told_with_code_place_and_help() {
    let folder = planned(&["embed", "layers.0", "layers.1", "head"]);
    let other = another_model(&folder);
    let plan = path(&folder, "plan.json");
    let wrong = |arguments: &[&str], code: &str, contains: &str| {
        let output = run(&[&["export"], arguments].concat());
        let (exit, text, story) = outcome(&output);
        assert_eq!((exit, text), (Some(2), ""), "{arguments:?}: {story}");
        assert!(story.starts_with(&format!("error[{code}]: ")) && story.contains("\n  --> "), "{story}");
        assert!(story.contains("\n  help: ") && story.contains(contains), "{story}");
    };
    wrong(&[&plan, "--to", "megatorn"], "E001", "did you mean `megatron`?\n  --> --to\n");
    wrong(&[&plan, "--to", "deepspeed"], "E006", "with --model");
    wrong(&[&plan, "--to", "dot", "--model", &other], "E003", "plan.json: devices[0].ops[0]");
    wrong(&["/nonexistent/plan.json", "--to", "dot"], "I001", "/nonexistent/plan.json");
    let twice = run(&["export", "-", "--to", "dot", "--model", "-"]);
    assert!(outcome(&twice).2.starts_with("error[I004]: "), "{twice:?}");
    let split = json!({"fpgas": [{"nodes": [1]}], "cpus": []});
    std::fs::write(folder.path().join("split.json"), split.to_string()).expect("there is room");
    wrong(&[&path(&folder, "split.json"), "--to", "dot"], "S006", "split.json");
    wrong(&[&path(&folder, "model.json"), "--to", "dot"], "F007", "model.json");
}

#[test]
fn the_demo_has_two_towers_and_is_no_chain() {
    let demo =
        |name: &str| std::path::Path::new(crate::ROOT).join("data/demo").join(name).display().to_string();
    let folder = folder(&[]);
    let (model, plan) = (demo("model.json"), path(&folder, "plan.json"));
    let cluster = demo("cluster.toml");
    let output = run(&["plan", &model, "--cluster", &cluster, "--whole-layers", "--out", &plan]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    for (to, code) in [("torchgpipe", Some(2)), ("deepspeed", Some(2)), ("pipedream", Some(0))] {
        let output = run(&["export", &plan, "--to", to, "--model", &model]);
        let story = outcome(&output).2;
        assert_eq!(output.status.code(), code, "{to}: {story}");
        assert_eq!(story.starts_with("error[E020]: `"), code == Some(2), "{story}");
    }
}

/// Path of a model with operators that the plan does not have.
fn another_model(folder: &tempfile::TempDir) -> String {
    std::fs::write(folder.path().join("other.json"), model(&["x", "y"]).to_string()).expect("there is room");
    path(folder, "other.json")
}

#[test]
fn a_document_without_a_plan_is_no_plan() {
    // Eight operators of 4 bytes on two devices of 4 bytes: there is no plan.
    let mut crowded = model(&["a", "b", "c", "d"]);
    crowded["cluster"]["kinds"][0]["memory_bytes"] = json!(4.0);
    let folder = folder(&[("model.json", &crowded)]);
    let output = run(&["plan", &path(&folder, "model.json"), "--out", &path(&folder, "plan.json")]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let output = run(&["export", &path(&folder, "plan.json"), "--to", "dot"]);
    let (code, _, story) = outcome(&output);
    assert_eq!(code, Some(2));
    assert!(
        story.starts_with("error[E002]: the document has no plan: its status is infeasible\n"),
        "{story}"
    );
    assert!(story.contains("plan.json: status\n"), "{story}");
}

#[test]
fn a_split_of_the_reference_package_is_a_plan_with_its_model() {
    let node = |id: i64| json!({"id": id, "supportedOnFpga": 1, "cpuLatency": 9.0, "fpgaLatency": 1.0, "isBackwardNode": 0, "size": 1.0});
    let model = json!({
        "maxSizePerFPGA": 10.0, "maxFPGAs": 2, "maxCPUs": 1,
        "nodes": [node(0), node(1)], "edges": [{"sourceId": 0, "destId": 1, "cost": 1.0}],
    });
    let split = json!({"fpgas": [{"nodes": [1]}, {"nodes": [0]}], "cpus": []});
    let folder = folder(&[("model.json", &model), ("split.json", &split)]);
    let (model, split) = (path(&folder, "model.json"), path(&folder, "split.json"));
    // The split has no stages: the tensors determine which of its devices comes first.
    let output = run(&["export", &split, "--to", "torchgpipe", "--model", &model]);
    let (code, text, story) = outcome(&output);
    assert_eq!(code, Some(0), "{story}");
    assert!(text.starts_with("balance = [1, 1]\ndevices = [1, 0]\nlayers = [\n"), "{text}");
}
