//! Certificates with bounds computed by hand.

use crate::documents;

use documents::{Case, placement, read, valid};
use serde_json::{Value, json};
use stagewright_core::document::PlanStatus;
use stagewright_verify::{BoundEvidence, BoundVerdict};

/// The valid case, of value 7.5, with a claimed bound and its certificate.
fn claim(bound: f64, certificate: Value) -> Case {
    let mut case = valid();
    case.plan.status = PlanStatus::Feasible;
    case.plan.bound.value_s = Some(bound);
    case.plan.bound.certificate = read(certificate);
    case.plan.gap = Some((7.5 - bound) / 7.5);
    case
}

fn fluid(prices: Value) -> Value {
    json!({"kind": "fluid", "prices": prices})
}

fn heaviest(operator: &str) -> Value {
    json!({"kind": "heaviest-unit", "operator": operator})
}

fn refuted(case: &Case) -> Option<(BoundEvidence, Option<f64>)> {
    match case.report().bound {
        BoundVerdict::Refuted { by, limit_s } => {
            assert_eq!(case.broken(), ["bound"]);
            Some((by, limit_s))
        }
        _ => {
            assert_eq!(case.broken(), [""; 0]);
            None
        }
    }
}

#[test]
fn without_a_claim_or_a_certificate() {
    assert_eq!(valid().report().bound, BoundVerdict::NoClaim);
    assert_eq!(claim(3.0, json!(null)).report().bound, BoundVerdict::NotVerified);
}

#[test]
fn the_value_refutes_a_bound_above_it() {
    assert_eq!(refuted(&claim(7.5, json!(null))), None);
    let mut above = claim(8.0, json!(null));
    above.plan.gap = Some(0.0);
    assert_eq!(refuted(&above), Some((BoundEvidence::Value, Some(7.5))));
    for malformed in [f64::NAN, f64::INFINITY] {
        assert_eq!(refuted(&claim(malformed, json!(null))), Some((BoundEvidence::Value, None)));
    }
}

#[test]
fn fluid_prices() {
    // a runs only on acc, for 2 s; b and c run on either kind, for 3 and 4 s. With both prices 1: (2 + 3 + 4) / (2 + 1)
    // = 3.
    let even = json!({"acc": 1.0, "far": 1.0});
    let verified = BoundVerdict::Verified { by: BoundEvidence::Fluid, proved_s: 3.0 };
    assert_eq!(claim(3.0, fluid(even.clone())).report().bound, verified);
    assert_eq!(claim(1.0, fluid(even.clone())).report().bound, verified, "less than it proves");
    assert_eq!(refuted(&claim(3.1, fluid(even))), Some((BoundEvidence::Fluid, Some(3.0))));
    // With acc 1 and far 2: (2 + 3 + 4) / (2 + 2) = 2.25.
    let proved = |prices| match claim(0.5, fluid(prices)).report().bound {
        BoundVerdict::Verified { proved_s, .. } => proved_s,
        other => panic!("{other:?}"),
    };
    assert_eq!(proved(json!({"acc": 1.0, "far": 2.0})), 2.25);
    // With far free, b and c cost nothing there: 2 / 2.
    assert_eq!(proved(json!({"acc": 1.0})), 1.0);
}

#[test]
fn fluid_counts_classes_pins_and_kinds_with_devices() {
    let even = || fluid(json!({"acc": 1.0, "far": 2.0}));
    let proved = |case: Case| match case.report().bound {
        BoundVerdict::Verified { proved_s, .. } => proved_s,
        other => panic!("{other:?}"),
    };
    // c pinned to far costs 4·2: (2 + 3 + 8) / 4.
    let mut pinned = claim(1.0, even());
    pinned.pins = Some(read(json!({"c": "far0"})));
    assert_eq!(proved(pinned), 3.25);
    // b and c colocated, c pinned to far: both there, 2 + 7·2 = 16, over 4. (The plan itself splits them.)
    let mut colocated = claim(1.0, even());
    colocated.pins = Some(read(json!({"c": "far"})));
    for operator in &mut colocated.graph.operators[1..] {
        operator.colocation = Some("pair".to_owned());
    }
    assert_eq!(proved(colocated), 4.0);
    // a does not support tpu, so its whole class runs on acc.
    let mut unsupported = claim(1.0, even());
    for operator in &mut unsupported.graph.operators[..2] {
        operator.colocation = Some("pair".to_owned());
    }
    assert_eq!(proved(unsupported), 9.0 / 4.0);
}

