//! Steps small enough to simulate by hand, and single corruptions, each reported as exactly that.

use crate::documents;

use documents::{Case, figures, graph, peaks, placement, read, sound, value};
use serde_json::json;
use stagewright_core::document::{
    ClusterDocument, GraphDocument, MatrixDocument, ObjectiveKind, PlanDocument, PlanStatus,
};
use stagewright_verify::{BoundEvidence, BoundVerdict};

/// Three devices `acc` in the group `box`, one `far` in the group `pod`, all with links of 1 byte/s, and a
/// host in no group.
fn cluster() -> ClusterDocument {
    read(json!({
        "schema": "stagewright.cluster/1",
        "kinds": [
            {"name": "acc", "class": "gpu", "count": 3, "group": "box", "link": {"bandwidth": 1.0}},
            {"name": "far", "class": "gpu", "count": 1, "group": "pod", "link": {"bandwidth": 1.0}},
            {"name": "host", "class": "cpu", "count": 1, "host": true}
        ],
        "groups": [{"name": "box", "uplink": {"latency_s": 1.0, "bandwidth": 2.0}},
                   {"name": "pod", "uplink": {"latency_s": 3.0, "bandwidth": 4.0}}]
    }))
}

/// A plan for makespan without claims.
fn executed(devices: &[(&str, &str, &[&str])]) -> PlanDocument {
    let mut plan = placement(devices);
    plan.objective.kind = ObjectiveKind::Makespan;
    plan
}

fn case(graph: GraphDocument, plan: PlanDocument) -> Case {
    Case { graph, cluster: cluster(), pins: None, plan }
}

/// a feeds b and c with tensors of 2 and 3 bytes; each operator is on its own device.
fn fan() -> Case {
    let graph = graph(&[("a", 1.0), ("b", 1.0), ("c", 1.0)], &[("a", &["b"], 2.0), ("a", &["c"], 3.0)]);
    case(graph, executed(&[("acc0", "acc", &["a"]), ("acc1", "acc", &["b"]), ("acc2", "acc", &["c"])]))
}

#[test]
fn what_leaves_a_device_leaves_one_after_the_other() {
    // a ends at 1, its tensors arrive at 3 and 6, c ends at 7.
    let report = sound(&fan());
    assert_eq!(report.value_s, Some(7.0));
    let loads = report.devices.iter().map(|device| [device.load_s, device.compute_s, device.communication_s]);
    assert_eq!(loads.collect::<Vec<_>>(), [[6.0, 1.0, 5.0], [3.0, 1.0, 2.0], [4.0, 1.0, 3.0]]);
    assert_eq!(report.uplinks, [("box".to_owned(), 0.0), ("pod".to_owned(), 0.0)]);
}

#[test]
fn what_enters_a_device_enters_in_the_order_of_asking() {
    let graph = graph(&[("a", 1.0), ("b", 2.0), ("c", 1.0)], &[("b", &["c"], 2.0), ("a", &["c"], 3.0)]);
    let on = [("acc0", "acc", &["a"] as &[&str]), ("acc1", "acc", &["b"]), ("acc2", "acc", &["c"])];
    // a's tensor moves from 1 to 4, b's from 4 to 6.
    assert_eq!(value(&case(graph, executed(&on))), 7.0);
}

#[test]
fn destinations_go_by_the_cluster_and_not_by_the_plan() {
    // Two simultaneous requests: the first goes to acc1, whose reader is short, the second to acc2, whose
    // reader is long.
    let graph = graph(&[("a", 1.0), ("b", 5.0), ("c", 1.0)], &[("a", &["b", "c"], 2.0)]);
    let on = [("acc2", "acc", &["b"] as &[&str]), ("acc1", "acc", &["c"]), ("acc0", "acc", &["a"])];
    assert_eq!(value(&case(graph, executed(&on))), 1.0 + 2.0 + 2.0 + 5.0);
}

#[test]
fn uplinks_are_shared_and_slow_what_crosses_them() {
    let graph =
        graph(&[("a", 1.0), ("b", 1.0), ("c", 1.0), ("d", 1.0)], &[("a", &["b"], 2.0), ("c", &["d"], 6.0)]);
    let on = [
        ("acc0", "acc", &["a"] as &[&str]),
        ("far0", "far", &["b"]),
        ("acc1", "acc", &["c"]),
        ("host0", "host", &["d"]),
    ];
    // a's tensor takes the 3 + 2/4 of the pod; c's waits for the box until 4.5 and takes the 6 of its link.
    let report = sound(&case(graph, executed(&on)));
    assert_eq!(report.value_s, Some(11.5));
    assert_eq!(report.uplinks, [("box".to_owned(), 9.5), ("pod".to_owned(), 3.5)]);
    let communication = report.devices.iter().map(|device| device.communication_s);
    assert_eq!(communication.collect::<Vec<_>>(), [3.5, 3.5, 6.0, 0.0], "a host pays nothing");
}

