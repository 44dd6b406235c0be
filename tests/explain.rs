//! Explanations: their parts add up to the value, and no what-if exceeds what a change can bring.

use stagewright_testing::steps;

use std::process::{Command, Output};

use rand::RngExt;
use serde_json::Value;
use stagewright::explain::{Bottleneck, changes, explain, what_if};
use stagewright::report::document::{Provenance, plan_document};
use stagewright_core::cluster::{ClusterBuilder, DeviceId};
use stagewright_core::document::{
    Communication, KindDocument, LinkDocument, ObjectiveKind, OperatorDocument, Schedule,
};
use stagewright_core::evaluate::evaluate;
use stagewright_core::graph::GraphBuilder;
use stagewright_core::objective::{Objective, PassSums};
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Context, Limits, Silent, Solution, Solver};
use stagewright_dp::Dp;
use stagewright_testing::random::{self, Size};

const SIZE: Size = Size { operators: 7, devices: 4, groups: true };

fn solve(solver: &dyn Solver, problem: &Problem) -> Solution {
    let mut silent = Silent;
    let mut context = Context::new(Limits { time: None, ..Limits::default() }, &mut silent);
    solver.solve(problem, &mut context).expect("a problem that it takes")
}

fn close(left: f64, right: f64) -> bool {
    (left - right).abs() <= 1e-9 * left.abs().max(right.abs()).max(1e-12)
}

/// Combines compute and communication as the objective does, and adds the synchronisation of replicas.
fn combined(problem: &Problem, bottleneck: &Bottleneck) -> f64 {
    let seconds_of = |name: &str| {
        let part = bottleneck.parts.iter().find(|part| part.name == name);
        part.map_or(0.0, |part| part.seconds)
    };
    if bottleneck.resource.starts_with("uplink") {
        return seconds_of("carried");
    }
    let (compute, sent, received) = (seconds_of("compute"), seconds_of("sent"), seconds_of("received"));
    problem
        .objective()
        .rules()
        .load(&PassSums { compute, sent, received, synchronised: seconds_of("synchronisation") }, 1)
}

/// Maximum number of items that are listed for an uplink.
const KEPT: usize = 5;

#[test]
fn the_parts_of_a_bottleneck_are_the_value() {
    let mut rng = seed::stream(0xE4, 0);
    let (mut explained, mut by_uplink, mut overlapped, mut synchronised) = (0, 0, 0, 0);
    for number in 0..3000 {
        let problem = random::problem(number, SIZE);
        let devices = problem.cluster().device_count() as u32;
        let device_of = problem.graph().operators().map(|_| DeviceId(rng.random_range(0..devices))).collect();
        // Replica counts are arbitrary: they may exceed the number of devices.
        let replicas = problem.cluster().devices().map(|device| (device, rng.random_range(1..=3))).collect();
        let placement = Placement::with_stages(device_of, Vec::new(), replicas);
        let evaluation = evaluate(&problem, &placement);
        if problem.graph().operator_count() == 0 {
            continue;
        }
        let explanation = explain(&problem, &placement);
        assert_eq!(explanation.value_s.to_bits(), evaluation.value.to_bits());
        assert_eq!(explanation.violations.len(), evaluation.violations.len());
        assert!(explanation.slack.iter().all(|device| device.slack_s >= 0.0));
        let is_unsupported = explanation.violations.iter().any(|text| text.contains("cannot run on"));
        if evaluation.is_feasible() {
            for bound in explanation.bounds.iter().filter_map(|bound| bound.value_s) {
                assert!(bound <= evaluation.value * (1.0 + 1e-9), "{number}: {bound} {}", evaluation.value);
            }
        }
        if problem.objective().rules().schedule != Schedule::None || is_unsupported {
            continue;
        }
        let sum: f64 = explanation.bottlenecks.iter().map(|bottleneck| bottleneck.seconds).sum();
        assert!(close(sum, evaluation.value), "{number}: {sum} {}", evaluation.value);
        for bottleneck in &explanation.bottlenecks {
            by_uplink += usize::from(bottleneck.resource.starts_with("uplink"));
            let parts = combined(&problem, bottleneck);
            let communication = problem.objective().rules().communication;
            overlapped += usize::from(communication != Communication::Serial);
            assert!(close(parts, bottleneck.seconds), "{number}: {bottleneck:?}");
            assert!(bottleneck.items.iter().all(|item| item.seconds <= bottleneck.seconds * (1.0 + 1e-9)));
            synchronised +=
                usize::from(bottleneck.items.iter().any(|item| item.role.starts_with("gradient")));
            if bottleneck.resource.starts_with("uplink") && bottleneck.items.len() < KEPT {
                let items: f64 = bottleneck.items.iter().map(|item| item.seconds).sum();
                assert!(close(items, bottleneck.seconds), "{number}: {bottleneck:?}");
            }
        }
        explained += 1;
    }
    assert!(explained > 500 && by_uplink > 3 && overlapped > 100, "{explained} {by_uplink} {overlapped}");
    assert!(synchronised > 20, "{synchronised}");
}