#[test]
fn a_class_that_may_run_nowhere_proves_nothing() {
    let mut case = claim(1.0, fluid(json!({"acc": 1.0})));
    case.pins = Some(read(json!({"a": "far"})));
    assert_eq!(case.report().bound, BoundVerdict::NotVerified, "a can't run on tpu");
    let mut case = claim(1.0, heaviest("b"));
    for operator in &mut case.graph.operators[1..] {
        operator.colocation = Some("pair".to_owned());
    }
    case.pins = Some(read(json!({"b": "acc0", "c": "acc1"})));
    assert_eq!(case.report().bound, BoundVerdict::NotVerified, "no device is allowed to both");
    let mut case = claim(1.0, heaviest("a"));
    case.cluster.kinds[0].count = 0;
    assert_eq!(case.report().bound, BoundVerdict::NotVerified);
}

#[test]
fn malformed_prices() {
    for prices in [json!({}), json!({"far": 0.0}), json!({"acc": -1.0}), json!({"gpu": 1.0})] {
        assert_eq!(refuted(&claim(1.0, fluid(prices))), Some((BoundEvidence::Fluid, None)));
    }
    let mut case = claim(1.0, fluid(json!({"acc": 1.0})));
    let Some(stagewright_core::document::CertificateDocument::Fluid { prices, .. }) =
        &mut case.plan.bound.certificate
    else {
        panic!("a fluid certificate")
    };
    prices.insert("far".to_owned(), f64::NAN);
    assert_eq!(refuted(&case), Some((BoundEvidence::Fluid, None)));
}

#[test]
fn heaviest_unit() {
    // c takes 4 on both classes.
    let verified = BoundVerdict::Verified { by: BoundEvidence::HeaviestUnit, proved_s: 4.0 };
    assert_eq!(claim(4.0, heaviest("c")).report().bound, verified);
    assert_eq!(refuted(&claim(4.5, heaviest("c"))), Some((BoundEvidence::HeaviestUnit, Some(4.0))));
    assert_eq!(refuted(&claim(1.0, heaviest("z"))), Some((BoundEvidence::HeaviestUnit, None)));
}

#[test]
fn heaviest_unit_with_replicas() {
    // Three replicas are allowed, but acc has two devices and far one: min(4/2, 4/1).
    let mut case = claim(2.0, heaviest("c"));
    case.plan.objective.max_replicas = Some(3);
    assert_eq!(
        case.report().bound,
        BoundVerdict::Verified { by: BoundEvidence::HeaviestUnit, proved_s: 2.0 }
    );
    case.pins = Some(read(json!({"c": "far"})));
    assert_eq!(
        case.report().bound,
        BoundVerdict::Verified { by: BoundEvidence::HeaviestUnit, proved_s: 4.0 }
    );
}

#[test]
fn an_infeasible_status_may_carry_a_bound() {
    let mut case = claim(3.0, fluid(json!({"acc": 1.0, "far": 1.0})));
    case.plan.status = PlanStatus::Unknown;
    case.plan.objective.value_s = None;
    case.plan.gap = None;
    case.plan.devices.clear();
    assert!(matches!(case.report().bound, BoundVerdict::Verified { .. }));
}

/// A fluid certificate with prices of a second on acc and far, prices of memory, and a limit.
fn priced([acc, far]: [f64; 2], memory: Value, below: Option<f64>) -> Value {
    json!({"kind": "fluid", "prices": {"acc": acc, "far": far}, "memory": memory, "below_s": below})
}

#[test]
fn memory_is_paid_for() {
    // far has room for 12 quanta of 3.9 bytes: b needs one of them, c needs two. a runs only on acc.
    let certificate =
        |price: f64| priced([1.0, 1.0], json!({"far": {"quantum_bytes": 3.9, "price": price}}), None);
    assert_eq!(refuted(&claim(2.6, certificate(0.1))), None);
    assert_eq!(refuted(&claim(2.61, certificate(0.1))).map(|it| it.0), Some(BoundEvidence::Fluid));
    // When b and c cost less on far, both pay there: (4 + 3 + 4 + 3 · 0.5 − 12 · 0.5) / 5 = 1.3.
    let cheap = priced([2.0, 1.0], json!({"far": {"quantum_bytes": 3.9, "price": 0.5}}), None);
    assert_eq!(refuted(&claim(1.3, cheap.clone())), None);
    assert_eq!(refuted(&claim(1.31, cheap)).map(|it| it.0), Some(BoundEvidence::Fluid));
}

