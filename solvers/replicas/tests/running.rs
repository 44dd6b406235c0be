//! Random small questions with replicas that run already: plans are checked, compared with all plans, and edited.

use rand::{Rng, RngExt};
use stagewright_core::document::{
    ClusterDocument, PlanStatus, ReplicaDocument, RunningReplicaDocument, ServingGoal, ServingPlanDocument,
    ServingQuestionDocument, ServingStartDocument,
};
use stagewright_core::seed;
use stagewright_serving::{Problem, Verdict, check};
use stagewright_structure::Structure;

use crate::agreement::{best, random};
use crate::fixture::{dense, mixture, question, read, solved};

/// Replicas that run after a plan for other devices, limits or batches, with some that no plan has.
fn running(
    random: &mut impl Rng,
    (cluster, asked): (&ClusterDocument, &ServingQuestionDocument),
    model: &Structure,
) -> Vec<RunningReplicaDocument> {
    let (mut cluster, mut asked) = (cluster.clone(), asked.clone());
    for kind in &mut cluster.kinds {
        kind.count = (kind.count + random.random_range(0..3)).saturating_sub(1).max(1);
    }
    if random.random_bool(0.5) {
        asked.max_batch = Some(random.random_range(1..8));
    }
    if random.random_bool(0.7) {
        // Lighter conditions, so that there is a plan.
        (asked.ttft_s, asked.tpot_s, asked.rate, asked.concurrency) = (None, None, None, None);
        asked.goal = ServingGoal::Throughput;
    }
    let problem = Problem::new("before", ("model", model), ("cluster", &cluster), asked).expect("a question");
    let plan = solved(&problem).document(&problem, &cluster, 0.0);
    let mut running: Vec<RunningReplicaDocument> = Vec::new();
    for replica in plan.replicas {
        let ReplicaDocument { role, class, count, stages, batch, .. } = replica;
        let class = random.random_bool(0.95).then_some(class);
        let count = if random.random_bool(0.1) { u64::MAX } else { count };
        let mut replica = RunningReplicaDocument { role, class, count, stages, batch };
        match random.random_range(0..12) {
            0 => replica.stages[0].kind = "gone".into(),
            1 => replica.batch += 1,
            2 => replica.stages[0].layers = u32::MAX,
            3 => replica.stages[0].tensor = 0,
            4 => replica.class = Some(u32::MAX),
            5 if replica.stages.len() > 1 && replica.stages[0].layers > 1 => {
                replica.stages[0].layers -= 1;
                replica.stages[1].first -= 1;
                replica.stages[1].layers += 1;
            }
            _ => {}
        }
        let is_new = |other: &RunningReplicaDocument| {
            RunningReplicaDocument { count: 0, ..other.clone() }
                != RunningReplicaDocument { count: 0, ..replica.clone() }
        };
        if running.iter().all(is_new) {
            running.push(replica);
        }
    }
    running
}

/// A price at which weights cost about as much as they are worth.
fn price(random: &mut impl Rng, goal: ServingGoal) -> f64 {
    let scale = match goal {
        ServingGoal::Throughput => 10.0,
        ServingGoal::Devices | ServingGoal::Price => 1.0,
        ServingGoal::Cache => 1e5,
    };
    match random.random_range(0..8) {
        0 => 0.0,
        1 => 1e6 * scale,
        _ => scale * 10.0_f64.powf(random.random_range(-2.0..2.0)),
    }
}

