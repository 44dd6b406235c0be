//! Certificates of column generation, computed by hand or adversarial.

use crate::documents;

use documents::{Case, read, valid};
use serde_json::{Value, json};
use stagewright_core::document::{OperatorDocument, PlanStatus, TensorDocument};
use stagewright_verify::{BoundEvidence, BoundVerdict};

/// The valid case, of value 7.5, with a claimed bound.
///
/// Classes a, b and c take 2, 3 and 4; tensors ab and bc take 1.5 and 2.5 on acc, 1 and 2 on far, which cannot run a.
fn claim(bound: f64, certificate: Value) -> Case {
    let mut case = valid();
    case.plan.status = PlanStatus::Feasible;
    case.plan.bound.value_s = Some(bound);
    case.plan.bound.certificate = read(certificate);
    case.plan.gap = Some((7.5 - bound) / 7.5);
    case
}

fn columns(threshold: f64, prices: Value, devices: Value) -> Value {
    json!({"kind": "column-generation", "threshold_s": threshold, "prices": prices, "devices": devices,
           "order": ["a", "b", "c"]})
}

fn verified(case: &Case) -> Option<f64> {
    match case.report().bound {
        BoundVerdict::Verified { by, proved_s } => {
            assert_eq!(by, BoundEvidence::ColumnGeneration);
            Some(proved_s)
        }
        BoundVerdict::NotVerified => {
            assert_eq!(case.broken(), [""; 0]);
            None
        }
        other => panic!("{other:?}"),
    }
}

/// Loads on acc: a alone 3.5, b alone 7, c alone 6.5, ab 7.5, bc 8.5, ac 10, abc 9. Loads on far: b 6, c 6, bc 8.
#[test]
fn loads_count_classes_and_the_tensors_they_cut() {
    let each = json!({"a": 1.0, "b": 1.0, "c": 1.0});
    assert_eq!(verified(&claim(3.0, columns(3.4, each.clone(), json!({})))), Some(3.4), "a fits nowhere");
    assert_eq!(verified(&claim(3.0, columns(3.5, each.clone(), json!({})))), None, "a fits acc");
    // With one device of each kind, two classes have to share one: ab at 7.5 is the cheapest pair.
    let fewer = |threshold| {
        let mut case = claim(3.0, columns(threshold, each.clone(), json!({"acc0": 1.0, "far0": 1.0})));
        case.cluster.kinds[0].count = 1;
        case
    };
    assert_eq!(verified(&fewer(7.4)), Some(7.4));
    assert_eq!(verified(&fewer(7.5)), None);
}

#[test]
fn pins_tell_pools_apart() {
    // All classes pinned to acc1 load it with 9; below that it holds at most ab (7.5).
    let prices = json!({"a": 1.0, "b": 1.0, "c": 1.0});
    let pinned = |devices| {
        let mut case = claim(3.0, columns(8.4, prices.clone(), devices));
        case.pins = Some(read(json!({"a": "acc1", "b": "acc1", "c": "acc1"})));
        case.plan.devices.clear();
        case.plan.objective.value_s = None;
        case.plan.status = PlanStatus::Unknown;
        case.plan.gap = None;
        case.report().bound
    };
    let proved = BoundVerdict::Verified { by: BoundEvidence::ColumnGeneration, proved_s: 8.4 };
    assert_eq!(pinned(json!({"acc1": 2.0})), proved);
    assert_eq!(pinned(json!({"acc0": 1.0})), BoundVerdict::NotVerified);
}

#[test]
fn more_than_it_proves_is_refuted() {
    let case = claim(3.5, columns(3.4, json!({"a": 1.0}), json!({})));
    let refuted = BoundVerdict::Refuted { by: BoundEvidence::ColumnGeneration, limit_s: Some(3.4) };
    assert_eq!(case.report().bound, refuted);
}

