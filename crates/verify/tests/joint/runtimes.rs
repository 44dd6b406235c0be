//! Runtimes, with figures computed by hand. A constant that a test does not name changes nothing.

use serde_json::{Value, json};
use stagewright_verify::CheckError;

use super::iteration::{check, cluster, graph, pipeline, split, stage};
use super::kinds;
use super::parts::{attention, grouped, moving, operator, tensor};
use super::schedules::{self, zero_bubble};

/// A runtime with some constants.
pub(super) fn runtime(constants: Value) -> Value {
    let mut runtime = json!({
        "name": "hand", "sequence_parallel": true, "fused_attention": true, "attention": 1.0, "memory": 1.0,
        "passes": 1.0, "norms": 1.0, "scores": 1.0, "link": 1.0, "network": 1.0, "tensor": 1.0, "contention": 0.0,
        "host_s": 0.0, "pipeline_host_s": 0.0, "iteration_s": 0.0, "reduction": 1.0, "gradients": 1.0,
        "buckets": 1.0, "loss": 0.0, "whole_loss": false, "reserve_bytes": 0.0, "activations": 1.0,
        "compute": 1.0, "copies": 1.0, "exchanges": 1.0, "transfers": 1.0,
        "margin": 0.0, "wide_transfer_s": 0.0, "wide_servers": 0,
    });
    for (name, value) in constants.as_object().expect("constants") {
        assert!(runtime.get(name).is_some(), "{name}");
        runtime[name] = value.clone();
    }
    runtime
}

fn with(mut plan: Value, constants: Value) -> Value {
    plan["objective"]["runtime"] = runtime(constants);
    plan
}

/// A plan of one stage with one layer, on `tensor` devices of each of as many copies as the batch has samples.
fn only(batch: u64, tensor: u32, parallel: &[&str], configuration: &str, figures: [f64; 7]) -> Value {
    let only = stage(batch as u32, tensor, figures, &[["block.0", configuration]]);
    let value = figures[1] + figures[3];
    let mut plan = super::plan("iteration", batch, parallel, value, json!([only]));
    plan["execution"] = json!({"microbatch": 1, "microbatches": 1, "data": batch, "expert": 1, "zero": 0});
    plan
}

/// Writes the figures of stages and the value into a plan.
fn figures(plan: &mut Value, value: f64, stages: &[[f64; 7]]) {
    plan["objective"]["value_s"] = json!(value);
    for (stage, figures) in plan["stages"].as_array_mut().expect("stages").iter_mut().zip(stages) {
        let [in_flight, figures @ ..] = figures;
        stage["in_flight"] = json!(*in_flight as u32);
        let names = ["seconds", "forward_s", "update_s", "memory_bytes", "state_bytes", "activation_bytes"];
        for (name, figure) in names.into_iter().zip(figures) {
            stage[name] = json!(figure);
        }
    }
}

fn sound(graph: Value, cluster: Value, plan: Value) {
    let report = check(graph, cluster, plan).expect("documents");
    assert!(report.holds(), "{:?}\n{:?}", report.violations, report.stages);
}

