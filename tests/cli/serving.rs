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
fn rules_are_compared_with_the_best_plan() {
    let config = configuration();
    let question = ["--serve", "--cluster", "3xh100+5xl40s", "--input", "2000", "--output", "400"];
    let compared = |more: &[&str]| {
        let arguments: Vec<&str> =
            ["compare", &config].iter().chain(&question).chain(more).copied().collect();
        run(&arguments)
    };
    let all = compared(&["--json"]);
    assert_eq!(code(&all), Some(0), "{}", stderr(&all));
    let all = json(&all);
    assert_eq!(all["schema"], "stagewright.serving-comparison/1");
    let model = &all["models"][0];
    let rows = model["rows"].as_array().expect("rows");
    let names: Vec<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names.len(), 6, "{names:?}");
    assert_eq!((names[0], &rows[0]["status"]), ("best", &"optimal".into()));
    let copies = rows.iter().find(|row| row["name"] == "copies").expect("copies");
    assert!(copies["value"].as_f64() < rows[0]["value"].as_f64(), "{copies}");
    assert!(copies["gap"].as_f64() > Some(0.01), "{copies}");
    let csv = compared(&["--solvers", "best,copies", "--csv"]);
    assert_eq!(stdout(&csv).lines().count(), 3, "{}", stdout(&csv));
    for shape in ["--markdown", "--latex"] {
        assert!(stdout(&compared(&["--solvers", "copies", shape])).contains("copies"), "{shape}");
    }
    for (wrong, error) in
        [(["--solvers", "bets"], "U003"), (["--solvers", "none"], "U001"), (["--seeds", "3"], "U013")]
    {
        let refused = compared(&wrong);
        assert_eq!(code(&refused), Some(2), "{wrong:?}");
        assert!(stderr(&refused).contains(error), "{}", stderr(&refused));
    }
    assert_eq!(code(&compared(&["--solvers", "copies", "--gap", "10%"])), Some(4));
    assert_eq!(code(&compared(&["--tpot", "1ms"])), Some(5));
}

#[test]
fn a_benchmark_calibrates_the_next_plan() {
    let files = folder(&[]);
    let (plan, bench, factors) =
        (path(&files, "plan.json"), path(&files, "bench.json"), path(&files, "factors.json"));
    planned("vllm", "aggregated", &plan);
    let result = |ttft: f64, tpot: f64| {
        let text = format!(
            r#"{{"num_prompts": 128, "request_rate": "inf", "max_concurrency": 16, "duration": 60.0, "completed": 128,
            "total_input_tokens": 131072, "total_output_tokens": 16384, "mean_ttft_ms": {ttft}, "mean_tpot_ms": {tpot}}}"#
        );
        std::fs::write(&bench, text).expect("room");
    };
    let explained = |plan: &str| {
        let found = run(&["explain", &configuration(), plan, "--no-what-if", "--measured", &bench, "--json"]);
        assert_eq!(code(&found), Some(0), "{}", stderr(&found));
        json(&found)["measured"].clone()
    };
    result(100.0, 10.0);
    let before = explained(&plan);
    let time = |name: &str| before["runs"][0][name]["predicted_s"].as_f64().expect("seconds");
    // Measured times that are twice and three quarters of those predicted.
    result(2e3 * time("ttft"), 0.75e3 * time("tpot"));
    let written = run(&[
        "explain",
        &configuration(),
        &plan,
        "--no-what-if",
        "--measured",
        &bench,
        "--calibrate",
        &factors,
    ]);
    assert_eq!(code(&written), Some(0), "{}", stderr(&written));
    assert!(stdout(&written).contains("2.000 (TTFT) and 0.750 (TPOT)"), "{}", stdout(&written));
    let next = path(&files, "next.json");
    let question =
        ["--serve", "--cluster", "4xh100", "--input", "1024", "--output", "128", "--mode", "aggregated"];
    let config = configuration();
    let made =
        run(&[&["plan", config.as_str()], &question[..], &["--calibration", &factors, "--out", &next]]
            .concat());
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    let after = explained(&next);
    assert!((after["factors"]["ttft"].as_f64().expect("a factor")).is_finite(), "{after}");
    let checked = run(&["check", &config, &next]);
    assert_eq!(code(&checked), Some(0), "{}", stdout(&checked));
    std::fs::write(&bench, "{}").expect("room");
    let refused = run(&["explain", &config, &plan, "--measured", &bench]);
    assert!(code(&refused) == Some(2) && stderr(&refused).contains("L026"), "{}", stderr(&refused));
}

