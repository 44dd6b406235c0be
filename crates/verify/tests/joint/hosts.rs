//! States of the optimizer and activations on the host, with figures computed by hand.

use serde_json::{Value, json};
use stagewright_core::document::{ClusterDocument, RamDocument};
use stagewright_verify::{JointReport, JointVerdict, check_joint, check_joint_layers};

use super::iteration::{self, check, pipeline, split, stage};
use super::parts::{grouped, moving};
use super::runtimes::runtime;
use super::{kinds, layers, schedules, shards};
use crate::documents::read;

/// The two products and the loss; the updates of 4 and 2 FLOP also move 16 and 8 bytes.
pub(super) fn graph() -> Value {
    let mut graph = iteration::graph();
    for (update, moved) in [("block.0.linear.update", 16), ("block.1.linear.update", 8)] {
        operator(&mut graph, update)["bytes_moved"] = json!(moved);
    }
    graph
}

fn operator<'g>(graph: &'g mut Value, name: &str) -> &'g mut Value {
    let operators = graph["operators"].as_array_mut().expect("operators");
    operators.iter_mut().find(|operator| operator["name"] == name).expect("an operator")
}

/// A cluster whose kinds have hosts. Devices move bytes in almost no time.
fn with_hosts(mut cluster: Value, ram: &Value) -> Value {
    if cluster["classes"]["gpu"]["memory_bandwidth"].is_null() {
        cluster["classes"]["gpu"]["memory_bandwidth"] = json!(1e6);
    }
    for kind in cluster["kinds"].as_array_mut().expect("kinds") {
        kind["ram"] = ram.clone();
    }
    cluster
}

/// Two servers of two devices; for a device, a host updates 8 bytes in a second and sends and receives 10.
pub(super) fn cluster() -> Value {
    with_hosts(iteration::cluster(), &json!({"bandwidth": 8.0, "link_bandwidth": 10.0}))
}

/// Puts the states of a plan on the host. The figures of a stage are its update seconds, memory, states and bytes on the
/// host; the value is later by `later`.
fn on_host(mut plan: Value, later: f64, figures: &[[f64; 4]]) -> Value {
    plan["objective"]["parallel"]["offload"] = Value::Null;
    plan["execution"]["offload"] = json!(true);
    let value = plan["objective"]["value_s"].as_f64().expect("a value");
    plan["objective"]["value_s"] = json!(value + later);
    for (stage, figures) in plan["stages"].as_array_mut().expect("stages").iter_mut().zip(figures) {
        for (name, figure) in ["update_s", "memory_bytes", "state_bytes", "host_bytes"].iter().zip(figures) {
            stage[name] = json!(figure);
        }
    }
    plan
}

/// The pipeline with its states on the host.
pub(super) fn far() -> Value {
    // Updates move 16 and 8 bytes; gradients of 40 and 20 bytes go to the host, as many bytes of parameters come back:
    // 16 / 8 + 40 / 10 + 40 / 10 and 8 / 8 + 20 / 10 + 20 / 10. The longest ends at 48 + 10 instead of 48 + 4.5.
    // The host has the 80 and 60 bytes of the optimizer, and devices 40 + 40 and 20 + 20, with activations and workspaces
    // of 16 + 16 and 28 + 28.
    on_host(pipeline(), 5.5, &[[10.0, 112.0, 80.0, 80.0], [5.0, 96.0, 40.0, 60.0]])
}

fn sound(graph: Value, cluster: Value, plan: Value) {
    let report = check(graph, cluster, plan).expect("documents");
    assert!(report.holds(), "{:?}\n{:?}", report.violations, report.stages);
}

fn texts(report: &JointReport) -> Vec<String> {
    report.violations.iter().map(ToString::to_string).collect()
}

#[test]
fn updates_on_the_host_take_what_was_computed_by_hand() {
    sound(graph(), cluster(), far());
    let report = check(graph(), cluster(), far()).expect("documents");
    assert_eq!(
        report.stages.iter().map(|stage| stage.host_bytes).collect::<Vec<_>>(),
        [Some(80.0), Some(60.0)]
    );
    // States on the device are as before.
    let mut near = pipeline();
    near["objective"]["parallel"]["offload"] = Value::Null;
    let report = check(graph(), cluster(), near.clone()).expect("documents");
    assert_eq!(report.stages.iter().map(|stage| stage.host_bytes).collect::<Vec<_>>(), [None, None]);
    sound(graph(), cluster(), near);
}

