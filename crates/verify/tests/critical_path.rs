//! Bounds on the latency: the critical path is recomputed, and evidence for other objectives is ignored.

use crate::documents;

use documents::{Case, graph, hosted, offload, read};
use serde_json::json;
use stagewright_core::document::{ObjectiveKind, PlanStatus};
use stagewright_verify::{BoundEvidence, BoundVerdict};

/// a → b → d and a → c → d of 1, 2, 3 and 4 s, all in one call of acc0, with value 10. The longest path is a,
/// c, d: 8.
fn claim(bound: f64, source: &str) -> Case {
    let graph = graph(
        &[("a", 1.0), ("b", 2.0), ("c", 3.0), ("d", 4.0)],
        &[("a", &["b", "c"], 1.0), ("b", &["d"], 1.0), ("c", &["d"], 1.0)],
    );
    let mut plan = offload(1, &[("acc0", "acc", &[&["a", "b", "c", "d"]])]);
    plan.status = PlanStatus::Feasible;
    plan.objective.value_s = Some(10.0);
    documents::figures(&mut plan, 0, [10.0, 10.0, 0.0, 0.0]);
    plan.bound.value_s = Some(bound);
    plan.bound.source = source.to_owned();
    plan.gap = Some((10.0 - bound) / 10.0);
    Case { graph, cluster: hosted(), pins: None, plan }
}

/// The bound that the critical path proves for a verified claim.
fn proved(case: &Case) -> f64 {
    match case.report().bound {
        BoundVerdict::Verified { by: BoundEvidence::CriticalPath, proved_s } => proved_s,
        other => panic!("{other:?}"),
    }
}

