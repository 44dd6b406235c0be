//! Single corruptions of a valid plan, each reported as exactly that.

use crate::documents;

use documents::{Case, figures, read, valid};
use serde_json::json;
use stagewright_core::document::PlanStatus;
use stagewright_verify::{Subject, ViolationKind};

/// Violation kinds after one change to the valid case.
fn after(corrupt: impl FnOnce(&mut Case)) -> Vec<&'static str> {
    let mut case = valid();
    corrupt(&mut case);
    case.broken()
}

#[test]
fn the_valid_case_is_valid() {
    let report = valid().report();
    assert!(report.holds(), "{:?}", report.violations);
    assert_eq!(report.value_s, Some(7.5));
    assert_eq!(report.uplinks, vec![("server".to_owned(), 2.0)]);
    assert_eq!(report.devices[0].memory_limit, Some(100.0));
    assert_eq!((report.forward_s, report.backward_s), (None, None));
}

#[test]
fn placement_operator_missing() {
    let mut case = valid();
    case.plan.devices[0].ops.remove(0);
    let report = case.report();
    assert_eq!(case.broken(), ["placement"]);
    assert_eq!(report.violations[0].subject, Subject::Operator("a".to_owned()));
    assert_eq!(report.violations[0].to_string(), "placement: operator \"a\" is on no device");
    assert_eq!(report.value_s, None, "the load of an incomplete placement means nothing");
}

#[test]
fn placement_operator_twice() {
    assert_eq!(after(|case| case.plan.devices[1].ops.push("a".to_owned())), ["placement"]);
    assert_eq!(after(|case| case.plan.devices[0].ops.push("a".to_owned())), ["placement"]);
}

#[test]
fn placement_operator_unknown() {
    assert_eq!(after(|case| case.plan.devices[1].ops.push("z".to_owned())), ["placement"]);
}

#[test]
fn placement_device_unknown() {
    for name in ["acc2", "acc", "acc00", "acc+1", "far0", "acc99999999999", ""] {
        assert_eq!(after(|case| case.plan.devices[0].name = name.to_owned()), ["placement"], "{name}");
    }
    assert_eq!(after(|case| case.plan.devices[0].kind = "gpu".to_owned()), ["placement"]);
}

#[test]
fn placement_device_twice() {
    let twice = |case: &mut Case| {
        let mut again = case.plan.devices[1].clone();
        again.ops.clear();
        case.plan.devices.push(again);
    };
    assert_eq!(after(twice), ["placement"]);
}

#[test]
fn placement_too_many_devices_of_a_kind() {
    // far0 with a replica, though its kind has one device.
    let mut case = valid();
    case.plan.objective.max_replicas = Some(2);
    assert_eq!(case.broken(), [""; 0]);
    case.plan.devices[1].replicas = 2;
    assert_eq!(case.broken(), ["placement"]);
    assert_eq!(case.report().violations[0].subject, Subject::Kind("far".to_owned()));
}

#[test]
fn replicas_on_a_device_that_a_pin_tells_apart() {
    let pinned = |pins: serde_json::Value| {
        let mut case = valid();
        case.plan.objective.max_replicas = Some(2);
        case.plan.devices[0].replicas = 2;
        case.plan.pins = read(pins);
        case
    };
    let apart = pinned(json!({"a": "acc0"}));
    assert!(apart.broken().contains(&"replicas"));
    let report = apart.report();
    let found = report.violations.iter().find(|violation| violation.kind == ViolationKind::Replicas);
    assert_eq!(found.map(|found| &found.subject), Some(&Subject::Device("acc0".to_owned())));
    // acc1 is reserved for c, though c is elsewhere.
    assert!(pinned(json!({"c": ["acc1", "far"]})).broken().contains(&"replicas"));
    for together in [json!({"a": "acc"}), json!({"a": ["acc1", "acc0"]}), json!({"a": ["acc0", "gpu"]})] {
        assert!(!pinned(together).broken().contains(&"replicas"));
    }
}

#[test]
fn a_device_that_runs_nothing_is_not_in_use() {
    // acc0 uses both devices of its kind; acc1 is listed without operators and uses none.
    let mut case = valid();
    case.plan =
        documents::placement(&[("acc0", "acc", &["a", "b"]), ("far0", "far", &["c"]), ("acc1", "acc", &[])]);
    case.plan.objective.max_replicas = Some(2);
    case.plan.devices[0].replicas = 2;
    case.plan.devices[2].stage = Some(0);
    assert_eq!(case.broken(), [""; 0]);
    case.plan.devices[1].ops.clear();
    case.plan.devices[2].ops.push("c".to_owned());
    case.plan.devices[2].stage = Some(2);
    assert_eq!(case.broken(), ["placement"], "three of two");
}

#[test]
fn placement_replicas_out_of_range() {
    assert_eq!(after(|case| case.plan.devices[0].replicas = 0), ["placement"]);
    assert_eq!(
        after(|case| case.plan.devices[0].replicas = 2),
        ["placement"],
        "one device a stage by default"
    );
}