#[test]
fn the_host_has_a_floor_in_each_numbered_layer() {
    let constants = json!({
        "host_s": 3.5, "pipeline_host_s": 1.0, "iteration_s": 10.0, "link": 0.5, "network": 0.5,
        "gradients": 0.5, "loss": 2.0,
    });
    let mut plan = with(pipeline(), constants);
    // Without launches, forward 4 and 3, backward 8 and 5, of which the host takes at least 3.5 and 7. A transfer takes
    // 1 + 16 / 2. States 40 + 20 + 80 and 20 + 10 + 60; the loss has a workspace of 2 · 24 / 2.
    let first = [2.0, 21.0, 4.0, 4.0, 172.0, 140.0, 16.0];
    figures(&mut plan, 74.0, &[first, [1.0, 19.5, 12.5, 2.0, 170.0, 90.0, 28.0]]);
    // Stage 0: F –4, F –8, B 23.5–40.5, B 43–60; stage 1: F 4–16.5, B –23.5, F –36, B –43. Then 4, and 10.
    sound(graph(), cluster(), plan.clone());

    // A recomputed layer runs 5 + 3 and takes the host at least 3 · 3.5; it keeps 16 bytes and recomputes 12.
    let mut full = plan.clone();
    full["objective"]["parallel"]["recompute"] = Value::Null;
    full["stages"][1]["layers"][0]["configuration"] = json!("full");
    // Stage 0: B 27–44, B 50–67; stage 1: B 16.5–27, F –39.5, B –50.
    figures(&mut full, 81.0, &[first, [1.0, 23.0, 12.5, 2.0, 170.0, 90.0, 16.0]]);
    sound(graph(), cluster(), full);

    // Between servers the host takes 1 more, and a transfer 2 + 16.
    let mut servers = cluster();
    servers["kinds"][0]["server"]["devices"] = json!(1);
    let mut across = plan.clone();
    // Stage 0: F –4.5, F –9, B 36–63, B 67.5–94.5; stage 1: F 4.5–27, B –36, F –58.5, B –67.5.
    let first = [2.0, 31.5, 4.5, 4.0, 172.0, 140.0, 16.0];
    figures(&mut across, 108.5, &[first, [1.0, 31.5, 22.5, 2.0, 170.0, 90.0, 28.0]]);
    sound(graph(), servers, across);

    // A layer without a number has no floor: forward 3 and the transfer of 9, backward 5.
    let head = |value: Value| {
        serde_json::from_str(&value.to_string().replace("block.1", "head")).expect("a document")
    };
    let mut plan: Value = head(plan);
    // Stage 0: B 21–38, B 38–55; stage 1: F 4–16, B –21, F –33, B –38.
    figures(
        &mut plan,
        69.0,
        &[[2.0, 21.0, 4.0, 4.0, 172.0, 140.0, 16.0], [1.0, 17.0, 12.0, 2.0, 170.0, 90.0, 28.0]],
    );
    sound(head(graph()), cluster(), plan);
}

#[test]
fn collectives_over_copies_overlap_with_compute() {
    let constants = json!({"tensor": 2.0, "link": 0.5, "buckets": 3.0, "reduction": 0.5, "contention": 0.5});
    let with = |zero: u32, value: f64, stage: [f64; 7]| {
        let mut plan = with(split(), constants.clone());
        plan["execution"]["zero"] = json!(zero);
        figures(&mut plan, value, &[stage]);
        sound(graph(), cluster(), plan);
    };
    // Conversions take 2 · (1 + 6 / 2). Collectives over the copies have a latency of 3 · 2; a server has one device of
    // each group, so the bandwidth is 2. Scatters of half of 20 and 10 bytes take 6 + 5 / 2 and 6 + 2.5 / 2, gathers of
    // parameters 6 + 10 / 2 and 6 + 5 / 2.
    // Backward mix(4, 8.5) and mix(2.5, 7.25) + 8; updates 11 + 8.5 and 6 / 4.
    with(2, 59.5, [1.0, 38.5, 11.5, 21.0, 112.0, 80.0, 18.0]);
    // Forward mix(2, 11) and mix(1.5, 8.5) + 8, backward mix(4, 11 + 8.5) and mix(2.5, 8.5 + 7.25) + 8. The first layer has
    // a workspace of 8 + 2 · 20 + 0.5 · 20.
    with(3, 77.25, [1.0, 75.75, 29.25, 1.5, 65.0 + 18.0 + 58.0, 65.0, 18.0]);
    // All-reduces of 10 and 5 bytes take 6 + 2 · 2.5 and 6 + 2 · 1.25, updates 6 / 2.
    with(0, 48.5, [1.0, 26.0, 11.5, 22.5, 162.0, 130.0, 18.0]);
}

