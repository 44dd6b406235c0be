//! Stages with devices of two kinds.

use serde_json::{Value, json};
use stagewright_verify::{CheckError, JointReport, JointVerdict, check_joint};

use super::iteration::{cluster, graph, stage};
use super::kinds;
use crate::documents::read;

/// Two servers of `acc`, and as many of `other`, which takes 1.25 seconds for a FLOP and none to launch a kernel.
fn two_kinds() -> Value {
    let mut cluster = cluster();
    cluster["classes"]["slow"] = json!({"peak_flops": 0.8});
    cluster["kinds"][0]["memory_bytes"] = json!(400.0);
    let mut other = cluster["kinds"][0].clone();
    other["name"] = json!("other");
    other["class"] = json!("slow");
    other["memory_bytes"] = json!(330.0);
    other["server"]["link"] = json!({"latency_s": 1.0, "bandwidth": 1.0});
    cluster["kinds"].as_array_mut().expect("kinds").push(other);
    cluster
}

/// Both layers on one stage of two copies, one on each kind, with a sample each: σ is 1/2.
fn halves() -> Value {
    // Forward 5 on the slow kind and 0.5 + 2 + 0.5 + 1 on the fast one, backward 10 and 1.25 + 5 on the slow one. The
    // copies reduce gradients over a link of latency 2 and bandwidth 1: 2 · (2 + 40 / 2) and 2 · (2 + 20 / 2); updates
    // take 5 and 2.5. States 160 + 100, activations 8 + 28, workspace 28.
    let layers = [["block.0", "none"], ["block.1", "none"]];
    let mut stage = stage(2, 1, [1.0, 25.25, 9.0, 75.5, 324.0, 260.0, 36.0], &layers);
    stage["kind"] = Value::Null;
    stage["mixed"] = json!({"acc": 1, "other": 1});
    let mut plan = super::plan("iteration", 2, &["tp", "dp", "pp", "mixed"], 100.75, json!([stage]));
    plan["execution"] = json!({"microbatch": 1, "microbatches": 1, "data": 2, "expert": 1, "zero": 0});
    plan
}

fn check(cluster: Value, plan: Value) -> Result<JointReport, CheckError> {
    check_joint(&read(graph()), &read(cluster), &read(plan))
}

#[test]
fn a_stage_on_two_kinds_takes_as_long_as_on_the_slower() {
    let report = check(two_kinds(), halves()).expect("documents");
    assert!(report.holds(), "{:?}", report.violations);
    assert_eq!(report.value_s, Some(100.75));
}

#[test]
fn memory_is_that_of_the_kind_with_less() {
    for kind in [0, 1] {
        let mut cluster = two_kinds();
        cluster["kinds"][kind]["memory_bytes"] = json!(320.0);
        assert_eq!(kinds(&check(cluster, halves()).expect("documents")), ["memory"]);
    }
}

#[test]
fn copies_are_on_two_kinds_that_have_devices_for_them() {
    let found = |change: fn(&mut Value, &mut Value)| {
        let (mut cluster, mut plan) = (two_kinds(), halves());
        change(&mut cluster, &mut plan);
        let report = check(cluster, plan).expect("documents");
        kinds(&report)
    };
    // A copy of two devices, one on each kind.
    assert_eq!(
        found(|_, plan| {
            plan["stages"][0]["tensor"] = json!(2);
            plan["stages"][0]["data"] = json!(1);
            plan["execution"]["data"] = json!(1);
        }),
        ["degree"]
    );
    // A tensor-parallel group that is no part of a server of the second kind.
    assert_eq!(
        found(|cluster, plan| {
            cluster["kinds"][1]["server"]["devices"] = json!(1);
            plan["stages"][0]["tensor"] = json!(2);
        }),
        ["degree"]
    );
    for copies in [json!({"acc": 2, "other": 1}), json!({"acc": 2, "other": 0})] {
        let mut plan = halves();
        plan["stages"][0]["mixed"] = copies;
        assert_eq!(kinds(&check(two_kinds(), plan).expect("documents")), ["degree"]);
    }
    assert_eq!(found(|_, plan| plan["stages"][0]["mixed"] = json!({"acc": 2})), ["stages"]);
    assert_eq!(found(|_, plan| plan["stages"][0]["mixed"] = json!({"acc": 1, "third": 1})), ["kind"]);
    assert_eq!(found(|_, plan| plan["stages"][0]["kind"] = json!("acc")), ["stages"]);
    assert_eq!(
        found(|_, plan| {
            plan["objective"]["parallel"].as_object_mut().expect("parallelism").remove("mixed");
        }),
        ["stages"]
    );
    // Two stages on both kinds, each of which has devices for one copy.
    let devices = |cluster: &mut Value, plan: &mut Value| {
        cluster["kinds"][0]["count"] = json!(1);
        cluster["kinds"][0]["server"] = Value::Null;
        let layers = plan["stages"][0]["layers"].clone();
        let mut second = plan["stages"][0].clone();
        plan["stages"][0]["layers"] = json!([layers[0]]);
        second["layers"] = json!([layers[1]]);
        plan["stages"].as_array_mut().expect("stages").push(second);
    };
    assert_eq!(found(devices), ["devices"]);
}

#[test]
fn an_interleaved_pipeline_has_no_stage_on_two_kinds() {
    let mut plan = halves();
    plan["objective"]["schedules"] = json!(["interleaved"]);
    plan["execution"]["schedule"] = json!("interleaved");
    plan["execution"]["chunks"] = json!(2);
    let stage = plan["stages"][0].clone();
    plan["stages"] = json!([stage, stage, stage, stage]);
    assert!(kinds(&check(two_kinds(), plan).expect("documents")).contains(&"stages"));
}

#[test]
fn mixed_needs_two_kinds_and_has_no_degree() {
    let error = check(cluster(), halves()).expect_err("one kind");
    assert!(matches!(error, CheckError::Rule { rule: "mixed", .. }), "{error}");
    let mut plan = halves();
    plan["objective"]["parallel"]["mixed"] = json!(2);
    let error = check(two_kinds(), plan).expect_err("a degree");
    assert!(matches!(error, CheckError::Figure { .. }), "{error}");
}

#[test]
fn a_bound_counts_stages_on_two_kinds() {
    // Two copies of two layers need a device of either kind.
    let bounded = |bound: f64| {
        let (mut cluster, mut plan) = (two_kinds(), halves());
        for kind in [0, 1] {
            cluster["kinds"][kind]["count"] = json!(1);
            cluster["kinds"][kind]["server"]["devices"] = json!(1);
        }
        plan["objective"]["parallel"] = json!({"dp": 2, "mixed": null});
        plan["bound"]["value_s"] = json!(bound);
        plan["gap"] = json!(1.0 - bound / 100.75);
        check(cluster, plan).expect("documents")
    };
    for bound in [50.0, 100.75] {
        let report = bounded(bound);
        assert!(report.holds(), "{:?}", report.violations);
        assert_eq!(report.bound, JointVerdict::Verified);
    }
    assert_eq!(bounded(101.0).bound, JointVerdict::Refuted);
}
