//! Single corruptions of a valid plan for latency, each reported as exactly that.

use crate::documents;

use documents::{Case, figures, graph, hosted, offload, read};
use serde_json::json;
use stagewright_core::document::DeviceDocument;
use stagewright_verify::{Subject, ViolationKind};

/// The chain a → b → c → d of 2, 3, 4 and 1 s, with tensors of 1.5, 2.5 and 0.5 s; b is in call 0 and d in
/// call 1 of acc0, the others are on the host. All figures are claimed: a ends at 2, b at 9, c at 13, d at
/// 14.5.
fn valid() -> Case {
    let graph = graph(
        &[("a", 2.0), ("b", 3.0), ("c", 4.0), ("d", 1.0)],
        &[("a", &["b"], 1.5), ("b", &["c"], 2.5), ("c", &["d"], 0.5)],
    );
    let mut plan = offload(2, &[("host0", "host", &[&["a", "c"]]), ("acc0", "acc", &[&["b"], &["d"]])]);
    plan.status = read(json!("feasible"));
    plan.objective.value_s = Some(14.5);
    figures(&mut plan, 0, [6.0, 6.0, 0.0, 0.0]);
    figures(&mut plan, 1, [8.5, 4.0, 4.5, 0.0]);
    Case { graph, cluster: hosted(), pins: None, plan }
}

fn after(corrupt: impl FnOnce(&mut Case)) -> Case {
    let mut case = valid();
    corrupt(&mut case);
    case
}

fn calls(device: &mut DeviceDocument, calls: &[&[&str]]) {
    device.calls =
        Some(calls.iter().map(|call| call.iter().map(|&operator| operator.to_owned()).collect()).collect());
}

/// Subject and message of the only violation, which is of kind `calls`.
fn only(case: &Case) -> (Subject, String) {
    let mut violations = case.report().violations;
    assert_eq!(violations.len(), 1, "{violations:?}");
    assert_eq!(violations[0].kind, ViolationKind::Calls);
    assert_eq!(violations[0].kind.name(), "calls");
    assert!(violations[0].kind.breaks_feasibility());
    let violation = violations.remove(0);
    (violation.subject, violation.message)
}

fn acc0() -> Subject {
    Subject::Device("acc0".to_owned())
}

fn operator(name: &str) -> Subject {
    Subject::Operator(name.to_owned())
}

#[test]
fn the_valid_case_is_valid() {
    let report = valid().report();
    assert!(report.holds(), "{:?}", report.violations);
    assert_eq!(report.value_s, Some(14.5));
}

#[test]
fn no_calls() {
    for missing in [None, Some(Vec::new())] {
        let case = after(|case| case.plan.devices[1].calls = missing);
        assert_eq!(only(&case), (acc0(), "device \"acc0\" has operators, but no calls".to_owned()));
        assert_eq!(case.report().value_s, None, "without calls there is no latency");
    }
}

#[test]
fn too_many_calls() {
    for limit in [Some(1), None] {
        let case = after(|case| case.plan.objective.calls = limit);
        assert_eq!(
            only(&case),
            (acc0(), "device \"acc0\" has 2 calls, but at most 1 are allowed".to_owned())
        );
        assert_eq!(case.report().value_s, Some(14.5), "what it would take, if it were allowed");
    }
}

#[test]
fn an_empty_call() {
    let case = after(|case| {
        case.plan.objective.calls = Some(3);
        calls(&mut case.plan.devices[1], &[&["b"], &[], &["d"]]);
    });
    assert_eq!(only(&case), (acc0(), "call 1 of \"acc0\" is empty".to_owned()));
}

#[test]
fn an_operator_in_no_call() {
    let case = after(|case| calls(&mut case.plan.devices[1], &[&["b"]]));
    let message = "operator \"d\" is in none of the calls of \"acc0\"";
    assert_eq!(only(&case), (operator("d"), message.to_owned()));
    assert_eq!(case.report().value_s, None);
}

#[test]
fn an_operator_in_two_calls() {
    let case = after(|case| calls(&mut case.plan.devices[1], &[&["b"], &["d", "b"]]));
    let message = "operator \"b\" is in call 0 of \"acc0\" and again in call 1 of \"acc0\"";
    assert_eq!(only(&case), (operator("b"), message.to_owned()));
    assert_eq!(case.report().value_s, None);
    let case = after(|case| calls(&mut case.plan.devices[1], &[&["b", "b"], &["d"]]));
    assert_eq!(only(&case).0, operator("b"));
}

#[test]
fn an_operator_of_another_device_or_of_none() {
    for stranger in ["a", "z"] {
        let case = after(|case| calls(&mut case.plan.devices[1], &[&["b"], &["d", stranger]]));
        let message = format!("call 1 of \"acc0\" runs {stranger:?}, which is not on this device");
        assert_eq!(only(&case), (operator(stranger), message));
        assert_eq!(case.report().value_s, None);
    }
}

#[test]
fn a_host_with_calls() {
    for given in [vec![], vec![vec!["a".to_owned(), "c".to_owned()]]] {
        let case = after(|case| case.plan.devices[0].calls = Some(given));
        let message = "device \"host0\" is a host, but has calls";
        assert_eq!(only(&case), (Subject::Device("host0".to_owned()), message.to_owned()));
    }
}