#[test]
fn a_pipeline_gathers_and_scatters_once() {
    let mut plan = with(pipeline(), json!({"contention": 0.5}));
    plan["objective"]["parallel"] = json!({"pp": null, "dp": null, "zero": null});
    plan["objective"]["global_batch"] = json!(4);
    for stage in plan["stages"].as_array_mut().expect("stages") {
        stage["data"] = json!(2);
    }
    (plan["execution"]["data"], plan["execution"]["zero"]) = (json!(2), json!(3));
    // Collectives take 1 + 20 / 4 and 1 + 10 / 4, half of it in a microbatch, and a transfer 2 + 16 / 2.
    // Forward mix(4, 3) and mix(3, 1.75) + 10, backward mix(8, 3) + 10 and mix(5, 1.75); updates 4 / 2 and 2 / 2.
    // Only states of the optimizer are divided: 40 + 40 + 40 and 20 + 20 + 30; the workspaces have no parameters.
    let first = [2.0, 25.0, 5.5, 2.0, 152.0, 120.0, 16.0];
    // Stage 0: F –5.5, F –11, B 25.25–44.75, B 45–64.5; stage 1: F 5.5–19.375, B –25.25, F –39.125, B –45.
    figures(&mut plan, 66.5, &[first, [1.0, 19.75, 13.875, 1.0, 126.0, 70.0, 28.0]]);
    sound(graph(), cluster(), plan);
}

#[test]
fn a_tensor_parallel_group_may_have_several_servers() {
    let only = stage(1, 4, [0.0; 7], &[["block.0", "none"], ["block.1", "none"]]);
    let mut plan = super::plan("iteration", 1, &["tp"], 0.0, json!([only]));
    plan["execution"] = json!({"microbatch": 1, "microbatches": 1, "data": 1, "expert": 1, "zero": 0});
    // σ is 1/8. The conversion takes 3 · 2 + 3 / 4 · 12 / 4 with the two ports of a server.
    figures(&mut plan, 23.0, &[[1.0, 21.5, 10.0, 1.5, 81.0, 65.0, 9.0]]);
    sound(graph(), cluster(), with(plan.clone(), json!({})));
    // A device reaches 4 · 0.25 inside a server, which then limits the group: 6 + 9 / 1, or its ports 2 · 2 · 0.75.
    let mut slower = with(plan.clone(), json!({"link": 0.25}));
    figures(&mut slower, 36.5, &[[1.0, 35.0, 16.75, 1.5, 81.0, 65.0, 9.0]]);
    sound(graph(), cluster(), slower);
    let mut slower = with(plan.clone(), json!({"network": 0.75}));
    figures(&mut slower, 24.5, &[[1.0, 23.0, 10.75, 1.5, 81.0, 65.0, 9.0]]);
    sound(graph(), cluster(), slower);

    assert_eq!(kinds(&check(graph(), cluster(), plan.clone()).expect("documents")), ["degree"]);
    plan["stages"][0]["tensor"] = json!(3);
    assert_eq!(kinds(&check(graph(), cluster(), with(plan, json!({}))).expect("documents")), ["degree"]);
}

#[test]
fn experts_exchange_over_all_ports_of_a_server() {
    // Two of the four experts are in a server: 3 · 2 + 3 / 4 · 64 / (4 · 4), two in each pass.
    let mut plan = only(4, 1, &["dp", "ep"], "none", [1.0, 49.0, 26.0, 2.5, 27.0, 15.0, 8.0]);
    plan["execution"]["expert"] = json!(4);
    sound(grouped(4), moving(), with(plan, json!({})));
}

