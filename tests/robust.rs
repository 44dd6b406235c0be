//! Costs that are off: robust plans pass the checker, wrong claims do not, and the sensitivity of a plan is correct.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use rand::RngExt;
use serde_json::Value;
use stagewright::explain::sensitivity;
use stagewright::report::document::{Provenance, plan_document};
use stagewright::robust;
use stagewright_core::cost::Cost;
use stagewright_core::document::{ObjectiveKind, PlanDocument};
use stagewright_core::evaluate::evaluate;
use stagewright_core::graph::Graph;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Context, Limits, Settings, Silent, Solver};
use stagewright_core::uncertainty::Uncertainty;
use stagewright_dp::Dp;
use stagewright_testing::random::{self, Size};
use stagewright_testing::steps;
use stagewright_verify::{Report, RobustClaim, Verdict, check};

const SIZE: Size = Size { operators: 7, devices: 4, groups: true };

fn with_context<T>(work: impl FnOnce(&mut Context<'_>) -> T) -> T {
    let mut silent = Silent;
    let mut context = Context::new(Limits { time: None, ..Limits::default() }, &mut silent);
    work(&mut context)
}

/// A random problem whose operators have one of five kinds or none.
fn problem(number: u64) -> Problem {
    let problem = random::problem(number, SIZE);
    let mut rng = seed::stream(0x4B1D, number);
    let mut document = problem.graph().document().clone();
    for operator in &mut document.operators {
        operator.kind = match rng.random_range(0..6) {
            0 => None,
            kind => Some(format!("kind{kind}")),
        };
    }
    let graph = Graph::from_document(document).expect("a valid graph");
    let (cluster, pins) = (problem.cluster().clone(), problem.pins().clone());
    Problem::pinned(graph, cluster, *problem.objective(), pins).expect("a valid problem")
}

/// The document of a robust plan.
fn robust_plan(problem: &Problem, number: u64) -> Option<PlanDocument> {
    let provenance = Provenance { solver: "dp".into(), seconds: 0.0, seed: 0 };
    with_context(|context| {
        let uncertainty = Uncertainty { deviation: 0.2, budget: 1 + (number % 3) as u32 };
        let found = robust::solve(problem, uncertainty, &Dp, context).expect("a worst case");
        let mut plan = plan_document(problem, &found.solution(context), provenance);
        plan.robust = Some(robust::document(&found, uncertainty)?);
        Some(plan)
    })
}

fn checked(problem: &Problem, plan: &PlanDocument) -> Report {
    check(problem.graph().document(), problem.cluster().document(), None, plan).expect("a problem")
}

fn violations(report: &Report) -> Vec<&'static str> {
    let mut kinds: Vec<_> = report.violations.iter().map(|violation| violation.kind.name()).collect();
    kinds.dedup();
    kinds
}

