//! Claims to keep replicas that run.

use serde_json::json;
use stagewright_core::document::ServingPlanDocument;
use stagewright_serving::{Problem, check};

use super::super::fixture::DENSE;
use super::plans::{Copies, plan, problem};
use super::{AGGREGATED, found};

/// Two running replicas of three that a plan has, at a price of weights.
fn running(price: f64) -> (Problem, ServingPlanDocument) {
    let copies = [Copies::new(3, AGGREGATED, 4)];
    let plain = plan(&problem(DENSE, 4, 4, &json!({"max_batch": 16})), &copies);
    let stages = &plain.replicas[0].stages;
    let replica = json!({"role": "aggregated", "class": 0, "count": 2, "stages": stages, "batch": 4});
    let start = json!({"replicas": [replica], "price_per_gb": price});
    let problem = problem(DENSE, 4, 4, &json!({"max_batch": 16, "start": start}));
    let mut plan = plan(&problem, &copies);
    let bytes = copies[0].replica(&problem).stages()[0].weight_bytes();
    plan.replicas[0].kept = 2;
    plan.moved_bytes = Some(bytes);
    plan.value = plan.value.map(|value| value - price * bytes / 1e9);
    (problem, plan)
}

#[test]
fn kept_replicas_and_moved_weights_are_checked() {
    let (problem, right) = running(0.5);
    let report = check(&problem, &right);
    assert!(report.holds(), "{report:?}");
    let wrong = |kind: &str, place: &str, change: &dyn Fn(&mut ServingPlanDocument)| {
        let mut plan = right.clone();
        change(&mut plan);
        found(&problem, &plan, kind, place);
    };
    wrong("kept", "replicas[0].kept", &|plan| plan.replicas[0].kept = 3);
    wrong("kept", "replicas[0].kept", &|plan| plan.replicas[0].kept = u64::MAX);
    wrong("kept", "replicas[0].kept", &|plan| plan.replicas[0].batch = 5);
    wrong("figure", "moved_bytes", &|plan| plan.replicas[0].kept = 1);
    wrong("figure", "value", &|plan| plan.replicas[0].kept = 1);
    wrong("figure", "moved_bytes", &|plan| plan.moved_bytes = Some(0.0));
    wrong("figure", "moved_bytes", &|plan| plan.moved_bytes = None);
    wrong("figure", "value", &|plan| plan.value = plan.value.map(|value| value * 1.001));
    // Two rows that keep as many replicas as run each.
    wrong("kept", "replicas[1].kept", &|plan| {
        plan.replicas[0].count = 2;
        plan.replicas.push(plan.replicas[0].clone());
    });
}

#[test]
fn without_a_start_nothing_is_kept() {
    let problem = problem(DENSE, 4, 4, &json!({"max_batch": 16}));
    let mut plan = plan(&problem, &[Copies::new(3, AGGREGATED, 4)]);
    assert!(check(&problem, &plan).holds());
    plan.replicas[0].kept = 1;
    found(&problem, &plan, "kept", "replicas[0].kept");
    plan.replicas[0].kept = 0;
    plan.moved_bytes = Some(0.0);
    found(&problem, &plan, "figure", "moved_bytes");
}

#[test]
fn a_plan_that_is_worth_less_than_its_weights_is_refused() {
    let (problem, plan) = running(1e6);
    found(&problem, &plan, "load", "replicas");
}