#[test]
fn factors_scale_their_own_seconds() {
    let scaled = |name: &str, value: f64, first: [f64; 7], second: [f64; 7]| {
        let mut plan = with(pipeline(), json!({name: 2.0}));
        figures(&mut plan, value, &[first, second]);
        sound(graph(), cluster(), plan);
    };
    // Without launches 4 and 3 forward, 8 and 5 backward, a transfer of 5 in each direction, and updates of 4 and 2.
    // Stage 0: F –4, F –8, B 22–40, B 40–58; stage 1: F 4–17, B –22, F –35, B –40.
    let first = [2.0, 22.0, 4.0, 4.0, 192.0, 160.0, 16.0];
    scaled("transfers", 62.0, first, [1.0, 18.0, 13.0, 2.0, 156.0, 100.0, 28.0]);
    // Stage 0: F –8, F –16, B 29–50, B 50–71; stage 1: F 8–19, B –29, F –40, B –50.
    let first = [2.0, 29.0, 8.0, 4.0, 192.0, 160.0, 16.0];
    scaled("compute", 75.0, first, [1.0, 21.0, 11.0, 2.0, 156.0, 100.0, 28.0]);
    // There are no copies and no experts. Stage 0: F –4, F –8, B 17–30, B 30–43; stage 1: F 4–12, B –17, F –25, B –30.
    let first = [2.0, 17.0, 4.0, 4.0, 192.0, 160.0, 16.0];
    for name in ["copies", "exchanges"] {
        scaled(name, 47.0, first, [1.0, 13.0, 8.0, 2.0, 156.0, 100.0, 28.0]);
    }

    // Twice the exchanges of `experts_exchange_over_all_ports_of_a_server`: 36 in each pass.
    let mut plan = only(4, 1, &["dp", "ep"], "none", [1.0, 85.0, 44.0, 2.5, 27.0, 15.0, 8.0]);
    plan["execution"]["expert"] = json!(4);
    sound(grouped(4), moving(), with(plan, json!({"exchanges": 2.0})));

    // Twice the collectives over copies of `collectives_over_copies_overlap_with_compute`: scatters of 17 and 14.5 beside 4 and
    // 2.5, and a conversion of 8; gathers of 22 and 17 once, and updates of 6 / 4.
    let mut plan = with(
        split(),
        json!({"tensor": 2.0, "link": 0.5, "buckets": 3.0, "reduction": 0.5, "contention": 0.5, "copies": 2.0}),
    );
    figures(&mut plan, 94.75, &[[1.0, 54.25, 11.5, 40.5, 112.0, 80.0, 18.0]]);
    sound(graph(), cluster(), plan);
}

/// A norm, a product and a loss.
fn norm() -> Value {
    let mut linear = operator("linear", "linear", "forward", "linear", 10.0);
    linear["parameter_bytes"] = json!(8);
    json!({
        "schema": "stagewright.graph/2", "batch": {"samples": 1},
        "operators": [
            operator("x", "input", "forward", "x", 0.0),
            operator("norm", "RMS_Norm", "forward", "norm", 6.0),
            linear,
            operator("loss", "loss", "forward", "loss", 3.0),
            operator("loss.grad", "loss_grad", "backward", "loss", 5.0),
            operator("linear.grad", "linear_grad_input", "backward", "linear", 9.0),
            operator("norm.grad", "rms_norm_grad", "backward", "norm", 7.0),
        ],
        "tensors": [
            tensor("x", &["norm", "norm.grad"], 8.0),
            tensor("norm", &["linear", "linear.grad"], 8.0),
            tensor("linear", &["loss", "loss.grad"], 12.0),
            tensor("loss.grad", &["linear.grad"], 12.0),
            tensor("linear.grad", &["norm.grad"], 8.0),
        ],
    })
}

