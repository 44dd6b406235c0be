//! Every mode of the cost model, on cases small enough to compute by hand.

use crate::documents;

use documents::{Case, cluster, placement, read, valid};
use serde_json::{Value, json};
use stagewright_core::document::{Communication, Schedule, Split, Training};
use stagewright_verify::Report;

/// The chain with every operator on its own device: a on acc0, b on acc1, c on far0.
///
/// - acc0: compute 2, sends ab 1.5;
/// - acc1: compute 3, receives ab 1.5, sends bc 2.5;
/// - far0: compute 4, receives bc 2;
/// - uplink: bc 2.
fn spread() -> Case {
    let mut case = valid();
    case.plan = placement(&[("acc0", "acc", &["a"]), ("acc1", "acc", &["b"]), ("far0", "far", &["c"])]);
    case
}

fn loads(report: &Report) -> Vec<f64> {
    assert!(report.holds(), "{:?}", report.violations);
    report.devices.iter().map(|device| device.load_s).collect()
}

fn case(graph: Value, cluster: Value, devices: &[(&str, &str, &[&str])]) -> Case {
    Case { graph: read(graph), cluster: read(cluster), pins: None, plan: placement(devices) }
}

/// One kind `acc` of `count` devices of class gpu, with links of 1 byte/s.
fn plain(count: u32) -> Value {
    json!({"schema": "stagewright.cluster/1",
           "kinds": [{"name": "acc", "class": "gpu", "count": count, "link": {"bandwidth": 1.0}}]})
}

#[test]
fn serial_adds() {
    let report = spread().report();
    // 2 + 1.5; 3 + 1.5 + 2.5; 4 + 2
    assert_eq!(loads(&report), [3.5, 7.0, 6.0]);
    assert_eq!(report.value_s, Some(7.0));
    assert_eq!((report.devices[1].compute_s, report.devices[1].communication_s), (3.0, 4.0));
}

#[test]
fn overlap_takes_the_larger() {
    let mut case = spread();
    case.plan.objective.communication = Communication::Overlap;
    let report = case.report();
    // max(2, 1.5); max(3, 4); max(4, 2)
    assert_eq!(loads(&report), [2.0, 4.0, 4.0]);
    assert_eq!(report.value_s, Some(4.0));
}

#[test]
fn duplex_separates_directions() {
    let mut case = spread();
    case.graph.operators[1].seconds.insert("gpu".to_owned(), 1.0);
    case.plan.objective.communication = Communication::Duplex;
    let report = case.report();
    // max(2, 1.5, 0); max(1, 2.5, 1.5); max(4, 0, 2)
    assert_eq!(loads(&report), [2.0, 2.5, 4.0]);
    assert_eq!(report.devices[1].communication_s, 4.0, "sent and received together");
}

#[test]
fn a_tensor_is_paid_once_by_each_device_that_it_touches() {
    // s feeds x, y and z. x stays with s, y and z share acc1: acc0 sends once, acc1 receives once.
    let graph = json!({"schema": "stagewright.graph/1",
        "operators": [{"name": "s", "seconds": {"gpu": 1.0}}, {"name": "x", "seconds": {"gpu": 1.0}},
                      {"name": "y", "seconds": {"gpu": 1.0}}, {"name": "z", "seconds": {"gpu": 1.0}}],
        "tensors": [{"producer": "s", "consumers": ["x", "y", "z", "y"], "bytes": 8.0}]});
    let report =
        case(graph, plain(2), &[("acc0", "acc", &["s", "x"]), ("acc1", "acc", &["y", "z"])]).report();
    assert_eq!(loads(&report), [10.0, 10.0]);
}

#[test]
fn measured_seconds_win_over_the_link() {
    let mut case = spread();
    case.graph.tensors[1].seconds.insert("gpu".to_owned(), 0.25);
    // acc1: 3 + 1.5 + 0.25; far0 still receives bc over its link.
    assert_eq!(loads(&case.report()), [3.5, 4.75, 6.0]);
}

#[test]
fn a_host_pays_nothing() {
    let mut case = spread();
    case.cluster.kinds[1].host = true;
    assert_eq!(loads(&case.report()), [3.5, 7.0, 4.0]);
}

