//! Serving plans from a configuration to commands of engines.

use super::{code, folder, json, path, root, run, stderr, stdout};

/// The question of the guide, for an engine.
fn planned(engine: &str, mode: &str, plan: &str) -> serde_json::Value {
    let config = configuration();
    let made = run(&[
        "plan",
        &config,
        "--serve",
        "--cluster",
        "4xh100",
        "--input",
        "1024",
        "--output",
        "128",
        "--rate",
        "20",
        "--ttft",
        "1s",
        "--tpot",
        "40ms",
        "--goal",
        "devices",
        "--engine",
        engine,
        "--mode",
        mode,
        "--json",
        "--out",
        plan,
    ]);
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    json(&made)
}

fn configuration() -> String {
    root().join("data/configurations/llama-3.1-8b/config.json").display().to_string()
}

#[test]
fn a_plan_is_checked_and_a_forged_one_refused() {
    let files = folder(&[]);
    let plan = path(&files, "plan.json");
    let mut answer = planned("vllm", "aggregated", &plan);
    assert_eq!(answer["status"], "optimal");
    let checked = run(&["check", &configuration(), &plan]);
    assert_eq!(code(&checked), Some(0), "{}", stdout(&checked));
    assert!(stdout(&checked).contains("verified"), "{}", stdout(&checked));
    let rate = answer["replicas"][0]["requests_per_s"].as_f64().expect("a rate");
    answer["replicas"][0]["requests_per_s"] = (2.0 * rate).into();
    let forged = path(&files, "forged.json");
    std::fs::write(&forged, answer.to_string()).expect("room");
    let checked = run(&["check", &configuration(), &forged]);
    assert_eq!(code(&checked), Some(1), "{}", stdout(&checked));
    assert!(stdout(&checked).contains("requests_per_s"), "{}", stdout(&checked));
}

#[test]
fn requests_through_a_plan_confirm_it() {
    let files = folder(&[]);
    for mode in ["aggregated", "disaggregated"] {
        let plan = path(&files, "plan.json");
        planned("vllm", mode, &plan);
        let simulated = run(&["simulate", &configuration(), &plan, "--duration", "60", "--json"]);
        assert_eq!(code(&simulated), Some(0), "{}", stderr(&simulated));
        let class = &json(&simulated)["classes"][0];
        let rate = class["requests_per_s"].as_f64().expect("a rate");
        assert!((rate - 20.0).abs() < 2.0, "{mode}: {class}");
        assert!(class["ttft_s"]["mean"].as_f64().is_some_and(|mean| mean < 1.0), "{mode}: {class}");
    }
}

#[test]
fn every_engine_gets_its_commands() {
    let files = folder(&[]);
    for (engine, targets) in [
        ("vllm", ["vllm", "dynamo", "llm-d", "router-weights"]),
        ("sglang", ["sglang", "dynamo", "llm-d", "router-weights"]),
        ("tensorrt-llm", ["tensorrt-llm", "dynamo", "router-weights", "router-weights"]),
    ] {
        let plan = path(&files, "plan.json");
        planned(engine, "aggregated", &plan);
        for target in targets {
            let exported = run(&["export", &plan, "--to", target]);
            assert_eq!(code(&exported), Some(0), "{engine} to {target}: {}", stderr(&exported));
            assert!(!stdout(&exported).is_empty(), "{engine} to {target}");
        }
    }
    let refused = run(&["export", &path(&files, "plan.json"), "--to", "vllm"]);
    assert_eq!(code(&refused), Some(2));
    assert!(stderr(&refused).contains("E035"), "{}", stderr(&refused));
}

#[test]
fn plans_and_explanations_have_pages() {
    let files = folder(&[]);
    let [plan, page] = ["plan.json", "page.html"].map(|name| path(&files, name));
    let of_plan = "--serve --cluster 2xh100+2xl40s --input 1024 --output 128 --ttft 1s --tpot 40ms";
    let words: Vec<&str> = of_plan.split(' ').collect();
    let configuration = configuration();
    let made = run(&[&["plan", &configuration, "--out", &plan, "--html", &page], &words[..]].concat());
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    let read = || std::fs::read_to_string(&page).expect("a page");
    let text = read();
    for part in ["id=\"pools\"", "id=\"replicas\"", "aria-label=\"memory: weights", "<bdi>h100</bdi>"] {
        assert!(text.contains(part), "{part}");
    }
    assert!(!text.contains("id=\"limits\""));
    let made = run(&["explain", &configuration, &plan, "--html", &page]);
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    let text = read();
    for part in ["limit on TTFT", "limit on TPOT", "one more h100", "bound by"] {
        assert!(text.contains(part), "{part}");
    }
}

#[test]
fn other_explanations_have_no_page() {
    let files = folder(&[]);
    let [model, cluster] =
        ["model.json", "cluster.toml"].map(|name| root().join("data/demo").join(name).display().to_string());
    let [plan, page] = ["plan.json", "page.html"].map(|name| path(&files, name));
    let made = run(&["plan", &model, "--cluster", &cluster, "--out", &plan]);
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    let refused = run(&["explain", &model, &plan, "--html", &page]);
    assert_eq!(code(&refused), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("U013"), "{}", stderr(&refused));
    assert!(!std::path::Path::new(&page).exists());
}
