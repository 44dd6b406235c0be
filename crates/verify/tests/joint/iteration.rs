//! Training graphs: two products and a loss, each product in a layer.

use serde_json::{Value, json};
use stagewright_verify::{CheckError, JointReport, JointVerdict, check_joint};

use super::kinds;
use crate::documents::read;

/// A device computes one FLOP in a second and takes half a second to launch a kernel, so an operator takes
/// 0.5 + flop · σ. The graph has two samples.
pub(super) fn graph() -> Value {
    json!({
        "schema": "stagewright.graph/2", "batch": {"samples": 2},
        "operators": [
            {"name": "x", "kind": "input", "flop": 0, "launches": 0},
            {"name": "block.0.linear", "kind": "linear", "layer": "block.0", "colocation": "l0", "flop": 8,
             "parameter_bytes": 40},
            {"name": "block.1.linear", "kind": "linear", "layer": "block.1", "colocation": "l1", "flop": 4,
             "parameter_bytes": 20},
            {"name": "block.1.loss", "kind": "loss", "layer": "block.1", "colocation": "l2", "flop": 2},
            {"name": "block.1.loss.grad", "pass": "backward", "colocation": "l2", "flop": 2},
            {"name": "block.1.linear.grad", "pass": "backward", "colocation": "l1", "flop": 8},
            {"name": "block.0.linear.grad", "pass": "backward", "colocation": "l0", "flop": 16},
            {"name": "block.1.linear.update", "pass": "update", "colocation": "l1", "flop": 2,
             "optimizer_bytes": 60},
            {"name": "block.0.linear.update", "pass": "update", "colocation": "l0", "flop": 4,
             "optimizer_bytes": 80},
        ],
        "tensors": [
            {"producer": "x", "consumers": ["block.0.linear", "block.0.linear.grad"], "bytes": 16},
            {"producer": "block.0.linear", "consumers": ["block.1.linear", "block.1.linear.grad"], "bytes": 32},
            {"producer": "block.1.linear", "consumers": ["block.1.loss", "block.1.loss.grad"], "bytes": 24},
            {"producer": "block.1.loss.grad", "consumers": ["block.1.linear.grad"], "bytes": 24},
            {"producer": "block.1.linear.grad", "consumers": ["block.0.linear.grad"], "bytes": 32},
            {"producer": "block.1.linear.grad", "consumers": ["block.1.linear.update"], "bytes": 20},
            {"producer": "block.0.linear.grad", "consumers": ["block.0.linear.update"], "bytes": 40},
        ],
    })
}

/// Two servers of two devices.
pub(super) fn cluster() -> Value {
    json!({
        "schema": "stagewright.cluster/1",
        "classes": {"gpu": {"peak_flops": 1.0, "launch_overhead_s": 0.5}},
        "kinds": [{"name": "acc", "class": "gpu", "count": 4, "memory_bytes": 200.0, "reserve_bytes": 0.0,
                   "link": {"latency_s": 1.0, "bandwidth": 4.0},
                   "server": {"devices": 2, "link": {"latency_s": 2.0, "bandwidth": 2.0}}}],
    })
}

/// A stage with the figures in flight, seconds, forward, update, memory, state, activations.
pub(super) fn stage(data: u32, tensor: u32, figures: [f64; 7], layers: &[[&str; 2]]) -> Value {
    let layers: Vec<Value> = layers
        .iter()
        .map(|[layer, configuration]| json!({"layer": layer, "configuration": configuration}))
        .collect();
    let [in_flight, seconds, forward, update, memory, state, activations] = figures;
    json!({"kind": "acc", "data": data, "tensor": tensor, "in_flight": in_flight as u32, "seconds": seconds,
           "forward_s": forward, "update_s": update, "memory_bytes": memory, "state_bytes": state,
           "activation_bytes": activations, "layers": layers})
}

