//! Steps without contention, small enough to simulate by hand, and published ones.

use crate::documents;
use stagewright_testing::heterogeneous;

use documents::{Case, figures, graph, hosted, peaks, placement, read, sound, value};
use serde_json::json;
use stagewright_core::document::{
    Execution, GraphDocument, MatrixDocument, ObjectiveKind, PlanDocument, PlanStatus,
};
use stagewright_core::tolerance;
use stagewright_verify::DeviceFigures;

/// A plan for makespan without contention, without claims.
fn executed(devices: &[(&str, &str, &[&str])]) -> PlanDocument {
    let mut plan = placement(devices);
    plan.objective.kind = ObjectiveKind::Makespan;
    plan.objective.execution = Execution::ContentionFree;
    plan
}

/// A case on three devices with links of 1 byte/s, and two sockets of a host.
fn case(graph: GraphDocument, devices: &[(&str, &str, &[&str])]) -> Case {
    let mut cluster = hosted();
    cluster.kinds[0].count = 3;
    cluster.kinds[0].memory_bytes = None;
    Case { graph, cluster, pins: None, plan: executed(devices) }
}

fn ranked(mut case: Case, order: &[&str]) -> Case {
    case.plan.priority = Some(order.iter().map(|&name| name.to_owned()).collect());
    case
}

/// a feeds b and c with tensors of 2 and 3 bytes; each operator is on its own device.
fn fan() -> Case {
    let graph = graph(&[("a", 1.0), ("b", 1.0), ("c", 1.0)], &[("a", &["b"], 2.0), ("a", &["c"], 3.0)]);
    case(graph, &[("acc0", "acc", &["a"]), ("acc1", "acc", &["b"]), ("acc2", "acc", &["c"])])
}

#[test]
fn nothing_waits_for_a_port_and_none_is_loaded() {
    // a ends at 1, its tensors arrive at 3 and 4, c ends at 5.
    let report = sound(&fan());
    assert_eq!(report.value_s, Some(5.0));
    for device in &report.devices {
        assert_eq!([device.load_s, device.compute_s, device.communication_s], [1.0, 1.0, 0.0]);
    }
}

#[test]
fn every_reader_is_sent_a_copy_of_its_own() {
    let graph = graph(&[("a", 1.0), ("b", 1.0), ("c", 1.0)], &[("a", &["b", "c"], 4.0)]);
    let case = case(graph, &[("acc0", "acc", &["a"]), ("acc1", "acc", &["b", "c"])]);
    // Both arrive at 5.
    assert_eq!(value(&case), 7.0);
    assert_eq!(peaks(&case), [4.0, 8.0]);
}

#[test]
fn hosts_have_the_tensor_at_once() {
    let graph = graph(&[("a", 1.0), ("b", 1.0)], &[("a", &["b"], 4.0)]);
    assert_eq!(value(&case(graph, &[("host0", "host", &["a"]), ("host1", "host", &["b"])])), 2.0);
}

#[test]
fn at_home_a_tensor_takes_the_diagonal() {
    let graph = graph(&[("a", 1.0), ("b", 1.0), ("c", 1.0)], &[("a", &["b", "c"], 4.0)]);
    let mut case = case(graph, &[("acc1", "acc", &["a", "b", "c"])]);
    assert_eq!(value(&case), 3.0);
    let rows = |figure: f64| -> Vec<Vec<f64>> {
        (0..5).map(|row| (0..5).map(|column| figure * f64::from(5 * row + column)).collect()).collect()
    };
    case.cluster.matrix = Some(MatrixDocument { delay_s: rows(0.5), seconds_per_byte: rows(0.25) });
    // Diagonal entry of acc1: 3 + 4 · 1.5, once for both readers; no copy is made.
    assert_eq!(value(&case), 1.0 + 9.0 + 2.0);
    assert_eq!(peaks(&case), [4.0]);
}

#[test]
fn what_arrives_at_one_moment_arrives_in_the_order_of_sending() {
    let graph = graph(
        &[("a", 1.0), ("b", 1.0), ("x", 2.0), ("y", 1.0), ("z", 5.0)],
        &[("b", &["x"], 2.0), ("a", &["y"], 2.0), ("y", &["z"], 0.0)],
    );
    let on: [(&str, &str, &[&str]); 3] =
        [("acc0", "acc", &["a", "z"]), ("acc1", "acc", &["b"]), ("acc2", "acc", &["x", "y"])];
    // At 3, y receives its input from a before x receives its input from b.
    assert_eq!(value(&case(graph, &on)), 9.0);
}

#[test]
fn what_follows_at_one_time_waits_for_its_turn() {
    let graph = graph(
        &[("a", 2.0), ("b", 1.0), ("c", 2.0), ("d", 1.0), ("e", 2.0), ("f", 3.0)],
        &[
            ("a", &["b"], 1.0),
            ("a", &["c"], 2.0),
            ("a", &["d"], 1.0),
            ("a", &["e"], 1.0),
            ("c", &["d"], 0.0),
            ("e", &["f"], 0.0),
        ],
    );
    let case = case(graph, &[("acc0", "acc", &["e"]), ("acc1", "acc", &["a", "b", "c", "d", "f"])]);
    // At 3, the tensor for e arrives before b ends. But e must first receive it and request the device, while c is already
    // waiting and starts first. So at 5 c ends before e, and d asks for the device before f, which waits until 6.
    assert_eq!(value(&case), 9.0);
}