fn refuted(case: &Case) -> (BoundEvidence, Option<f64>) {
    assert!(case.broken().contains(&"bound"));
    match case.report().bound {
        BoundVerdict::Refuted { by, limit_s } => (by, limit_s),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_longest_path() {
    let case = claim(8.0, "critical-path");
    assert_eq!(proved(&case), 8.0);
    assert_eq!(case.broken(), [""; 0]);
    assert_eq!(proved(&claim(7.0, "critical-path")), 8.0, "less than it proves");
    let above = claim(8.5, "critical-path");
    assert_eq!(refuted(&above), (BoundEvidence::CriticalPath, Some(8.0)));
    assert_eq!(
        above.report().violations[0].message,
        "the bound is 8.5000 s, but critical-path proves 8.0000 s"
    );
    assert_eq!(BoundEvidence::CriticalPath.name(), "critical-path");
}

#[test]
fn the_value_refutes_a_bound_above_it() {
    for source in ["critical-path", "exhausted"] {
        let mut case = claim(11.0, source);
        case.plan.gap = Some(0.0);
        assert_eq!(refuted(&case), (BoundEvidence::Value, Some(10.0)));
    }
}

#[test]
fn each_operator_at_its_fastest() {
    // With c taking 1 on the host, a, b, d is the longest path, with 7, and a, c, d takes only 6.
    let mut case = claim(7.0, "critical-path");
    case.graph.operators[2].seconds = read(json!({"gpu": 3.0, "cpu": 1.0}));
    assert_eq!(proved(&case), 7.0);
    // If c can't use the host, because of pins, support or a missing host, the bound is 8 again.
    let mut pinned = case.clone();
    pinned.pins = Some(read(json!({"c": ["acc1", "acc0"]})));
    assert_eq!(proved(&pinned), 8.0);
    let mut unsupported = case.clone();
    unsupported.graph.operators[2].unsupported.push("cpu".to_owned());
    assert_eq!(proved(&unsupported), 8.0);
    let mut gone = case.clone();
    gone.cluster.kinds[1].count = 0;
    assert_eq!(proved(&gone), 8.0);
    // The same holds if it is colocated with b, which is pinned.
    for operator in [1, 2] {
        case.graph.operators[operator].colocation = Some("pair".to_owned());
    }
    case.pins = Some(read(json!({"b": "acc0"})));
    assert_eq!(proved(&case), 8.0);
}

#[test]
fn an_operator_that_may_run_nowhere_proves_nothing() {
    let mut case = claim(5.0, "critical-path");
    case.graph.operators[1].unsupported = vec!["gpu".to_owned(), "cpu".to_owned()];
    assert_eq!(case.report().bound, BoundVerdict::NotVerified);
}

#[test]
fn a_path_that_overflows_proves_nothing() {
    let mut case = claim(5.0, "critical-path");
    for operator in &mut case.graph.operators {
        operator.seconds = read(json!({"gpu": 1e308, "cpu": 1e308}));
    }
    assert_eq!(case.report().bound, BoundVerdict::NotVerified);
}

#[test]
fn other_sources_are_not_verified() {
    for (source, broken) in [
        ("exhausted", None),
        ("fluid", None),
        ("heaviest-unit", None),
        ("", Some("bound")),
        ("critical-path ", Some("bound")),
    ] {
        let case = claim(8.0, source);
        assert_eq!(case.report().bound, BoundVerdict::NotVerified);
        assert_eq!(case.broken(), Vec::from_iter(broken), "{source}");
    }
}

#[test]
fn certificates_of_throughput_are_no_evidence() {
    // Each proves its bound for throughput, and heaviest-unit would be valid even here; but none is evidence
    // for latency.
    let certificates = [
        json!({"kind": "fluid", "prices": {"acc": 1.0, "host": 1.0}}),
        json!({"kind": "heaviest-unit", "operator": "d"}),
        json!({"kind": "column-generation", "threshold_s": 2.0, "prices": {"d": 1.0}, "devices": {},
               "order": ["a", "b", "c", "d"]}),
    ];
    for certificate in certificates {
        let mut case = claim(1.5, "exhausted");
        case.plan.bound.certificate = read(certificate.clone());
        assert_eq!(case.report().bound, BoundVerdict::NotVerified);
        assert_eq!(case.broken(), [""; 0]);
        // The path is recomputed whatever the certificate.
        case.plan.bound.source = "critical-path".to_owned();
        assert_eq!(proved(&case), 8.0);

        // For throughput, the same certificate proves the bound.
        let mut throughput = claim(1.5, "exhausted");
        throughput.plan.objective.kind = ObjectiveKind::Throughput;
        throughput.plan.bound.certificate = read(certificate);
        assert!(matches!(throughput.report().bound, BoundVerdict::Verified { .. }));
    }
}

#[test]
fn the_critical_path_is_no_bound_on_throughput() {
    let mut case = claim(8.0, "critical-path");
    case.plan.objective.kind = ObjectiveKind::Throughput;
    assert_eq!(case.report().bound, BoundVerdict::NotVerified);
}

#[test]
fn a_bound_without_a_plan() {
    let mut case = claim(8.0, "critical-path");
    case.plan.status = PlanStatus::Unknown;
    case.plan.objective.value_s = None;
    case.plan.gap = None;
    case.plan.devices.clear();
    assert_eq!(proved(&case), 8.0);
    case.plan.bound.value_s = Some(8.5);
    assert_eq!(refuted(&case), (BoundEvidence::CriticalPath, Some(8.0)));
}

/// A certificate that counts no windows is a path.
#[test]
fn a_path_with_prices_of_memory() {
    let verdict = |certificate: serde_json::Value, claimed: f64| {
        let mut case = claim(claimed, "memory");
        for operator in &mut case.graph.operators {
            operator.parameter_bytes = 60.0;
            operator.seconds = read(json!({"gpu": 1.0, "cpu": 3.0}));
        }
        case.plan.bound.certificate = read(certificate);
        case.report().bound
    };
    let windows = |listed: serde_json::Value, price: f64| {
        json!({"kind": "windows", "prices": {"acc": 1.0}, "path": ["a", "c", "d"], "windows": listed,
               "memory": {"acc": {"quantum_bytes": 51.0, "price": price}}})
    };
    // Each of the two devices holds one of the four operators. At a price of 1 s, the three of the path pay 1 each, b
    // pays nothing, and 2 are subtracted.
    let proves = |price: f64, claimed: f64, exact: f64| match verdict(windows(json!([]), price), claimed) {
        // The rounding of prices of memory is subtracted.
        BoundVerdict::Verified { by: BoundEvidence::Windows, proved_s } => {
            assert!(proved_s <= exact && proved_s > exact - 1e-12, "{proved_s}, exactly {exact}");
        }
        other => panic!("{other:?}"),
    };
    proves(1.0, 4.0, 4.0);
    proves(2.0, 4.0, 5.0);
    // The host is cheaper.
    proves(3.0, 3.0, 3.0);
    // The work of devices does not bound the latency.
    assert_eq!(verdict(windows(json!([0]), 1.0), 1.0), BoundVerdict::NotVerified);
}
