//! Proofs of bounds that were computed by hand, and of layers that a proof relies on.

use serde_json::{Value, json};
use stagewright_verify::JointVerdict;

use super::{iteration, schedules};

#[test]
fn the_value_of_a_given_cut_is_proved() {
    let verdict = |graph: Value, mut plan: Value, cut: Value, bound: f64| {
        plan["objective"]["parallel"] = json!({"pp": 2});
        plan["objective"]["cut"] = cut;
        plan["objective"]["schedules"] = json!([plan["execution"]["schedule"]]);
        plan["objective"]["microbatch"] = json!(1);
        plan["bound"]["value_s"] = json!(bound);
        iteration::check(graph, schedules::cluster(), plan).expect("documents").bound
    };
    let interleaved =
        |cut: Value, bound: f64| verdict(schedules::four(), schedules::interleaved(), cut, bound);
    assert_eq!(interleaved(json!([1, 1, 1, 1]), 34.0), JointVerdict::Verified);
    assert_eq!(interleaved(Value::Null, 34.0), JointVerdict::NotVerified);
    let folded = |bound: f64| {
        let cut = json!([1, 1, 1, 1]);
        verdict(schedules::four(), schedules::dualpipe_v(), cut, bound)
    };
    assert_eq!(folded(49.0), JointVerdict::Verified);
    assert_eq!(folded(49.1), JointVerdict::Refuted);
    let zero_bubble =
        |cut: Value, bound: f64| verdict(schedules::three(), schedules::zero_bubble(), cut, bound);
    assert_eq!(zero_bubble(json!([2, 1]), 31.0), JointVerdict::Verified);
    // The other cut takes less.
    assert_eq!(zero_bubble(Value::Null, 31.0), JointVerdict::NotVerified);
    let twice = |bound: f64| verdict(schedules::three(), schedules::zero_bubble_2p(), json!([2, 1]), bound);
    assert_eq!(twice(40.0), JointVerdict::Verified);
    assert_eq!(twice(40.1), JointVerdict::Refuted);
}

/// The verdict on a bound stated with the pipeline of two layers and microbatches of one sample.
fn verdict(bound: f64, change: impl FnOnce(&mut Value)) -> JointVerdict {
    let mut plan = iteration::pipeline();
    plan["objective"]["microbatch"] = json!(1);
    plan["bound"]["value_s"] = json!(bound);
    change(&mut plan);
    iteration::check(iteration::graph(), iteration::cluster(), plan).expect("documents").bound
}

#[test]
fn a_bound_is_proved_up_to_what_was_computed_by_hand() {
    // The two layers do not fit on one device, so there is one plan. Its first stage takes 18 for a microbatch, waits
    // for the 15 of the other while it runs one forward pass of 4.5, and updates in 4.5: 36 + 10.5 + 4.5 = 51 of the
    // 52.5 seconds.
    assert_eq!(verdict(51.0, |_| {}), JointVerdict::Verified);
    assert_eq!(verdict(51.1, |_| {}), JointVerdict::NotVerified);
    assert_eq!(verdict(0.0, |_| {}), JointVerdict::Verified);
    assert_eq!(verdict(53.0, |_| {}), JointVerdict::Refuted);
    // A device that recomputes needs less memory, so both layers fit.
    let with = |plan: &mut Value| plan["objective"]["parallel"]["recompute"] = Value::Null;
    assert_eq!(verdict(51.0, with), JointVerdict::Verified);
}

#[test]
fn a_plan_that_breaks_a_rule_proves_nothing() {
    assert_eq!(verdict(1.0, |plan| plan["execution"]["zero"] = json!(1)), JointVerdict::NotVerified);
}

/// The verdict on the two layers with their paths renamed, in a plan of one stage with the given layers.
fn renamed(paths: [&str; 2], layers: &[&str], change: impl FnOnce(&mut Value, &mut Value)) -> JointVerdict {
    let text = iteration::graph().to_string();
    let text = text.replace("block.0", paths[0]).replace("block.1", paths[1]);
    let mut graph: Value = serde_json::from_str(&text).expect("a graph");
    let mut plan = iteration::split();
    let layers = layers.iter().map(|name| json!({"layer": name, "configuration": "none"}));
    plan["stages"][0]["layers"] = layers.collect();
    plan["bound"]["value_s"] = json!(1.0);
    change(&mut graph, &mut plan);
    iteration::check(graph, iteration::cluster(), plan).expect("documents").bound
}