#[test]
fn a_matrix_says_how_long_and_uplinks_are_on_no_way() {
    let mut fan = fan();
    let row = |from: usize| (0..5).map(|to| (from + 2 * to) as f64).collect();
    let rows: Vec<Vec<f64>> = (0..5).map(row).collect();
    fan.cluster.matrix = Some(MatrixDocument { delay_s: rows.clone(), seconds_per_byte: rows });
    // From acc0 to acc1 2 + 2 · 2, to acc2 4 + 3 · 4.
    assert_eq!(value(&fan), 1.0 + 6.0 + 16.0 + 1.0);
    fan.plan.devices[2].name = "host0".to_owned();
    fan.plan.devices[2].kind = "host".to_owned();
    // From acc0 to host0, the fifth device, 8 + 3 · 8.
    let report = sound(&fan);
    assert_eq!(report.value_s, Some(1.0 + 6.0 + 32.0 + 1.0));
    assert!(report.uplinks.iter().all(|(_, load)| *load == 0.0));
}

/// x and y are ready at the start on one device; y feeds z on another.
fn queue() -> Case {
    let graph = graph(&[("x", 4.0), ("y", 1.0), ("z", 5.0)], &[("y", &["z"], 0.0)]);
    case(graph, executed(&[("acc0", "acc", &["y", "x"]), ("acc1", "acc", &["z"])]))
}

fn ranked(order: &[&str]) -> Case {
    let mut case = queue();
    case.plan.priority = Some(order.iter().map(|&name| name.to_owned()).collect());
    case
}

#[test]
fn queues_go_by_priority_or_else_by_time_and_document() {
    assert_eq!(value(&queue()), 10.0);
    assert_eq!(value(&ranked(&["y", "x", "z"])), 6.0);
    assert_eq!(value(&ranked(&["z", "x", "y"])), 10.0);
    assert_eq!(value(&ranked(&[])), 10.0, "an empty priority is none");
}

#[test]
fn an_operator_does_not_wait_for_a_tensor_that_takes_no_time() {
    let graph = graph(
        &[("away", 1.0), ("busy", 1.0), ("urgent", 1.0), ("other", 1.0), ("end", 9.0)],
        &[("away", &["urgent"], 0.0), ("urgent", &["end"], 0.0)],
    );
    let mut case = case(
        graph,
        executed(&[("acc0", "acc", &["busy", "urgent", "other", "end"]), ("acc1", "acc", &["away"])]),
    );
    case.plan.priority = Some(["urgent", "end", "busy", "other", "away"].map(str::to_owned).to_vec());
    // At 1, `other` starts, and only then does the tensor of `away` arrive.
    assert_eq!(value(&case), 1.0 + 1.0 + 1.0 + 9.0);
}

#[test]
fn memory_is_held_from_the_first_need_to_the_last() {
    let graph = graph(
        &[("a", 1.0), ("b", 1.0), ("c", 2.0)],
        &[("a", &["b", "c"], 4.0), ("a", &[], 100.0), ("b", &[], 10.0)],
    );
    let mut case = case(graph, executed(&[("acc0", "acc", &["a", "b"]), ("acc1", "acc", &["c"])]));
    case.graph.operators[2].workspace_bytes = 30.0;
    case.graph.operators[2].activation_bytes = 1e9;
    // An unread tensor is freed with its producer; then b adds 10 to the 4 that are in transfer until 5.
    assert_eq!(peaks(&case), [104.0, 34.0]);
    case.graph.operators[0].parameter_bytes = 1000.0;
    case.graph.operators[1].optimizer_bytes = 2000.0;
    case.graph.operators[1].workspace_bytes = 91.0;
    assert_eq!(peaks(&case), [3105.0, 34.0]);
    case.cluster.kinds[0].memory_bytes = Some(3105.0);
    sound(&case);
    case.cluster.kinds[0].memory_bytes = Some(3104.0);
    assert_eq!(case.broken(), ["peak-memory"]);
    assert_eq!(
        case.report().violations[0].message,
        "device \"acc0\" holds 3.032 KiB at once and has 3.031 KiB"
    );
}

#[test]
fn what_ends_makes_room_for_what_starts() {
    let graph = graph(&[("a", 1.0), ("b", 0.0), ("c", 1.0)], &[("a", &["b"], 5.0), ("b", &["c"], 7.0)]);
    let mut case = case(graph, executed(&[("acc0", "acc", &["a", "b", "c"])]));
    case.graph.operators[2].workspace_bytes = 4.0;
    // b takes no time and still holds its inputs and outputs.
    assert_eq!(peaks(&case), [12.0]);
}

