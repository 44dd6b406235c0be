//! Prices of what was not measured: by networks, by closed forms of other devices, or as a class states them.

use serde_json::{Value, json};

use super::{code, folder, json, path, root, run, stderr};

fn llama() -> String {
    root().join("data/configurations/llama-3.1-8b/config.json").display().to_string()
}

/// The plan of a command that has to succeed.
fn planned(words: &[&str]) -> Value {
    let model = llama();
    let output = run(&[&["plan", &model, "--whole-layers", "--json"], words].concat());
    assert_eq!(code(&output), Some(0), "{words:?}: {}", stderr(&output));
    json(&output)
}

fn value(plan: &Value) -> f64 {
    plan["objective"]["value_s"].as_f64().expect("a value")
}

#[test]
fn networks_price_a_placement_unless_closed_forms_are_asked_for() {
    let learned = planned(&["--cluster", "4xh100"]);
    assert_eq!(learned["model"]["costs"], json!(["learned"]));
    let share = |plan: &Value, source: &str| plan["sources"][source].as_f64().unwrap_or_default();
    assert!(share(&learned, "learned") > 0.5 && share(&learned, "guessed") < 0.5, "{}", learned["sources"]);
    let spread = learned["sources"]["learned_spread"].as_f64().expect("a spread");
    assert!((0.05..0.2).contains(&spread), "{spread}");
    let closed = planned(&["--cluster", "4xh100", "--costs", "closed"]);
    assert_eq!(closed["model"]["costs"], json!(["closed"]));
    assert_eq!((share(&closed, "learned"), &closed["sources"]["learned_spread"]), (0.0, &Value::Null));
    let ratio = value(&learned) / value(&closed);
    assert!((0.7..1.4).contains(&ratio) && ratio != 1.0, "{ratio}");
    // The last word counts.
    let last = planned(&["--cluster", "4xh100", "--costs", "learned", "--costs", "closed"]);
    assert_eq!(value(&last), value(&closed));
}

#[test]
fn a_device_without_measurements_is_priced_by_those_of_its_vendor() {
    let nvidia = planned(&["--cluster", "2xrtx-4090", "--costs", "closed"]);
    assert!(nvidia["sources"]["fitted"].as_f64().expect("a share") > 0.5, "{}", nvidia["sources"]);
    // Nothing is known of how much of its peak another vendor's device reaches.
    let amd = planned(&["--cluster", "2xmi300x"]);
    assert_eq!((&amd["sources"]["guessed"], &amd["model"]["costs"]), (&json!(1.0), &Value::Null));
}

/// A plan is checked with the prices that it was made with, also if it was made before there were others.
#[test]
fn a_plan_keeps_its_prices() {
    let files = folder(&[]);
    let plan = path(&files, "plan.json");
    let model = llama();
    let mut learned = planned(&["--cluster", "4xh100"]);
    let checked = |document: &Value| {
        std::fs::write(&plan, document.to_string()).expect("room");
        let output = run(&["check", &model, &plan, "--json"]);
        (code(&output), json(&output)["value_s"].as_f64().expect("a value"))
    };
    assert_eq!(checked(&learned), (Some(0), value(&learned)));
    learned["model"]["costs"] = json!([]);
    let (verdict, stated) = checked(&learned);
    let ratio = stated / value(&learned);
    assert!(verdict == Some(1) && (ratio - 1.0).abs() > 0.01, "{verdict:?}, {ratio}");
}

#[test]
fn a_robust_plan_can_be_for_errors_like_those_of_the_networks() {
    let spread = planned(&["--cluster", "2xh100", "--robust", "learned"]);
    let deviation = spread["robust"]["deviation"].as_f64().expect("a deviation");
    let own = spread["sources"]["learned_spread"].as_f64().expect("a spread");
    assert!((deviation / own - 1.0).abs() < 0.2, "{deviation}, {own}");
    let model = llama();
    let output = run(&["plan", &model, "--cluster", "2xmi300x", "--robust", "learned"]);
    assert_eq!(code(&output), Some(2));
    assert!(stderr(&output).contains("no seconds of the problem are learned"), "{}", stderr(&output));
}

#[test]
fn words_for_prices_are_for_placements_alone() {
    let model = llama();
    for word in ["closed", "learned"] {
        let load = ["--serve", "--cluster", "1xh100", "--input", "512", "--output", "64", "--costs", word];
        let output = run(&[&["plan", &model], &load[..]].concat());
        assert_eq!(code(&output), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains("error[U013]"), "{}", stderr(&output));
    }
}
