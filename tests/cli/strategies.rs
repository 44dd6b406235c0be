//! Strategy problems from the file to the checked plan.

#![expect(clippy::print_stdout, reason = "a skipped test says so")]

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::{code, command, folder, json, path, root, run, run_with_input, stderr, stdout};

/// Two neighbours: the cheap strategies of both exceed the limit together.
fn two() -> Value {
    json!({"problem": {
        "name": "two", "usage_limit": 3,
        "nodes": {"intervals": [[0, 2], [1, 3]], "costs": [[1, 4], [0, 5]], "usages": [[2, 1], [2, 1]]},
        "edges": {"nodes": [[0, 1]], "costs": [[0, 3, 0, 0]]},
    }})
}

#[test]
fn a_strategy_problem_is_planned_bounded_and_checked() {
    let files = folder(&[("two.json", &two().to_string())]);
    let (problem, plan) = (path(&files, "two.json"), path(&files, "plan.json"));
    let made = run(&["plan", &problem, "--out", &plan]);
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    let said = stdout(&made);
    assert!(said.contains("peak usage  3 of 3\nstatus      optimal\n"), "{said}");
    let printed = json(&run(&["plan", &problem, "--json"]));
    assert_eq!(printed["schema"], "stagewright.strategy-plan/1");
    assert_eq!((&printed["cost"], &printed["strategies"]), (&json!(4), &json!([1, 0])));

    let checked = run(&["check", &problem, &plan]);
    assert_eq!(code(&checked), Some(0), "{}", stdout(&checked));
    assert!(stdout(&checked).contains("the plan is feasible, and its claims hold"), "{}", stdout(&checked));
    let bounded = json(&run(&["bound", &problem, "--json"]));
    assert!(bounded["strongest"]["cost"].as_f64().is_some_and(|bound| bound <= 4.0), "{bounded}");
    let again = json(&run(&["plan", &problem, "--start", &plan, "--json"]));
    assert_eq!(again["cost"], 4);
}

#[test]
fn a_packed_problem_may_come_from_standard_input() {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(two().to_string().as_bytes()).expect("memory");
    let packed = packed.finish().expect("memory");
    for input in [two().to_string().as_bytes(), &packed] {
        let made = run_with_input(&["plan", "-", "--json"], input);
        assert_eq!(code(&made), Some(0), "{}", stderr(&made));
        assert_eq!(json(&made)["cost"], 4);
    }
}

#[test]
fn the_contests_notation_of_a_plan_is_checked() {
    let files = folder(&[("two.json", &two().to_string()), ("good.json", "[1, 0]"), ("bad.json", "[0, 0]")]);
    let [problem, good, bad] = ["two.json", "good.json", "bad.json"].map(|name| path(&files, name));
    assert_eq!(code(&run(&["check", &problem, &good])), Some(0));
    let refuted = run(&["check", &problem, &bad, "--json"]);
    assert_eq!(code(&refuted), Some(1));
    assert_eq!(json(&refuted)["violations"][0]["kind"], "usage");
    // The first time at which both are live.
    let said = json(&refuted)["violations"][0]["message"].to_string();
    assert!(said.contains("at time 1 is 4"), "{said}");
}

#[test]
fn an_infeasible_problem_has_its_exit_code() {
    let mut problem = two();
    problem["problem"]["usage_limit"] = json!(1);
    let files = folder(&[("two.json", &problem.to_string())]);
    let made = run(&["plan", &path(&files, "two.json"), "--json"]);
    assert_eq!((code(&made), &json(&made)["status"]), (Some(3), &json!("infeasible")));
}

#[test]
fn faults_of_input_and_options_are_located() {
    let mut wrong = two();
    wrong["problem"]["nodes"]["costs"][1] = json!([-1, 0]);
    let cut = &two().to_string()[..60];
    let files =
        folder(&[("two.json", &two().to_string()), ("wrong.json", &wrong.to_string()), ("cut.json", cut)]);
    let [problem, wrong, cut] = ["two.json", "wrong.json", "cut.json"].map(|name| path(&files, name));
    let error = |arguments: &[&str]| {
        let output = run(arguments);
        assert_eq!(code(&output), Some(2), "{arguments:?}: {}", stderr(&output));
        stderr(&output)
    };
    let said = error(&["plan", &wrong]);
    assert!(said.contains("error[Y003]") && said.contains("problem.nodes.costs[1][0] is -1"), "{said}");
    assert!(error(&["plan", &cut]).contains("error[F002]"));
    for option in ["--cluster=8xa100", "--objective=makespan", "--html=x.html", "--solver=dp"] {
        let said = error(&["plan", &problem, option]);
        assert!(said.contains("error[U013]"), "{option}: {said}");
    }
    assert!(error(&["compare", &problem, "--cluster", "2xa100"]).contains("error[F012]"));
    let model = root().join("data/demo/model.json").display().to_string();
    assert!(error(&["plan", &model, "--cluster", "2xa100", "--start", &problem]).contains("error[F005]"));
}

/// An instance of the contest; the best published bound was 216,931.
#[test]
fn an_instance_of_the_contest_is_proved_optimal() {
    let Some(shared) = std::env::var_os("STAGEWRIGHT_SHARED") else {
        println!("skipped: STAGEWRIGHT_SHARED is not set");
        return;
    };
    let problem = std::path::Path::new(&shared).join("data/iopddl/G.json.gz").display().to_string();
    let files = folder(&[]);
    let plan = path(&files, "plan.json");
    let made =
        command(&["plan", &problem, "--time-limit", "none", "--threads", "1", "--out", &plan]).output();
    let made = made.expect("the program starts");
    assert!(stdout(&made).contains("cost        217039\nbound       217039"), "{}", stdout(&made));
    let checked = run(&["check", &problem, &plan]);
    assert_eq!(code(&checked), Some(0), "{}", stdout(&checked));
}