#[test]
fn malformed_certificates() {
    let sound = columns(3.4, json!({"a": 1.0}), json!({"acc0": 0.1}));
    assert_eq!(verified(&claim(3.0, sound.clone())), Some(3.4));
    let changed = |field: &str, value: Value| {
        let mut certificate = sound.clone();
        certificate[field] = value;
        certificate
    };
    let cases = [
        (changed("threshold_s", json!(0.0)), "its threshold is 0.0"),
        (changed("threshold_s", json!(-1.0)), "its threshold is -1.0"),
        (changed("threshold_s", json!(1e-310)), "its threshold is 1e-310"),
        (changed("prices", json!({})), "the prices of its classes sum to 0.0"),
        (changed("prices", json!({"a": 1e308, "b": 1e308})), "the prices of its classes sum to inf"),
        (changed("prices", json!({"z": 1.0})), "names operator \"z\""),
        (changed("prices", json!({"a": -1.0})), "the price of \"a\" is -1.0"),
        (changed("devices", json!({"acc2": 1.0})), "prices device \"acc2\""),
        (changed("devices", json!({"acc0": -1.0})), "the price of \"acc0\" is -1.0"),
        (changed("devices", json!({"acc0": 1.0, "acc1": 1.0})), "the pool of \"acc1\" twice"),
        (changed("devices", json!({"acc0": 0.5})), "the prices of its devices reach those of all classes"),
        (changed("order", json!(["a", "b"])), "lacks the class of operator \"c\""),
        (changed("order", json!(["a", "b", "c", "a"])), "lists the class of operator \"a\" twice"),
        (changed("order", json!(["a", "b", "z"])), "names operator \"z\""),
    ];
    for (certificate, why) in cases {
        let case = claim(3.0, certificate);
        assert_eq!(case.broken(), ["bound"], "{why}");
        let message = &case.report().violations[0].message;
        assert!(message.contains("malformed") && message.contains(why), "{message}");
    }
    // Values that JSON cannot represent.
    for given in [f64::NAN, f64::INFINITY] {
        for (threshold, price, device) in [(given, 1.0, 0.1), (3.4, given, 0.1), (3.4, 1.0, given)] {
            let mut case = claim(3.0, sound.clone());
            let Some(stagewright_core::document::CertificateDocument::ColumnGeneration {
                threshold_s,
                prices,
                devices,
                ..
            }) = &mut case.plan.bound.certificate
            else {
                panic!("a certificate of column generation")
            };
            *threshold_s = threshold;
            prices.insert("a".to_owned(), price);
            devices.insert("acc0".to_owned(), device);
            assert_eq!(case.broken(), ["bound"]);
        }
    }
}

#[test]
fn a_class_is_priced_once() {
    let mut case = claim(3.0, columns(3.4, json!({"a": 1.0, "b": 1.0}), json!({})));
    for operator in &mut case.graph.operators[..2] {
        operator.colocation = Some("pair".to_owned());
    }
    let Some(stagewright_core::document::CertificateDocument::ColumnGeneration { order, .. }) =
        &mut case.plan.bound.certificate
    else {
        panic!("a certificate of column generation")
    };
    order.remove(0);
    assert!(case.report().violations[0].message.contains("the class of \"b\" twice"));
}

/// Tensors that are all open at once along the order of the certificate, costs that barely distinguish any two sets,
/// and as many pools as pins can make: the replay stays within its limits.
#[test]
fn hostile_graphs_end_within_the_limits() {
    for (operators, distance) in [(2_000, 1_000), (60, 30)] {
        let names: Vec<String> = (0..operators).map(|index| format!("o{index}")).collect();
        let mut case = valid();
        case.graph.operators = names.iter().map(OperatorDocument::named).collect();
        for (index, operator) in case.graph.operators.iter_mut().enumerate() {
            operator.seconds.insert("gpu".to_owned(), 1.0 + (index as f64).sin() * 1e-3);
            operator.parameter_bytes = 1.0 + (index as f64).cos() * 1e-3;
        }
        let tensor = |from: usize| TensorDocument {
            name: None,
            producer: names[from].clone(),
            consumers: vec![names[from + distance].clone()],
            bytes: 1.0 + (from as f64 * 3.0).sin() * 1e-3,
            seconds: Default::default(),
        };
        case.graph.tensors = (0..operators - distance).map(tensor).collect();
        case.cluster.kinds[0].count = u32::MAX;
        case.cluster.kinds[0].memory_bytes = Some(operators as f64 / 3.0);
        case.plan.devices.clear();
        case.plan.status = PlanStatus::Unknown;
        case.plan.objective.value_s = None;
        case.plan.objective.max_replicas = Some(u32::MAX);
        case.plan.uplinks.clear();
        let pins: Value =
            (0..60).map(|index| (format!("o{index}"), json!([format!("acc{index}"), "far"]))).collect();
        case.pins = Some(read(pins));
        let prices: Value = names
            .iter()
            .enumerate()
            .map(|(index, name)| (name.clone(), json!(1.0 + (index as f64).cos() * 1e-3)))
            .collect();
        case.plan.bound.value_s = Some(1.0);
        case.plan.bound.certificate = read(json!({
            "kind": "column-generation", "threshold_s": operators as f64 / 2.0, "prices": prices,
            "devices": {"acc0": 1e-9}, "order": names}));
        assert_eq!(case.report().bound, BoundVerdict::NotVerified);
    }
}
