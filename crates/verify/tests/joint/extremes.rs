//! No number and no missing part of a document makes the checker panic.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use stagewright_verify::{check_joint, check_joint_layers};

use super::parts::moving;
use super::{contexts, hosts, iteration, layers, schedules, shards};

/// Numbers at the ends of their ranges.
fn numbers() -> [Value; 6] {
    [json!(0), json!(-1), json!(3), json!(u32::MAX), json!(u64::MAX), json!(1e308)]
}

/// JSON pointers to every value in a document.
fn pointers(document: &Value) -> Vec<String> {
    let children: Vec<(String, &Value)> = match document {
        Value::Array(all) => {
            all.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect()
        }
        Value::Object(all) => all.iter().map(|(name, value)| (name.clone(), value)).collect(),
        _ => Vec::new(),
    };
    let mut found = vec![String::new()];
    for (name, value) in children {
        found.extend(pointers(value).into_iter().map(|rest| format!("/{name}{rest}")));
    }
    found
}

/// Variants of a document with a different number or name, or with a list that is empty or repeats its last entry.
fn changed(document: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    for pointer in pointers(document) {
        let Some(value) = document.pointer(&pointer) else { continue };
        let others: Vec<Value> = match value {
            Value::Number(_) => numbers().to_vec(),
            Value::String(_) => vec![json!("")],
            Value::Array(entries) => {
                vec![json!([]), entries.iter().chain(entries.last()).cloned().collect()]
            }
            _ => continue,
        };
        for other in others {
            let mut changed = document.clone();
            if let Some(place) = changed.pointer_mut(&pointer) {
                *place = other;
            }
            all.push(changed);
        }
    }
    all
}

/// The documents that can be read at all.
fn readable<T: DeserializeOwned>(document: &Value) -> Vec<T> {
    changed(document).into_iter().filter_map(|changed| serde_json::from_value(changed).ok()).collect()
}

fn one<T: DeserializeOwned>(document: Value) -> T {
    serde_json::from_value(document).expect("a document")
}

#[test]
fn of_a_file() {
    let plan = layers::two_stages();
    for file in readable(&layers::file()) {
        let _ = check_joint_layers(&file, &one(plan.clone()));
    }
    for changed in readable(&plan) {
        let _ = check_joint_layers(&one(layers::file()), &changed);
    }
}

#[test]
fn of_a_graph() {
    // A bound that no plan exceeds is proved.
    let bounded = |mut plan: Value| {
        plan["bound"]["value_s"] = json!(1.0);
        plan
    };
    let mut cut = bounded(schedules::interleaved());
    (cut["objective"]["chunks"], cut["objective"]["cut"]) = (json!(2), json!([1, 1, 1, 1]));
    let cases = [
        (iteration::graph(), iteration::cluster(), iteration::pipeline()),
        (iteration::graph(), iteration::cluster(), iteration::split()),
        (schedules::three(), schedules::cluster(), schedules::zero_bubble()),
        (schedules::four(), schedules::cluster(), schedules::interleaved()),
        (schedules::four(), schedules::cluster(), cut),
        (schedules::four(), schedules::cluster(), bounded(schedules::dualpipe_v())),
        (contexts::graph(4.0), moving(), bounded(contexts::ring())),
        (hosts::graph(), hosts::cluster(), bounded(hosts::far())),
        (iteration::graph(), shards::large(), bounded(shards::groups(1, [0.0; 7]))),
    ];
    for (graph, cluster, plan) in cases {
        for changed in readable(&graph) {
            let _ = check_joint(&changed, &one(cluster.clone()), &one(plan.clone()));
        }
        for changed in readable(&cluster) {
            let _ = check_joint(&one(graph.clone()), &changed, &one(plan.clone()));
        }
        for changed in readable(&plan) {
            let _ = check_joint(&one(graph.clone()), &one(cluster.clone()), &changed);
        }
    }
}
