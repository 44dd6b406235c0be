//! A graph of 100,000 operators on more devices than a machine word has bits.

use crate::documents;

use documents::{Case, placement, read};
use serde_json::json;
use stagewright_core::document::{ObjectiveKind, OperatorDocument, Split, TensorDocument};
use stagewright_verify::ViolationKind;

const OPERATORS: usize = 100_000;
const DEVICES: usize = 200;

/// A chain in equal blocks, with operators of 1 s, tensors of 1 s, and skip connections over 1000 operators that take
/// no time to transfer.
fn chain() -> Case {
    let names: Vec<String> = (0..OPERATORS).map(|operator| format!("o{operator}")).collect();
    let mut graph = documents::chain();
    graph.operators = names.iter().map(OperatorDocument::named).collect();
    for operator in &mut graph.operators {
        operator.seconds.insert("gpu".to_owned(), 1.0);
    }
    let tensor = |from: usize, step: usize, bytes: f64| TensorDocument {
        name: None,
        producer: names[from].clone(),
        consumers: vec![names[from + step].clone()],
        bytes,
        seconds: Default::default(),
    };
    graph.tensors = (0..OPERATORS - 1).map(|from| tensor(from, 1, 1.0)).collect();
    graph.tensors.extend((0..OPERATORS - 1000).map(|from| tensor(from, 1000, 0.0)));
    let ops: Vec<Vec<&str>> =
        names.chunks(OPERATORS / DEVICES).map(|block| block.iter().map(String::as_str).collect()).collect();
    let devices: Vec<String> = (0..DEVICES).map(|device| format!("acc{device}")).collect();
    let devices: Vec<(&str, &str, &[&str])> =
        devices.iter().zip(&ops).map(|(name, ops)| (name.as_str(), "acc", ops.as_slice())).collect();
    Case {
        graph,
        cluster: read(json!({"schema": "stagewright.cluster/1", "kinds": [
            {"name": "acc", "class": "gpu", "count": DEVICES, "link": {"bandwidth": 1.0}}]})),
        pins: None,
        plan: placement(&devices),
    }
}

/// The chain with each block divided into `calls` calls.
fn offloaded(calls: usize) -> Case {
    let mut case = chain();
    case.plan.objective.kind = ObjectiveKind::Latency;
    case.plan.objective.calls = Some(calls as u32);
    for device in &mut case.plan.devices {
        device.stage = None;
        device.calls = Some(device.ops.chunks(device.ops.len() / calls).map(<[String]>::to_vec).collect());
    }
    case
}

#[test]
fn large_graphs_are_checked_for_latency() {
    // 100,000 operators one after the other; every call but the first receives a tensor, every call but the
    // last sends one.
    for (calls, value) in [(1, 100_000.0 + 2.0 * 199.0), (500, 100_000.0 + 2.0 * 99_999.0)] {
        let report = offloaded(calls).report();
        assert!(report.holds(), "{:?}", report.violations);
        assert_eq!(report.value_s, Some(value));
    }
    // The last operator moves to the first call: everything is on a cycle.
    let mut case = offloaded(1);
    let moved = case.plan.devices[DEVICES - 1].ops.pop().unwrap();
    case.plan.devices[DEVICES - 1].calls.as_mut().unwrap()[0].pop();
    case.plan.devices[0].calls.as_mut().unwrap()[0].push(moved.clone());
    case.plan.devices[0].ops.push(moved);
    let violations = case.report().violations;
    assert_eq!(violations.len(), 1);
    assert_eq!(violations[0].kind, ViolationKind::Calls);
    assert!(violations[0].message.len() < 1000, "{}", violations[0].message);
    // In reverse order, no device can start.
    let mut case = offloaded(500);
    case.plan.devices.iter_mut().for_each(|device| device.calls.as_mut().unwrap().reverse());
    assert_eq!(case.broken(), ["calls"]);
}

#[test]
fn large_graphs_are_checked_for_makespan() {
    let mut case = chain();
    case.plan.objective.kind = ObjectiveKind::Makespan;
    let report = case.report();
    assert!(report.holds(), "{:?}", report.violations);
    // One operator after the other, and between neighbouring blocks a tensor of 1 s and skips that take no
    // time.
    assert_eq!(report.value_s, Some(100_199.0));
    // A star: one operator feeds all others, one transfer per device, and each device runs its block in
    // reverse order.
    let mut case = chain();
    case.plan.objective.kind = ObjectiveKind::Makespan;
    case.plan.priority =
        Some(case.graph.operators.iter().rev().map(|operator| operator.name.clone()).collect());
    let all: Vec<String> = case.graph.operators.iter().map(|operator| operator.name.clone()).collect();
    let star = TensorDocument {
        name: None,
        producer: all[0].clone(),
        consumers: all[1..].to_vec(),
        bytes: 1.0,
        seconds: Default::default(),
    };
    case.graph.tensors = vec![star];
    let report = case.report();
    assert!(report.holds(), "{:?}", report.violations);
    // The tensor leaves its device 199 times in a row; the last device to receive it then runs 500 operators.
    assert_eq!(report.value_s, Some(1.0 + 199.0 + 500.0));
}

#[test]
fn large_graphs_are_checked_under_every_rule() {
    let mut case = chain();
    for split in [Split::Contiguous, Split::Convex, Split::Free] {
        case.plan.objective.split = split;
        let report = case.report();
        assert!(report.holds(), "{:?}", report.violations);
        // 100,000 / 200 operators, and a tensor in and a tensor out.
        assert_eq!(report.value_s, Some(502.0));
    }
    // The first operator of the last block moves to device 100, so a path leaves that device and comes back.
    let moved = case.plan.devices[DEVICES - 1].ops.remove(0);
    case.plan.devices[100].ops.push(moved);
    case.plan.objective.split = Split::Convex;
    let violations = case.report().violations;
    assert_eq!(violations.len(), 1);
    assert!(violations[0].message.contains("leaves device \"acc100\""), "{}", violations[0].message);
    assert!(violations[0].message.ends_with("comes back at \"o99500\""), "{}", violations[0].message);
}
