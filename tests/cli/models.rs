//! Models that people bring, on the command line: what is planned is what would happen on the machine.

use std::fs;
use std::io::Read;

use serde_json::{Value, json};

use super::{code, folder, json, path, root, run, stderr, stdout};

/// An export of `data/models`, decompressed.
fn export(name: &str) -> (tempfile::TempDir, String) {
    let file = root().join("data/models").join(format!("{name}.gz"));
    let mut bytes = Vec::new();
    let compressed = fs::File::open(file).expect("the model is there");
    flate2::read::GzDecoder::new(compressed).read_to_end(&mut bytes).expect("the model is whole");
    let folder = folder(&[]);
    let model = path(&folder, name);
    fs::write(&model, bytes).expect("there is room for a file");
    (folder, model)
}

fn plan(model: &str, cluster: &str, more: &[&str]) -> Value {
    let made = run(&[&["plan", model, "--cluster", cluster, "--json"], more].concat());
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    json(&made)
}

fn value(plan: &Value) -> f64 {
    plan["objective"]["value_s"].as_f64().expect("there is a plan")
}

/// A causal mask and a tied embedding bind nothing.
#[test]
fn gpt_2_takes_four_devices_as_well_as_a_free_split_would() {
    let (_folder, model) = export("gpt2.onnx");
    let contiguous = plan(&model, "4xt4:fp32", &[]);
    let devices = contiguous["devices"].as_array().expect("devices");
    assert_eq!(devices.iter().filter(|device| device["operators"] != json!([])).count(), 4);
    let bounds = json(&run(&["bound", &model, "--cluster", "4xt4:fp32", "--split", "free", "--json"]));
    let bound = bounds["strongest"]["value_s"].as_f64().expect("a bound");
    assert!(bound <= value(&contiguous) && value(&contiguous) <= 1.05 * bound, "{bound}");
}

#[test]
fn a_model_is_priced_at_its_own_precision_unless_it_is_cast() {
    let (_folder, model) = export("gpt2.onnx");
    let single = value(&plan(&model, "4xt4:fp32", &[]));
    assert_eq!(value(&plan(&model, "4xt4", &[])), single, "numbers of the file are in single precision");
    let half = value(&plan(&model, "4xt4", &["--precision", "fp16"]));
    assert!(half < single / 2.0, "{half}, {single}");
}

/// Quantisation and its reversal are in the kernels of their neighbours, and products have the peak of whole numbers.
#[test]
fn a_model_of_whole_numbers_is_faster_than_the_one_it_was_made_from() {
    let ((_one, whole), (_other, quantised)) = (export("resnet-50.onnx"), export("resnet-50-qdq.onnx"));
    assert!(2.0 * value(&plan(&quantised, "4xa100", &[])) < value(&plan(&whole, "4xa100", &[])));
}

/// Activations that are live count in inference, too, and the simulated step holds as much.
#[test]
fn a_batch_that_no_memory_holds_is_infeasible() {
    let folder = folder(&[]);
    let model = path(&folder, "resnet.json");
    let made = run(&["workload", "resnet", "--variant", "50", "--batch", "4000", "--out", &model]);
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    let refused = run(&["plan", &model, "--cluster", "4xt4"]);
    assert_eq!(code(&refused), Some(3), "{}", stdout(&refused));
    assert_eq!(code(&run(&["plan", &model, "--cluster", "4xa100"])), Some(0), "on devices with more");
}

/// What has no backward pass has no gradient to synchronise: four replicas are four times as fast.
#[test]
fn replicas_of_inference_synchronise_nothing() {
    let operator = json!({"name": "a", "pass": "forward", "seconds": {"t4": 0.004}, "parameter_bytes": 1e9});
    let graph =
        json!({"schema": "stagewright.graph/2", "name": "one", "operators": [operator], "tensors": []});
    let folder = folder(&[("one.json", &graph.to_string())]);
    let replicated = plan(&path(&folder, "one.json"), "4xt4", &["--max-replicas", "4"]);
    assert_eq!(value(&replicated), 0.001);
}

#[test]
fn a_profile_is_of_the_only_accelerator_class_or_of_one_that_is_there() {
    let profile = "\
        node1 -- Input0 -- forward_compute_time=5.0, backward_compute_time=1.0, activation_size=8.0, parameter_size=0.0\n\
        node2 -- LSTM(4, 4) -- forward_compute_time=2.0, backward_compute_time=4.0, activation_size=16.0, parameter_size=64.0\n\
        \tnode1 -- node2\n";
    let folder = folder(&[("graph.txt", profile)]);
    let model = path(&folder, "graph.txt");
    plan(&model, "4xa100", &[]);
    plan(&model, "4xa100", &["--profile-class", "a100-80gb"]);
    let refused = run(&["plan", &model, "--cluster", "4xa100", "--profile-class", "a100"]);
    assert_eq!(code(&refused), Some(2));
    assert!(stderr(&refused).starts_with("error[U011]: "), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("a100-80gb"), "{}", stderr(&refused));
}

#[test]
fn weights_without_a_program_are_answered_with_what_to_run() {
    let folder = folder(&[("config.json", "{\"model_type\": \"llama\"}")]);
    let refused = run(&["plan", &path(&folder, ""), "--cluster", "4xt4"]);
    assert_eq!(code(&refused), Some(2));
    assert!(stderr(&refused).starts_with("error[F012]: "), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("stagewright exporter torch"), "{}", stderr(&refused));
}

/// The memory of a step is that of the order that the plan counts in: nothing is said of a step that fits.
#[test]
fn a_step_of_a_plan_that_fits_fits() {
    let (folder, model) = export("llama-3.2-1b-decode.json");
    let file = path(&folder, "plan.json");
    let made = plan(&model, "4xa100", &["--out", &file]);
    let step = run(&["simulate", &model, &file, "--cluster", "4xa100", "--json"]);
    assert_eq!((code(&step), stderr(&step).as_str()), (Some(0), ""));
    let peaks = json(&step);
    for (device, peak) in
        made["devices"].as_array().expect("devices").iter().zip(peaks["devices"].as_array().expect("devices"))
    {
        assert_eq!(device["name"], peak["name"]);
        assert_eq!(device["memory_bytes"], peak["peak_memory_bytes"]);
    }
}
