//! The check of serving plans: right plans pass, and each wrong thing is found.

mod certificates;
mod kept;
mod plans;

use serde_json::json;
use stagewright_core::document::{PlanStatus, ServingPlanDocument, ServingRole};
use stagewright_serving::{Problem, Verdict, check};

use super::fixture::{DENSE, MIXTURE};
use plans::{Copies, offer, plan, problem};

const AGGREGATED: ServingRole = ServingRole::Aggregated;
const PREFILL: ServingRole = ServingRole::Prefill;
const DECODE: ServingRole = ServingRole::Decode;

/// Four devices in servers of three, all roles, and pipelines of up to two stages.
fn mixed() -> (Problem, ServingPlanDocument) {
    let problem =
        problem(DENSE, 4, 3, &json!({"max_stages": 2, "max_batch": 16, "ttft_s": 1.0, "tpot_s": 0.02}));
    let plan = plan(
        &problem,
        &[
            Copies::new(1, AGGREGATED, 5).stages(&[1, 1]),
            Copies::new(1, PREFILL, 0).stages(&[2]),
            Copies::new(1, DECODE, 7).stages(&[2]),
        ],
    );
    (problem, plan)
}

/// Asserts that a change of a plan is found, by kind and place.
#[track_caller]
fn found(problem: &Problem, plan: &ServingPlanDocument, kind: &str, place: &str) {
    let report = check(problem, plan);
    let is_found =
        report.violations.iter().any(|violation| violation.kind == kind && violation.place == place);
    assert!(is_found, "no {kind} at {place}: {report:?}");
    assert!(!report.holds());
    assert!(report.violations.iter().all(|violation| violation.to_string().starts_with(&violation.place)));
}

#[test]
fn right_plans_pass() {
    let (problem, plan) = mixed();
    let report = check(&problem, &plan);
    assert!(report.holds(), "{report:?}");
    assert_eq!((report.value, report.bound), (plan.value, Verdict::NoClaim));

    let question = json!({"engine": "sglang", "max_stages": 1});
    let problem = plans::problem(MIXTURE, 8, 4, &question);
    let copies = Copies { data: 2, experts: 4, ..Copies::new(1, AGGREGATED, 100).tensor(4) };
    let report = check(&problem, &plans::plan(&problem, &[copies]));
    assert!(report.holds() && report.value.is_some(), "{report:?}");
}

#[test]
fn a_replica_outside_of_the_space_is_found() {
    let (problem, right) = mixed();
    let first = "replicas[0]";
    let wrong = |kind: &str, place: &str, change: &dyn Fn(&mut ServingPlanDocument)| {
        let mut plan = right.clone();
        change(&mut plan);
        found(&problem, &plan, kind, place);
        assert_eq!(check(&problem, &plan).value, None, "{kind} at {place}");
    };
    wrong("replica", first, &|plan| plan.replicas[0].count = 0);
    wrong("replica", first, &|plan| plan.replicas[0].class = 1);
    wrong("replica", first, &|plan| plan.replicas[0].batch = 17);
    wrong("replica", first, &|plan| plan.replicas[0].batch = 0);
    wrong("replica", "replicas[1]", &|plan| plan.replicas[1].batch = 1);
    wrong("replica", first, &|plan| plan.replicas[0].stages.clear());
    wrong("replica", first, &|plan| {
        let stage = plan.replicas[0].stages[0].clone();
        plan.replicas[0].stages.push(stage);
    });
    wrong("replica", "replicas[0].stages[1]", &|plan| plan.replicas[0].stages[1].kind = "other".into());
    wrong("replica", "replicas[0].stages[1]", &|plan| plan.replicas[0].stages[1].tensor = 2);
    wrong("replica", "replicas[1].stages[0]", &|plan| plan.replicas[1].stages[0].tensor = 3);
    wrong("replica", "replicas[1].stages[0]", &|plan| plan.replicas[1].stages[0].tensor = u64::MAX);
    wrong("replica", "replicas[1].stages[0]", &|plan| plan.replicas[1].stages[0].tensor = 0);
    wrong("replica", "replicas[1].stages[0]", &|plan| plan.replicas[1].stages[0].data = 2);
    wrong("replica", "replicas[1].stages[0]", &|plan| plan.replicas[1].stages[0].experts = 2);
    wrong("replica", "replicas[1].stages[0]", &|plan| plan.replicas[1].stages[0].experts = 0);
    wrong("layers", "replicas[0].stages[1]", &|plan| plan.replicas[0].stages[1].first = 0);
    wrong("layers", "replicas[0].stages[1]", &|plan| plan.replicas[0].stages[1].layers = u32::MAX);
    wrong("layers", "replicas[0].stages[1]", &|plan| plan.replicas[0].stages[1].layers = 0);
    wrong("layers", "replicas[1]", &|plan| plan.replicas[1].stages[0].layers = 1);
    wrong("devices", "replicas", &|plan| plan.replicas[0].count = 2);
    wrong("devices", "replicas", &|plan| plan.replicas[0].count = u64::MAX);
    wrong("load", "replicas", &|plan| plan.replicas.retain(|replica| replica.role == PREFILL));
}