#[test]
fn rounding_of_huge_rents_proves_nothing() {
    // Three operators that each take one second on gpu, which has memory for exactly three quanta, or 100 s on the
    // host.
    let operators: Vec<Value> = ["a", "b", "c"]
        .map(|name| json!({"name": name, "seconds": {"gpu": 1.0, "cpu": 100.0}, "parameter_bytes": 1.1}))
        .into();
    let case = |price: f64| {
        let certificate = json!({"kind": "fluid", "prices": {"acc": 1.0}, "below_s": 100.0,
                                 "memory": {"acc": {"quantum_bytes": 1.0, "price": price}}});
        let mut case = claim(100.0, certificate);
        case.graph =
            read(json!({"schema": "stagewright.graph/1", "operators": operators.clone(), "tensors": []}));
        case.cluster = read(json!({"schema": "stagewright.cluster/1", "kinds": [
            {"name": "acc", "class": "gpu", "count": 1, "memory_bytes": 3.5},
            {"name": "host", "class": "cpu", "count": 1}
        ]}));
        case.plan.devices = placement(&[("host0", "host", &["a", "b", "c"])]).devices;
        case.plan.objective.value_s = Some(300.0);
        case.plan.gap = Some(200.0 / 300.0);
        case
    };
    for exponent in 0..300 {
        for last_digit in 0..8 {
            let price = 10f64.powi(exponent);
            let price = f64::from_bits(price.to_bits() + last_digit);
            match case(price).report().bound {
                // All three on gpu.
                BoundVerdict::Refuted { by: BoundEvidence::Fluid, limit_s: Some(limit) } => {
                    assert!(limit <= 3.0, "{price:e} proves {limit}");
                }
                BoundVerdict::Refuted { by: BoundEvidence::Fluid, limit_s: None } => {}
                other => panic!("{price:e}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_class_without_memory_is_elsewhere() {
    let mut case = claim(3.0, priced([2.0, 1.0], json!({}), Some(7.0)));
    let verified = |proved_s| BoundVerdict::Verified { by: BoundEvidence::Fluid, proved_s };
    // (4 + 3 + 4) / 5 with b and c on far; without room for its 9 bytes there, c is on acc and costs 8.
    case.plan.bound.value_s = Some(2.0);
    case.plan.gap = Some((7.5 - 2.0) / 7.5);
    assert_eq!(case.report().bound, verified(2.2));
    case.cluster.kinds[1].memory_bytes = Some(8.0);
    assert_eq!(case.report().bound, verified(3.0));
}

#[test]
fn what_takes_as_long_as_the_limit_is_excluded() {
    let proved = |below: f64| match claim(1.0, priced([1.0, 1.0], json!({}), Some(below))).report().bound {
        BoundVerdict::Verified { proved_s, .. } => proved_s,
        other => panic!("{other:?}"),
    };
    // c takes 4 everywhere, so no value is below 4; for a limit of 4.5, the prices alone decide.
    assert_eq!(proved(4.0), 4.0);
    assert_eq!(proved(3.5), 3.5);
    assert_eq!(proved(4.5), 3.0);
    assert_eq!(proved(2.5), 2.5);
}

#[test]
fn malformed_limits() {
    let price = |quantum: f64, price: f64| json!({"quantum_bytes": quantum, "price": price});
    let malformed = |memory: Value| {
        let case = claim(1.0, priced([1.0, 1.0], memory, None));
        assert_eq!(refuted(&case), Some((BoundEvidence::Fluid, None)));
    };
    malformed(json!({"gpu": price(1.0, 1.0)}));
    malformed(json!({"acc": price(0.0, 1.0)}));
    malformed(json!({"acc": price(-1.0, 1.0)}));
    malformed(json!({"acc": price(1.0, -1.0)}));
    malformed(json!({"acc": price(5e-324, 0.0)}));
    malformed(json!({"acc": price(5e-324, 1.0)}));
    let mut unlimited = claim(1.0, priced([1.0, 1.0], json!({"acc": price(1.0, 1.0)}), None));
    unlimited.cluster.kinds[0].memory_bytes = None;
    assert_eq!(refuted(&unlimited), Some((BoundEvidence::Fluid, None)));
    // Sums that overflow prove nothing, not even the limit.
    let overflow = claim(1.0, priced([1e308, 1e308], json!({}), Some(5.0)));
    assert_eq!(refuted(&overflow), Some((BoundEvidence::Fluid, None)));
}