#[test]
fn norms_move_and_keep_more_and_run_in_full_without_sequence_parallelism() {
    let constants = |is_parallel: bool| {
        json!({"memory": 0.5, "passes": 3.0, "norms": 2.0, "loss": 1.5, "whole_loss": true,
               "sequence_parallel": is_parallel})
    };
    let with = |is_parallel: bool, configuration: &str, figures: [f64; 7]| {
        let plan = only(1, 2, &["tp", "recompute"], configuration, figures);
        sound(norm(), moving(), with(plan, constants(is_parallel)));
    };
    // A device moves half a byte in a second, the product half of 10 bytes, the loss half of 9 and the norm 36, half of
    // it with sequence parallelism; gathering its output takes 1 + 4 / 4. In the backward pass half of 15 and of 9, and 42.
    // Half of 8 + 8 + 12 bytes are kept, and half of 8 for the norm. The workspace is half of 20, 2 · 8 for the gathered
    // tensor, and 1.5 · 12 for the loss.
    with(true, "none", [1.0, 57.0 + 68.0, 57.0, 0.0, 4.0 + 18.0 + 44.0, 4.0, 18.0]);
    // The norm and its gradient take twice as long, and its output and what it keeps are there in full.
    with(false, "none", [1.0, 93.0 + 110.0, 93.0, 0.0, 4.0 + 26.0 + 44.0, 4.0, 26.0]);
    // The norm and the loss run again, 72 + 9; the output of the product is kept, and 20 bytes are recomputed.
    with(false, "selective", [1.0, 93.0 + 191.0, 93.0, 0.0, 4.0 + 6.0 + 64.0, 4.0, 6.0]);
    // The conversion runs again as well: 91 + 2.
    with(false, "full", [1.0, 93.0 + 203.0, 93.0, 0.0, 4.0 + 70.0, 4.0, 0.0]);
}

#[test]
fn kept_activations_may_take_more_than_their_tensors_but_not_what_is_recomputed() {
    let constants = |is_parallel: bool| {
        json!({"memory": 0.5, "passes": 3.0, "norms": 2.0, "loss": 1.5, "whole_loss": true,
               "sequence_parallel": is_parallel, "activations": 1.5})
    };
    let with = |is_parallel: bool, configuration: &str, figures: [f64; 7]| {
        let plan = only(1, 2, &["tp", "recompute"], configuration, figures);
        sound(norm(), moving(), with(plan, constants(is_parallel)));
    };
    // As in the test before, with half as many bytes again for the 18 and the 6 that are kept.
    with(true, "none", [1.0, 57.0 + 68.0, 57.0, 0.0, 4.0 + 27.0 + 44.0, 4.0, 27.0]);
    with(false, "selective", [1.0, 93.0 + 191.0, 93.0, 0.0, 4.0 + 9.0 + 64.0, 4.0, 9.0]);
}

#[test]
fn products_of_an_attention_run_at_a_rate_of_their_own() {
    let mut graph = attention();
    for operator in graph["operators"].as_array_mut().expect("operators") {
        operator["flop"] = operator["bytes_moved"].take();
    }
    for gradient in ["context.grad", "scores.grad"] {
        let operators = graph["operators"].as_array_mut().expect("operators");
        let found = operators.iter_mut().find(|operator| operator["name"] == gradient);
        found.expect("a gradient")["kind"] = json!("matmul_grad");
    }
    graph["operators"][3]["causal"] = json!(true);
    let mut cluster = cluster();
    cluster["classes"]["gpu"] = json!({
        "peak_flops": 1.0, "efficiency": 0.5, "training_efficiency": 0.25, "launch_overhead_s": 9.0,
    });
    // At 1 / 4 of the peak 10 + 20 / 0.5 / 2 + 16 / 0.5 / 2, and 20 again, and backward 22 / 0.5 / 2 and 14 / 0.5 / 2; at
    // half of it 3 forward, and 5 + 9 backward, which are no products of the attention.
    let plan = only(1, 1, &[], "none", [1.0, 190.0 + 252.0, 190.0, 0.0, 22.0, 8.0, 10.0]);
    sound(graph.clone(), cluster.clone(), with(plan, json!({"attention": 0.5})));
    // Without the mask, the products do twice as much.
    graph["operators"][3]["causal"] = json!(false);
    let plan = only(1, 1, &[], "none", [1.0, 334.0 + 476.0, 334.0, 0.0, 22.0, 8.0, 10.0]);
    sound(graph.clone(), cluster.clone(), with(plan, json!({"attention": 0.5})));
}

