//! Piper files: two layers on four devices; the first layer is faster on two devices.

use serde_json::{Value, json};
use stagewright_verify::{CheckError, JointReport, JointVerdict, check_joint_layers};

use super::kinds;
use crate::documents::read;

pub(super) fn file() -> Value {
    let configuration = |id: &str, time: f64, parameters: f64, a: f64, b: f64| json!({"id": id, "timePerSample": time, "parameterSize": parameters, "memoryUsageA": a, "memoryUsageB": b});
    let mut split = configuration("vanilla", 2.0, 20.0, 5.0, 25.0);
    split["syncTimeBw"] = json!({"1": 30.0});
    json!({
        "maxDevices": 4, "maxMemoryPerDevice": 100.0, "bandwidth": 10.0,
        "nodes": [
            {"id": 0, "name": "a", "TMPCs": {
                "1": [configuration("vanilla", 4.0, 40.0, 10.0, 50.0),
                      configuration("activation recomp", 6.0, 40.0, 2.0, 60.0)],
                "2": [split]}},
            {"id": 1, "TMPCs": {
                "1": [configuration("", 3.0, 20.0, 8.0, 30.0), configuration("", 4.0, 20.0, 1.0, 35.0)]}},
        ],
        "edges": [{"sourceId": 0, "destId": 1, "communicationCost": 100.0}],
    })
}

fn stage(data: u32, tensor: u32, figures: [f64; 3], layers: &[[&str; 2]]) -> Value {
    let layers: Vec<Value> = layers
        .iter()
        .map(|[layer, configuration]| json!({"layer": layer, "configuration": configuration}))
        .collect();
    let [in_flight, seconds, memory] = figures;
    json!({"data": data, "tensor": tensor, "in_flight": in_flight as u32, "seconds": seconds,
           "memory_bytes": memory, "layers": layers})
}

/// The first layer on two devices, the second on two copies. The edge moves 100 bytes in each pass.
pub(super) fn two_stages() -> Value {
    // 2 + 2 · (100 + 30) / 10, and 5 · ⌈3 / 1⌉ + 25.
    let first = stage(1, 2, [3.0, 28.0, 40.0], &[["a", "vanilla"]]);
    // (3 + 2 · 100 / 10) / 2 + 4 · 1 / 2 · 20 / 4 / 10, and 8 · ⌈2 / 2⌉ + 30.
    let second = stage(2, 1, [1.0, 12.5, 38.0], &[["node1", "#0"]]);
    super::plan("time-per-sample", 4, &["tp", "dp", "pp"], 28.0, json!([first, second]))
}

fn check(file: Value, plan: Value) -> Result<JointReport, CheckError> {
    check_joint_layers(&read(file), &read(plan))
}

fn broken(change: impl FnOnce(&mut Value, &mut Value)) -> Vec<&'static str> {
    let (mut file, mut plan) = (file(), two_stages());
    change(&mut file, &mut plan);
    kinds(&check(file, plan).expect("the documents describe a problem"))
}

#[test]
fn two_stages_take_what_was_computed_by_hand() {
    let report = check(file(), two_stages()).expect("documents");
    assert!(report.holds(), "{:?}", report.violations);
    assert_eq!(report.value_s, Some(28.0));
    assert_eq!(report.bound, JointVerdict::NoClaim);
    assert_eq!(report.stages[1].seconds, 12.5);
}

#[test]
fn workspace_is_the_largest_or_the_sum() {
    // 2 + 50 and 1 + 30, and the larger of 10 and 5.
    let layers = [["a", "activation recomp"], ["node1", "#1"]];
    let mut plan = super::plan(
        "time-per-sample",
        4,
        &["recompute"],
        10.0,
        json!([stage(1, 1, [1.0, 10.0, 93.0], &layers)]),
    );
    assert!(check(file(), plan.clone()).expect("documents").holds());
    plan["objective"]["recompute_workspace"] = json!("sum");
    plan["stages"][0]["memory_bytes"] = json!(98.0);
    assert!(check(file(), plan.clone()).expect("documents").holds());
    plan["objective"]["parallel"] = json!({});
    assert_eq!(kinds(&check(file(), plan).expect("documents")), ["configuration"]);
}

