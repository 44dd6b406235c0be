//! Context parallelism, with figures computed by hand.
//!
//! A device moves one byte in a second, and the graph has one sample. A server has two devices, in which a link takes
//! 1 + bytes / 4.

use serde_json::{Value, json};
use stagewright_core::document::{JointExecutionDocument, JointPlanDocument};
use stagewright_verify::{JointVerdict, check_joint};

use super::iteration::{check, stage};
use super::kinds;
use super::parts::{moving, operator, tensor};
use super::runtimes::runtime;
use crate::documents::read;

/// Queries of 8 bytes, keys of `keys` and values of 2, an attention with two heads of queries over four tokens, and a loss.
/// Forward operators take 10 + 6 + 6, 10 and 8 for the products of the attention, and 3; backward operators 5, 8 and 14
/// for these products, and 9.
pub(super) fn graph(keys: f64) -> Value {
    let mut query = operator("query", "linear", "forward", "query", 10.0);
    query["parameter_bytes"] = json!(8);
    let mut scores = operator("scores", "matmul", "forward", "scores", 74.0);
    scores["precision"] = json!("bf16");
    let mut update = operator("query.update", "adam", "update", "query", 10.0);
    update["optimizer_bytes"] = json!(16);
    json!({
        "schema": "stagewright.graph/2", "batch": {"samples": 1, "tokens": 4},
        "operators": [
            operator("x", "input", "forward", "x", 0.0),
            query,
            operator("key", "add", "forward", "key", 6.0),
            operator("value", "add", "forward", "value", 6.0),
            scores,
            operator("softmax", "softmax", "forward", "softmax", 128.0),
            operator("context", "matmul", "forward", "context", 72.0),
            operator("loss", "loss", "forward", "loss", 3.0),
            operator("loss.grad", "", "backward", "loss", 5.0),
            operator("context.grad", "matmul_grad", "backward", "context", 136.0),
            operator("softmax.grad", "", "backward", "softmax", 128.0),
            operator("scores.grad", "matmul_grad", "backward", "scores", 78.0),
            operator("query.grad", "", "backward", "query", 9.0),
            update,
        ],
        "tensors": [
            tensor("x", &["query", "key", "value", "query.grad"], 2.0),
            tensor("query", &["scores", "scores.grad"], 8.0),
            tensor("key", &["scores", "scores.grad"], keys),
            tensor("value", &["context", "context.grad"], 2.0),
            tensor("scores", &["softmax"], 64.0),
            tensor("softmax", &["context", "context.grad", "softmax.grad"], 64.0),
            tensor("context", &["loss", "loss.grad"], 8.0),
            tensor("loss.grad", &["context.grad"], 8.0),
            tensor("context.grad", &["softmax.grad"], 64.0),
            tensor("softmax.grad", &["scores.grad"], 64.0),
            tensor("scores.grad", &["query.grad"], 8.0),
            tensor("query.grad", &["query.update"], 8.0),
        ],
    })
}

/// A plan in which two devices have half of the tokens each: σ is 1/2.
fn halves(exchange: &str, figures: [f64; 7]) -> Value {
    let only = stage(1, 1, figures, &[["block.0", "none"]]);
    let value = figures[1] + figures[3];
    let parallel = ["cp", "tp", "zero", "shard", "recompute"];
    let mut plan = super::plan("iteration", 1, &parallel, value, json!([only]));
    plan["execution"] = json!({"microbatch": 1, "microbatches": 1, "data": 1, "expert": 1, "zero": 0,
                               "context": 2, "exchange": exchange});
    plan
}

pub(super) fn ring() -> Value {
    // Forward 43 / 2 and an all-gather of 6 bytes, 1 + 6 / 2 / 4; backward 36 / 2, 10 / 2 and the gather twice. An all-reduce
    // 2 · (1 + 8 / 2 / 4), and the update. States 8 + 8 + 16, activations 24 / 2, workspace 8 / 2 and 2 · 6 / 2.
    halves("ring", [1.0, 49.75, 23.25, 14.0, 54.0, 32.0, 12.0])
}

fn sound(graph: Value, plan: Value) {
    let report = check(graph, moving(), plan).expect("documents");
    assert!(report.holds(), "{:?}\n{:?}", report.violations, report.stages);
}

fn texts(graph: Value, plan: Value) -> Vec<String> {
    let report = check(graph, moving(), plan).expect("documents");
    report.violations.iter().map(ToString::to_string).collect()
}