#[test]
fn a_tensor_is_sent_in_the_order_in_which_it_names_its_readers() {
    let named = |readers: &[&str]| {
        let graph = graph(
            &[("a", 1.0), ("b", 4.0), ("c", 1.0), ("z", 5.0)],
            &[("a", readers, 0.0), ("c", &["z"], 0.0)],
        );
        value(&case(graph, &[("acc0", "acc", &["a", "z"]), ("acc1", "acc", &["b", "c"])]))
    };
    assert_eq!(named(&["b", "c"]), 1.0 + 4.0 + 1.0 + 5.0);
    assert_eq!(named(&["c", "b"]), 1.0 + 1.0 + 5.0);
    assert_eq!(named(&["c", "b", "c"]), 1.0 + 1.0 + 5.0, "who is named twice reads it once");
}

#[test]
fn a_device_goes_on_before_what_it_has_made_is_there() {
    let graph =
        graph(&[("p", 1.0), ("q", 5.0), ("r", 1.0), ("z", 9.0)], &[("p", &["r"], 0.0), ("r", &["z"], 0.0)]);
    let case = case(graph, &[("acc0", "acc", &["p", "q", "r"]), ("acc1", "acc", &["z"])]);
    // At 1, q is queued and r is not yet.
    assert_eq!(value(&ranked(case, &["r", "z", "p", "q"])), 1.0 + 5.0 + 1.0 + 9.0);
}

#[test]
fn a_free_device_does_not_wait_for_the_better() {
    let graph = graph(&[("x", 4.0), ("w", 2.0), ("y", 1.0), ("z", 5.0)], &[("y", &["z"], 0.0)]);
    let case = case(graph, &[("acc0", "acc", &["w", "y", "x"]), ("acc1", "acc", &["z"])]);
    // All are ready at 0. x, the first in document order, starts immediately; w is the first of the others,
    // or y by priority.
    assert_eq!(value(&case), 4.0 + 2.0 + 1.0 + 5.0);
    assert_eq!(value(&ranked(case, &["z", "y", "w", "x"])), 4.0 + 1.0 + 5.0);
}

#[test]
fn what_nobody_reads_is_gone_before_the_next_starts() {
    let graph = graph(&[("a", 1.0), ("b", 0.0)], &[("a", &[], 100.0)]);
    let mut case = case(graph, &[("acc0", "acc", &["a", "b"])]);
    case.graph.operators[0].workspace_bytes = 20.0;
    case.graph.operators[1].workspace_bytes = 50.0;
    case.graph.operators[1].parameter_bytes = 1000.0;
    assert_eq!(peaks(&case), [1120.0]);
    case.cluster.kinds[0].memory_bytes = Some(1120.0);
    sound(&case);
    case.cluster.kinds[0].memory_bytes = Some(1119.0);
    assert_eq!(case.broken(), ["peak-memory"]);
}

#[test]
fn what_is_claimed_is_compared() {
    let after = |corrupt: &dyn Fn(&mut Case)| {
        let mut case = ranked(fan(), &["b", "a", "c"]);
        case.plan.status = PlanStatus::Feasible;
        case.plan.objective.value_s = Some(5.0);
        for (device, bytes) in [5.0, 2.0, 3.0].into_iter().enumerate() {
            figures(&mut case.plan, device, [1.0, 1.0, 0.0, bytes]);
        }
        corrupt(&mut case);
        case.broken()
    };
    assert_eq!(after(&|_| {}), [""; 0]);
    // The makespan with ports.
    assert_eq!(after(&|case| case.plan.objective.value_s = Some(7.0)), ["value"]);
    assert_eq!(after(&|case| case.plan.devices[0].communication_s = 5.0), ["device-figures"]);
    assert_eq!(after(&|case| case.plan.devices[1].memory_bytes = 1.0), ["device-figures"]);
    assert_eq!(after(&|case| case.cluster.kinds[0].memory_bytes = Some(4.0)), ["peak-memory"]);
    assert_eq!(after(&|case| case.pins = Some(read(json!({"b": "acc0"})))), ["pins"]);
    assert_eq!(after(&|case| drop(case.plan.priority.as_mut().map(Vec::pop))), ["priority"]);
    let bound = |case: &mut Case| {
        case.plan.bound.value_s = Some(2.5);
        case.plan.gap = Some(0.5);
        case.plan.bound.source = "critical-path".to_owned();
    };
    assert_eq!(after(&bound), ["bound"]);
}

#[test]
fn the_published_placements_take_what_is_published() {
    let Some(tasks) = heterogeneous::tasks() else { return };
    for (index, task) in tasks.iter().enumerate() {
        let problem = task.problem();
        let mut plan = executed(&[]);
        for device in problem.cluster().devices() {
            let (name, kind) = (problem.cluster().device_name(device), problem.cluster().kind_of(device));
            let ops = problem.graph().operators().filter(|op| task.heft_placement[op.index()] == device.0);
            let ops: Vec<&str> = ops.map(|op| problem.graph().operator(op).name.as_str()).collect();
            if !ops.is_empty() {
                let kind = &problem.cluster().kind(kind).name;
                plan.devices.extend(placement(&[(&name, kind, &ops)]).devices);
            }
        }
        let (graph, cluster) = (problem.graph().document().clone(), problem.cluster().document().clone());
        let mut case = Case { graph, cluster, pins: None, plan };
        let found = value(&case);
        assert!(tolerance::same(found, task.heft_makespan), "task {index}: {found}, {}", task.heft_makespan);

        let report = case.report();
        for (device, figures) in report.devices.iter().enumerate() {
            let DeviceFigures { load_s, compute_s, communication_s, memory_bytes, .. } = *figures;
            documents::figures(&mut case.plan, device, [load_s, compute_s, communication_s, memory_bytes]);
        }
        case.plan.status = PlanStatus::Feasible;
        case.plan.objective.value_s = Some(task.heft_makespan);
        sound(&case);
        case.plan.objective.value_s = Some(task.heft_makespan * 0.999);
        assert_eq!(case.broken(), ["value"], "task {index}");
    }
}