#[test]
fn seconds_measured_on_a_device_say_nothing_of_the_host() {
    let mut measured = graph();
    operator(&mut measured, "block.0.linear.update")["seconds"] = json!({"gpu": 100.0});
    sound(measured, cluster(), far());
    // An update that states no moved bytes moves none: 4 + 4 and 2 + 2.
    sound(
        iteration::graph(),
        cluster(),
        on_host(pipeline(), 3.5, &[[8.0, 112.0, 80.0, 80.0], [4.0, 96.0, 40.0, 60.0]]),
    );
    // A device that cannot run an update has no layer with it.
    let mut unsupported = graph();
    operator(&mut unsupported, "block.0.linear.update")["unsupported"] = json!(["gpu"]);
    let report = check(unsupported, cluster(), far()).expect("documents");
    assert!(kinds(&report).contains(&"operator"), "{:?}", report.violations);
}

#[test]
fn what_moves_is_divided_like_the_update() {
    // At ZeRO 2 two copies of two devices each have 1 / 4 of 24 moved bytes, 60 of gradients and 60 of parameters:
    // 6 / 8 + 15 / 10 + 15 / 10 instead of 7 / 4, after the gathers. States 30 + 30 / 2, and (140 / 2) / 2 on the host.
    sound(graph(), cluster(), on_host(split(), 2.0, &[[11.5 + 3.75, 77.0, 45.0, 35.0]]));
    // At ZeRO 0 they are halves: 12 / 8 + 30 / 10 + 30 / 10, after all-reduces of 23. Nothing is reduced in the backward pass.
    let mut whole = on_host(split(), 5.75, &[[23.0 + 7.5, 92.0, 60.0, 70.0]]);
    whole["execution"]["zero"] = json!(0);
    whole["stages"][0]["seconds"] = json!(18.0);
    sound(graph(), cluster(), whole);
    // Two of four copies share an update: 12 / 8 + 30 / 10 + 30 / 10 instead of 3.5. States 60 + 60, and 140 / 2.
    let groups = shards::groups(1, [1.0, 23.0, 8.5, 45.5, 254.0, 190.0, 36.0]);
    sound(
        graph(),
        with_hosts(shards::large(), &json!({"bandwidth": 8.0, "link_bandwidth": 10.0})),
        on_host(groups, 4.0, &[[49.5, 184.0, 120.0, 70.0]]),
    );
}

#[test]
fn copies_share_experts_on_the_host() {
    // A quarter of 10 moved bytes, 12 of gradients and 24 of parameters: 2.5 / 5 + 3 / 6 + 6 / 6 instead of 2.5.
    // States (24 + 12) / 4, and 24 / 4 on the host.
    let only = stage(4, 1, [1.0, 61.0, 32.0, 2.5, 27.0, 15.0, 8.0], &[["block.0", "none"]]);
    let mut plan = super::plan("iteration", 4, &["dp", "ep"], 63.5, json!([only]));
    plan["execution"] = json!({"microbatch": 1, "microbatches": 1, "data": 4, "expert": 4, "zero": 0});
    let plan = on_host(plan, -0.5, &[[2.0, 21.0, 9.0, 6.0]]);
    sound(grouped(4), with_hosts(moving(), &json!({"bandwidth": 5.0, "link_bandwidth": 6.0})), plan);
}

#[test]
fn a_runtime_reaches_a_share_of_the_bandwidth_of_the_host() {
    let mut plan = on_host(pipeline(), 2.5, &[[12.0, 92.0, 60.0, 80.0], [6.0, 86.0, 30.0, 60.0]]);
    plan["objective"]["runtime"] =
        runtime(json!({"memory": 0.5, "gradients": 0.5, "reduction": 2.0, "copies": 3.0, "transfers": 1.0}));
    for (stage, [seconds, forward]) in [[17.0, 4.0], [13.0, 8.0]].into_iter().enumerate() {
        (plan["stages"][stage]["seconds"], plan["stages"][stage]["forward_s"]) =
            (json!(seconds), json!(forward));
    }
    // 16 / 4 + 4 + 4 and 8 / 4 + 2 + 2. Half of the gradients are kept: 40 + 20 and 20 + 10.
    // Stage 0: F –4, F –8, B 17–30, B 30–43; stage 1: F 4–12, B –17, F –25, B –30. Then 12.
    sound(graph(), cluster(), plan);
}

