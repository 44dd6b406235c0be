//! Certificates of bounds: right ones are verified, and forged ones are not.

use serde_json::json;
use stagewright_core::document::{
    PlanStatus, ServingBoundDocument, ServingCertificateDocument, ServingNodeDocument, ServingPlanDocument,
    ServingRole, ServingSizeDocument,
};
use stagewright_serving::{Problem, Verdict, check};

use super::plans::{Copies, offer_beside, plan, problem};
use crate::fixture::DENSE;

/// Three devices in one server, which decode at most four sequences each.
fn small(changes: &serde_json::Value) -> Problem {
    let mut all = json!({"modes": ["aggregated"], "max_batch": 4});
    all.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    problem(DENSE, 3, 3, &all)
}

/// The largest rate of an aggregated replica of some devices.
fn best(problem: &Problem, tensor: u64) -> f64 {
    let rate = |batch| {
        let copies = Copies::new(1, ServingRole::Aggregated, batch).tensor(tensor);
        offer_beside(problem, &copies, None).map_or(0.0, |offer| offer.rate)
    };
    [1, 2, 3, 4].map(rate).into_iter().fold(0.0, f64::max)
}

fn leaf(prices: &[f64]) -> ServingNodeDocument {
    ServingNodeDocument::Leaf { prices: prices.to_vec() }
}

fn branch(devices: u64, most: u64, children: [u32; 2]) -> ServingNodeDocument {
    let (role, groups) = (ServingRole::Aggregated, vec![(0, devices, 1)]);
    let size = ServingSizeDocument { role, class: 0, groups, kept: None };
    ServingNodeDocument::Branch { size, most, children }
}

/// The verdict on a bound of a plan. The claim has the right gap.
fn verdict(
    problem: &Problem,
    plan: &ServingPlanDocument,
    claim: f64,
    nodes: Vec<ServingNodeDocument>,
) -> Verdict {
    let certificate = Some(ServingCertificateDocument::Tree { nodes });
    let bound = ServingBoundDocument { value: Some(claim), source: "prices".into(), certificate };
    let (value, is_maximised) = (plan.value, problem.question.goal.is_maximised());
    let gap = value.map(|value| {
        let gap = if is_maximised { (claim - value) / claim } else { (value - claim) / value };
        if gap <= 2e-9 { 0.0 } else { gap }
    });
    let plan = ServingPlanDocument { bound, gap, ..plan.clone() };
    let report = check(problem, &plan);
    assert_eq!(report.holds(), report.bound != Verdict::Refuted, "{report:?}");
    report.bound
}

#[track_caller]
fn verified(verdict: Verdict, proved: f64) {
    match verdict {
        Verdict::Verified { proved: found } => {
            assert!((found - proved).abs() <= 1e-9 * proved.abs(), "{found} {proved}")
        }
        _ => panic!("{verdict:?} and not {proved}"),
    }
}

#[test]
fn prices_of_devices_bound_the_throughput() {
    let problem = small(&json!({}));
    let price = best(&problem, 1).max(best(&problem, 2) / 2.0);
    let three = plan(&problem, &[Copies::new(3, ServingRole::Aggregated, 4)]);
    // Rows: devices, requests, prefill, decode.
    let prices = [price, 1.0, 1.0, 0.0];
    let bound = 3.0 * price;
    let nodes = || vec![leaf(&prices)];
    verified(verdict(&problem, &three, bound, nodes()), bound);
    verified(verdict(&problem, &three, 2.0 * bound, nodes()), bound);
    let optimal = ServingPlanDocument { status: PlanStatus::Optimal, ..three.clone() };
    assert!((bound - three.value.unwrap()).abs() < 1e-9 * bound, "single devices are best here");
    verified(verdict(&problem, &optimal, bound, nodes()), bound);

    let not_verified = |nodes: Vec<ServingNodeDocument>| {
        assert_eq!(verdict(&problem, &three, bound, nodes.clone()), Verdict::NotVerified, "{nodes:?}");
    };
    not_verified(vec![]);
    not_verified(vec![leaf(&[0.4 * price, 1.0, 1.0, 0.0])]);
    not_verified(vec![leaf(&[price, 0.9, 1.0, 0.0])]);
    not_verified(vec![leaf(&[price, 1.0, 0.0, 0.0])]);
    not_verified(vec![leaf(&[price, 1.0, 1.0, -1e-3])]);
    not_verified(vec![leaf(&[price, 1.0, 1.0])]);
    not_verified(vec![leaf(&[price, 1.0, 1.0, 0.0, 0.0])]);
    not_verified(vec![leaf(&[price, 1.0, 1.0, f64::NAN])]);
    not_verified(vec![leaf(&[price, 1.0, 1.0, f64::INFINITY])]);
    assert_eq!(verdict(&problem, &three, 0.9 * bound, nodes()), Verdict::Refuted);
}