#[test]
fn a_separate_softmax_moves_and_keeps_its_scores() {
    let constants = json!({"fused_attention": false, "attention": 0.5, "scores": 3.0, "passes": 2.0});
    // Forward 10 + 20 + 12 · 3 + 16 + 3 · 2, backward 2 · (5 + 22 + 14 + 9) + 18 · 3. Kept are 2 + 4 + 6 + 4 bytes, and
    // 2 · 6 for the scores; the gradient of the softmax has a workspace of 12.
    let plan = only(1, 1, &[], "none", [1.0, 88.0 + 154.0, 88.0, 0.0, 48.0, 8.0, 28.0]);
    sound(attention(), moving(), with(plan, constants));
}

#[test]
fn weight_gradients_take_their_share_of_the_backward_pass() {
    let mut plan = with(zero_bubble(), json!({"host_s": 4.0}));
    // Every layer takes 4 forward and 8 backward, of which weight gradients are 0 of 1, 2 of 4 and 3 of 6 seconds.
    figures(
        &mut plan,
        59.0,
        &[[2.0, 27.0, 8.0, 2.0, 100.0, 80.0, 8.0], [2.0, 15.0, 7.0, 1.0, 82.0, 40.0, 28.0]],
    );
    (plan["stages"][0]["weight_s"], plan["stages"][1]["weight_s"]) = (json!(4.0), json!(4.0));
    // Stage 0: F –8, F –16, B 19–34, W –38, B –53, W –57; stage 1: F 8–15, B –19, F –26, B –30, W –34, W –38. Then 2.
    sound(schedules::three(), schedules::cluster(), plan);
}

#[test]
fn a_runtime_reserves_memory_on_kinds_that_state_none() {
    let used = |reserve: f64, change: fn(&mut Value)| {
        let (mut cluster, plan) = (cluster(), with(pipeline(), json!({"reserve_bytes": reserve})));
        change(&mut cluster["kinds"][0]);
        kinds(&check(graph(), cluster, plan).expect("documents")).contains(&"memory")
    };
    let unstated = |kind: &mut Value| kind["reserve_bytes"] = Value::Null;
    // The first stage needs 192 of 200 bytes.
    assert!(!used(8.0, unstated));
    assert!(used(9.0, unstated));
    assert!(used(300.0, unstated));
    assert!(!used(9.0, |_| {}));
}

#[test]
fn a_share_of_the_memory_is_a_margin() {
    let text = |constants: Value, change: fn(&mut Value)| {
        let (mut cluster, plan) = (cluster(), with(pipeline(), constants));
        change(&mut cluster["kinds"][0]);
        let report = check(graph(), cluster, plan).expect("documents");
        let mut texts =
            report.violations.iter().filter(|found| found.kind() == "memory").map(ToString::to_string);
        texts.next()
    };
    let unstated = |kind: &mut Value| kind["reserve_bytes"] = Value::Null;
    // The first stage needs 192 of 200 bytes, so 200 / 32 may be left free, but not 200 / 16.
    assert_eq!(text(json!({"margin": 0.03125}), unstated), None);
    let needs = |limit: &str| Some(format!("a device of stage 0 needs 192 B and has {limit}"));
    assert_eq!(text(json!({"margin": 0.0625}), unstated), needs("187.50 B"));
    // Reserved bytes come on top: 200 − 200 / 32 − 2.
    assert_eq!(text(json!({"margin": 0.03125, "reserve_bytes": 2.0}), unstated), needs("191.75 B"));
    // A kind that states its reserve has no margin.
    assert_eq!(text(json!({"margin": 0.0625}), |_| {}), None);
}