#[test]
fn measured_products_price_a_plan_and_its_check() {
    let files = folder(&[]);
    let (plan, costs) = (path(&files, "plan.json"), path(&files, "costs.json"));
    // The product of queries, keys and values on one device, far slower than its closed form.
    let table = r#"{"schema": "stagewright.costs/1", "name": "test", "kernels": [{"class": "h100", "kernel": "product",
        "precision": "bf16", "source": "test", "rows": [[1, 6144, 4096, 0.01], [4096, 6144, 4096, 0.02]]}]}"#;
    std::fs::write(&costs, table).expect("room");
    let config = configuration();
    let question = ["--serve", "--cluster", "1xh100", "--input", "1024", "--output", "128"];
    let value = |more: &[&str]| {
        let made = run(&[&["plan", config.as_str()], &question[..], more, &["--json"]].concat());
        assert_eq!(code(&made), Some(0), "{}", stderr(&made));
        (json(&made)["value"].as_f64().expect("a value"), stderr(&made))
    };
    let (closed, _) = value(&[]);
    let (measured, notes) = value(&["--costs", &costs, "--out", &plan]);
    assert!(measured < 0.5 * closed, "{measured} {closed}");
    assert!(notes.contains("1 of 4 products of layers are measured on h100"), "{notes}");
    // The plan keeps the name of the file.
    let checked = run(&["check", &config, &plan]);
    assert_eq!(code(&checked), Some(0), "{}{}", stdout(&checked), stderr(&checked));
    std::fs::remove_file(&costs).expect("a file");
    let without = run(&["check", &config, &plan]);
    assert!(code(&without) == Some(2) && stderr(&without).contains("costs.json"), "{}", stderr(&without));
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

/// A plan after one that runs, with the price of a gigabyte of weights.
fn after(cluster: &str, start: &[&str], more: &[&str]) -> std::process::Output {
    let config = configuration();
    let question = ["plan", &config, "--serve", "--cluster", cluster, "--input", "1024", "--output", "128"];
    let load = ["--rate", "20", "--ttft", "1s", "--tpot", "40ms", "--goal", "devices", "--json"];
    run(&[&question[..], &load, start, more].concat())
}

#[test]
fn a_plan_after_a_running_one_keeps_replicas_and_is_checked() {
    let files = folder(&[]);
    let (first, second) = (path(&files, "running.json"), path(&files, "next.json"));
    planned("vllm", "aggregated", &first);
    let made = after("2xl40s+4xh100", &["--start", &first, "--move-price", "0.01"], &["--out", &second]);
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    let mut plan = json(&made);
    // The kind of the devices has another name in this cluster.
    assert_eq!(plan["moved_bytes"], 0.0, "{plan}");
    assert_eq!(plan["replicas"][0]["kept"], plan["replicas"][0]["count"], "{plan}");
    assert_eq!(plan["replicas"][0]["stages"][0]["kind"], "gpu-b", "{plan}");
    let checked = run(&["check", &configuration(), &second]);
    assert_eq!(code(&checked), Some(0), "{}", stdout(&checked));
    assert!(stdout(&checked).contains("verified"), "{}", stdout(&checked));
    let explained = run(&["explain", &configuration(), &second]);
    assert_eq!(code(&explained), Some(0), "{}", stderr(&explained));
    let exported = run(&["export", &second, "--to", "vllm"]);
    assert_eq!(code(&exported), Some(0), "{}", stderr(&exported));

    let count = plan["replicas"][0]["count"].as_u64().expect("a count");
    for (name, value) in [("kept", count + 1), ("batch", 1)] {
        let right = plan.clone();
        plan["replicas"][0][name] = value.into();
        let forged = path(&files, "forged.json");
        std::fs::write(&forged, plan.to_string()).expect("room");
        let checked = run(&["check", &configuration(), &forged]);
        assert_eq!(code(&checked), Some(1), "{}", stdout(&checked));
        assert!(stdout(&checked).contains("replicas[0].kept"), "{}", stdout(&checked));
        plan = right;
    }
}