#[test]
fn trees_are_walked_as_they_stand() {
    let problem = small(&json!({}));
    let (single, pair) = (best(&problem, 1), best(&problem, 2));
    let three = plan(&problem, &[Copies::new(3, ServingRole::Aggregated, 4)]);
    let priced = leaf(&[single.max(pair / 2.0), 1.0, 1.0, 0.0]);
    // Devices are free, so that all replicas within the numbers of the leaf count: 3 single ones and 1 pair.
    let free = leaf(&[0.0, 1.0, 1.0, 0.0]);
    let (least, most) = (3.0 * single.max(pair / 2.0), 3.0 * single + pair);
    verified(verdict(&problem, &three, most, vec![free.clone()]), most);
    let split =
        |first: ServingNodeDocument, second: ServingNodeDocument| vec![branch(1, 1, [1, 2]), first, second];
    let left = single + pair;
    verified(
        verdict(&problem, &three, least.max(left), split(free.clone(), priced.clone())),
        least.max(left),
    );
    let wrong = |nodes: Vec<ServingNodeDocument>| {
        assert_eq!(
            verdict(&problem, &three, least.max(left), nodes.clone()),
            Verdict::NotVerified,
            "{nodes:?}"
        );
    };
    wrong(split(priced.clone(), free.clone()));
    wrong(vec![branch(1, 1, [2, 1]), free.clone(), priced.clone()]);
    wrong(vec![branch(1, 1, [1, 2]), priced.clone()]);
    wrong(vec![branch(1, 1, [1, 1]), priced.clone()]);
    wrong(vec![branch(1, 1, [0, 1]), priced.clone()]);
    wrong(vec![branch(1, 1, [1, u32::MAX]), priced.clone()]);
    wrong(vec![branch(1, 1, [1, 2]), branch(2, 0, [2, 3]), priced.clone(), priced.clone()]);
    wrong(vec![branch(1, 1, [1, 2]), priced.clone(), branch(2, 0, [1, 3]), priced.clone()]);
    // Numbers of a size that no replica has are 0, so the second child has no plans.
    verified(
        verdict(&problem, &three, least, vec![branch(7, 0, [1, 2]), priced.clone(), free.clone()]),
        least,
    );
    // Both limits on the path count.
    let nested =
        vec![branch(1, 1, [1, 2]), branch(1, 0, [3, 4]), priced.clone(), free.clone(), priced.clone()];
    verified(verdict(&problem, &three, least.max(pair), nested), least.max(pair));
    let empty = vec![branch(1, u64::MAX, [1, 2]), priced, free];
    verified(verdict(&problem, &three, least, empty), least);
}

#[test]
fn bounds_on_devices_are_below_and_whole() {
    let rate = 2.5 * best(&small(&json!({})), 1);
    let problem = small(&json!({"goal": "devices", "rate": rate}));
    let three = plan(&problem, &[Copies::new(3, ServingRole::Aggregated, 4)]);
    let price = 1.0 / best(&problem, 1).max(best(&problem, 2) / 2.0);
    // Rows: devices, requests, prefill, decode, load.
    let nodes = |price: f64| vec![leaf(&[0.0, price, price, 0.0, price])];
    verified(verdict(&problem, &three, 3.0, nodes(price)), 3.0);
    verified(verdict(&problem, &three, 2.5, nodes(price)), 3.0);
    assert_eq!(verdict(&problem, &three, 3.0, nodes(0.7 * price)), Verdict::NotVerified);
    assert_eq!(verdict(&problem, &three, 3.0, nodes(3.0 * price)), Verdict::NotVerified);
    assert_eq!(verdict(&problem, &three, 3.1, nodes(price)), Verdict::Refuted);
}

/// A claim that there is no plan.
fn none(problem: &Problem, nodes: Vec<ServingNodeDocument>) -> ServingPlanDocument {
    let plan = plan(problem, &[]);
    let bound = ServingBoundDocument {
        value: None,
        source: "prices".into(),
        certificate: Some(ServingCertificateDocument::Tree { nodes }),
    };
    let (value, requests_per_s, tokens_per_s, devices) = (None, None, None, None);
    let status = PlanStatus::Infeasible;
    ServingPlanDocument { bound, status, value, requests_per_s, tokens_per_s, devices, ..plan }
}

#[test]
fn infeasible_questions_are_proved_or_refuted() {
    let fast = small(&json!({"tpot_s": 1e-7}));
    let report = check(&fast, &none(&fast, vec![leaf(&[0.0; 4])]));
    assert!(report.holds(), "{report:?}");
    assert_eq!(report.bound, Verdict::Verified { proved: 0.0 });
    assert_eq!(check(&fast, &none(&fast, vec![leaf(&[0.0; 3])])).bound, Verdict::NotVerified);

    let feasible = small(&json!({}));
    let report = check(&feasible, &none(&feasible, vec![leaf(&[0.0, 1.0, 1.0, 0.0])]));
    assert_eq!((report.bound, report.violations[0].kind), (Verdict::Refuted, "bound"));

    let best = best(&feasible, 1).max(best(&feasible, 2) / 2.0);
    let heavy = small(&json!({"goal": "devices", "rate": 3.5 * best}));
    // A device that is priced beside its own cost leaves a bound beyond all devices.
    let nodes = |devices: f64, price: f64| {
        let price = price / best;
        vec![leaf(&[devices, price, price, 0.0, price])]
    };
    match check(&heavy, &none(&heavy, nodes(1.0, 2.0))).bound {
        Verdict::Verified { proved } => assert!(proved > 3.0, "{proved}"),
        verdict => panic!("{verdict:?}"),
    }
    assert_eq!(check(&heavy, &none(&heavy, nodes(0.0, 0.8))).bound, Verdict::NotVerified);
    let light = small(&json!({"goal": "devices", "rate": 2.5 * best}));
    assert_eq!(check(&light, &none(&light, nodes(1.0, 2.0))).bound, Verdict::Refuted);
}