/// A plan with one layer in each of two stages, and two microbatches of one sample: σ is 1/2.
pub(super) fn pipeline() -> Value {
    // Forward 0.5 + 4, backward 0.5 + 8 and the gradient of the tensor between the stages: 1 + 16 / 4.
    // States 40 + 40 + 80, activations 2 · 8, workspace 16.
    let first = stage(1, 1, [2.0, 18.0, 4.5, 4.5, 192.0, 160.0, 16.0], &[["block.0", "none"]]);
    // Forward 0.5 + 2, 0.5 + 1 and 1 + 16 / 4, backward 0.5 + 1 and 0.5 + 4.
    // States 20 + 20 + 60, activations (32 + 24) / 2, workspace (24 + 32) / 2.
    let second = stage(1, 1, [1.0, 15.0, 9.0, 2.5, 156.0, 100.0, 28.0], &[["block.1", "none"]]);
    // Stage 0: F 0–4.5, F 4.5–9, B 19.5–33, B 34.5–48; stage 1: F 4.5–13.5, B –19.5, F –28.5, B –34.5. Then 4.5.
    let mut plan = super::plan("iteration", 2, &["pp"], 52.5, json!([first, second]));
    plan["execution"] = json!({"microbatch": 1, "microbatches": 2, "data": 1, "expert": 1, "zero": 0});
    plan
}

/// A plan with both layers on one stage of two copies with two devices each; gradients and states are divided: σ is
/// 1/4.
pub(super) fn split() -> Value {
    // Forward 0.5 + 2, 0.5 + 1, 0.5 + 0.5 and a reduce-scatter of 24 / 2 bytes before the loss: 1 + 12 / 2 / 4.
    // Backward 0.5 + 0.5, 0.5 + 2, 0.5 + 4, the same conversion, and reduce-scatters of 20 and 10 bytes of gradients
    // between the servers: 2 + 10 / 2 and 2 + 5 / 2.
    // Update: all-gathers of as many bytes of parameters, then (0.5 + 4) / 4 and (0.5 + 2) / 4.
    // States 30 + 30 / 2 + 70 / 2, activations (16 + 56) / 4, workspace 56 / 4.
    let figures = [1.0, 29.5, 7.5, 13.25, 112.0, 80.0, 18.0];
    let only = stage(2, 2, figures, &[["block.0", "none"], ["block.1", "none"]]);
    let mut plan = super::plan("iteration", 2, &["tp", "dp", "zero"], 42.75, json!([only]));
    plan["execution"] = json!({"microbatch": 1, "microbatches": 1, "data": 2, "expert": 1, "zero": 2});
    plan
}

pub(super) fn check(graph: Value, cluster: Value, plan: Value) -> Result<JointReport, CheckError> {
    check_joint(&read(graph), &read(cluster), &read(plan))
}

fn sound(plan: Value) {
    let report = check(graph(), cluster(), plan).expect("documents");
    assert!(report.holds(), "{:?}\n{:?}", report.violations, report.stages);
}

fn broken(change: impl FnOnce(&mut Value, &mut Value)) -> Vec<&'static str> {
    let (mut cluster, mut plan) = (cluster(), pipeline());
    change(&mut cluster, &mut plan);
    kinds(&check(graph(), cluster, plan).expect("the documents describe a problem"))
}

#[test]
fn a_pipeline_takes_what_was_computed_by_hand() {
    sound(pipeline());
    let mut plan = pipeline();
    plan["bound"]["value_s"] = json!(52.5);
    plan["gap"] = json!(0.0);
    plan["status"] = json!("optimal");
    let report = check(graph(), cluster(), plan).expect("documents");
    assert!(report.holds(), "{:?}", report.violations);
    assert_eq!((report.value_s, report.bound), (Some(52.5), JointVerdict::NotVerified));
}

#[test]
fn split_operators_take_what_was_computed_by_hand() {
    sound(split());
}