#[test]
fn stages_of_a_device_share_the_memory_of_its_host() {
    let checked = |memory: f64| {
        let ram = json!({"bandwidth": 4.0, "link_bandwidth": 5.0, "memory_bytes": memory});
        // Each stage updates in 1 / 4 + 10 / 5 + 10 / 5, and a device two of them: 32 + 8.5 instead of 32 + 2.
        // A device has states of 2 · (10 + 10) and 2 · 20 on the host.
        let figures = [56.0, 64.0, 56.0, 64.0].map(|memory| [4.25, memory, 20.0, 20.0]);
        let plan = on_host(schedules::interleaved(), 6.5, &figures);
        check(schedules::four(), with_hosts(schedules::cluster(), &ram), plan).expect("documents")
    };
    let report = checked(40.0);
    assert!(report.holds(), "{:?}\n{:?}", report.violations, report.stages);
    assert_eq!(
        texts(&checked(39.0)),
        [0, 1].map(|stage| format!("a device of stage {stage} needs 40 B of its host's memory and has 39 B"))
    );
}

#[test]
fn states_on_the_host_must_be_allowed() {
    let found = |plan: Value, offload: Option<Value>| {
        let mut plan = plan;
        let parallel = plan["objective"]["parallel"].as_object_mut().expect("parallelism");
        parallel.remove("offload");
        parallel.extend(offload.map(|given| ("offload".to_owned(), given)));
        texts(&check(graph(), cluster(), plan).expect("documents"))
    };
    let near = pipeline;
    for (plan, given) in [(far(), json!(null)), (far(), json!(1)), (near(), json!(null)), (near(), json!(0))]
    {
        assert!(found(plan, Some(given)).is_empty());
    }
    assert!(found(near(), None).is_empty());
    assert_eq!(found(far(), None), ["offload is 1, but must be 0 without offload"]);
    assert_eq!(found(far(), Some(json!(0))), ["offload is 1, but must be 0, as given"]);
    assert_eq!(found(near(), Some(json!(1))), ["offload is 0, but must be 1, as given"]);
    assert_eq!(found(near(), Some(json!(2))), ["offload is 0, but must be 2, as given"]);
}

#[test]
fn a_kind_of_a_stage_must_state_its_host() {
    let mut cluster = cluster();
    let mut other = cluster["kinds"][0].clone();
    (other["name"], other["ram"]) = (json!("other"), Value::Null);
    cluster["kinds"].as_array_mut().expect("kinds").push(other);
    let mut plan = far();
    plan["stages"][1]["kind"] = json!("other");
    let report = check(graph(), cluster, plan).expect("documents");
    assert_eq!(
        texts(&report),
        ["stage 1 has states or activations on the host, but kind \"other\" states no ram"]
    );
    assert_eq!(kinds(&report), ["ram"]);
    assert!(report.violations[0].breaks_feasibility());
}

#[test]
fn wrong_figures_of_hosts_are_named() {
    let found = |plan: Value, stage: usize, name: &str, value: Value| {
        let mut plan = plan;
        plan["stages"][stage][name] = value;
        texts(&check(graph(), cluster(), plan).expect("documents"))
    };
    assert_eq!(
        found(far(), 0, "host_bytes", json!(81)),
        ["the plan states host_bytes 81 B of stage 0, but it is 80 B"]
    );
    assert_eq!(
        found(far(), 1, "host_bytes", Value::Null),
        ["the plan states host_bytes null of stage 1, but it is 60 B"]
    );
    assert_eq!(
        found(pipeline(), 1, "host_bytes", json!(60)),
        ["the plan states host_bytes 60 B of stage 1, but it is null"]
    );
    assert_eq!(
        found(pipeline(), 0, "host_bytes", json!(0)),
        ["the plan states host_bytes 0 B of stage 0, but it is null"]
    );
    // The figures of a device that has the states.
    for (name, value) in [("update_s", 4.5), ("memory_bytes", 192.0), ("state_bytes", 160.0)] {
        let found = found(far(), 0, name, json!(value));
        assert!(found.len() == 1 && found[0].contains(name), "{found:?}");
    }
    let mut plan = layers::two_stages();
    plan["stages"][0]["host_bytes"] = json!(1);
    let report = check_joint_layers(&read(layers::file()), &read(plan)).expect("documents");
    assert_eq!(texts(&report), ["the plan states host_bytes 1 B of stage 0, but it is null"]);
}

#[test]
fn states_must_fit_into_the_memory_of_the_host() {
    let found = |memory: f64| {
        let mut cluster = cluster();
        cluster["kinds"][0]["ram"]["memory_bytes"] = json!(memory);
        check(graph(), cluster, far()).expect("documents")
    };
    assert!(found(80.0).holds());
    let report = found(79.0);
    assert_eq!(texts(&report), ["a device of stage 0 needs 80 B of its host's memory and has 79 B"]);
    assert_eq!(kinds(&report), ["host-memory"]);
    assert!(report.violations[0].breaks_feasibility());
    assert_eq!(found(0.0).violations.len(), 2);
}

