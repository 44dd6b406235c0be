//! Parts of the cost model of an iteration: attentions, experts, stages on different kinds.
//!
//! A device moves one byte in a second, and the graphs have one sample.

use serde_json::{Value, json};

use super::iteration::{check, cluster, graph, pipeline, split, stage};

pub(super) fn operator(name: &str, kind: &str, pass: &str, colocation: &str, moved: f64) -> Value {
    json!({"name": name, "kind": kind, "pass": pass, "colocation": colocation, "layer": "block.0",
           "bytes_moved": moved})
}

pub(super) fn tensor(producer: &str, consumers: &[&str], bytes: f64) -> Value {
    json!({"producer": producer, "consumers": consumers, "bytes": bytes})
}

pub(super) fn moving() -> Value {
    let mut cluster = cluster();
    cluster["classes"]["gpu"] = json!({"memory_bandwidth": 1.0});
    cluster
}

fn sound(graph: Value, cluster: Value, plan: Value) {
    let report = check(graph, cluster, plan).expect("documents");
    assert!(report.holds(), "{:?}\n{:?}", report.violations, report.stages);
}

/// A product, an attention and a loss.
pub(super) fn attention() -> Value {
    let mut query = operator("query", "linear", "forward", "query", 10.0);
    query["parameter_bytes"] = json!(8);
    json!({
        "schema": "stagewright.graph/2", "batch": {"samples": 1},
        "operators": [
            operator("x", "input", "forward", "x", 0.0),
            query,
            operator("scores", "matmul", "forward", "scores", 20.0),
            operator("softmax", "softmax", "forward", "softmax", 12.0),
            operator("context", "matmul", "forward", "context", 16.0),
            operator("loss", "loss", "forward", "loss", 3.0),
            operator("loss.grad", "", "backward", "loss", 5.0),
            operator("context.grad", "", "backward", "context", 22.0),
            operator("softmax.grad", "", "backward", "softmax", 18.0),
            operator("scores.grad", "", "backward", "scores", 14.0),
            operator("query.grad", "", "backward", "query", 9.0),
        ],
        "tensors": [
            tensor("x", &["query", "query.grad"], 2.0),
            tensor("query", &["scores", "context", "context.grad", "scores.grad"], 4.0),
            tensor("scores", &["softmax"], 6.0),
            tensor("softmax", &["context", "context.grad", "softmax.grad"], 6.0),
            tensor("context", &["loss", "loss.grad"], 4.0),
            tensor("loss.grad", &["context.grad"], 4.0),
            tensor("context.grad", &["softmax.grad"], 6.0),
            tensor("softmax.grad", &["scores.grad"], 6.0),
            tensor("scores.grad", &["query.grad"], 4.0),
        ],
    })
}

#[test]
fn an_attention_runs_in_one_kernel() {
    // Forward 10 + (20 − 6) + (16 − 6) + 3. Backward 5 + (22 − 12) + (14 − 6) + 9, and 14 to recompute the scores.
    // In memory are 2 + 4 + 4 bytes of activations, and 4 bytes of gradients at a time.
    let figures = [1.0, 83.0, 37.0, 0.0, 8.0 + 10.0 + 4.0, 8.0, 10.0];
    let only = stage(1, 1, figures, &[["block.0", "none"]]);
    let mut plan = super::plan("iteration", 1, &[], 83.0, json!([only]));
    plan["execution"] = json!({"microbatch": 1, "microbatches": 1, "data": 1, "expert": 1, "zero": 0});
    sound(attention(), moving(), plan);
}

#[test]
fn experts_are_divided_among_copies() {
    let expert = |name: &str| {
        let mut operator = operator(name, "linear", "forward", name, 2.0);
        operator["parameter_bytes"] = json!(6);
        operator
    };
    let update = |name: &str, expert: &str| {
        let mut operator = operator(name, "adam", "update", expert, 10.0);
        operator["optimizer_bytes"] = json!(12);
        operator
    };
    let graph = json!({
        "schema": "stagewright.graph/2", "batch": {"samples": 1},
        "operators": [
            operator("dispatch", "dispatch", "forward", "dispatch", 1.0),
            expert("e0"),
            expert("e1"),
            operator("combine", "combine", "forward", "combine", 3.0),
            operator("combine.grad", "", "backward", "combine", 1.0),
            operator("e0.grad", "", "backward", "e0", 4.0),
            operator("e1.grad", "", "backward", "e1", 4.0),
            update("e0.update", "e0"),
            update("e1.update", "e1"),
        ],
        "tensors": [
            tensor("dispatch", &["e0", "e0.grad"], 8.0),
            tensor("dispatch", &["e1", "e1.grad"], 8.0),
            tensor("e0", &["combine"], 8.0),
            tensor("e1", &["combine"], 8.0),
            tensor("combine.grad", &["e0.grad", "e1.grad"], 4.0),
            tensor("e0.grad", &["e0.update"], 6.0),
            tensor("e1.grad", &["e1.update"], 6.0),
        ],
    });
    // Two all-to-alls of 2 · 16 bytes in each pass: 1 + 32 / 2 / (2 · 4).
    // Forward 1 + 2 + 2 + 3 + 6, backward 1 + 4 + 4 + 6, updates (10 + 10) / 2.
    // States (12 + 12 + 24) / 2, activations 16, workspace 4.
    let figures = [1.0, 29.0, 14.0, 10.0, 44.0, 24.0, 16.0];
    let only = stage(2, 1, figures, &[["block.0", "none"]]);
    let mut plan = super::plan("iteration", 2, &["dp", "ep"], 39.0, json!([only]));
    plan["execution"] = json!({"microbatch": 1, "microbatches": 1, "data": 2, "expert": 2, "zero": 0});
    sound(graph, moving(), plan);
}