#[test]
fn keys_and_values_pass_in_a_ring() {
    sound(graph(4.0), ring());
    // At ZeRO 2 a scatter of 1 + 8 / 2 / 4 in the backward pass, a gather like it, and half of the update. Gradients and
    // states of the optimizer are halved.
    let mut plan = halves("ring", [1.0, 51.75, 23.25, 7.0, 42.0, 20.0, 12.0]);
    plan["execution"]["zero"] = json!(2);
    sound(graph(4.0), plan);
    // The forward pass runs again, with its exchange. 24 / 2 bytes are recomputed.
    let mut plan = halves("ring", [1.0, 73.0, 23.25, 14.0, 54.0, 32.0, 0.0]);
    plan["stages"][0]["layers"][0]["configuration"] = json!("full");
    sound(graph(4.0), plan);
}

#[test]
fn tokens_are_exchanged_for_heads() {
    // Keys have as many bytes as queries. All-to-alls of 8, 8, 2 and 8 bytes, 3 · (1 + 8 / 2 / 8) + 1 + 2 / 2 / 8, in each
    // pass. Activations 28 / 2, workspace 8 / 2 and 18 / 2.
    let plan = halves("all-to-all", [1.0, 55.75, 27.125, 14.0, 59.0, 32.0, 14.0]);
    sound(graph(8.0), plan.clone());
    // Keys of one head cannot be divided.
    let heads = "context of stage 0 is 2, but must be a divisor of 1 of the 1 heads of an attention";
    assert_eq!(texts(graph(4.0), plan.clone()), [heads]);
    let mut split = plan;
    split["stages"][0]["tensor"] = json!(2);
    let heads = "context of stage 0 is 2, but must be a divisor of 1 of the 2 heads of an attention";
    assert_eq!(texts(graph(8.0), split), [heads, heads]);
}

#[test]
fn a_group_reaches_over_servers() {
    // A quarter of 43 and of 46. Keys and values are converted to heads, 1 + 4 / 8 / 2 and 1 + 1 / 8 / 2, and pass between
    // servers, 2 + 5 / 2 / 2 and twice that. An all-reduce of 2 · (2 + 4 / 2 / 2) and half of the update. States 32 / 2,
    // activations 28 / 4, workspace 8 / 4 and 2 · 10 / 4.
    let mut plan = halves("ring", [1.0, 36.625, 16.3125, 11.0, 30.0, 16.0, 7.0]);
    plan["stages"][0]["tensor"] = json!(2);
    sound(graph(8.0), plan);
}

#[test]
fn attentions_hide_a_ring() {
    let with = |exchanges: f64, configuration: &str, figures: [f64; 7]| {
        let mut plan = halves("ring", figures);
        plan["stages"][0]["layers"][0]["configuration"] = json!(configuration);
        plan["objective"]["runtime"] =
            runtime(json!({"contention": 0.5, "compute": 2.0, "copies": 2.0, "exchanges": exchanges}));
        sound(graph(4.0), plan);
    };
    // Operators take 43 forward, 36 and 10 backward, of which 18, 22 and 10 are products of the attention. The all-reduce takes
    // 2 · (1 + 8 / 4), the update 10. A ring of 3 · 1.75 adds half of itself, and twice that in the backward pass.
    with(3.0, "none", [1.0, 45.625 + 51.25, 45.625, 16.0, 54.0, 32.0, 12.0]);
    // A ring of 35 adds 35 + 9 − 18, and 70 + 16 − 32.
    with(20.0, "none", [1.0, 69.0 + 100.0, 69.0, 16.0, 54.0, 32.0, 12.0]);
    with(20.0, "full", [1.0, 69.0 + 169.0, 69.0, 16.0, 54.0, 32.0, 0.0]);
}

#[test]
fn an_exchange_for_heads_is_not_hidden() {
    let mut plan =
        halves("all-to-all", [1.0, 43.0 + 46.0 + 4.0 * 5.625, 43.0 + 11.25, 13.0, 59.0, 32.0, 14.0]);
    plan["objective"]["runtime"] = runtime(json!({"compute": 2.0, "exchanges": 2.0}));
    sound(graph(8.0), plan);
}