#[test]
fn support() {
    assert_eq!(after(|case| case.graph.operators[2].unsupported.push("tpu".to_owned())), ["support"]);
    assert_eq!(after(|case| _ = case.graph.operators[2].seconds.remove("tpu")), ["support"]);
}

#[test]
fn pins_given_beside_the_plan() {
    for (target, broken) in [("acc", true), ("far", false), ("far0", false), ("gpu", true), ("tpu", false)] {
        let expected: &[&str] = if broken { &["pins"] } else { &[] };
        assert_eq!(after(|case| case.pins = Some(read(json!({"c": target})))), expected, "{target}");
    }
    assert_eq!(after(|case| case.pins = Some(read(json!({"c": ["acc1", "far0"]})))), [""; 0]);
    assert_eq!(after(|case| case.pins = Some(read(json!({"c": []})))), ["pins"], "no device is allowed");
}

#[test]
fn pins_of_the_plan() {
    assert_eq!(after(|case| case.plan.pins = read(json!({"a": "acc1"}))), ["pins"]);
}

#[test]
fn pins_of_both_apply() {
    let both = |case: &mut Case| {
        case.plan.pins = read(json!({"a": ["acc0", "far"]}));
        case.pins = Some(read(json!({"a": ["acc1", "far"]})));
    };
    assert_eq!(after(both), ["pins"], "acc0 is in one of the two only");
}

#[test]
fn pins_are_met_by_the_device_that_the_stage_names() {
    // The replicated stage uses acc0 and acc1, but only acc0 is named, and acc1 can't be its replica once a
    // pin distinguishes the two.
    let mut case = valid();
    case.plan.objective.value_s = None;
    case.plan.status = PlanStatus::Unknown;
    case.plan.objective.max_replicas = Some(2);
    case.plan.devices[0].replicas = 2;
    case.pins = Some(read(json!({"a": "acc1"})));
    assert_eq!(case.broken(), ["pins", "replicas"]);
    case.pins = Some(read(json!({"a": "acc0"})));
    assert_eq!(case.broken(), ["replicas"]);
    case.plan.devices[0].replicas = 1;
    assert_eq!(case.broken(), [""; 0]);
}

#[test]
fn colocation() {
    let group = |case: &mut Case| {
        for operator in &mut case.graph.operators[1..] {
            operator.colocation = Some("pair".to_owned());
        }
    };
    assert_eq!(after(group), ["colocation"]);
}

#[test]
fn memory() {
    // far0 holds 6 + 3 = 9 bytes.
    assert_eq!(after(|case| case.cluster.kinds[1].memory_bytes = Some(9.0)), [""; 0]);
    assert_eq!(after(|case| case.cluster.kinds[1].memory_bytes = Some(8.9)), ["memory"]);
    assert_eq!(after(|case| case.cluster.kinds[1].memory_bytes = None), [""; 0], "unlimited");
}

#[test]
fn in_flight_memory() {
    // GPipe with 2 microbatches: acc0 35 + 2·5 = 45, far0 6 + 2·3 = 12; an iteration of 7.5 + 6 + 7.5 s.
    let mut case = valid();
    case.plan.objective.value_s = Some(21.0);
    case.plan.objective.schedule = read(json!("gpipe"));
    case.plan.objective.microbatches = Some(2);
    case.plan.devices[0].memory_bytes = 45.0;
    case.plan.devices[1].memory_bytes = 12.0;
    assert_eq!(case.broken(), [""; 0]);
    case.cluster.kinds[1].memory_bytes = Some(11.0);
    assert_eq!(case.broken(), ["in-flight-memory"], "9 bytes fit, 12 do not");
    case.cluster.kinds[1].memory_bytes = Some(8.0);
    assert_eq!(case.broken(), ["memory"], "not even 9 bytes fit");
}

#[test]
fn order_of_stages() {
    let swap = |case: &mut Case| {
        case.plan.devices[0].stage = Some(1);
        case.plan.devices[1].stage = Some(0);
    };
    assert_eq!(after(swap), ["order"]);
    assert_eq!(after(|case| case.plan.devices[1].stage = Some(0)), ["order"], "two devices at one stage");
    assert_eq!(after(|case| case.plan.devices[1].stage = None), ["order"], "only one device has a stage");
    assert_eq!(after(|case| case.plan.devices[1].stage = Some(7)), ["device-figures"], "an order with a gap");
}

#[test]
fn order_needed_by_1f1b() {
    let mut case = valid();
    case.plan.objective.schedule = read(json!("1f1b"));
    case.plan.objective.microbatches = Some(1);
    // One microbatch goes through both stages, 7.5 and 6 s.
    case.plan.objective.value_s = Some(13.5);
    assert_eq!(case.broken(), [""; 0]);
    for device in &mut case.plan.devices {
        device.stage = None;
    }
    assert_eq!(case.broken(), ["order"]);
}

#[test]
fn seconds_of_the_solve() {
    for wrong in [-1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(after(|case| case.plan.seconds = wrong), ["seconds"], "{wrong}");
    }
}