/// The graph of [`experts_are_divided_among_copies`] with four experts in its two outputs.
pub(super) fn grouped(stated: u32) -> Value {
    let expert = |name: &str| {
        let mut operator = operator(name, "linear", "forward", name, 2.0);
        operator["parameter_bytes"] = json!(12);
        operator
    };
    let mut dispatch = operator("dispatch", "dispatch", "forward", "dispatch", 1.0);
    dispatch["experts"] = json!(stated);
    let mut update = operator("e1.update", "adam", "update", "e1", 10.0);
    update["optimizer_bytes"] = json!(24);
    json!({
        "schema": "stagewright.graph/2", "batch": {"samples": 1},
        "operators": [
            dispatch,
            expert("e0"),
            expert("e1"),
            operator("combine", "combine", "forward", "combine", 3.0),
            operator("combine.grad", "", "backward", "combine", 1.0),
            operator("e1.grad", "", "backward", "e1", 4.0),
            update,
        ],
        "tensors": [
            tensor("dispatch", &["e0"], 8.0),
            tensor("dispatch", &["e1", "e1.grad"], 8.0),
            tensor("e0", &["combine"], 8.0),
            tensor("e1", &["combine"], 8.0),
            tensor("combine.grad", &["e1.grad"], 4.0),
            tensor("e1.grad", &["e1.update"], 12.0),
        ],
    })
}

#[test]
fn a_dispatch_may_have_more_experts_than_outputs() {
    // All-to-alls of 4 · 16 bytes over the link between servers: 3 · 2 + 3 / 4 · 64 / (4 · 2), two in each pass.
    // Forward 1 + 2 + 2 + 3 + 24, backward 1 + 4 + 24, the update 10 / 4.
    // States (24 + 12 + 24) / 4, activations 8, workspace 4.
    let figures = [1.0, 61.0, 32.0, 2.5, 27.0, 15.0, 8.0];
    let only = stage(4, 1, figures, &[["block.0", "none"]]);
    let mut plan = super::plan("iteration", 4, &["dp", "ep"], 63.5, json!([only]));
    plan["execution"] = json!({"microbatch": 1, "microbatches": 1, "data": 4, "expert": 4, "zero": 0});
    sound(grouped(4), moving(), plan.clone());
    let wrong = check(grouped(6), moving(), plan).expect("documents");
    let texts: Vec<String> = wrong.violations.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["expert is 4, but must be a divisor of the 6 experts of a dispatch"]);
}

#[test]
fn without_experts_there_is_no_expert_parallelism() {
    let mut plan = split();
    plan["objective"]["parallel"]["ep"] = Value::Null;
    plan["execution"]["expert"] = json!(2);
    let report = check(graph(), cluster(), plan).expect("documents");
    let texts: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["expert is 2, but must be 1: there are no experts"]);
}

/// Without a colocation, it is unknown whose parameters an update updates.
#[test]
fn an_update_without_a_colocation_is_whole_on_every_device() {
    let mut graph = graph();
    for operator in graph["operators"].as_array_mut().expect("operators") {
        if operator["pass"] == "update" {
            operator["colocation"] = Value::Null;
        }
    }
    // As in `split`, but gradients of 40 and 20 bytes are reduced and scattered, 2 + 20 / 2 and 2 + 10 / 2, and updates are
    // divided by the two copies alone, (0.5 + 4) / 2 and (0.5 + 2) / 2. States 30 + 60 / 2 + 140 / 2.
    let figures = [1.0, 37.0, 7.5, 15.0, 162.0, 130.0, 18.0];
    let only = stage(2, 2, figures, &[["block.0", "none"], ["block.1", "none"]]);
    let mut plan = super::plan("iteration", 2, &["tp", "dp", "zero"], 52.0, json!([only]));
    plan["execution"] = json!({"microbatch": 1, "microbatches": 1, "data": 2, "expert": 1, "zero": 2});
    sound(graph, cluster(), plan);
}

#[test]
fn the_slower_link_counts_between_kinds() {
    let mut cluster = cluster();
    let mut other = cluster["kinds"][0].clone();
    other["name"] = json!("other");
    other["link"] = json!({"latency_s": 2.0, "bandwidth": 8.0});
    cluster["kinds"].as_array_mut().expect("kinds").push(other);
    let mut plan = pipeline();
    plan["stages"][1]["kind"] = json!("other");
    // The links between servers: 2 + 16 / 2 seconds, five more than within one.
    plan["stages"][0]["seconds"] = json!(23.0);
    plan["stages"][1]["seconds"] = json!(20.0);
    plan["stages"][1]["forward_s"] = json!(14.0);
    // Stage 0: F –9, B 24.5–43, B 44.5–63; stage 1: F 4.5–18.5, B –24.5, F –38.5, B –44.5. Then 4.5.
    plan["objective"]["value_s"] = json!(67.5);
    sound(graph(), cluster, plan);
}