#[test]
fn plans_after_running_ones_are_checked_and_best() {
    let models = [dense(6, 1024, 8), mixture()];
    let (mut optimal, mut compared, mut infeasible, mut kept, mut mixed) = (0, 0, 0, 0, 0);
    let mut goals = [0; 4];
    for task in 0..300 {
        let (cluster, mut asked) = random(11, task);
        let mut stream = seed::stream(13, task);
        let model = &models[usize::from(task % 4 == 3)];
        let replicas = running(&mut stream, (&cluster, &asked), model);
        asked.start = Some(ServingStartDocument { replicas, price_per_gb: price(&mut stream, asked.goal) });
        let shown = format!("{task}: {} {:?} {asked:?}", cluster.name, cluster.kinds[0].server);
        let goal = asked.goal;
        let problem = Problem::new("question", ("model", model), ("cluster", &cluster), asked).expect(&shown);
        let solution = solved(&problem);
        let plan = solution.document(&problem, &cluster, 0.0);
        let report = check(&problem, &plan);
        assert!(report.holds(), "{shown}\n{:?}", report.violations);
        assert!(
            matches!(report.bound, Verdict::Verified { .. }),
            "{shown}\n{:?} {:?} {:?}",
            report.bound,
            plan.status,
            plan.bound.value
        );
        assert_eq!(plan.value.is_some(), plan.moved_bytes.is_some());
        edited(&problem, &plan, &shown);
        kept += usize::from(plan.replicas.iter().any(|replica| replica.kept > 0));
        mixed += usize::from(plan.moved_bytes.is_some_and(|bytes| bytes > 0.0));
        let Some(best) = best(&problem, &solution) else { continue };
        compared += 1;
        match plan.status {
            PlanStatus::Optimal => {
                optimal += 1;
                goals[goal as usize] += 1;
                let (value, best) = (plan.value.expect("a value"), best.expect("a plan"));
                assert!((value - best).abs() <= 1e-7 * best.abs(), "{shown}\n{value} {best}");
            }
            PlanStatus::Infeasible => {
                infeasible += 1;
                assert_eq!(best, None, "{shown}");
            }
            PlanStatus::Feasible | PlanStatus::Unknown => {}
        }
    }
    assert!(compared > 200 && optimal > 100 && infeasible > 30, "{compared} {optimal} {infeasible}");
    assert!(kept > 50 && mixed > 50, "{kept} {mixed}");
    assert!(goals.iter().all(|&cases| cases >= 10), "{goals:?}");
}

/// Asserts that plans which claim to move less than they do are refused.
fn edited(problem: &Problem, plan: &ServingPlanDocument, shown: &str) {
    let refused = |plan: &ServingPlanDocument, kind: &str| {
        let report = check(problem, plan);
        let is_found = report.violations.iter().any(|violation| violation.kind == kind);
        assert!(is_found, "{kind}: {shown}\n{report:?}");
    };
    let start = problem.question.start.as_ref().expect("a start");
    if let Some(bytes) = plan.moved_bytes.filter(|bytes| *bytes > 0.0) {
        let moved_bytes = Some(0.5 * bytes);
        let saved = start.price_per_gb * 0.5 * bytes / 1e9;
        let sign = if problem.question.goal.is_maximised() { 1.0 } else { -1.0 };
        let value = plan.value.map(|value| value + sign * saved);
        refused(&ServingPlanDocument { moved_bytes, value, ..plan.clone() }, "figure");
        refused(&ServingPlanDocument { moved_bytes: None, ..plan.clone() }, "figure");
        let mut other = plan.clone();
        let moved = other.replicas.iter().position(|replica| replica.kept == 0).expect("a moved replica");
        other.replicas[moved].kept = other.replicas[moved].count;
        refused(&other, "kept");
    }
    for (index, replica) in plan.replicas.iter().enumerate().filter(|(_, replica)| replica.kept > 0) {
        let mut other = plan.clone();
        other.replicas[index].kept += 1;
        refused(&other, "kept");
        other.replicas[index].kept = u64::MAX;
        refused(&other, "kept");
        other.replicas[index].kept = replica.kept - 1;
        refused(&other, "figure");
    }
}

