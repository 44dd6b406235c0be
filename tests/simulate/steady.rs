//! The steady state as `simulate` shows it.

use serde_json::Value;

use super::command::{code, demo, file, json, run, stderr, stdout, written};

/// Plans the demo. Returns the plan, and the output of `simulate` for it as JSON and as text.
fn played(folder: &tempfile::TempDir, more: &[&str]) -> (Value, Value, String) {
    let (model, cluster, plan) = (demo("model.json"), demo("cluster.toml"), file(folder, "plan.json"));
    let planned = run(&[&["plan", &model, "--cluster", &cluster, "--out", &plan], more].concat());
    assert_eq!(code(&planned), Some(0), "{}", stderr(&planned));
    let simulate = |more: &[&str]| run(&[&["simulate", &model, &plan, "--cluster", &cluster], more].concat());
    (written(&plan), json(&simulate(&["--json"])), stdout(&simulate(&[])))
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

#[test]
fn the_period_is_the_value_and_devices_are_busy_for_their_load() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let modes: [&[&str]; 4] = [
        &[],
        &["--communication", "duplex"],
        &["--split", "free", "--solver", "local", "--time-limit", "1s"],
        &["--max-replicas", "2"],
    ];
    for more in modes {
        let (plan, document, text) = played(&folder, more);
        let state = &document["steady_state"];
        assert_eq!(state["period_s"], plan["objective"]["value_s"], "{more:?}");
        assert_eq!(document["no_steady_state"], Value::Null);
        let period = number(&state["period_s"]);
        assert!(number(&state["latency_s"]) <= period * number(&state["batches_in_flight"]) * (1.0 + 1e-9));
        let mut ran = 0;
        for (device, planned) in list(&state["devices"]).iter().zip(list(&plan["devices"])) {
            assert_eq!(
                (&device["name"], &device["load_s"]),
                (&planned["name"], &planned["load_s"]),
                "{more:?}"
            );
            let seconds = |work: &str| -> f64 {
                let of_work = list(&device["busy"]).iter().filter(|busy| busy["work"] == work);
                of_work.map(|busy| number(&busy["end_s"]) - number(&busy["start_s"])).sum()
            };
            for (work, field) in [
                ("compute", "compute_s"),
                ("send", "sent_s"),
                ("receive", "received_s"),
                ("synchronise", "synchronised_s"),
            ] {
                let (shown, said) = (seconds(work), number(&device[field]));
                assert!((shown - said).abs() <= 1e-9 * period, "{more:?}: {work} {shown}, {said}");
            }
            ran += list(&device["busy"]).iter().filter(|busy| busy["operator"].is_string()).count();
            assert!(list(&device["busy"]).iter().all(|busy| number(&busy["start_s"]) < period));
        }
        assert!(ran > 0);
        assert!(text.contains("\nsteady state  a batch every "), "{text}");
        assert!(text.contains("\nin a period "), "{text}");
    }
}

#[test]
fn plans_that_are_no_pipelines_say_why_they_have_no_steady_state() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let cases: [(&[&str], &str); 3] = [
        (&["--objective", "latency", "--solver", "dp"], "a plan for latency runs one batch at a time"),
        (&["--objective", "makespan", "--solver", "heft"], "a plan for makespan runs one batch at a time"),
        (&["--schedule", "1f1b", "--microbatches", "4"], "the pipeline fills and drains in every iteration"),
    ];
    for (more, why) in cases {
        let (_, document, text) = played(&folder, more);
        assert_eq!(document["steady_state"], Value::Null, "{more:?}");
        assert!(document["no_steady_state"].as_str().is_some_and(|said| said.contains(why)), "{document}");
        assert!(text.contains("\nsteady state  none: ") && text.contains(why), "{text}");
        assert!(document["makespan_s"].is_number());
    }
}

/// A plan whose objective is impossible still has a step.
#[test]
fn an_objective_that_makes_no_sense_has_no_steady_state() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let (mut plan, _, _) = played(&folder, &[]);
    plan["objective"]["microbatches"] = 4.into();
    let spoilt = file(&folder, "spoilt.json");
    std::fs::write(&spoilt, plan.to_string()).expect("there is room for a file");
    let output =
        run(&["simulate", &demo("model.json"), &spoilt, "--cluster", &demo("cluster.toml"), "--json"]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert_eq!(json(&output)["no_steady_state"], "4 microbatches without a schedule");
}
