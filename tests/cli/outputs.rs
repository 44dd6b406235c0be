//! Destination of results, and the checked parts of a plan.

use serde_json::{Value, json};

use super::{code, command, demo, folder, json as printed, path, plan_demo, run, stderr, stdout};

#[test]
fn a_plan_goes_to_standard_output_in_place_of_the_table() {
    let there = folder(&[]);
    let mut piped = command(&["plan", &demo("model.json"), "--cluster", &demo("cluster.toml"), "--out", "-"]);
    let output = piped.current_dir(there.path()).output().expect("the program starts");
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert_eq!(printed(&output)["schema"], "stagewright.plan/1");
    assert!(!there.path().join("-").exists());
    // Once, although it is requested twice.
    assert_eq!(printed(&plan_demo(&["--out", "-", "--json"]))["schema"], "stagewright.plan/1");
}

#[test]
fn any_output_goes_to_standard_output_in_place_of_the_table() {
    let there = folder(&[]);
    for (option, begins) in [("--html", "<!doctype html>"), ("--dot", "digraph"), ("--trace", "{")] {
        let mut piped =
            command(&["plan", &demo("model.json"), "--cluster", &demo("cluster.toml"), option, "-"]);
        let output = piped.current_dir(there.path()).output().expect("the program starts");
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).starts_with(begins), "{option}: {:.80}", stdout(&output));
        assert!(!there.path().join("-").exists());
        for other in [&["--json"][..], &["--out", "-"]] {
            let refused = plan_demo(&[&[option, "-"], other].concat());
            assert_eq!(code(&refused), Some(2), "{option} {other:?}");
            assert!(stderr(&refused).contains("both write"), "{}", stderr(&refused));
        }
    }
}

#[test]
fn one_file_is_not_written_for_two_options() {
    let there = folder(&[]);
    let twice = path(&there, "plan");
    let other = there.path().join("../").join(there.path().file_name().expect("a name")).join("plan");
    let other = other.display().to_string();
    for [first, two] in [["--out", "--html"], ["--trace", "--dot"], ["--html", "--convergence"]] {
        for second in [&twice, &other] {
            let refused = plan_demo(&[first, &twice, two, second]);
            assert_eq!(code(&refused), Some(2), "{first} {two}");
            assert!(stderr(&refused).starts_with("error[U001]: "), "{}", stderr(&refused));
            assert!(stderr(&refused).contains("both write"), "{}", stderr(&refused));
            assert_eq!(stdout(&refused), "");
            assert!(!std::path::Path::new(&twice).exists());
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_no_regular_file_takes_two_outputs() {
    assert_eq!(code(&plan_demo(&["--out", "/dev/null", "--html", "/dev/null"])), Some(0));
}

#[cfg(target_os = "linux")]
#[test]
fn help_that_cannot_be_written_is_an_error() {
    for asked in [&["--help"][..], &["--version"], &["plan", "--help"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let output = command(asked).stdout(full).output().expect("the program starts");
        assert_eq!(code(&output), Some(2), "{asked:?}");
        assert!(stderr(&output).starts_with("error[I003]"), "{asked:?}: {}", stderr(&output));
    }
}

/// Output of `check` for the demo's plan after a change to it.
fn checked(change: impl Fn(&mut Value), more: &[&str]) -> (Option<i32>, Value, String) {
    let mut plan = printed(&plan_demo(&["--json"]));
    change(&mut plan);
    let there = folder(&[("plan.json", &plan.to_string())]);
    let (model, plan, cluster) = (demo("model.json"), path(&there, "plan.json"), demo("cluster.toml"));
    let check =
        |shape: &[&str]| run(&[&["check", &model, &plan, "--cluster", &cluster], more, shape].concat());
    let output = check(&["--json"]);
    (code(&output), printed(&output), stdout(&check(&[])))
}

#[test]
fn claims_for_another_objective_are_not_compared() {
    let claim = |plan: &mut Value| plan["objective"]["value_s"] = json!(1234.5);
    for more in [
        &["--objective", "latency", "--calls", "2"][..],
        &["--communication", "overlap"],
        &["--max-replicas", "2"],
    ] {
        let (status, report, text) = checked(claim, more);
        assert_eq!(status, Some(0), "{text}");
        assert_eq!(report["claims_not_compared"]["value_s"], 1234.5, "{report}");
        assert!(report["value_s"].as_f64().is_some_and(|value| value > 0.0), "{report}");
        assert_eq!(
            (&report["objective"]["value_s"], &report["bound"]["verdict"]),
            (&Value::Null, &json!("no-claim"))
        );
        assert!(text.contains("1234.50 s for another objective, not compared: throughput, "), "{text}");
        assert!(
            text.contains("were not compared\n")
                && !text.contains("the plan is feasible, and its claims hold"),
            "{text}"
        );
    }
    // Nothing is replaced by values of the plan.
    let (status, report, _) = checked(claim, &["--objective", "throughput", "--max-replicas", "1"]);
    assert_eq!((status, &report["claims_not_compared"]), (Some(1), &Value::Null));
    // Violations of the placement are reported under every objective.
    let lost = |plan: &mut Value| drop(plan["devices"][0]["ops"].as_array_mut().expect("a list").pop());
    let (status, report, text) = checked(lost, &["--objective", "latency"]);
    assert_eq!((status, &report["violations"][0]["kind"]), (Some(1), &json!("placement")), "{text}");
}

#[test]
fn what_a_plan_says_of_itself_is_checked_to_the_last_field() {
    let (status, _, text) = checked(|_| {}, &[]);
    assert_eq!(status, Some(0), "{text}");
    let kinds = |change: &dyn Fn(&mut Value)| -> Vec<Value> {
        let (status, report, text) = checked(change, &[]);
        assert_eq!(status, Some(1), "{text}");
        let violations = report["violations"].as_array().expect("a list").iter();
        violations.map(|violation| violation["kind"].clone()).collect()
    };
    assert_eq!(kinds(&|plan| plan["seconds"] = json!(-1.0)), ["seconds"]);
    let last = |plan: &mut Value| {
        let devices = plan["devices"].as_array_mut().expect("a list");
        let stage = devices.len() + 3;
        devices.last_mut().expect("a device")["stage"] = json!(stage);
    };
    assert_eq!(kinds(&last), ["device-figures"]);
}

/// A load of zero is a figure of the plan as well.
#[test]
fn the_row_of_an_uplink_that_carries_nothing_is_missed() {
    let model = super::chain(2);
    let cluster = format!(
        "{}group = \"pod\"\n[[groups]]\nname = \"pod\"\nuplink = {{ bandwidth = 1e9 }}\n",
        super::cluster(1)
    );
    let there = folder(&[("model.json", &model), ("cluster.toml", &cluster)]);
    let (model, cluster) = (path(&there, "model.json"), path(&there, "cluster.toml"));
    let mut plan = printed(&run(&["plan", &model, "--cluster", &cluster, "--json"]));
    assert_eq!(plan["uplinks"][0]["load_s"], 0.0, "{plan}");
    let check = |plan: &Value| {
        let file = path(&there, "plan.json");
        std::fs::write(&file, plan.to_string()).expect("there is room for a file");
        run(&["check", &model, &file, "--cluster", &cluster, "--json"])
    };
    assert_eq!(code(&check(&plan)), Some(0));
    plan["uplinks"] = json!([]);
    let output = check(&plan);
    assert_eq!(
        (code(&output), &printed(&output)["violations"][0]["kind"]),
        (Some(1), &json!("uplink-figures"))
    );
}