#[test]
fn roofline() {
    let graph = json!({"schema": "stagewright.graph/1", "operators": [
        {"name": "compute", "flop": 100.0, "bytes_moved": 10.0},
        {"name": "traffic", "flop": 100.0, "bytes_moved": 60.0},
        {"name": "empty", "flop": 0.0},
        {"name": "measured", "flop": 100.0, "seconds": {"gpu": 7.0}}]});
    let mut cluster = plain(4);
    cluster["classes"] = json!({"gpu": {"peak_flops": 10.0, "efficiency": 0.5, "memory_bandwidth": 2.0,
                                        "launch_overhead_s": 0.25}});
    let on = ["compute", "traffic", "empty", "measured"];
    let devices = [("acc0", &on[..1]), ("acc1", &on[1..2]), ("acc2", &on[2..3]), ("acc3", &on[3..])];
    let devices = devices.map(|(name, ops)| (name, "acc", ops));
    let mut case = case(graph, cluster, &devices);
    // max(100/5, 10/2) + 0.25; max(100/5, 60/2) + 0.25; 0.25; measured without overhead
    assert_eq!(loads(&case.report()), [20.25, 30.25, 0.25, 7.0]);

    // Without a memory bandwidth, operators that move bytes can't run; the others can.
    case.cluster.classes.get_mut("gpu").expect("the class").memory_bandwidth = None;
    let report = case.report();
    assert_eq!(case.broken(), ["support"]);
    assert_eq!(report.violations.len(), 2, "compute and traffic");
    case.cluster.classes.clear();
    assert_eq!(case.report().violations.len(), 3, "all but the measured one");
}

#[test]
fn roofline_at_a_precision_with_kernels_counted() {
    let graph = json!({"schema": "stagewright.graph/1", "operators": [
        {"name": "single", "flop": 100.0, "precision": "fp32"},
        {"name": "bytes", "flop": 100.0, "precision": "int8", "launches": 0.0},
        {"name": "other", "flop": 100.0, "precision": "bf16", "launches": 4.0},
        {"name": "none", "flop": 100.0}]});
    let mut cluster = plain(4);
    cluster["classes"] = json!({"gpu": {"peak_flops": 10.0, "peaks": {"fp32": 2.0, "int8": 40.0},
                                        "efficiency": 0.5, "launch_overhead_s": 0.25}});
    let on = ["single", "bytes", "other", "none"];
    let devices = [("acc0", &on[..1]), ("acc1", &on[1..2]), ("acc2", &on[2..3]), ("acc3", &on[3..])];
    let devices = devices.map(|(name, ops)| (name, "acc", ops));
    let case = case(graph, cluster, &devices);
    assert_eq!(loads(&case.report()), [100.25, 5.0, 21.0, 20.25]);
}

#[test]
fn an_uplink_can_be_the_bottleneck() {
    let mut case = spread();
    // bc: 1 + 20/2 = 11; ab stays in the group.
    case.cluster.groups[0].uplink.bandwidth = 2.0;
    let report = case.report();
    assert_eq!(report.uplinks, [("server".to_owned(), 11.0)]);
    assert_eq!(report.value_s, Some(11.0));
}

#[test]
fn every_group_that_a_tensor_crosses_is_loaded() {
    let mut case = spread();
    case.cluster.groups.push(read(json!({"name": "pod", "uplink": {"bandwidth": 5.0}})));
    case.cluster.groups.push(read(json!({"name": "idle", "uplink": {"bandwidth": 5.0}})));
    case.cluster.kinds[1].group = Some("pod".to_owned());
    let uplinks = case.report().uplinks;
    // bc: 1 + 20/20 on one side, 20/5 on the other.
    assert_eq!(uplinks, [("server".to_owned(), 2.0), ("pod".to_owned(), 4.0), ("idle".to_owned(), 0.0)]);
}

/// f1 → f2 → b2 → b1 → u1, with f1, b1, u1 colocated and f2, b2 colocated, all tensors of 1 byte.
fn training() -> Case {
    let graph = json!({"schema": "stagewright.graph/1",
        "operators": [
            {"name": "f1", "seconds": {"gpu": 2.0}, "colocation": "1", "parameter_bytes": 3.0},
            {"name": "f2", "seconds": {"gpu": 5.0}, "colocation": "2"},
            {"name": "b2", "seconds": {"gpu": 1.0}, "colocation": "2", "pass": "backward"},
            {"name": "b1", "seconds": {"gpu": 4.0}, "colocation": "1", "pass": "backward"},
            {"name": "u1", "seconds": {"gpu": 3.0}, "colocation": "1", "pass": "update"}],
        "tensors": [
            {"producer": "f1", "consumers": ["f2"], "bytes": 1.0},
            {"producer": "f2", "consumers": ["b2"], "bytes": 1.0},
            {"producer": "b2", "consumers": ["b1"], "bytes": 1.0},
            {"producer": "b1", "consumers": ["u1"], "bytes": 1.0}]});
    case(graph, plain(3), &[("acc0", "acc", &["f1", "b1", "u1"]), ("acc1", "acc", &["f2", "b2"])])
}

#[test]
fn combined_training_has_one_load() {
    let report = training().report();
    // acc0: 2 + 4 + 3 + sent 1 + received 1; acc1: 5 + 1 + received 1 + sent 1
    assert_eq!(loads(&report), [11.0, 8.0]);
    assert_eq!((report.value_s, report.forward_s), (Some(11.0), None));
}