#[test]
fn value() {
    assert_eq!(after(|case| case.plan.objective.value_s = Some(7.500001)), ["value"]);
    assert_eq!(after(|case| case.plan.objective.value_s = Some(f64::NAN)), ["value"]);
    assert_eq!(after(|case| case.plan.objective.value_s = Some(f64::INFINITY)), ["value"]);
}

#[test]
fn device_figures() {
    let right = [7.5, 5.0, 2.5, 40.0];
    for wrong in 0..4 {
        let mut claimed = right;
        claimed[wrong] += 0.125;
        assert_eq!(after(|case| figures(&mut case.plan, 0, claimed)), ["device-figures"]);
        claimed[wrong] = f64::NAN;
        assert_eq!(after(|case| figures(&mut case.plan, 0, claimed)), ["device-figures"]);
    }
}

#[test]
fn uplink_figures() {
    assert_eq!(after(|case| case.plan.uplinks[0].load_s = 1.0), ["uplink-figures"]);
    assert_eq!(after(|case| case.plan.uplinks.clear()), ["uplink-figures"]);
    assert_eq!(after(|case| case.plan.uplinks.push(case.plan.uplinks[0].clone())), ["uplink-figures"]);
    let idle = |case: &mut Case| {
        // Both kinds in one group, so that nothing crosses its uplink.
        case.cluster.kinds[1].group = Some("server".to_owned());
        case.plan.uplinks.clear();
    };
    assert_eq!(after(idle), ["uplink-figures"], "a load of zero is a load");
    let unknown = json!({"group": "pod", "load_s": 0.0});
    assert_eq!(after(|case| case.plan.uplinks.push(read(unknown))), ["uplink-figures"]);
}

/// The valid case with a bound that agrees with its value.
fn optimal() -> Case {
    let mut case = valid();
    case.plan.status = PlanStatus::Optimal;
    case.plan.bound.value_s = Some(7.5);
    case.plan.gap = Some(0.0);
    case
}

#[test]
fn bound_above_the_value() {
    let mut case = optimal();
    assert_eq!(case.broken(), [""; 0]);
    case.plan.bound.value_s = Some(7.6);
    assert_eq!(case.broken(), ["bound"]);
}

#[test]
fn status() {
    let mut case = optimal();
    // (7.5 − 6) / 7.5 = 0.2 is a gap.
    case.plan.bound.value_s = Some(6.0);
    case.plan.gap = Some(0.2);
    assert_eq!(case.broken(), ["status"]);
    case.plan.status = PlanStatus::Feasible;
    assert_eq!(case.broken(), [""; 0]);

    assert_eq!(after(|case| case.plan.status = PlanStatus::Optimal), ["status"], "there is no bound");
    assert_eq!(after(|case| case.plan.status = PlanStatus::Infeasible), ["status"]);
    assert_eq!(after(|case| case.plan.status = PlanStatus::Unknown), ["status"]);
    assert_eq!(after(|case| case.plan.objective.value_s = None), ["status"], "feasible with no value");
}

#[test]
fn gap() {
    let mut case = optimal();
    case.plan.status = PlanStatus::Feasible;
    case.plan.bound.value_s = Some(6.0);
    for (gap, right) in [(Some(0.2), true), (Some(0.2000005), true), (Some(0.21), false), (None, false)] {
        case.plan.gap = gap;
        let expected: &[&str] = if right { &[] } else { &["gap"] };
        assert_eq!(case.broken(), expected, "{gap:?}");
    }
    assert_eq!(after(|case| case.plan.gap = Some(0.0)), ["gap"], "there is no bound");
}

#[test]
fn nothing_to_check() {
    for status in [PlanStatus::Infeasible, PlanStatus::Unknown] {
        let mut case = valid();
        case.plan.status = status;
        case.plan.devices.clear();
        case.plan.objective.value_s = None;
        let report = case.report();
        assert!(report.holds());
        assert_eq!((report.value_s, report.devices.len()), (None, 0));
    }
}

#[test]
fn a_placement_without_claims_is_scored_and_not_compared() {
    let mut case = valid();
    case.plan.status = PlanStatus::Unknown;
    case.plan.objective.value_s = None;
    case.plan.devices[0].load_s = 0.0;
    case.plan.uplinks.clear();
    let report = case.report();
    assert!(report.holds());
    assert_eq!(report.value_s, Some(7.5));
}

#[test]
fn a_bound_is_not_refuted_by_an_infeasible_plan() {
    // The plan takes 7.5 s but exceeds the memory limit, so nothing refutes a bound of 8 s.
    let mut case = optimal();
    case.plan.bound.value_s = Some(8.0);
    case.cluster.kinds[1].memory_bytes = Some(1.0);
    assert_eq!(case.broken(), ["memory"]);
}

#[test]
fn violations_beyond_the_first_hundred_of_a_kind_are_counted() {
    let mut case = valid();
    case.plan.devices[0].ops.extend((0..150).map(|n| format!("z{n}")));
    let violations = case.report().violations;
    assert_eq!(violations.len(), 101);
    assert_eq!(violations[100].message, "and 50 more");
    assert_eq!(violations[100].kind, ViolationKind::Placement);
}