#[test]
fn the_parts_of_a_critical_path_are_the_makespan() {
    for number in 0..500 {
        let problem = steps::problem(number);
        let placement = steps::placed(&problem, number);
        let explanation = explain(&problem, &placement);
        let [path] = &explanation.bottlenecks[..] else { panic!("one path") };
        let sum: f64 = path.parts.iter().map(|part| part.seconds).sum();
        assert!(close(sum, explanation.value_s), "{number}: {sum} {}", explanation.value_s);
    }
}

#[test]
fn changes_are_solved_and_bounded() {
    let mut gained = 0;
    for number in 0..60 {
        let problem = random::problem(number, SIZE);
        let solution = solve(&Dp, &problem);
        let Some(plan) = &solution.plan else { continue };
        let value = plan.evaluation.value;
        let provenance = Provenance { solver: "dp".into(), seconds: 0.0, seed: 0 };
        let document = plan_document(&problem, &solution, provenance);
        let settings = Limits { time: None, memory: None, ..Limits::default() }.into();
        for change in changes(&problem) {
            let Ok(changed) = change.apply(&problem) else { continue };
            let found = what_if(&change, &changed, &document, &settings).expect("a problem that auto takes");
            let reached = found.value_s.expect("the plan itself");
            assert!(reached <= value * (1.0 + 1e-9), "{number}, {}: {reached} {value}", found.change);
            if let Some(bound) = found.bound_s {
                assert!(bound <= reached * (1.0 + 1e-9), "{number}, {}: {bound} {reached}", found.change);
            }
            if found.change == "nothing changes" {
                assert!(!found.is_optimal || close(reached, value), "{number}: {reached} {value}");
            }
            gained += usize::from(reached < value * (1.0 - 1e-6));
        }
    }
    assert!(gained > 20, "{gained}");
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stagewright")).args(arguments).output().expect("the program starts")
}

fn demo(file: &str) -> String {
    format!("{}/data/demo/{file}", crate::ROOT)
}

#[test]
fn every_objective_is_explained_on_the_command_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = folder.path().join("plan.json").display().to_string();
    let (model, cluster) = (demo("model.json"), demo("cluster.toml"));
    for objective in ["throughput", "latency", "makespan"] {
        let common = [&model[..], "--cluster", &cluster, "--time-limit", "1s"];
        let made = run(&[&["plan", "--objective", objective, "--out", &plan], &common[..]].concat());
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let (first, rest) = (common[0], &common[1..]);
        let output = run(&[&["explain", first, &plan, "--json"], rest].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(document["schema"], "stagewright.explanation/1");
        assert_eq!(document["objective"]["kind"], objective);
        let value = document["value_s"].as_f64().expect("a value");
        for what_if in document["what_ifs"].as_array().expect("changes") {
            let bound = what_if["bound_s"].as_f64().expect("a bound");
            let reached = what_if["value_s"].as_f64().expect("a plan");
            assert!(bound <= reached * (1.0 + 1e-9), "{what_if}");
        }
        let as_it_is = document["what_ifs"][0]["value_s"].as_f64().expect("a value");
        assert!(as_it_is <= value * (1.0 + 1e-9));
        let text = run(&[&["explain", first, &plan, "--no-what-if"], rest].concat());
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        assert!(text.contains("bottleneck") && !text.contains("what if"), "{text}");
    }
}