#[test]
fn layers_of_a_proof_are_not_larger_than_those_of_the_graph() {
    use JointVerdict::{NotVerified, Verified};
    // A layer of both blocks would hide plans with a stage for each.
    let verdict = |paths, layers: &[&str]| renamed(paths, layers, |_, _| {});
    assert_eq!(verdict(["block.0", "block.1"], &["block.0", "block.1"]), Verified);
    assert_eq!(verdict(["block.0", "block.1"], &["block"]), NotVerified);
    // Numbers that directly follow the first belong to the layer; later numbers do not.
    assert_eq!(verdict(["s.0.0", "s.0.1"], &["s.0.0", "s.0.1"]), Verified);
    assert_eq!(verdict(["s.0.0", "s.0.1"], &["s.0"]), NotVerified);
    assert_eq!(verdict(["s.0.a.0", "s.0.a.1"], &["s.0"]), Verified);
    // A number takes precedence over a part that ends in one.
    assert_eq!(verdict(["block_0.a.0", "block_0.a.1"], &["block_0.a.0", "block_0.a.1"]), Verified);
    assert_eq!(verdict(["block_0.a.0", "block_0.a.1"], &["block_0"]), NotVerified);
    assert_eq!(verdict(["layer_0", "layer_1"], &["layer_0", "layer_1"]), Verified);
    // The rule does not cover numbers with leading zeros.
    assert_eq!(verdict(["block.00", "block.01"], &["block.00", "block.01"]), NotVerified);
}

#[test]
fn layers_of_a_proof_are_not_smaller_than_those_of_the_graph() {
    use JointVerdict::{NotVerified, Verified};
    // An operator without a number in its name would not be recomputed.
    let verdict = |paths, layers: &[&str]| renamed(paths, layers, |_, _| {});
    let finer = ["block.0.linear", "block.1.linear", "block.1.loss"];
    assert_eq!(verdict(["block.0", "block.1"], &finer), NotVerified);
    assert_eq!(verdict(["block.0", "block.1"], &["block.0", "block.1", "block.1.loss"]), NotVerified);
    assert_eq!(verdict(["block.0", "head"], &["block.0", "head"]), Verified);
    assert_eq!(verdict(["block.0", "head"], &["block.0", "head.linear", "head.loss"]), NotVerified);
    // Beside a stack, the parts of a module are layers.
    assert_eq!(verdict(["head.0", "head.a"], &["head.0", "head.a"]), Verified);
}

#[test]
fn layers_of_a_proof_follow_names_with_slashes() {
    use JointVerdict::{NotVerified, Verified};
    let verdict = |from: &str, to: &str| {
        renamed(["block.0", "block.1"], &["block.0", "block.1"], |graph, _| {
            for operator in graph["operators"].as_array_mut().expect("operators") {
                operator.as_object_mut().expect("an operator").remove("layer");
            }
            *graph = serde_json::from_str(&graph.to_string().replace(from, to)).expect("a graph");
        })
    };
    assert_eq!(verdict("block.0.linear", "/block/0/linear"), Verified);
    // The path may be `block.block.0` or `block.0`.
    assert_eq!(verdict("block.0.linear", "/block/block.0/linear"), NotVerified);
    assert_eq!(verdict("block.0.linear", "/other/0/linear"), NotVerified);
}

#[test]
fn inputs_of_the_model_are_where_they_are_read() {
    // The name would put the input with the second block, but it is placed with its reader, in the first.
    let verdict = |name: &str| {
        renamed(["block.0", "block.1"], &["block.0", "block.1"], |graph, _| {
            graph["operators"][0]["name"] = json!(name);
            graph["tensors"][0]["producer"] = json!(name);
        })
    };
    assert_eq!(verdict("block.0.x"), JointVerdict::Verified);
    assert_eq!(verdict("block.1.x"), JointVerdict::Verified);
}