#[test]
fn robust_plans_pass_the_checker_and_wrong_claims_do_not() {
    let mut plans = 0;
    for number in 0..200 {
        let problem = problem(number);
        if Uncertainty::unsupported(problem.objective()).is_some() {
            continue;
        }
        let Some(plan) = robust_plan(&problem, number) else { continue };
        let written = serde_json::to_string(&plan).expect("JSON");
        let plan: PlanDocument = serde_json::from_str(&written).expect("the same document");
        let report = checked(&problem, &plan);
        assert_eq!(violations(&report), [""; 0], "{number}: {:?}", report.violations);
        for of_claim in &report.robust {
            let is_recomputed = of_claim.claim == RobustClaim::WorstCase;
            let expected = if is_recomputed { Verdict::Verified } else { Verdict::NotVerified };
            assert_eq!(of_claim.verdict, expected, "{number}: {of_claim:?}");
        }
        assert_eq!(report.robust.len(), 3, "{number}");
        plans += 1;
        let mut corrupt = Vec::new();
        let mut with = |change: &dyn Fn(&mut PlanDocument)| {
            let mut other = plan.clone();
            change(&mut other);
            corrupt.push(other);
        };
        if plan.robust.as_ref().is_some_and(|robust| robust.worst_s > 0.0) {
            with(&|plan| plan.robust.as_mut().expect("it is").worst_s *= 0.99);
            with(&|plan| plan.robust.as_mut().expect("it is").bound_s *= 1.5);
            with(&|plan| plan.robust.as_mut().expect("it is").gap += 0.1);
            with(&|plan| plan.robust.as_mut().expect("it is").budget = 0);
            with(&|plan| plan.robust.as_mut().expect("it is").nominal_best_worst_s *= 0.5);
            with(&|plan| plan.robust.as_mut().expect("it is").scenario.kinds.push("unknown".into()));
            with(&|plan| plan.robust.as_mut().expect("it is").nominal_best_s = -1.0);
            // By this claim, the plan itself would be nominally better than the nominal best.
            let value = plan.objective.value_s.expect("a plan has a value");
            with(&|plan| {
                let robust = plan.robust.as_mut().expect("it is");
                (robust.nominal_best_s, robust.nominal_best_worst_s) = (1.5 * value, 10.0 * robust.worst_s);
            });
        }
        for other in corrupt {
            let report = checked(&problem, &other);
            let claims = &other.robust;
            assert_eq!(violations(&report), ["robust"], "{number}: {claims:?}");
            let refuted = report.robust.iter().filter(|of_claim| of_claim.verdict == Verdict::Refuted);
            assert!(refuted.count() > 0, "{number}: {claims:?}");
        }
    }
    assert!(plans > 30, "{plans}");
}

fn settings() -> Settings {
    let limits = Limits { time: None, memory: None, ..Limits::default() };
    Settings { limits, seed: 3, ..Settings::default() }
}

#[test]
fn the_interval_has_every_value_and_the_losses_are_those_of_plans() {
    let (mut compared, mut better, mut moved) = (0, 0, 0);
    for number in 0..60 {
        let problem = random::problem(number, SIZE);
        let Some(plan) = with_context(|context| Dp.solve(&problem, context)).expect("contiguous").plan else {
            continue;
        };
        let found = sensitivity(&problem, &plan.placement, 0.2, None, &settings()).expect("a plan");
        let [low, high] = found.interval_s.expect("values of pipelines grow with every cost");
        let mut rng = seed::stream(0x1F, number);
        for scale in [0.8, 1.2] {
            let ended = evaluate(&problem.scaled(|_| scale), &plan.placement).value;
            let end = if scale < 1.0 { low } else { high };
            assert!((ended - end).abs() <= 1e-9 * end.max(1e-12), "{number}: {ended} {end}");
        }
        for _ in 0..20 {
            let changed = problem.scaled(|_: Cost| rng.random_range(0.8..=1.2));
            let value = evaluate(&changed, &plan.placement).value;
            assert!(low * (1.0 - 1e-9) <= value && value <= high * (1.0 + 1e-9), "{number}: {value}");
        }
        assert_eq!((found.samples, found.missing.as_deref()), (found.cases.len() + 32, None), "{number}");
        // The only class of a cluster is a case too: all compute at 0.8 is equivalent to all links at 1.25, which no
        // other case covers.
        let cluster = problem.cluster();
        let in_use = (0..cluster.kind_count()).map(|kind| cluster.kind(kind)).filter(|kind| kind.count > 0);
        let classes: BTreeSet<&str> = in_use.map(|kind| kind.class.as_str()).collect();
        for class in classes {
            let start = format!("operators on {class} take ");
            let of_class = found.cases.iter().filter(|case| case.costs.starts_with(&start));
            assert_eq!(of_class.count(), 2, "{number}: {class}");
        }
        for case in &found.cases {
            assert!(case.best_s <= case.value_s && case.bound_s.is_some_and(|bound| bound <= case.best_s));
        }
        let again = sensitivity(&problem, &plan.placement, 0.2, None, &Settings { threads: 3, ..settings() });
        assert_eq!(again.as_ref(), Ok(&found), "{number}");
        compared += 1;
        better += usize::from(found.better > 0);
        moved += usize::from(!found.boundaries.is_empty());
    }
    assert!(compared > 20 && better > 5 && moved > 5, "{compared} {better} {moved}");
}