#[test]
fn separate_training_adds_the_largest_of_each_pass() {
    let mut case = training();
    case.plan.objective.training = Training::Separate;
    let report = case.report();
    // acc0: forward 2 + 1, backward 4 + 3 + 1; acc1: forward 5 + 1, backward 1 + 1
    assert_eq!(loads(&report), [11.0, 8.0]);
    assert_eq!((report.forward_s, report.backward_s), (Some(6.0), Some(8.0)));
    assert_eq!(report.value_s, Some(14.0));
}

#[test]
fn separate_training_applies_the_communication_mode_to_each_pass() {
    let mut case = training();
    case.plan.objective.training = Training::Separate;
    case.plan.objective.communication = Communication::Overlap;
    let report = case.report();
    // acc0: max(2, 1) + max(7, 1); acc1: max(5, 1) + max(1, 1)
    assert_eq!(loads(&report), [9.0, 6.0]);
    assert_eq!(report.value_s, Some(12.0));
}

#[test]
fn separate_training_splits_uplinks_by_pass() {
    let mut case = training();
    case.plan.objective.training = Training::Separate;
    // acc1 becomes far0, outside the group of acc0; the uplink takes 10 s per byte.
    case.cluster.groups = read(json!([{"name": "server", "uplink": {"bandwidth": 0.1}}]));
    case.cluster.kinds[0].group = Some("server".to_owned());
    let mut far = case.cluster.kinds[0].clone();
    far.name = "far".to_owned();
    far.group = None;
    case.cluster.kinds.push(far);
    case.plan.devices[1].name = "far0".to_owned();
    case.plan.devices[1].kind = "far".to_owned();
    let report = case.report();
    assert_eq!(report.uplinks, [("server".to_owned(), 20.0)]);
    assert_eq!((report.forward_s, report.backward_s), (Some(10.0), Some(10.0)));
}

#[test]
fn replicas_divide_the_load_and_synchronise() {
    let mut case = training();
    case.plan.objective.max_replicas = Some(2);
    case.plan.devices[0].replicas = 2;
    let report = case.report();
    // 11/2 + 2·(1/2)·3 bytes / 1 byte/s = 5.5 + 3
    assert_eq!(loads(&report), [8.5, 8.0]);
    assert_eq!((report.devices[0].compute_s, report.devices[0].communication_s), (9.0, 2.0));

    case.plan.objective.training = Training::Separate;
    let report = case.report();
    // forward 3/2 and 6, backward 8/2 + 3 and 2
    assert_eq!((report.forward_s, report.backward_s), (Some(6.0), Some(7.0)));

    case.plan.objective.training = Training::Combined;
    case.cluster.kinds[0].host = true;
    // 9/2; a host has no communication.
    assert_eq!(loads(&case.report()), [4.5, 6.0]);
}

#[test]
fn microbatches_in_flight() {
    // Three stages, numbered 4, 1, 9 in document order, of 1 + n·10 bytes each.
    let operator = |name: &str| json!({"name": name, "seconds": {"gpu": 1.0}, "workspace_bytes": 1.0, "activation_bytes": 10.0});
    let graph = json!({"schema": "stagewright.graph/1",
                       "operators": [operator("x"), operator("y"), operator("z")]});
    let devices: [(&str, &str, &[&str]); 4] =
        [("acc0", "acc", &["x"]), ("acc1", "acc", &["y"]), ("acc2", "acc", &["z"]), ("acc3", "acc", &[])];
    let mut case = case(graph, plain(4), &devices);
    for (device, stage) in case.plan.devices.iter_mut().zip([4, 1, 9, 12]) {
        device.stage = Some(stage);
    }
    let bytes = |case: &Case| -> Vec<f64> {
        case.report().devices.iter().map(|device| device.memory_bytes).collect()
    };
    assert_eq!(bytes(&case), [11.0, 11.0, 11.0, 0.0]);
    case.plan.objective.microbatches = Some(8);
    case.plan.objective.schedule = Schedule::GPipe;
    assert_eq!(bytes(&case), [81.0, 81.0, 81.0, 0.0]);
    case.plan.objective.schedule = Schedule::OneFOneB;
    assert_eq!(bytes(&case), [21.0, 31.0, 11.0, 0.0], "acc3 runs nothing: acc2 is last");
    case.plan.objective.microbatches = Some(2);
    assert_eq!(bytes(&case), [21.0, 21.0, 11.0, 0.0]);
}