#[test]
fn degrees_of_zero_divide_ever_more() {
    let with = |zero: u32, seconds: f64, update: f64, value: f64, memory: f64, state: f64| {
        let mut plan = split();
        plan["execution"]["zero"] = json!(zero);
        plan["objective"]["value_s"] = json!(value);
        let stage = &mut plan["stages"][0];
        (stage["seconds"], stage["update_s"]) = (json!(seconds), json!(update));
        (stage["memory_bytes"], stage["state_bytes"]) = (json!(memory), json!(state));
        if zero == 3 {
            stage["forward_s"] = json!(19.0);
        }
        sound(plan);
    };
    // All-reduce of gradients 14 + 9, updates (4.5 + 2.5) / 2.
    with(0, 18.0, 26.5, 44.5, 162.0, 130.0);
    with(1, 18.0, 24.75, 42.75, 127.0, 95.0);
    // Parameters are gathered twice, and the larger layer has 20 bytes of them in its workspace: 32 / 4 + 20, more than
    // the 56 / 4 + 10 of the other layer.
    with(3, 52.5, 1.75, 54.25, 65.0 + 18.0 + 28.0, 65.0);
}

#[test]
fn recomputed_layers_keep_less_and_take_longer() {
    let with = |configuration: &str, kept: f64, seconds: f64, memory: f64, value: f64| {
        let mut plan = pipeline();
        plan["objective"]["parallel"] = json!({"pp": null, "recompute": null});
        plan["objective"]["value_s"] = json!(value);
        let stage = &mut plan["stages"][1];
        stage["layers"][0]["configuration"] = json!(configuration);
        (stage["seconds"], stage["memory_bytes"]) = (json!(seconds), json!(memory));
        stage["activation_bytes"] = json!(kept);
        sound(plan);
    };
    // The input of 32 bytes is kept, and 24 bytes are recomputed in 2.5 + 1.5 seconds, so the end is later by 2 · 4.
    with("full", 16.0, 19.0, 100.0 + 16.0 + 40.0, 60.5);
    // Both tensors are kept, and only the operator of 1.5 seconds, which is not a product, is recomputed.
    with("selective", 28.0, 16.5, 156.0, 55.5);
}

#[test]
fn broken_plans_are_named() {
    for (name, value) in
        [("forward_s", 4.0), ("update_s", 4.0), ("state_bytes", 1.0), ("activation_bytes", 1.0)]
    {
        assert_eq!(broken(|_, plan| plan["stages"][0][name] = json!(value)), ["figure"]);
    }
    assert_eq!(broken(|_, plan| plan["objective"]["global_batch"] = json!(3)), ["degree"]);
    assert_eq!(broken(|_, plan| plan["objective"]["microbatch"] = json!(2)), ["degree"]);
    assert_eq!(broken(|_, plan| plan["execution"]["zero"] = json!(1)), ["degree"]);
    assert_eq!(broken(|_, plan| plan["execution"]["expert"] = json!(0)), ["degree"]);
    assert_eq!(broken(|_, plan| plan["stages"][0]["data"] = json!(2)), ["degree"]);
    assert_eq!(broken(|_, plan| plan["execution"] = Value::Null), ["stages"]);
    assert_eq!(broken(|_, plan| plan["stages"][0]["kind"] = json!("other")), ["kind"]);
    assert_eq!(broken(|cluster, _| cluster["kinds"][0]["count"] = json!(1)), ["devices"]);
    assert_eq!(broken(|cluster, _| cluster["kinds"][0]["memory_bytes"] = json!(180.0)), ["memory"]);
    assert_eq!(broken(|cluster, _| cluster["classes"] = json!({})), ["figure", "operator"]);
    assert_eq!(
        broken(|_, plan| plan["stages"][1]["layers"][0]["layer"] = json!("block.2")),
        ["layer", "operator"]
    );
    assert_eq!(
        broken(|_, plan| plan["stages"][1]["layers"][0]["configuration"] = json!("full")),
        ["configuration"]
    );
    assert!(broken(|_, plan| plan["stages"].as_array_mut().expect("stages").reverse()).contains(&"order"));
    assert_eq!(broken(|_, plan| plan["bound"]["value_s"] = json!(53.0)), ["bound", "figure"]);
}

#[test]
fn a_link_that_is_needed_must_be_there() {
    let mut cluster = cluster();
    cluster["kinds"][0]["link"] = Value::Null;
    cluster["kinds"][0]["server"] = Value::Null;
    let error = check(graph(), cluster, pipeline()).expect_err("no link");
    assert_eq!(error.code(), "V:no-link");
}