#[test]
fn a_start_that_does_not_fit_the_question_is_refused() {
    let files = folder(&[]);
    let first = path(&files, "running.json");
    let plan = planned("vllm", "aggregated", &first);
    let refused = |start: &[&str], more: &[&str], expected: &str, text: &str| {
        let made = after("4xh100", start, more);
        assert_eq!(code(&made), Some(2), "{start:?} {more:?}: {}", stdout(&made));
        let shown = stderr(&made);
        assert!(shown.contains(expected) && shown.contains(text), "{start:?} {more:?}: {shown}");
    };
    refused(&["--start", &first], &[], "U001", "--move-price");
    refused(&["--move-price", "1"], &[], "U001", "--start");
    refused(&["--start", &first, "--move-price", "cheap"], &[], "U001", "--move-price");
    for price in ["nan", "-1", "inf", "1e300"] {
        let price = format!("--move-price={price}");
        refused(&["--start", &first, &price], &[], "L024", "price_per_gb");
    }
    let price = ["--move-price", "1"];
    let with = |name: &str, change: &dyn Fn(&mut serde_json::Value)| {
        let (mut plan, file) = (plan.clone(), path(&files, name));
        change(&mut plan);
        std::fs::write(&file, plan.to_string()).expect("room");
        file
    };
    let other =
        |more: &[&str], text: &str| refused(&[&["--start", &first][..], &price].concat(), more, "U001", text);
    other(&["--engine", "sglang"], "--engine");
    other(&["--chunk", "512"], "--chunk");
    other(&["--memory-share", "80%"], "--memory-share");
    other(&["--speculation", "3:0.7"], "--speculation");
    let start = |file: &str, expected: &str, text: &str| {
        refused(&[&["--start", file][..], &price].concat(), &[], expected, text);
    };
    start(&with("none.json", &|plan| plan["replicas"] = serde_json::json!([])), "U008", "no replicas");
    start(&with("zero.json", &|plan| plan["replicas"][0]["count"] = 0.into()), "L024", "replicas[0]");
    start(
        &with("layers.json", &|plan| plan["replicas"][0]["stages"][0]["layers"] = 31.into()),
        "U001",
        "replicas[0]",
    );
    start(&with("class.json", &|plan| plan["replicas"][0]["class"] = 7.into()), "U001", "replicas[0]");
    start(
        &with("tokens.json", &|plan| plan["replicas"][0]["cache_tokens"] = 7.into()),
        "U001",
        "replicas[0]",
    );
    start(&with("schema.json", &|plan| plan["schema"] = "stagewright.plan/1".into()), "", "schema");
    let many = with("many.json", &|plan| plan["replicas"][0]["count"] = u64::MAX.into());
    let made = after("4xh100", &["--start", &many, "--move-price", "0"], &[]);
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    // The plan of another model has other caches.
    let config = root().join("data/configurations/deepseek-v3/config.json");
    assert!(config.exists(), "{}", config.display());
    let made = run(&[
        "plan",
        &config.display().to_string(),
        "--serve",
        "--cluster",
        "4xh100",
        "--input",
        "1024",
        "--output",
        "128",
        "--start",
        &first,
        "--move-price",
        "1",
    ]);
    assert_eq!(code(&made), Some(2), "{}", stdout(&made));
    assert!(stderr(&made).contains("no replica of the model"), "{}", stderr(&made));
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