/// The fan with every figure claimed.
fn claimed() -> Case {
    let mut case = fan();
    case.graph.operators[0].parameter_bytes = 8.0;
    case.plan.status = PlanStatus::Feasible;
    case.plan.objective.value_s = Some(7.0);
    case.plan.priority = Some(["b", "a", "c"].map(str::to_owned).to_vec());
    figures(&mut case.plan, 0, [6.0, 1.0, 5.0, 13.0]);
    figures(&mut case.plan, 1, [3.0, 1.0, 2.0, 2.0]);
    figures(&mut case.plan, 2, [4.0, 1.0, 3.0, 3.0]);
    case.plan.uplinks = read(json!([{"group": "box", "load_s": 0.0}, {"group": "pod", "load_s": 0.0}]));
    case
}

fn after(corrupt: impl FnOnce(&mut Case)) -> Vec<&'static str> {
    let mut case = claimed();
    corrupt(&mut case);
    case.broken()
}

#[test]
fn what_is_claimed_is_compared() {
    assert_eq!(after(|_| {}), [""; 0]);
    assert_eq!(after(|case| case.plan.objective.value_s = Some(7.1)), ["value"]);
    for figure in 0..4 {
        let mut wrong = [6.0, 1.0, 5.0, 13.0];
        wrong[figure] += 0.125;
        assert_eq!(after(|case| documents::figures(&mut case.plan, 0, wrong)), ["device-figures"]);
    }
    assert_eq!(after(|case| case.plan.uplinks[1].load_s = 1.0), ["uplink-figures"]);
}

#[test]
fn what_is_infeasible_is_named() {
    assert_eq!(after(|case| case.cluster.kinds[0].memory_bytes = Some(12.0)), ["peak-memory"]);
    let unsupported = |case: &mut Case| case.graph.operators[2].unsupported.push("gpu".to_owned());
    assert_eq!(after(unsupported), ["support"]);
    assert_eq!(after(|case| case.pins = Some(read(json!({"b": "acc0"})))), ["pins"]);
    let together = |case: &mut Case| {
        for operator in &mut case.graph.operators[..2] {
            operator.colocation = Some("pair".to_owned());
        }
    };
    assert_eq!(after(together), ["colocation"]);
    assert_eq!(after(|case| drop(case.plan.devices.pop())), ["placement"]);
}

#[test]
fn a_priority_names_every_operator_once() {
    let names = |corrupt: fn(&mut Vec<String>)| {
        let mut case = claimed();
        corrupt(case.plan.priority.as_mut().expect("a priority"));
        let report = case.report();
        assert_eq!(report.value_s, None, "nothing says when every operator runs");
        report.violations.into_iter().map(|violation| violation.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(|names| drop(names.pop())), ["priority: the priority leaves operator \"c\" out"]);
    let twice = names(|names| names.push("a".to_owned()));
    assert_eq!(twice, ["priority: the priority names operator \"a\" more than once"]);
    let unknown = names(|names| names.push("z".to_owned()));
    assert_eq!(unknown, ["priority: the priority names \"z\", which the graph lacks"]);
}

#[test]
fn bounds_are_recomputed_where_they_speak_of_compute() {
    let claim = |bound: f64, source: &str, certificate: serde_json::Value| {
        let mut case = claimed();
        case.plan.bound.value_s = Some(bound);
        case.plan.bound.source = source.to_owned();
        case.plan.bound.certificate = read(certificate);
        case.plan.gap = Some((7.0 - bound) / 7.0);
        case.report().bound
    };
    let verified = |by, proved_s| BoundVerdict::Verified { by, proved_s };
    let none = json!(null);
    // a, then b or c.
    assert_eq!(claim(2.0, "critical-path", none.clone()), verified(BoundEvidence::CriticalPath, 2.0));
    let refuted = BoundVerdict::Refuted { by: BoundEvidence::CriticalPath, limit_s: Some(2.0) };
    assert_eq!(claim(3.0, "critical-path", none.clone()), refuted);
    // Three operators of a second over five devices.
    let prices = json!({"kind": "fluid", "prices": {"acc": 1.0, "far": 1.0, "host": 1.0}});
    assert_eq!(claim(0.6, "fluid", prices), verified(BoundEvidence::Fluid, 3.0 / 5.0));
    let heaviest = json!({"kind": "heaviest-unit", "operator": "b"});
    assert_eq!(claim(1.0, "heaviest-unit", heaviest), verified(BoundEvidence::HeaviestUnit, 1.0));
    let columns = json!({"kind": "column-generation", "threshold_s": 6.0, "prices": {}, "devices": {},
                         "order": ["a", "b", "c"]});
    assert_eq!(claim(6.0, "column-generation", columns), BoundVerdict::NotVerified);
    assert_eq!(claim(6.0, "one-machine", none.clone()), BoundVerdict::NotVerified);
    let above = BoundVerdict::Refuted { by: BoundEvidence::Value, limit_s: Some(7.0) };
    assert_eq!(claim(7.5, "one-machine", none), above);
}