#[test]
fn calls_of_a_device_that_runs_nothing() {
    let idle = |given: Option<Vec<Vec<String>>>| {
        after(|case| {
            let mut idle = case.plan.devices[1].clone();
            (idle.name, idle.ops, idle.calls) = ("acc1".to_owned(), Vec::new(), given);
            case.plan.devices.push(idle);
            figures(&mut case.plan, 2, [0.0; 4]);
        })
    };
    assert_eq!(idle(None).broken(), [""; 0]);
    assert_eq!(idle(Some(vec![])).broken(), [""; 0]);
    assert_eq!(idle(Some(vec![vec![]])).broken(), ["calls"]);
    assert_eq!(idle(Some(vec![vec!["b".to_owned()]])).broken(), ["calls"]);
}

#[test]
fn a_call_that_waits_for_its_own_end() {
    // b and d in one call, with c on the host between them: not convex.
    let case = after(|case| calls(&mut case.plan.devices[1], &[&["b", "d"]]));
    let message = "no order of the calls exists: call 0 of \"acc0\" before \"c\" on \"host0\" (\"b\" feeds \"c\"), \
                   \"c\" on \"host0\" before call 0 of \"acc0\" (\"c\" feeds \"d\")";
    assert_eq!(only(&case), (acc0(), message.to_owned()));
    assert_eq!(case.report().value_s, None);
}

#[test]
fn calls_in_the_wrong_order() {
    let case = after(|case| calls(&mut case.plan.devices[1], &[&["d"], &["b"]]));
    let (subject, message) = only(&case);
    assert_eq!(subject, acc0());
    for part in [
        "call 0 of \"acc0\" before call 1 of \"acc0\" (calls run in turn)",
        "call 1 of \"acc0\" before \"c\" on \"host0\" (\"b\" feeds \"c\")",
        "\"c\" on \"host0\" before call 0 of \"acc0\" (\"c\" feeds \"d\")",
    ] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn wrong_figures() {
    assert_eq!(after(|case| case.plan.objective.value_s = Some(14.4)).broken(), ["value"]);
    assert_eq!(after(|case| case.plan.devices[1].load_s = 14.5).broken(), ["device-figures"]);
    assert_eq!(after(|case| case.plan.devices[1].compute_s = 8.5).broken(), ["device-figures"]);
    assert_eq!(after(|case| case.plan.devices[1].communication_s = 4.0).broken(), ["device-figures"]);
    assert_eq!(after(|case| case.plan.devices[0].memory_bytes = 1.0).broken(), ["device-figures"]);
    // The values if transfers were free, if only inputs were paid for, or only outputs.
    for other in [10.0, 12.0, 12.5] {
        assert_eq!(after(|case| case.plan.objective.value_s = Some(other)).broken(), ["value"]);
    }
}

#[test]
fn an_operator_moved() {
    // c moves into the call of d, which now pays for bc a second time and waits for the first call.
    let case = after(|case| {
        case.plan.devices[0].ops.pop();
        case.plan.devices[1].ops.push("c".to_owned());
        calls(&mut case.plan.devices[1], &[&["b"], &["c", "d"]]);
    });
    assert_eq!(case.broken(), ["value", "device-figures"]);
    // 2; 2 + 1.5 + 3 + 2.5; 9 + 2.5 + 4 + 1.
    assert_eq!(case.report().value_s, Some(16.5));
}

#[test]
fn the_other_constraints_hold_for_latency_as_well() {
    assert_eq!(after(|case| case.plan.devices[0].replicas = 2).broken(), ["placement"]);
    assert_eq!(after(|case| case.plan.devices[1].name = "acc2".to_owned()).broken(), ["placement"]);
    assert_eq!(after(|case| _ = case.plan.devices[1].ops.pop()).broken(), ["placement"]);
    assert_eq!(after(|case| case.pins = Some(read(json!({"b": "acc1"})))).broken(), ["pins"]);
    assert_eq!(
        after(|case| case.graph.operators[1].unsupported.push("gpu".to_owned())).broken(),
        ["support"]
    );
    let apart = after(|case| {
        case.graph.operators[0].colocation = Some("pair".to_owned());
        case.graph.operators[1].colocation = Some("pair".to_owned());
    });
    assert_eq!(apart.broken(), ["colocation"]);
}

#[test]
fn a_stage_without_a_pipeline() {
    let case = after(|case| case.plan.devices[1].stage = Some(0));
    assert_eq!(case.broken(), ["order"]);
    let message = "device \"acc0\" is stage 0, but without a pipeline there are no stages";
    assert_eq!(case.report().violations[0].message, message);
}

#[test]
fn status_and_gap_as_for_throughput() {
    assert_eq!(after(|case| case.plan.gap = Some(0.0)).broken(), ["gap"]);
    assert_eq!(after(|case| case.plan.status = read(json!("optimal"))).broken(), ["status"]);
    assert_eq!(after(|case| case.plan.status = read(json!("unknown"))).broken(), ["status"]);
}