#[test]
fn costs_that_are_not_off_change_nothing() {
    let mut compared = 0;
    for number in 0..60 {
        let problem = random::problem(number, SIZE);
        let Some(plan) = with_context(|context| Dp.solve(&problem, context)).expect("contiguous").plan else {
            continue;
        };
        let found =
            sensitivity(&problem, &plan.placement, 0.0, Some(plan.value()), &settings()).expect("a plan");
        assert_eq!(found.interval_s, Some([plan.value(); 2]), "{number}");
        assert_eq!((found.seen_s, found.better), (Some([plan.value(); 2]), 0), "{number}");
        compared += 1;
    }
    assert!(compared > 20, "{compared}");
}

/// A list schedule may take longer when operators take less.
#[test]
fn the_makespan_has_no_interval() {
    let problem = steps::problem(3);
    let placement = steps::placed(&problem, 3);
    assert_eq!(problem.objective().kind(), ObjectiveKind::Makespan);
    let limits = Limits { time: Some(std::time::Duration::from_millis(200)), ..settings().limits };
    let settings = Settings { limits, ..settings() };
    let found = sensitivity(&problem, &placement, 0.1, None, &settings).expect("a plan");
    assert_eq!(found.interval_s, None);
    assert!(found.seen_s.is_some_and(|[low, high]| low <= high));
}

fn run(arguments: &[&str]) -> Output {
    let binary = env!("CARGO_BIN_EXE_stagewright");
    Command::new(binary).args(arguments).current_dir(crate::ROOT).output().expect("the program runs")
}

#[test]
fn the_program_plans_for_costs_that_are_off() {
    let model = "data/models/gpt2-step.json.gz";
    let plan = |more: &[&str]| {
        let common =
            ["plan", model, "--cluster", "2xrtx-4090+2xrtx-3090", "--whole-layers", "--robust", "10%"];
        run(&[&common[..], more].concat())
    };
    let table = plan(&[]);
    let text = String::from_utf8_lossy(&table.stdout);
    assert!(text.contains("worst case") && text.contains("robustness"), "{text}");
    assert!(!run(&["explain", model, "-", "--no-what-if", "--costs-off", "5%"]).status.success());
    let document: Value = serde_json::from_slice(&plan(&["--json"]).stdout).expect("JSON");
    let robust = &document["robust"];
    assert!(robust["worst_s"].as_f64() > document["objective"]["value_s"].as_f64(), "{robust}");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("plan.json");
    let path = path.to_str().expect("a path in UTF-8");
    let written = plan(&["--out", path]);
    assert!(written.status.success(), "{written:?}");
    let common = ["check", model, path, "--cluster", "2xrtx-4090+2xrtx-3090", "--whole-layers"];
    let text = run(&common);
    assert!(text.status.success(), "{text:?}");
    let text = String::from_utf8_lossy(&text.stdout);
    for (label, verdict) in [("worst case", ": verified"), ("worst-case bound", ": not verified")] {
        let line = text.lines().find(|line| line.starts_with(label));
        assert!(line.is_some_and(|line| line.contains(verdict)), "{text}");
    }
    let json: Value =
        serde_json::from_slice(&run(&[&common[..], &["--json"]].concat()).stdout).expect("JSON");
    assert_eq!(json["robust"][0]["verdict"], "verified", "{json}");
    for more in [
        &["--schedule", "1f1b", "--microbatches", "4"][..],
        &["--objective", "latency"],
        &["--training", "separate"],
        &["--robust-budget", "0"],
        &["--parallel", "pp"],
    ] {
        assert_eq!(plan(more).status.code(), Some(2), "{more:?}");
    }
}