#[test]
fn transfers_between_many_servers_start_later() {
    let constants = |servers: u32| json!({"wide_transfer_s": 3.0, "wide_servers": servers});
    let checked = |count: u32, devices: u32, wide: u32, value: f64, stages: [[f64; 7]; 2]| {
        let mut cluster = cluster();
        cluster["kinds"][0]["count"] = json!(count);
        cluster["kinds"][0]["server"]["devices"] = json!(devices);
        let mut plan = with(pipeline(), constants(wide));
        figures(&mut plan, value, &stages);
        sound(graph(), cluster, plan);
    };
    // Without launches 4 and 3 forward, 8 and 5 backward. Between servers of one device a transfer takes 2 + 16 / 2.
    // Stage 0: F –4, F –8, B 22–40, B 40–58; stage 1: F 4–17, B –22, F –35, B –40. Then 4.
    let near = [[2.0, 22.0, 4.0, 4.0, 192.0, 160.0, 16.0], [1.0, 18.0, 13.0, 2.0, 156.0, 100.0, 28.0]];
    // Three seconds later: F 4–20, B –25, F –41, B –46 on stage 1; B 25–46, B 46–67 on stage 0. Then 4.
    let wide = [[2.0, 25.0, 4.0, 4.0, 192.0, 160.0, 16.0], [1.0, 21.0, 16.0, 2.0, 156.0, 100.0, 28.0]];
    checked(4, 1, 5, 62.0, near);
    checked(4, 1, 4, 71.0, wide);
    // A pipeline in a server of two devices transfers in 1 + 16 / 4, however many servers there are.
    // Stage 0: F –4, F –8, B 17–30, B 30–43; stage 1: F 4–12, B –17, F –25, B –30. Then 4.
    let inside = [[2.0, 17.0, 4.0, 4.0, 192.0, 160.0, 16.0], [1.0, 13.0, 8.0, 2.0, 156.0, 100.0, 28.0]];
    checked(4, 2, 2, 47.0, inside);
    // The servers of a kind are rounded up, and count even if the pipeline does not reach them.
    let rounded = |wide: u32, value: f64, seconds: [f64; 3]| {
        let mut cluster = cluster();
        cluster["kinds"][0]["count"] = json!(5);
        let mut plan = with(pipeline(), constants(wide));
        plan["objective"]["parallel"] = json!({"pp": null, "dp": null});
        plan["objective"]["global_batch"] = json!(4);
        plan["execution"]["data"] = json!(2);
        plan["stages"][0]["data"] = json!(2);
        plan["stages"][1]["data"] = json!(2);
        let [first, second, forward] = seconds;
        // Gradients are reduced in a server: 1 + 40 / 4 and 1 + 20 / 4, and updates take 4 and 2.
        let first = [2.0, first, 4.0, 15.0, 192.0, 160.0, 16.0];
        figures(&mut plan, value, &[first, [1.0, second, forward, 8.0, 156.0, 100.0, 28.0]]);
        sound(graph(), cluster, plan);
    };
    rounded(4, 73.0, [22.0, 18.0, 13.0]);
    rounded(3, 82.0, [25.0, 21.0, 16.0]);
}

#[test]
fn constants_of_a_runtime_have_ranges() {
    let checked = |name: &str, value: f64| {
        let plan = with(pipeline(), json!({name: value}));
        check(graph(), cluster(), plan).map(|_| ())
    };
    for name in ["attention", "passes", "memory", "link", "network", "norms", "scores"] {
        assert!(matches!(checked(name, 0.0), Err(CheckError::Figure { .. })), "{name}");
        assert!(checked(name, 1.0).is_ok(), "{name}");
    }
    for name in ["memory", "link", "network", "contention"] {
        assert!(matches!(checked(name, 1.5), Err(CheckError::Figure { .. })), "{name}");
    }
    for name in [
        "compute",
        "copies",
        "exchanges",
        "transfers",
        "tensor",
        "contention",
        "host_s",
        "pipeline_host_s",
        "iteration_s",
        "reduction",
        "gradients",
        "activations",
        "buckets",
        "loss",
        "reserve_bytes",
    ] {
        assert!(matches!(checked(name, -1.0), Err(CheckError::Figure { .. })), "{name}");
        assert!(checked(name, 0.0).is_ok(), "{name}");
    }
}