#[test]
fn figures_of_hosts_have_ranges() {
    let good = RamDocument { memory_bytes: Some(100.0), bandwidth: 8.0, link_bandwidth: 10.0 };
    // Figures are checked even if no plan needs them.
    for plan in [far(), pipeline()] {
        let error = |ram: RamDocument| {
            let mut cluster: ClusterDocument = read(cluster());
            cluster.kinds[0].ram = Some(ram);
            let found = check_joint(&read(graph()), &cluster, &read(plan.clone()));
            found.err().map(|error| (error.code(), error.to_string()))
        };
        assert_eq!(error(good), None);
        for bad in [-1.0, f64::NAN, f64::INFINITY] {
            let (code, text) = error(RamDocument { memory_bytes: Some(bad), ..good }).expect("a bad figure");
            assert!(code == "V:figure" && text.contains("memory_bytes of ram of kind \"acc\""), "{text}");
        }
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let (code, text) = error(RamDocument { bandwidth: bad, ..good }).expect("a bad figure");
            assert!(code == "V:figure" && text.contains("bandwidth of ram of kind \"acc\""), "{text}");
            let (code, text) = error(RamDocument { link_bandwidth: bad, ..good }).expect("a bad figure");
            assert!(code == "V:figure" && text.contains("link_bandwidth of ram of kind \"acc\""), "{text}");
        }
    }
}

/// The verdict on a bound stated with a pipeline of two layers and microbatches of one sample, with states on the device.
fn verdict(bound: f64, offload: Value, ram: Value) -> JointVerdict {
    let is_far = offload == 1;
    let mut plan = if is_far { far() } else { pipeline() };
    plan["objective"]["parallel"]["offload"] = offload;
    plan["objective"]["microbatch"] = json!(1);
    plan["bound"]["value_s"] = json!(bound);
    check(graph(), with_hosts(iteration::cluster(), &ram), plan).expect("documents").bound
}

#[test]
fn bounds_hold_for_states_on_both_sides() {
    use JointVerdict::{NotVerified, Verified};
    // As without a host, the pipeline takes at least 36 + 10.5 + 4.5. With states on the host it takes at least 36 + 10.5 +
    // 10, and a single device, into which the rest fits, 46 + 24 / 8 + 60 / 10 + 60 / 10.
    let slow = || json!({"bandwidth": 8.0, "link_bandwidth": 10.0});
    for (offload, bound) in [(json!(0), 51.0), (json!(null), 51.0), (json!(1), 56.5)] {
        assert_eq!(verdict(bound, offload.clone(), slow()), Verified);
        assert_eq!(verdict(bound, offload.clone(), slow()), Verified);
        assert_eq!(verdict(bound + 0.1, offload, slow()), NotVerified);
    }
    // On a fast host, the second stage takes 30 for both microbatches and 8 / 800 + 20 / 1000 + 20 / 1000 for its update, beside
    // 18 for one of them on the first stage. The single device takes 46 + 0.03 + 0.06 + 0.06.
    let fast = |memory: Value| json!({"bandwidth": 800.0, "link_bandwidth": 1000.0, "memory_bytes": memory});
    assert_eq!(verdict(46.15, json!(null), fast(Value::Null)), Verified);
    assert_eq!(verdict(46.2, json!(null), fast(Value::Null)), NotVerified);
    assert_eq!(verdict(51.0, json!(0), fast(Value::Null)), Verified);
    // The states of both layers are 140 bytes, those of the first 80.
    assert_eq!(verdict(48.05, json!(null), fast(json!(139))), Verified);
    assert_eq!(verdict(48.1, json!(null), fast(json!(139))), NotVerified);
    assert_eq!(verdict(51.0, json!(null), fast(json!(79))), Verified);
    assert_eq!(verdict(51.1, json!(null), fast(json!(79))), NotVerified);
    // Without a host there is nothing to put there.
    assert_eq!(verdict(51.0, json!(null), Value::Null), Verified);
}