#[test]
fn degrees_that_a_graph_does_not_allow_are_named() {
    let needs = |change: fn(&mut Value, &mut Value)| {
        let (mut graph, mut plan) = (graph(4.0), ring());
        change(&mut graph, &mut plan);
        let texts = texts(graph, plan);
        assert_eq!(texts.len(), 1, "{texts:?}");
        texts[0].clone()
    };
    let context = |needs: &str| format!("context is 2, but must be {needs}");
    assert_eq!(
        needs(|graph, _| graph["batch"]["tokens"] = json!(6)),
        context("half of a divisor of the 6 tokens of a sample")
    );
    assert_eq!(
        needs(|graph, _| graph["batch"]["tokens"] = Value::Null),
        context("1: the graph states no tokens")
    );
    assert_eq!(
        needs(|graph, _| graph["operators"][5]["kind"] = json!("norm")),
        context("1: there is no attention")
    );
    assert_eq!(
        needs(|graph, _| graph["operators"][2]["kind"] = json!("matmul")),
        context("1: a product without parameters is in no attention")
    );
    assert_eq!(
        needs(|_, plan| plan["objective"]["runtime"] = runtime(json!({"fused_attention": false}))),
        context("1: the runtime has no attention in one kernel")
    );
    assert_eq!(needs(|_, plan| plan["objective"]["parallel"] = json!({})), context("1 without cp"));
    assert_eq!(needs(|_, plan| plan["objective"]["parallel"]["cp"] = json!(4)), context("4, as given"));
    assert_eq!(
        needs(|_, plan| plan["execution"]["exchange"] = Value::Null),
        "the exchange of tokens is absent, but must be ring or all-to-all with context parallelism"
    );
    assert_eq!(
        needs(|_, plan| plan["execution"]["context"] = json!(1)),
        "the exchange of tokens is ring, but must be absent without context parallelism"
    );
    assert_eq!(
        needs(|_, plan| plan["objective"]["global_batch"] = json!(2)),
        "global_batch is 1, but must be 2: samples of microbatches of all copies"
    );
    let mut plan = ring();
    plan["execution"]["expert"] = json!(3);
    assert_eq!(kinds(&check(graph(4.0), moving(), plan).expect("documents")), ["degree"]);
    let mut cluster = moving();
    cluster["kinds"][0]["count"] = json!(1);
    assert_eq!(kinds(&check(graph(4.0), cluster, ring()).expect("documents")), ["devices"]);
}

/// The best value of all plans of one stage for a batch of two samples, with the plan.
fn best(graph: &Value, parallel: &Value) -> (f64, JointPlanDocument) {
    let mut found: Option<(f64, JointPlanDocument)> = None;
    let mut plan = ring();
    plan["objective"]["global_batch"] = json!(2);
    plan["objective"]["parallel"] = parallel.clone();
    let plan: JointPlanDocument = read(plan);
    for (data, context) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        for exchange in [None, Some("ring"), Some("all-to-all")] {
            for (zero, shards) in (0..4).flat_map(|zero| [None, Some(2)].map(|shards| (zero, shards))) {
                for microbatch in [1, 2].into_iter().filter(|microbatch| microbatch * data <= 2) {
                    let mut plan = plan.clone();
                    let execution: JointExecutionDocument = read(json!({
                        "microbatch": microbatch, "microbatches": 2 / data / microbatch, "data": data, "expert": 1,
                        "zero": zero, "context": context, "exchange": exchange, "shards": shards,
                    }));
                    plan.execution = Some(execution);
                    plan.stages[0].data = data;
                    let report =
                        check_joint(&read(graph.clone()), &read(moving()), &plan).expect("documents");
                    let is_sound = report.violations.iter().all(|found| found.kind() == "figure");
                    let value = report.value_s.filter(|_| is_sound);
                    if let Some(value) =
                        value.filter(|value| found.as_ref().is_none_or(|found| *value < found.0))
                    {
                        found = Some((value, plan));
                    }
                }
            }
        }
    }
    found.expect("a plan")
}

#[test]
fn a_bound_is_proved_for_all_degrees_and_exchanges() {
    use JointVerdict::{NotVerified, Refuted, Verified};
    for keys in [4.0, 8.0] {
        for parallel in [
            json!({"cp": null}),
            json!({"cp": 2}),
            json!({"cp": 1}),
            json!({"cp": null, "dp": null, "zero": null}),
            json!({"cp": 2, "dp": 2, "zero": 1, "shard": null}),
            json!({"cp": 2, "dp": 2, "zero": 3, "shard": 2}),
            json!({"cp": null, "dp": null, "zero": null, "shard": 2}),
        ] {
            let (value, plan) = best(&graph(keys), &parallel);
            let verdict = |factor: f64| {
                let mut plan = plan.clone();
                plan.bound.value_s = Some(factor * value);
                check_joint(&read(graph(keys)), &read(moving()), &plan).expect("documents").bound
            };
            assert_eq!(verdict(1.0), Verified, "{keys} {parallel}");
            assert_eq!(verdict(1.01), Refuted, "{keys} {parallel}");
        }
    }
    // A slower plan does not prove the bound that its own exchange allows.
    let with = |value: f64| {
        let mut plan = halves("all-to-all", [1.0, 55.75, 27.125, 14.0, 59.0, 32.0, 14.0]);
        plan["objective"]["parallel"] = json!({"cp": 2});
        plan["bound"]["value_s"] = json!(value);
        check(graph(8.0), moving(), plan).expect("documents").bound
    };
    // A ring of 10 bytes takes 1 + 10 / 2 / 4, three times.
    assert_eq!(with(44.5 + 14.0 + 6.75), Verified);
    assert_eq!(with(69.0), NotVerified);
}