#[test]
fn modes_limits_memory_and_servers_are_found() {
    let (problem, right) = mixed();
    let with = |change: &dyn Fn(&mut Problem)| {
        let (mut problem, mut plan) = (problem.clone(), right.clone());
        change(&mut problem);
        plan.question = problem.question.clone();
        (problem, plan)
    };
    let (few, plan) = with(&|problem| problem.question.modes.truncate(1));
    found(&few, &plan, "replica", "replicas[1]");
    let (short, plan) = with(&|problem| problem.question.tpot_s = Some(1e-4));
    found(&short, &plan, "limit", "replicas[2]");
    let (early, plan) = with(&|problem| problem.question.ttft_s = Some(1e-4));
    found(&early, &plan, "limit", "replicas[1]");
    let (small, plan) = with(&|problem| problem.fleet.kinds[0].device.memory = 3.3e9);
    found(&small, &plan, "memory", "replicas[2]");
    let (limited, plan) = with(&|problem| problem.question.concurrency = Some(10.0));
    found(&limited, &plan, "concurrency", "replicas");

    // A server of three has room for one group of two, and the other device is alone.
    let plan = plans::plan(&problem, &[Copies::new(2, AGGREGATED, 4).tensor(2)]);
    found(&problem, &plan, "servers", "replicas");
}

#[test]
fn loads_are_found() {
    let question = json!({"goal": "devices", "rate": 1e-3, "max_stages": 1, "max_batch": 4});
    let problem = plans::problem(DENSE, 4, 4, &question);
    let copies = [Copies::new(1, PREFILL, 0).tensor(1), Copies::new(1, DECODE, 2).tensor(1)];
    let step = Some(offer(&problem, &Copies::new(1, DECODE, 4).tensor(1)).tpot.unwrap());
    let right = plans::plan_beside(&problem, &copies, step);
    assert!(check(&problem, &right).holds(), "{:?}", check(&problem, &right));
    let rated = |rate: f64| {
        let (mut problem, mut plan) = (problem.clone(), right.clone());
        problem.question.rate = Some(rate);
        plan.question.rate = Some(rate);
        check(&problem, &plan).violations
    };
    assert_eq!(rated(1e6)[0].kind, "load");
    // As many are in flight as are asked for, but prompts are too few for them.
    let (mut full, mut plan) = (problem.clone(), right.clone());
    full.question.rate = None;
    full.question.concurrency = Some(4.0);
    plan.question = full.question.clone();
    found(&full, &plan, "load", "replicas");
}