#[test]
fn contiguous_without_stages_needs_some_order() {
    let mut case = spread();
    for device in &mut case.plan.devices {
        device.stage = None;
    }
    assert_eq!(case.broken(), [""; 0]);
    // a and c on acc0, b on acc1: acc0 before acc1 before acc0.
    case.plan = placement(&[("acc0", "acc", &["a", "c"]), ("acc1", "acc", &["b"])]);
    for device in &mut case.plan.devices {
        device.stage = None;
    }
    let message = &case.report().violations[0].message;
    assert_eq!(case.broken(), ["order"]);
    for part in ["\"acc0\" before \"acc1\"", "\"acc1\" before \"acc0\"", "tensor \"ab\"", "tensor \"bc\""] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn convex_is_weaker_than_contiguous() {
    // x1 → y1 and y2 → x2 between two devices: no order exists, but no path comes back.
    let operators: Vec<Value> =
        ["x1", "x2", "y1", "y2"].iter().map(|name| json!({"name": name, "seconds": {"gpu": 1.0}})).collect();
    let mut graph = json!({"schema": "stagewright.graph/1", "operators": operators, "tensors": [
        {"producer": "x1", "consumers": ["y1"]}, {"producer": "y2", "consumers": ["x2"]}]});
    let devices: [(&str, &str, &[&str]); 2] =
        [("acc0", "acc", &["x1", "x2"]), ("acc1", "acc", &["y1", "y2"])];
    let mut two = case(graph.clone(), plain(2), &devices);
    assert_eq!(two.broken(), ["order"]);
    two.plan.objective.split = Split::Convex;
    assert_eq!(two.broken(), [""; 0]);

    // y1 → y2 completes the path x1 → y1 → y2 → x2, which leaves acc0 and comes back.
    graph["tensors"].as_array_mut().expect("tensors").push(json!({"producer": "y1", "consumers": ["y2"]}));
    let mut closed = case(graph, plain(2), &devices);
    closed.plan.objective.split = Split::Convex;
    assert_eq!(closed.broken(), ["order"]);
    assert_eq!(
        closed.report().violations[0].message,
        "a path leaves device \"acc0\" after \"x1\" for \"y1\" and comes back at \"x2\""
    );
    closed.plan.objective.split = Split::Free;
    assert_eq!(closed.broken(), [""; 0]);
}

#[test]
fn convex_ignores_the_backward_pass() {
    // f1 → f2 → b2 → b1 comes back to acc0, but only in the backward pass.
    let mut case = training();
    case.plan.objective.split = Split::Convex;
    assert_eq!(case.broken(), [""; 0]);
}

#[test]
fn backward_tensors_go_to_earlier_stages_where_no_forward_operator_holds_them() {
    let on = |graph: Value, first: &[&str], second: &[&str]| {
        case(graph, plain(2), &[("acc0", "acc", first), ("acc1", "acc", second)])
    };
    // f1 → f2 forward; g → h backward, with or without colocation with the forward operators.
    let graph = |g: Value, h: Value, pass: &str| {
        json!({"schema": "stagewright.graph/1", "operators": [
            {"name": "f1", "seconds": {"gpu": 1.0}, "colocation": "1"},
            {"name": "f2", "seconds": {"gpu": 1.0}, "colocation": "2"},
            {"name": "g", "seconds": {"gpu": 1.0}, "colocation": g, "pass": "backward"},
            {"name": "h", "seconds": {"gpu": 1.0}, "colocation": h, "pass": pass}],
        "tensors": [{"producer": "f1", "consumers": ["f2"]}, {"producer": "g", "consumers": ["h"]}]})
    };
    let free = || graph(json!(null), json!(null), "backward");
    assert_eq!(on(free(), &["f1", "h"], &["f2", "g"]).broken(), [""; 0], "from the later to the earlier");
    assert_eq!(on(free(), &["f1", "g"], &["f2", "h"]).broken(), ["order"]);
    let single = graph(json!("1"), json!(null), "backward");
    assert_eq!(
        on(single, &["f1", "g"], &["f2", "h"]).broken(),
        ["order"],
        "the class of h has no forward operator"
    );
    let both = graph(json!("1"), json!("2"), "backward");
    assert_eq!(on(both, &["f1", "g"], &["f2", "h"]).broken(), [""; 0], "colocation alone binds the two");
    let update = graph(json!(null), json!(null), "update");
    assert_eq!(on(update, &["f1", "g"], &["f2", "h"]).broken(), [""; 0], "updates go anywhere");
}

#[test]
fn an_empty_graph_takes_no_time() {
    let mut case = valid();
    case.graph.operators.clear();
    case.graph.tensors.clear();
    case.cluster = cluster();
    case.plan.devices.clear();
    case.plan.uplinks[0].load_s = 0.0;
    case.plan.objective.value_s = Some(0.0);
    let report = case.report();
    assert!(report.holds(), "{:?}", report.violations);
    assert_eq!(report.value_s, Some(0.0));
}
