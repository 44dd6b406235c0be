//! Schedules other than 1F1B, on a chain of products.
//!
//! A device moves one byte in a second, the graph has one sample, and a transfer takes 1 + bytes / 4 seconds.

use serde_json::{Value, json};
use stagewright_verify::JointReport;

use super::iteration::{self, check, stage};
use super::kinds;

/// A chain of products, one for each row and in a layer of its own, with a loss in the last layer. A row has the
/// seconds of the product, of its input gradient and of its weight gradient, and the bytes of its output. Every product
/// has 10 bytes of parameters, 20 of the optimizer, and an update of one second.
pub(super) fn graph(rows: &[[f64; 4]]) -> Value {
    let operator = |name: String, kind: &str, pass: &str, layer: usize, moved: f64| {
        json!({"name": name, "kind": kind, "pass": pass, "layer": format!("block.{layer}"),
               "colocation": format!("block.{layer}"), "bytes_moved": moved})
    };
    let tensor = |producer: String, consumers: Vec<String>, bytes: f64| json!({"producer": producer, "consumers": consumers, "bytes": bytes});
    let named = |layer: usize, what: &str| format!("block.{layer}.{what}");
    let last = rows.len() - 1;
    let (mut operators, mut tensors) = (Vec::new(), Vec::new());
    for (layer, &[product, gradient, weight, bytes]) in rows.iter().enumerate() {
        let mut linear = operator(named(layer, "linear"), "linear", "forward", layer, product);
        linear["parameter_bytes"] = json!(10);
        let mut update = operator(named(layer, "update"), "adam", "update", layer, 1.0);
        update["optimizer_bytes"] = json!(20);
        operators.extend([linear, operator(named(layer, "weight"), "", "backward", layer, weight), update]);
        tensors.push(tensor(named(layer, "weight"), vec![named(layer, "update")], 10.0));
        let readers = match layer == last {
            true => ["loss", "loss.grad"].map(str::to_owned),
            false => [named(layer + 1, "linear"), named(layer + 1, "weight")],
        };
        tensors.push(tensor(named(layer, "linear"), readers.to_vec(), bytes));
        // The first product has no input gradient.
        let mut readers = vec![named(layer, "weight")];
        if layer > 0 {
            operators.push(operator(named(layer, "grad"), "", "backward", layer, gradient));
            readers.push(named(layer, "grad"));
        }
        let from = if layer == last { "loss.grad".to_owned() } else { named(layer + 1, "grad") };
        tensors.push(tensor(from, readers, bytes));
    }
    operators.push(operator("loss".into(), "loss", "forward", last, 1.0));
    operators.push(operator("loss.grad".into(), "", "backward", last, 1.0));
    json!({"schema": "stagewright.graph/2", "batch": {"samples": 1}, "operators": operators, "tensors": tensors})
}

/// Two servers of two devices.
pub(super) fn cluster() -> Value {
    let mut cluster = iteration::cluster();
    cluster["classes"]["gpu"] = json!({"memory_bandwidth": 1.0});
    cluster
}

fn plan(schedule: &str, chunks: u32, value: f64, stages: Value) -> Value {
    let mut plan = super::plan("iteration", 2, &["pp", "recompute"], value, stages);
    plan["objective"]["schedules"] = json!([schedule, "1f1b"]);
    plan["execution"] = json!({"microbatch": 1, "microbatches": 2, "data": 1, "expert": 1, "zero": 0,
                               "schedule": schedule, "chunks": chunks});
    plan
}

/// Three products, of which the last is in a stage of its own.
pub(super) fn three() -> Value {
    graph(&[[1.0, 0.0, 1.0, 4.0], [2.0, 2.0, 2.0, 8.0], [2.0, 2.0, 3.0, 6.0]])
}

/// Two stages, two microbatches.
pub(super) fn zero_bubble() -> Value {
    // Forward 1 + 2, backward 2 + 1 and a transfer of 1 + 8 / 4, since the first product has a weight gradient but no
    // input gradient. States 80, activations 2 · 4, workspace 8 + 4.
    let layers = [["block.0", "none"], ["block.1", "none"]];
    let mut first = stage(1, 1, [2.0, 11.0, 3.0, 2.0, 100.0, 80.0, 8.0], &layers);
    first["weight_s"] = json!(2.0);
    // Forward 2 + 1 and the transfer, backward 1 + 2. States 40, activations 2 · (8 + 6), workspace 6 + 8.
    let mut second = stage(1, 1, [2.0, 12.0, 6.0, 1.0, 82.0, 40.0, 28.0], &[["block.2", "none"]]);
    second["weight_s"] = json!(3.0);
    // Stage 0: F 0–3, F –6, B 12–18, W –20, B 21–27, W –29; stage 1: F 3–9, B –12, F –18, B –21, W –24, W –27. Then 2.
    plan("zero-bubble", 1, 31.0, json!([first, second]))
}

