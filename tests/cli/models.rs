//! User models on the command line: plans must match the behaviour of the machine.

use std::fs;
use std::io::Read;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::{code, folder, json, path, root, run, stderr, stdout};

/// Path of a model in `data/models`.
fn export(name: &str) -> String {
    root().join("data/models").join(format!("{name}.gz")).display().to_string()
}

fn plan(model: &str, cluster: &str, more: &[&str]) -> Value {
    let made = run(&[&["plan", model, "--cluster", cluster, "--json"], more].concat());
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    json(&made)
}

fn value(plan: &Value) -> f64 {
    plan["objective"]["value_s"].as_f64().expect("there is a plan")
}

/// A causal mask and a tied embedding do not constrain the split.
#[test]
fn gpt_2_takes_four_devices_as_well_as_a_free_split_would() {
    let demo = root().join("data/demo/gpt2.onnx").display().to_string();
    for model in [&[export("gpt2.onnx").as_str()][..], &[&demo, "--batch", "8"]] {
        let contiguous = plan(model[0], "4xt4:fp32", &model[1..]);
        let devices = contiguous["devices"].as_array().expect("devices");
        assert_eq!(devices.iter().filter(|device| device["ops"] != json!([])).count(), 4);
        let arguments =
            [&["bound"], model, &["--cluster", "4xt4:fp32", "--split", "free", "--json"]].concat();
        let bound = json(&run(&arguments))["strongest"]["value_s"].as_f64().expect("a bound");
        assert!(bound <= value(&contiguous) && value(&contiguous) <= 1.05 * bound, "{bound}");
    }
}

/// Both exporters of PyTorch write one model: a traced model has shapes, masks and views of its own, which bind no
/// layers.
#[test]
fn what_is_traced_is_planned_as_well() {
    for more in [&[][..], &["--whole-layers"]] {
        let value = |name: &str| value(&plan(&export(name), "4xa100", more));
        let (dynamo, traced) = (value("gpt2.onnx"), value("gpt2-torchscript.onnx"));
        assert!((traced / dynamo - 1.0).abs() < 0.01, "{more:?}: {traced} and {dynamo}");
    }
}

/// Computation between the layers of a module, or in a kernel of another layer, does not merge layers.
#[test]
fn whole_layers_go_into_runtimes() {
    let folder = folder(&[]);
    let out = path(&folder, "plan.json");
    for name in
        ["gpt2.onnx", "gpt2-torchscript.onnx", "llama-4-bit.onnx", "vit.onnx", "llama-3.2-1b-step.json"]
    {
        let model = export(name);
        let made = plan(&model, "4xa100", &["--whole-layers", "--out", &out]);
        let devices = made["devices"].as_array().expect("devices");
        assert_eq!(devices.iter().filter(|device| device["ops"] != json!([])).count(), 4, "{name}");
        for target in ["accelerate", "torch-pipelining", "megatron"] {
            let exported = run(&["export", &out, "--to", target, "--model", &model]);
            assert_eq!(code(&exported), Some(0), "{name}: {}", stderr(&exported));
        }
    }
}

#[test]
fn whole_layers_are_hinted_at_where_a_limit_ended_the_search() {
    let model = export("gpt2.onnx");
    let hint = |more: &[&str]| {
        let arguments = [&["plan", &model, "--cluster", "4xa100", "--json"], more].concat();
        let output = run(&arguments);
        (json(&output)["stop"].clone(), stderr(&output).contains("--whole-layers leaves"))
    };
    assert_eq!(hint(&["--time-limit", "0s"]), ("time".into(), true));
    assert_eq!(hint(&["--gap", "50%", "--time-limit", "none"]), ("gap".into(), false));
}

/// A truncated file, and one of a million bytes that unpacks to a billion, are rejected.
#[test]
fn a_gzip_file_that_cannot_be_unpacked_is_refused() {
    let folder = folder(&[]);
    let whole = fs::read(export("gpt2.onnx")).expect("the model is there");
    let mut bomb = GzEncoder::new(Vec::new(), Compression::fast());
    std::io::copy(&mut std::io::repeat(0).take((1 << 30) + 1), &mut bomb).expect("there is memory");
    for (name, bytes) in
        [("cut.gz", whole[..1000].to_vec()), ("bomb.gz", bomb.finish().expect("there is memory"))]
    {
        let file = path(&folder, name);
        fs::write(&file, bytes).expect("there is room for a file");
        let refused = run(&["plan", &file, "--cluster", "4xt4"]);
        assert!(stderr(&refused).contains("I005"), "{}", stderr(&refused));
    }
}

#[test]
fn a_model_is_priced_at_its_own_precision_unless_it_is_cast() {
    let model = export("gpt2.onnx");
    let single = value(&plan(&model, "4xt4:fp32", &[]));
    assert_eq!(value(&plan(&model, "4xt4", &[])), single, "numbers of the file are in single precision");
    let half = value(&plan(&model, "4xt4", &["--precision", "fp16"]));
    assert!(half < single / 2.0, "{half}, {single}");
}

/// Quantisation and dequantisation are fused with their neighbours, and products have the integer peak.
#[test]
fn a_model_of_whole_numbers_is_faster_than_the_one_it_was_made_from() {
    let (whole, quantised) = (export("resnet-50.onnx"), export("resnet-50-qdq.onnx"));
    assert!(2.0 * value(&plan(&quantised, "4xa100", &[])) < value(&plan(&whole, "4xa100", &[])));
}

/// Live activations also count in inference, and the simulated step holds as much.
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

/// The step runs in the order for which the plan counts memory, so a plan that fits causes no note.
#[test]
fn a_step_of_a_plan_that_fits_fits() {
    let (folder, model) = (folder(&[]), export("llama-3.2-1b-decode.json"));
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

/// A packed model is the same document in another notation: its plans are those of the JSON, and check on either.
#[test]
fn packed_models_are_planned_as_json_is() {
    let folder = folder(&[]);
    let [json_file, packed, again, out, cut] =
        ["rnn.json", "rnn.msgpack", "again.json", "plan.json", "cut.msgpack"].map(|name| path(&folder, name));
    for file in [&json_file, &packed] {
        let made = run(&["workload", "rnnlm", "--variant", "2", "--training", "--out", file]);
        assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    }
    let made = run(&["convert", &packed, &again]);
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    assert_eq!(fs::read(&again).expect("written"), fs::read(&json_file).expect("written"));
    let bytes = fs::read(&packed).expect("written");
    assert!(10 * bytes.len() < fs::read(&json_file).expect("written").len(), "{}", bytes.len());

    let plans =
        [&json_file, &packed].map(|file| plan(file, "2xa100", &["--solver", "dpl", "--threads", "1"]));
    assert_eq!(value(&plans[0]).to_bits(), value(&plans[1]).to_bits());
    fs::write(&out, plans[1].to_string()).expect("room");
    for file in [&json_file, &packed] {
        assert_eq!(code(&run(&["check", file, &out, "--cluster", "2xa100"])), Some(0), "{file}");
    }

    fs::write(&cut, &bytes[..bytes.len() / 2]).expect("room");
    let refused = run(&["plan", &cut, "--cluster", "2xa100"]);
    assert_eq!(code(&refused), Some(2));
    assert!(stderr(&refused).starts_with("error[F002]"), "{}", stderr(&refused));
}