#[test]
fn replicas_that_run_stay_where_weights_are_dear() {
    let model = read(
        r#"{"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
            "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "torch_dtype": "bfloat16"}"#,
    );
    let cluster = |name: &str| stagewright_formats::clusters::find(name).expect("a cluster");
    let planned = |name: &str, asked: ServingQuestionDocument| {
        let cluster = cluster(name);
        let problem = Problem::new("question", ("model", &model), ("cluster", &cluster), asked).expect(name);
        let plan = solved(&problem).document(&problem, &cluster, 0.0);
        assert!(check(&problem, &plan).holds(), "{name}");
        plan
    };
    let mut asked = question(2048, 256);
    (asked.ttft_s, asked.tpot_s) = (Some(1.0), Some(0.04));
    let before = planned("6xl40s", asked.clone());
    let replicas = before.replicas.iter().map(|replica| RunningReplicaDocument {
        role: replica.role,
        class: Some(replica.class),
        count: replica.count,
        stages: replica.stages.clone(),
        batch: replica.batch,
    });
    let mut start = ServingStartDocument { replicas: replicas.collect(), price_per_gb: 1.0 };
    // The same devices: everything stays, and nothing is lost.
    asked.start = Some(start.clone());
    let same = planned("6xl40s", asked.clone());
    assert_eq!((same.moved_bytes, same.status), (Some(0.0), PlanStatus::Optimal));
    assert!((same.value.expect("a value") / before.value.expect("a value") - 1.0).abs() < 1e-9);
    // More devices at any price: what runs is still worth its value.
    let more = planned("8xl40s", asked.clone());
    assert!(more.value >= same.value);
    // A price that no rate is worth: nothing is loaded. Without a price, plans are the best ones.
    start.price_per_gb = 1e9;
    asked.start = Some(start.clone());
    let dear = planned("4xl40s", asked.clone());
    assert!(dear.moved_bytes.is_none_or(|bytes| bytes == 0.0), "{dear:?}");
    start.price_per_gb = 0.0;
    asked.start = Some(start.clone());
    let free = planned("4xl40s", asked.clone());
    asked.start = None;
    let best = planned("4xl40s", asked.clone());
    assert!((free.value.expect("a value") / best.value.expect("a value") - 1.0).abs() < 1e-6);
    // Nothing runs, and weights are too dear: no plan is worth them.
    asked.start = Some(ServingStartDocument { replicas: Vec::new(), price_per_gb: 1e9 });
    let none = planned("4xl40s", asked);
    assert_eq!((none.status, none.value, none.moved_bytes), (PlanStatus::Infeasible, None, None));
}

#[test]
fn starts_without_sense_are_refused() {
    let model = dense(6, 1024, 8);
    let cluster = stagewright_formats::clusters::find("1xl40s").expect("a cluster");
    let stage = |tensor| serde_json::json!({"kind": "l40s", "tensor": tensor, "data": 1, "experts": 1, "first": 0, "layers": 6});
    let replica = |count: u64, batch: u64| -> RunningReplicaDocument {
        let replica = serde_json::json!({"role": "aggregated", "class": 0, "count": count, "stages": [stage(1)], "batch": batch});
        serde_json::from_value(replica).expect("a replica")
    };
    let refused = |replicas: Vec<RunningReplicaDocument>, price_per_gb: f64, path: &str| {
        let mut asked = question(100, 100);
        asked.start = Some(ServingStartDocument { replicas, price_per_gb });
        let error =
            Problem::new("question", ("model", &model), ("cluster", &cluster), asked).expect_err(path);
        assert!(error.to_string().contains(path) || format!("{error:?}").contains(path), "{error:?}");
    };
    for price in [f64::NAN, -1.0, f64::INFINITY, 1e300] {
        refused(vec![replica(1, 1)], price, "start.price_per_gb");
    }
    refused(vec![replica(0, 1)], 1.0, "start.replicas[0]");
    refused(vec![replica(1, 1), replica(2, 2), replica(3, 1)], 1.0, "start.replicas[2]");
    refused((0..10_001).map(|batch| replica(1, batch)).collect(), 1.0, "start.replicas");
}