/// Two stages, three microbatches.
pub(super) fn zero_bubble_2p() -> Value {
    // Times as under zero-bubble. Three microbatches are kept on both stages.
    let layers = [["block.0", "none"], ["block.1", "none"]];
    let mut first = stage(1, 1, [3.0, 11.0, 3.0, 2.0, 104.0, 80.0, 12.0], &layers);
    first["weight_s"] = json!(2.0);
    let mut second = stage(1, 1, [3.0, 12.0, 6.0, 1.0, 96.0, 40.0, 42.0], &[["block.2", "none"]]);
    second["weight_s"] = json!(3.0);
    // Stage 0: F 0–3, F –6, F –9, B 12–18, W –20, B 21–27, W –29, B 30–36, W –38, update –40; stage 1: F 3–9, B –12,
    // F –18, B –21, F –27, B –30, W –33, W –36, W –39, update –40, after 37 seconds.
    let mut plan = plan("zero-bubble-2p", 1, 40.0, json!([first, second]));
    (plan["execution"]["microbatches"], plan["objective"]["global_batch"]) = (json!(3), json!(3));
    plan
}

/// Four stages on two devices, two microbatches.
pub(super) fn interleaved() -> Value {
    let one_layer =
        |layer: usize, figures: [f64; 7]| stage(1, 1, figures, &[[&format!("block.{layer}"), "none"]]);
    // A transfer takes 2. States 40 for each stage, activations 0, 4, 4 and 8, workspaces 4, 8, 8 and 8.
    // Device 0 keeps two microbatches of both stages, device 1 two of the first and one of the second.
    plan(
        "interleaved",
        2,
        34.0,
        json!([
            one_layer(0, [2.0, 4.0, 1.0, 1.0, 96.0, 40.0, 0.0]),
            one_layer(1, [2.0, 7.0, 3.0, 1.0, 104.0, 40.0, 8.0]),
            one_layer(2, [2.0, 7.0, 3.0, 1.0, 96.0, 40.0, 8.0]),
            one_layer(3, [1.0, 7.0, 4.0, 1.0, 104.0, 40.0, 8.0]),
        ]),
    )
    // Device 0: F0 0–1, F0 –2, F2 4–7, F2 –10, B2 14–18, B2 21–25, B0 –28, B0 29–32;
    // device 1: F1 1–4, F1 –7, F3 –11, B3 –14, F3 –18, B3 –21, B1 –25, B1 –29. Then 2.
}

/// Four stages on two devices, the middle ones on the last, four microbatches.
pub(super) fn dualpipe_v() -> Value {
    let one_layer = |layer: u8, figures: [f64; 7]| {
        let mut stage = stage(1, 1, figures, &[[&format!("block.{layer}"), "none"]]);
        stage["weight_s"] = json!(f64::from(layer > 0));
        stage
    };
    // As interleaved, but nothing is transferred between the stages 1 and 2. The first product has no input gradient,
    // and so no weight gradient apart from it. Device 0 keeps four microbatches of its first stage and one of its
    // second, 8 bytes, and works on both, 4 + 8; device 1 three and two, 20, and 8 + 8.
    let mut plan = plan(
        "dualpipe-v",
        2,
        49.0,
        json!([
            one_layer(0, [4.0, 4.0, 1.0, 1.0, 100.0, 40.0, 0.0]),
            one_layer(1, [3.0, 5.0, 3.0, 1.0, 116.0, 40.0, 12.0]),
            one_layer(2, [2.0, 5.0, 1.0, 1.0, 116.0, 40.0, 8.0]),
            one_layer(3, [1.0, 7.0, 4.0, 1.0, 100.0, 40.0, 8.0]),
        ]),
    );
    (plan["execution"]["microbatches"], plan["objective"]["global_batch"]) = (json!(4), json!(4));
    plan
    // Passes in brackets send their results together.
    // Device 0: F0 0–1, F0 –2, F0 –3, F3 5–9, B3 –11, W3 –12, F3 –16, [F0 –17, B3 –19, W3 –20], [F3 –24, B0 –27], [B3 –29, W3 –30],
    // [F3 –34, B0 –37], [B3 –39, W3 –40], B0 –43, B0 44–47;
    // device 1: F1 1–4, F2 –5, F1 –8, F2 –9, F1 –12, [B2 –15, W2 –16], [F2 –17, B1 –18, W1 –19], [F1 20–23, B2 –26, W2 –27],
    // [F2 –28, B1 –29, W1 –30], [B2 –33, W2 –34], [B1 –35, W1 –36], B2 40–43, B1 –44, W2 –45, W1 –46. Then 2.
}

