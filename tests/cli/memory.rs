//! Steps that need more memory than the fast devices have.

use serde_json::{Value, json};

use super::{code, folder, json, path, run, stdout};

/// A card with memory for four and a half of eight experts, and a host that takes ten times as long.
const CLUSTER: &str = "schema = \"stagewright.cluster/1\"\n\
    [[kinds]]\nname = \"card\"\nclass = \"gpu\"\ncount = 1\nmemory_bytes = 4.5e9\nlink = { bandwidth = 1e10 }\n\
    [[kinds]]\nname = \"cpu\"\nclass = \"cpu\"\ncount = 1\nhost = true\n";

fn experts() -> String {
    let expert = |number: usize| json!({"name": format!("expert{number}"), "seconds": {"gpu": 0.001, "cpu": 0.01}, "parameter_bytes": 1e9});
    let operators: Vec<Value> = (0..8).map(expert).collect();
    json!({"schema": "stagewright.graph/1", "operators": operators}).to_string()
}

#[test]
fn experts_beyond_a_card_end_as_optimal_and_their_proof_is_replayed() {
    let folder = folder(&[("model.json", &experts()), ("cluster.toml", CLUSTER)]);
    let [model, cluster, plan] = ["model.json", "cluster.toml", "plan.json"].map(|name| path(&folder, name));
    for objective in ["makespan", "throughput", "latency"] {
        let found = run(&["bound", &model, "--cluster", &cluster, "--objective", objective, "--json"]);
        let found = json(&found)["strongest"]["value_s"].as_f64().expect("a bound");
        let least = if objective == "latency" { 0.01 } else { 0.04 };
        assert!(found >= least * (1.0 - 2e-9), "{objective}: {found}");
    }
    let planned = run(&[
        "plan",
        &model,
        "--cluster",
        &cluster,
        "--objective",
        "makespan",
        "--threads",
        "1",
        "--json",
        "--out",
        &plan,
    ]);
    let document = json(&planned);
    assert_eq!((&document["status"], &document["bound"]["source"]), (&json!("optimal"), &json!("memory")));
    let checked = run(&["check", &model, &plan, "--cluster", &cluster]);
    assert_eq!(code(&checked), Some(0), "{}", stdout(&checked));
    assert!(stdout(&checked).contains("verified"), "{}", stdout(&checked));

    let mut tampered = document;
    let memory = &mut tampered["bound"]["certificate"]["memory"]["card"];
    let price = memory["price"].as_f64().expect("a price");
    memory["price"] = json!(price / 2.0);
    std::fs::write(&plan, tampered.to_string()).expect("there is room for a file");
    let refused = run(&["check", &model, &plan, "--cluster", &cluster]);
    assert_eq!(code(&refused), Some(1), "{}", stdout(&refused));
    assert!(stdout(&refused).contains("proves"), "{}", stdout(&refused));
}
