//! Pages for the tests, written by the command.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use stagewright::core::document::PlanDocument;
use stagewright::report::html::run::{RunPage, write};
use stagewright::report::run::{RunActivity, RunDevice, RunOutcome, RunSpan, predicted};
use tempfile::TempDir;

/// A page and its plan.
pub(crate) struct Made {
    pub(crate) page: PathBuf,
    pub(crate) plan: Value,
    _folder: TempDir,
}

/// Plans a model and writes a page.
pub(crate) fn plan(model: &Path, cluster: &str, more: &[&str]) -> Made {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let page = folder.path().join("page.html");
    let output = Command::new(env!("CARGO_BIN_EXE_stagewright"))
        .arg("plan")
        .arg(model)
        .args(["--cluster", cluster, "--json", "--html"])
        .arg(&page)
        .args(more)
        .output()
        .expect("the program starts");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(page.is_file(), "there is no page: {told}");
    let plan = serde_json::from_slice(&output.stdout).expect("--json prints JSON");
    Made { page, plan, _folder: folder }
}

/// The page of the demo.
pub(crate) fn demo() -> Made {
    let folder = Path::new(crate::ROOT).join("data/demo");
    plan(&folder.join("model.json"), &folder.join("cluster.toml").display().to_string(), &[])
}

/// The page of a built-in workload, planned with equal time per stage, which is fast at any size.
pub(crate) fn workload(cluster: &str, family: &[&str]) -> Made {
    planned(cluster, family, &["--solver", "equal-time"])
}

/// The page of a joint plan: six layers of Llama in a pipeline.
pub(crate) fn joint(schedule: &str) -> Made {
    let llama =
        ["llama", "--layers", "6", "--sequence", "512", "--batch", "1", "--training", "--precision", "bf16"];
    let request = ["--parallel", "tp,pp=4,recompute", "--global-batch", "8", "--schedule", schedule];
    planned("8xh100", &llama, &request)
}

/// The page of a local plan: layers on three cards, with experts in RAM.
pub(crate) fn local() -> Made {
    let model = Path::new(crate::ROOT).join("data/structures/qwen3-30b-a3b-q4_k_m.json.gz");
    let machine = "1xrtx-3060:4GiB+1xrtx-3060:6GiB+1xrtx-4060+1xryzen-7950x:64GiB";
    plan(&model, machine, &["--local", "--context", "4096"])
}

/// The page of a serving plan: pipelines for prompts beside a replica that decodes.
pub(crate) fn serving() -> Made {
    let model = Path::new(crate::ROOT).join("data/configurations/llama-3.1-8b/config.json");
    let question = "--serve --input 4096 --output 512 --concurrency 64 --ttft 2s --tpot 50ms";
    let question: Vec<&str> = question.split(' ').collect();
    plan(&model, "8xh100+8xl40s", &question)
}

/// The page of a run: a chain of four operators on two devices, each 5% slower than predicted.
pub(crate) fn run() -> Made {
    let made = chain(&["a", "b", "c", "d"].map(|name| (name, None)), 2, &[]);
    let plan: PlanDocument = serde_json::from_value(made.plan.clone()).expect("--json prints a plan");
    let samples = 6;
    let mut spans = predicted(&plan, samples);
    assert_eq!(spans.len(), 12, "two devices and six samples");
    let slower = |span: &RunSpan| RunSpan {
        activity: RunActivity::Compute,
        start_s: 1.05 * span.start_s,
        end_s: 1.05 * span.end_s,
        ..*span
    };
    let computed: Vec<RunSpan> = spans.iter().map(slower).collect();
    spans.extend(computed.iter().map(|span| RunSpan {
        activity: if span.device == 0 { RunActivity::Send } else { RunActivity::Receive },
        start_s: span.end_s,
        end_s: span.end_s + 0.01,
        ..*span
    }));
    spans.extend(computed);
    let device = |name: &str| RunDevice {
        name: name.into(),
        segments: 1,
        predicted_compute_s: 2.0,
        measured_compute_s: 2.1,
        predicted_communication_s: 0.001,
        measured_communication_s: 0.01,
        busy: 0.99,
        peak_memory_bytes: Some(123_000_000),
    };
    let outcome = RunOutcome {
        predicted_s: 2.0,
        measured_s: 2.1,
        repeats_s: vec![2.05, 2.1, 2.15],
        error: -0.0476,
        latency_s: 4.3,
        difference: Some(1e-6),
        devices: plan.devices.iter().map(|load| device(&load.name)).collect(),
    };
    let page = RunPage { model: "chain", plan: &plan, outcome: &outcome, spans: &spans, samples };
    let mut file = std::fs::File::create(&made.page).expect("a file can be written");
    write(&page, &mut file).expect("a page can be written");
    made
}

/// The page of a built-in workload, planned with the given options.
fn planned(cluster: &str, family: &[&str], more: &[&str]) -> Made {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = folder.path().join("model.json");
    let output = Command::new(env!("CARGO_BIN_EXE_stagewright"))
        .arg("workload")
        .args(family)
        .arg("--out")
        .arg(&model)
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    plan(&model, cluster, more)
}

/// The page of a chain of operators with the given names and layers, each of which takes one second.
pub(crate) fn chain(names: &[(&str, Option<&str>)], devices: u32, more: &[&str]) -> Made {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let operators: Vec<Value> = names
        .iter()
        .map(|(name, layer)| match layer {
            Some(layer) => {
                json!({"name": name, "layer": layer, "seconds": {"acc": 1.0}, "parameter_bytes": 100.0})
            }
            None => json!({"name": name, "seconds": {"acc": 1.0}, "parameter_bytes": 100.0}),
        })
        .collect();
    let tensors: Vec<Value> = names
        .windows(2)
        .map(|pair| json!({"producer": pair[0].0, "consumers": [pair[1].0], "bytes": 1000.0}))
        .collect();
    let graph =
        json!({"schema": "stagewright.graph/1", "name": "chain", "operators": operators, "tensors": tensors});
    let link = json!({"bandwidth": 1e6});
    let kind = json!({"name": "acc", "class": "acc", "count": devices, "memory_bytes": 1e6, "link": link});
    let cluster = json!({"schema": "stagewright.cluster/1", "name": "small", "kinds": [kind]});
    let [model, cluster_file] = ["model.json", "cluster.json"].map(|name| folder.path().join(name));
    std::fs::write(&model, graph.to_string()).expect("a file can be written");
    std::fs::write(&cluster_file, cluster.to_string()).expect("a file can be written");
    plan(&model, &cluster_file.display().to_string(), more)
}