#[test]
fn the_pins_of_a_plan_hold_for_its_what_ifs() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (model, cluster) = (demo("model.json"), demo("cluster.toml"));
    std::fs::write(path("pins.json"), r#"{"image.layer.1":"gpu3","image.layer.1.backward":"gpu3"}"#)
        .expect("room");
    std::fs::write(path("more.json"), r#"{"image.layer.1":"gpu","image.layer.10":"gpu0"}"#).expect("room");
    let made = run(&[
        "plan",
        &model,
        "--cluster",
        &cluster,
        "--pins",
        &path("pins.json"),
        "--out",
        &path("plan.json"),
    ]);
    let text = String::from_utf8_lossy(&made.stdout).into_owned();
    assert!(text.contains("optimal"), "{text}");
    let as_it_is = |more: &[&str]| {
        let plan = path("plan.json");
        let output = run(&[&["explain", &model, &plan, "--cluster", &cluster, "--json"], more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let bound = document["what_ifs"][0]["bound_s"].as_f64().expect("a bound");
        (document["value_s"].as_f64().expect("a value"), bound)
    };
    let (value, bound) = as_it_is(&[]);
    assert!(close(value, bound), "a plan that is proved optimal under its pins: {value} {bound}");
    let (_, tighter) = as_it_is(&["--pins", &path("more.json")]);
    assert!(tighter >= bound * (1.0 - 1e-9), "more pins allow no more: {tighter} {bound}");
}

/// Two wide stages around one operator: neither the work nor the longest path accounts for all three.
#[test]
fn an_operator_that_everything_waits_for() {
    let mut graph = GraphBuilder::new("waist");
    let mut operator = |name: &str, seconds: f64| {
        let seconds = [("acc".to_string(), seconds)].into();
        graph.operator(OperatorDocument { seconds, ..OperatorDocument::named(name) });
    };
    let side = |side: &str| -> Vec<String> { (0..4).map(|index| format!("{side}{index}")).collect() };
    side("before").iter().chain(&side("after")).for_each(|name| operator(name, 2.0));
    operator("waist", 4.0);
    for name in side("before") {
        graph.tensor(&name, ["waist"], 0.0);
    }
    let after = side("after");
    graph.tensor("waist", after.iter().map(String::as_str), 0.0);
    let mut cluster = ClusterBuilder::new("two");
    cluster.kind(KindDocument {
        link: Some(LinkDocument { latency_s: 0.0, bandwidth: 1.0 }),
        ..KindDocument::named("acc", 2)
    });
    let (graph, cluster) = (graph.build().expect("a graph"), cluster.build().expect("a cluster"));
    let objective = Objective::from(ObjectiveKind::Makespan);
    let problem = Problem::new(graph, cluster, objective).expect("a problem");
    let placement = Placement::new(vec![DeviceId(0); 9]);
    let serial = explain(&problem, &placement).serial.expect("the waist");
    assert_eq!((serial.operators, serial.longest.as_slice()), (1, &["waist".to_string()][..]));
    assert!(close(serial.serial_s, 4.0) && close(serial.bound_s, 12.0), "{serial:?}");
    assert!(serial.text().starts_with("waist runs for 4.0000 s, 33.33% of the bound"), "{}", serial.text());
}
