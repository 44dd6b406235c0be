//! Custom placements, without the other fields of a plan.

use serde_json::{Map, Value, json};

use super::{code, command, demo, folder, path, plan_demo, stderr, stdout};

/// The placement of a plan in every form, with the numbers of devices that are all of one kind.
fn forms(plan: &Value, operators: &[String]) -> Vec<Value> {
    let devices = plan["devices"].as_array().expect("devices");
    let mut device_of = Map::new();
    for device in devices {
        for name in device["ops"].as_array().expect("operators") {
            device_of.insert(name.as_str().expect("a name").to_owned(), device["name"].clone());
        }
    }
    let number = |name: &Value| -> u32 {
        let name = name.as_str().expect("a name");
        name.trim_start_matches(|letter: char| !letter.is_ascii_digit()).parse().expect("a number")
    };
    let names: Vec<Value> = operators.iter().map(|name| device_of[name].clone()).collect();
    let numbers: Vec<u32> = names.iter().map(number).collect();
    let lists: Vec<Value> =
        devices.iter().map(|device| json!({"name": device["name"], "ops": device["ops"]})).collect();
    vec![
        Value::Object(device_of),
        json!(names),
        json!(numbers),
        json!({ "devices": lists }),
        json!({ "schema": "stagewright.plan/1", "devices": lists }),
    ]
}

#[test]
fn every_form_has_the_value_of_the_plan_that_it_is_of() {
    let (model, cluster) = (demo("model.json"), demo("cluster.toml"));
    let made = plan_demo(&["--json"]);
    let plan: Value = serde_json::from_str(&stdout(&made)).expect("--json prints JSON");
    let graph: Value = serde_json::from_slice(&std::fs::read(&model).expect("the demo")).expect("JSON");
    let operators: Vec<String> = graph["operators"]
        .as_array()
        .expect("operators")
        .iter()
        .map(|operator| operator["name"].as_str().expect("a name").to_owned())
        .collect();
    let value = plan["objective"]["value_s"].as_f64().expect("a plan");
    for (number, form) in forms(&plan, &operators).into_iter().enumerate() {
        let text = form.to_string();
        let folder = folder(&[("own.json", &text)]);
        let own = path(&folder, "own.json");
        let run = |arguments: &[&str]| command(arguments).output().expect("the program starts");
        let checked = run(&["check", &model, &own, "--cluster", &cluster, "--json"]);
        assert_eq!(code(&checked), Some(0), "{number}: {}", stderr(&checked));
        let report: Value = serde_json::from_str(&stdout(&checked)).expect("JSON");
        // Sums of the same numbers in another order.
        let found = report["value_s"].as_f64().expect("a value");
        assert!((found / value - 1.0).abs() < 1e-12, "{number}: {found} for {value}");
        let exported = run(&["export", &own, "--to", "mermaid", "--model", &model, "--cluster", &cluster]);
        assert_eq!(code(&exported), Some(0), "{number}: {}", stderr(&exported));
        let alone = run(&["export", &own, "--to", "mermaid"]);
        assert!(stderr(&alone).starts_with("error[S006]: "), "{number}: {}", stderr(&alone));
    }
}