#[test]
fn bounds_of_a_cut_know_the_memory_of_hosts() {
    use JointVerdict::{NotVerified, Verified};
    let verdict = |graph: Value, plan: Value, cut: Value, bound: f64, memory: f64| {
        let mut plan = plan;
        plan["objective"]["parallel"] = json!({"pp": 2, "offload": null});
        plan["objective"]["schedules"] = json!([plan["execution"]["schedule"]]);
        plan["objective"]["microbatch"] = json!(1);
        (plan["objective"]["cut"], plan["bound"]["value_s"]) = (cut, json!(bound));
        let ram = json!({"bandwidth": 400.0, "link_bandwidth": 500.0, "memory_bytes": memory});
        check(graph, with_hosts(schedules::cluster(), &ram), plan).expect("documents").bound
    };
    // Updates of a layer take 1 on the device, and 1 / 400 + 10 / 500 + 10 / 500 = 0.0425 on the host.
    let two = |bound: f64, memory: f64| {
        verdict(schedules::three(), schedules::zero_bubble(), json!([2, 1]), bound, memory)
    };
    // The first stage has 40 bytes on the host, the second 20: 29 + 2, or 29 + 2 · 0.0425.
    assert_eq!(two(29.085, 40.0), Verified);
    assert_eq!(two(29.1, 40.0), NotVerified);
    assert_eq!(two(31.0, 35.0), Verified);
    let four = |bound: f64, memory: f64| {
        verdict(schedules::four(), schedules::interleaved(), json!([1, 1, 1, 1]), bound, memory)
    };
    // Each device has two stages with 20 bytes: 32 + 2, or 32 + 2 · 0.0425.
    assert_eq!(four(32.085, 40.0), Verified);
    assert_eq!(four(32.1, 40.0), NotVerified);
    assert_eq!(four(34.0, 39.0), Verified);
}

/// The pipeline whose layers keep their activations on a host that sends and receives 5 bytes in a second.
fn kept_far() -> Value {
    let mut plan = pipeline();
    plan["objective"]["parallel"] = json!({"pp": null, "recompute": null, "offload": null});
    // 8 bytes of each microbatch go and come in 1.6 seconds, beside 4.5 and 8.5; 28 in 5.6, beside 4 and 6. The end is later by
    // 2 · 1.6. The workspaces are larger by 2 · 8 and 2 · 28, and the hosts have 2 · 8 and 28.
    plan["objective"]["value_s"] = json!(52.5 + 3.2);
    for (stage, [seconds, memory, host]) in [[18.0, 192.0, 16.0], [16.6, 184.0, 28.0]].into_iter().enumerate()
    {
        let stage = &mut plan["stages"][stage];
        stage["layers"][0]["configuration"] = json!("offload");
        (stage["seconds"], stage["memory_bytes"]) = (json!(seconds), json!(memory));
        (stage["activation_bytes"], stage["host_bytes"]) = (json!(0.0), json!(host));
    }
    plan
}

#[test]
fn activations_on_the_host_take_what_was_computed_by_hand() {
    let ram = json!({"bandwidth": 8.0, "link_bandwidth": 5.0, "memory_bytes": 28.0});
    let hosts = || with_hosts(iteration::cluster(), &ram);
    sound(iteration::graph(), hosts(), kept_far());
    let mut given = kept_far();
    given["objective"]["parallel"] = json!({"pp": null, "recompute": 3});
    sound(iteration::graph(), hosts(), given);
    // Kept activations take half as much again with this constant, and what the hosts have of them, too.
    let mut runtime_plan = kept_far();
    runtime_plan["objective"]["runtime"] = runtime(json!({"activations": 0.5}));
    let report = check(iteration::graph(), hosts(), runtime_plan).expect("documents");
    assert_eq!(
        report.stages.iter().map(|stage| stage.host_bytes).collect::<Vec<_>>(),
        [Some(8.0), Some(14.0)]
    );
}

#[test]
fn activations_on_a_host_need_one_with_room() {
    let broken = |ram: Value, parallel: Value| {
        let mut plan = kept_far();
        plan["objective"]["parallel"] = parallel;
        let report =
            check(iteration::graph(), with_hosts(iteration::cluster(), &ram), plan).expect("documents");
        kinds(&report).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let free = json!({"pp": null, "recompute": null, "offload": null});
    let ram = json!({"bandwidth": 8.0, "link_bandwidth": 5.0});
    assert_eq!(broken(ram.clone(), free.clone()), Vec::<String>::new());
    assert_eq!(broken(Value::Null, free.clone()), ["ram"]);
    let mut small = ram.clone();
    small["memory_bytes"] = json!(27.0);
    assert_eq!(broken(small, free), ["host-memory"]);
    for parallel in [
        json!({"pp": null, "recompute": null}),
        json!({"pp": null, "recompute": null, "offload": 0}),
        json!({"pp": null, "recompute": 0, "offload": null}),
        json!({"pp": null, "offload": null}),
    ] {
        assert_eq!(broken(ram.clone(), parallel), ["configuration"]);
    }
}