#[test]
fn prefill_counts_on_the_slowest_decoding_of_the_space() {
    let config = DENSE.replace("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
    let problem = plans::problem(&config, 4, 4, &json!({"max_stages": 2, "max_batch": 1}));
    let prefill = Copies::new(1, PREFILL, 0).tensor(1);
    let slow = Copies::new(1, DECODE, 1).stages(&[2, 1]);
    let slowest = [1, 2, 4].map(|degree| offer(&problem, &Copies::new(1, DECODE, 1).tensor(degree)).tpot);
    let slowest = slowest
        .into_iter()
        .chain([1, 2].map(|degree| offer(&problem, &Copies { tensor: degree, ..slow.clone() }).tpot));
    let step = slowest.flatten().fold(0.0, f64::max);
    let right = plans::plan_beside(&problem, &[prefill.clone(), slow], Some(step));
    assert!(check(&problem, &right).holds(), "{:?}", check(&problem, &right));

    let optimist = plans::plan_beside(
        &problem,
        &[prefill.clone(), Copies::new(1, DECODE, 1).tensor(1)],
        Some(0.9 * step),
    );
    found(&problem, &optimist, "figure", "replicas[0].ttft_s");
    // The last stage has the projection to the vocabulary beside two layers.
    let uneven =
        plans::plan_beside(&problem, &[prefill, Copies::new(1, DECODE, 1).stages(&[1, 2])], Some(step));
    found(&problem, &uneven, "pools", "replicas[1]");
}

#[test]
fn wrong_claims_are_found() {
    let (problem, right) = mixed();
    let wrong = |kind: &str, place: &str, change: &dyn Fn(&mut ServingPlanDocument)| {
        let mut plan = right.clone();
        change(&mut plan);
        found(&problem, &plan, kind, place);
        assert_eq!(check(&problem, &plan).value, right.value, "{kind} at {place}");
    };
    let more = |value: &mut Option<f64>| *value = value.map(|value| value * (1.0 + 1e-6));
    wrong("figure", "value", &|plan| more(&mut plan.value));
    wrong("figure", "value", &|plan| plan.value = None);
    wrong("figure", "requests_per_s", &|plan| more(&mut plan.requests_per_s));
    wrong("figure", "tokens_per_s", &|plan| more(&mut plan.tokens_per_s));
    wrong("figure", "devices", &|plan| plan.devices = Some(3));
    wrong("figure", "seconds", &|plan| plan.seconds = f64::NAN);
    wrong("figure", "replicas[0].requests_per_s", &|plan| plan.replicas[0].requests_per_s *= 1.0 + 1e-6);
    wrong("figure", "replicas[0].ttft_s", &|plan| more(&mut plan.replicas[0].ttft_s));
    wrong("figure", "replicas[0].tpot_s", &|plan| more(&mut plan.replicas[0].tpot_s));
    wrong("figure", "replicas[2].ttft_s", &|plan| plan.replicas[2].ttft_s = Some(1.0));
    wrong("figure", "replicas[1].utilisation", &|plan| more(&mut plan.replicas[1].utilisation));
    wrong("figure", "replicas[0].cache_tokens", &|plan| plan.replicas[0].cache_tokens += 1);
    wrong("gap", "gap", &|plan| plan.gap = Some(0.0));
    wrong("name", "schema", &|plan| plan.schema.clear());
    wrong("name", "stop", &|plan| plan.stop = Some("bored".into()));
    wrong("name", "bound.source", &|plan| plan.bound.source = "oracle".into());
    wrong("name", "bound.source", &|plan| plan.bound.source = "prices".into());
    wrong("question", "question", &|plan| plan.question.tpot_s = None);
    wrong("question", "cluster", &|plan| plan.cluster.kinds[0].count = 5);
    wrong("status", "status", &|plan| plan.status = PlanStatus::Optimal);
    wrong("status", "status", &|plan| plan.status = PlanStatus::Infeasible);
    wrong("status", "status", &|plan| plan.status = PlanStatus::Unknown);
    wrong("figure", "bound.value", &|plan| plan.bound.value = Some(f64::INFINITY));
    wrong("bound", "bound.value", &|plan| plan.bound.value = plan.value.map(|value| 0.99 * value));
}