#[test]
fn a_cluster_replaces_the_devices_of_the_file() {
    let mut plan = two_stages();
    plan["cluster"] = json!({"schema": "stagewright.cluster/1", "kinds": [
        {"name": "acc", "class": "acc", "count": 4, "memory_bytes": 45.0, "reserve_bytes": 4.0,
         "link": {"bandwidth": 10.0}}]});
    assert!(check(file(), plan.clone()).expect("documents").holds());
    plan["cluster"]["kinds"][0]["reserve_bytes"] = json!(6.0);
    assert_eq!(kinds(&check(file(), plan.clone()).expect("documents")), ["memory"]);
    plan["cluster"]["kinds"] = json!([]);
    assert_eq!(check(file(), plan).expect_err("no kind").code(), "V:rule");
}

#[test]
fn broken_plans_are_named() {
    assert_eq!(broken(|_, plan| plan["stages"][0]["seconds"] = json!(27.0)), ["figure"]);
    assert_eq!(broken(|_, plan| plan["stages"][0]["in_flight"] = json!(2)), ["figure"]);
    assert_eq!(broken(|_, plan| plan["objective"]["value_s"] = json!(27.0)), ["figure"]);
    assert_eq!(
        broken(|_, plan| plan["objective"]["parallel"] = json!({"tp": 2, "dp": null, "pp": 2})),
        ["degree"]
    );
    assert_eq!(broken(|_, plan| plan["objective"]["parallel"] = json!({"tp": null, "dp": null})), ["degree"]);
    assert_eq!(broken(|_, plan| plan["stages"][1]["data"] = json!(0)), ["degree"]);
    assert_eq!(broken(|file, _| file["maxDevices"] = json!(3)), ["devices"]);
    assert_eq!(broken(|file, _| file["maxMemoryPerDevice"] = json!(39.0)), ["memory"]);
    assert_eq!(broken(|_, plan| plan["stages"][1]["layers"] = json!([])), ["layer", "stages"]);
    assert_eq!(broken(|_, plan| plan["stages"][0]["tensor"] = json!(4)), ["configuration"]);
    assert_eq!(
        broken(|file, _| file["edges"][0] = json!({"sourceId": 1, "destId": 0, "communicationCost": 0})),
        ["figure", "order"]
    );
    assert_eq!(broken(|_, plan| plan["status"] = json!("optimal")), ["status"]);
    assert_eq!(broken(|_, plan| plan["bound"]["value_s"] = json!(14.0)), ["figure"]);
    let above = |plan: &mut Value| {
        plan["bound"]["value_s"] = json!(29.0);
        plan["gap"] = json!(0.0);
    };
    assert_eq!(broken(|_, plan| above(plan)), ["bound"]);
    assert_eq!(broken(|_, plan| plan["status"] = json!("infeasible")), ["status"]);
}

#[test]
fn a_plan_without_stages_is_no_plan() {
    let mut plan = super::plan("time-per-sample", 4, &[], 0.0, json!([]));
    plan["objective"]["value_s"] = Value::Null;
    plan["status"] = json!("infeasible");
    assert!(check(file(), plan.clone()).expect("documents").holds());
    plan["status"] = json!("feasible");
    assert_eq!(kinds(&check(file(), plan).expect("documents")), ["degree", "layer", "status"]);
}

#[test]
fn invalid_documents_are_errors() {
    let error = |change: fn(&mut Value, &mut Value)| {
        let (mut file, mut plan) = (file(), two_stages());
        change(&mut file, &mut plan);
        check(file, plan).expect_err("documents that describe no problem").code().name
    };
    assert_eq!(error(|_, plan| plan["schema"] = json!("")), "V:schema");
    assert_eq!(error(|_, plan| plan["options"] = Value::Null), "V:rule");
    assert_eq!(error(|_, plan| plan["objective"]["kind"] = json!("iteration")), "V:rule");
    assert_eq!(error(|_, plan| plan["objective"]["global_batch"] = json!(0)), "V:figure");
    assert_eq!(error(|file, _| file["bandwidth"] = json!(0.0)), "V:figure");
    assert_eq!(error(|file, _| file["nodes"][1]["id"] = json!(0)), "V:duplicate");
    assert_eq!(error(|file, _| file["edges"][0]["destId"] = json!(7)), "V:unknown-name");
    assert_eq!(error(|file, _| file["edges"][0]["destId"] = json!(0)), "V:cycle");
}