/// Four equal products.
pub(super) fn four() -> Value {
    graph(&[[1.0, 1.0, 1.0, 4.0]; 4])
}

#[test]
fn chunks_and_a_cut_that_are_given_are_those_of_the_plan() {
    let found = |graph: Value, mut plan: Value, name: &str, given: Value| {
        plan["objective"][name] = given;
        let report = check(graph, cluster(), plan).expect("documents");
        report.violations.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(found(four(), interleaved(), "chunks", json!(2)).is_empty());
    assert_eq!(found(four(), interleaved(), "chunks", json!(3)), ["chunks is 2, but must be 3, as given"]);
    // Other schedules have no chunks.
    assert!(found(three(), zero_bubble(), "chunks", json!(3)).is_empty());

    assert!(found(four(), interleaved(), "cut", json!([1, 1, 1, 1])).is_empty());
    assert!(found(three(), zero_bubble(), "cut", json!([2, 1])).is_empty());
    assert_eq!(
        found(three(), zero_bubble(), "cut", json!([1, 2])),
        ["stage 0 has layers that the given cut has elsewhere"]
    );
    for cut in [json!([]), json!([3]), json!([2, 1, 0])] {
        let needs =
            format!("stages is 2, but must be {}, as in the given cut", cut.as_array().expect("a cut").len());
        assert_eq!(found(three(), zero_bubble(), "cut", cut), [needs]);
    }
    for cut in [json!([2, 2]), json!([3, 0]), json!([0, 3]), json!([u32::MAX, u32::MAX])] {
        assert_eq!(found(three(), zero_bubble(), "cut", cut), ["the layers cannot be cut as given"]);
    }
}

fn sound(graph: Value, plan: Value) {
    let report = check(graph, cluster(), plan).expect("documents");
    assert!(report.holds(), "{:?}\n{:?}", report.violations, report.stages);
}

fn report(graph: Value, plan: Value, change: impl FnOnce(&mut Value)) -> JointReport {
    let mut plan = plan;
    change(&mut plan);
    check(graph, cluster(), plan).expect("the documents describe a problem")
}

#[test]
fn zero_bubble_takes_what_was_computed_by_hand() {
    sound(three(), zero_bubble());
}

#[test]
fn zero_bubble_2p_takes_what_was_computed_by_hand() {
    sound(three(), zero_bubble_2p());
    let mut slow = zero_bubble_2p();
    let stage = &mut slow["stages"][1];
    stage["layers"][0]["configuration"] = json!("full");
    // As under zero-bubble: the input of 8 is kept for one microbatch.
    (stage["seconds"], stage["weight_s"]) = (json!(15.0), Value::Null);
    (stage["memory_bytes"], stage["activation_bytes"]) = (json!(68.0), json!(8.0));
    // Stage 0: F 0–3, F –6, F –9, B 18–24, W –26, B 33–39, W –41, B 48–54, W –56. Then 2.
    slow["objective"]["value_s"] = json!(58.0);
    sound(three(), slow);
    let chunks = |plan: &mut Value| plan["execution"]["chunks"] = json!(2);
    assert_eq!(kinds(&report(three(), zero_bubble_2p(), chunks)), ["degree"]);
}

#[test]
fn recomputed_layers_have_no_weight_gradients_apart() {
    let mut plan = zero_bubble();
    let stage = &mut plan["stages"][1];
    stage["layers"][0]["configuration"] = json!("full");
    // Backward 3 + 3 and the forward pass of 3 again; the input of 8 is kept for one microbatch, and 6 are recomputed.
    (stage["seconds"], stage["weight_s"]) = (json!(15.0), Value::Null);
    (stage["memory_bytes"], stage["activation_bytes"]) = (json!(68.0), json!(8.0));
    // Stage 0: F 0–3, F –6, B 18–24, W –26, B 33–39, W –41; stage 1: F 3–9, B –18, F –24, B –33. Then 2.
    plan["objective"]["value_s"] = json!(43.0);
    sound(three(), plan);
}

#[test]
fn interleaved_stages_take_what_was_computed_by_hand() {
    sound(four(), interleaved());
}

#[test]
fn dualpipe_v_takes_what_was_computed_by_hand() {
    sound(four(), dualpipe_v());
    let broken = |change: fn(&mut Value)| kinds(&report(four(), dualpipe_v(), change));
    for chunks in [0, 1, 3, 4, u32::MAX] {
        let found = kinds(&report(four(), dualpipe_v(), |plan| plan["execution"]["chunks"] = json!(chunks)));
        assert!(found.contains(&"degree"), "{chunks}: {found:?}");
    }
    assert_eq!(broken(|plan| plan["objective"]["parallel"]["pp"] = json!(2)), [""; 0]);
    assert_eq!(broken(|plan| plan["objective"]["parallel"]["pp"] = json!(4)), ["degree"]);
    let three = |plan: &mut Value| {
        (plan["execution"]["microbatches"], plan["objective"]["global_batch"]) = (json!(3), json!(3));
    };
    assert_eq!(broken(three), ["degree"]);
    // Three stages are on two devices, and two on one.
    for stages in [3, 2] {
        let mut plan = dualpipe_v();
        let list = plan["stages"].as_array_mut().expect("stages");
        let rest = list.split_off(stages);
        let layers = rest
            .into_iter()
            .flat_map(|mut stage| stage["layers"].as_array_mut().expect("layers").split_off(0));
        let layers: Vec<Value> = layers.collect();
        list[stages - 1]["layers"].as_array_mut().expect("layers").extend(layers);
        assert!(kinds(&report(four(), plan, |_| ())).contains(&"degree"), "{stages}");
    }
}

#[test]
fn a_missing_time_of_weight_gradients_is_none() {
    let without = |plan: &mut Value| plan["stages"][0]["weight_s"] = Value::Null;
    assert_eq!(kinds(&report(three(), zero_bubble(), without)), ["figure"]);
    let with = |plan: &mut Value| plan["stages"][0]["weight_s"] = json!(1.0);
    assert_eq!(kinds(&report(four(), interleaved(), with)), ["figure"]);
}

#[test]
fn schedules_must_be_asked_for() {
    let broken = |schedules: Value, schedule: &str| {
        kinds(&report(three(), zero_bubble(), |plan| {
            plan["objective"]["schedules"] = schedules;
            plan["execution"]["schedule"] = json!(schedule);
        }))
    };
    assert_eq!(broken(json!(["1f1b", "interleaved"]), "zero-bubble"), ["schedule"]);
    assert_eq!(broken(json!([]), "zero-bubble"), ["schedule"]);
    assert_eq!(broken(json!(["gpipe"]), "gpipe"), ["schedule"]);
    assert_eq!(broken(json!(["none"]), "none"), ["schedule"]);
    // A different allowed schedule takes a different time.
    assert_eq!(broken(json!(["1f1b"]), "1f1b"), ["figure"]);
}

#[test]
fn chunks_are_of_interleaved_pipelines() {
    let broken = |change: fn(&mut Value)| kinds(&report(four(), interleaved(), change));
    assert_eq!(broken(|plan| plan["execution"]["chunks"] = json!(1)), ["degree"]);
    assert_eq!(broken(|plan| plan["execution"]["chunks"] = json!(3)), ["degree"]);
    assert_eq!(broken(|plan| plan["execution"]["chunks"] = json!(4)), ["degree"]);
    assert_eq!(broken(|plan| plan["execution"]["schedule"] = json!("1f1b")), ["degree"]);
    assert_eq!(broken(|plan| plan["objective"]["parallel"]["pp"] = json!(4)), ["degree"]);
    assert_eq!(broken(|plan| plan["objective"]["parallel"]["pp"] = json!(2)), [""; 0]);
    // Three microbatches for two devices.
    let three = |plan: &mut Value| {
        plan["execution"]["microbatches"] = json!(3);
        plan["objective"]["global_batch"] = json!(3);
    };
    assert_eq!(broken(three), ["degree"]);
    let chunks = |plan: &mut Value| plan["execution"]["chunks"] = json!(2);
    assert_eq!(kinds(&report(self::three(), zero_bubble(), chunks)), ["degree"]);
}

#[test]
fn devices_count_once() {
    let with = |change: fn(&mut Value)| {
        let mut cluster = cluster();
        change(&mut cluster["kinds"][0]);
        kinds(&check(four(), cluster, interleaved()).expect("the documents describe a problem"))
    };
    assert_eq!(with(|kind| kind["count"] = json!(2)), [""; 0]);
    assert_eq!(with(|kind| kind["count"] = json!(1)), ["devices"]);
    // The two devices of a server; 100 bytes of memory suffice for only one of them.
    let report = |memory: f64| {
        let mut cluster = cluster();
        cluster["kinds"][0]["memory_bytes"] = json!(memory);
        check(four(), cluster, interleaved()).expect("the documents describe a problem").violations.len()
    };
    assert_eq!([report(110.0), report(100.0), report(90.0)], [0, 1, 2]);
}

#[test]
fn interleaved_stages_are_on_one_kind() {
    let mut cluster = cluster();
    let mut other = cluster["kinds"][0].clone();
    other["name"] = json!("other");
    cluster["kinds"].as_array_mut().expect("kinds").push(other);
    let mut plan = interleaved();
    for index in [1, 3] {
        plan["stages"][index]["kind"] = json!("other");
    }
    assert_eq!(kinds(&check(four(), cluster, plan).expect("documents")), ["stages"]);
}
