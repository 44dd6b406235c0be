//! Joint plans from the model to the checked and exported plan.

use serde_json::{Value, json};

use super::{code, folder, json, path, run, run_with_input, stderr, stdout};

/// A training graph of two layers of Llama.
fn llama(files: &tempfile::TempDir) -> String {
    let graph = path(files, "llama.json");
    let arguments = ["llama", "--variant", "3-8b", "--layers", "2", "--sequence", "512"];
    let mut all = vec!["workload", "--training", "--batch", "1", "--precision", "bf16", "--out", &graph];
    all.extend(arguments);
    assert_eq!(code(&run(&all)), Some(0));
    graph
}

#[test]
fn a_training_graph_is_planned_bounded_checked_and_exported() {
    let files = folder(&[]);
    let (graph, plan) = (llama(&files), path(&files, "plan.json"));
    let request = ["--cluster", "16xh100", "--parallel", "tp,dp,pp,zero,recompute", "--global-batch", "32"];
    let with = |first: &[&str]| run(&[first, &request].concat());
    let made = with(&["plan", &graph, "--out", &plan]);
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    assert!(stdout(&made).contains("time of an iteration of 32 samples"), "{}", stdout(&made));
    let printed = json(&with(&["plan", &graph, "--json"]));
    assert_eq!(printed["schema"], "stagewright.joint-plan/1");
    assert_eq!(printed["objective"]["kind"], "iteration");
    let bounded = json(&with(&["bound", &graph, "--json"]));
    assert_eq!(bounded["strongest"]["value_s"], printed["bound"]["value_s"]);
    let checked = run(&["check", &graph, &plan]);
    assert_eq!(code(&checked), Some(0), "{}", stdout(&checked));
    assert!(stdout(&checked).contains("the plan is feasible, and its claims hold"), "{}", stdout(&checked));
    assert!(stdout(&checked).contains("(joint): verified"), "{}", stdout(&checked));
    let flags = run(&["export", &plan, "--to", "torchtitan"]);
    assert_eq!(code(&flags), Some(0), "{}", stderr(&flags));

    let explained = json(&run(&["explain", &graph, &plan, "--json"]));
    let stage = &explained["stages"][0];
    assert!(stage["compute_s"].as_f64().is_some_and(|seconds| seconds > 0.0), "{explained}");
    let changes = explained["what_ifs"].as_array().expect("changes");
    let value = explained["value_s"].as_f64().expect("a value");
    // More devices or memory never make the best plan slower.
    assert!(!changes.is_empty());
    assert!(
        changes
            .iter()
            .all(|change| change["value_s"].as_f64().is_some_and(|changed| changed <= value * 1.03))
    );
    let compared = json(&with(&["compare", &graph, "--json"]));
    let values = compared.as_array().expect("rows").iter().map(|row| row["value_s"].as_f64());
    let values: Vec<f64> = values.map(|value| value.expect("a plan")).collect();
    assert!(values[1..].iter().all(|&value| value >= values[0] * 0.97), "{values:?}");

    // A plan that claims to be faster.
    let mut forged: Value = serde_json::from_str(&std::fs::read_to_string(&plan).unwrap()).unwrap();
    forged["objective"]["value_s"] = json!(forged["objective"]["value_s"].as_f64().unwrap() / 2.0);
    std::fs::write(&plan, forged.to_string()).unwrap();
    let refuted = run(&["check", &graph, &plan]);
    assert_eq!(code(&refuted), Some(1));
    assert!(stdout(&refuted).contains("the plan states value_s"), "{}", stdout(&refuted));
}

#[test]
fn schedules_are_planned_checked_and_exported() {
    let files = folder(&[]);
    let [graph, plan, page] = ["llama.json", "plan.json", "page.html"].map(|name| path(&files, name));
    let llama =
        ["workload", "llama", "--variant", "3-8b", "--layers", "6", "--sequence", "512", "--batch", "1"];
    assert_eq!(
        code(&run(&[&llama[..], &["--training", "--precision", "bf16", "--out", &graph]].concat())),
        Some(0)
    );
    let mut values = Vec::new();
    for (schedule, chunks, exported) in [
        ("1f1b", 1, "\"1F1B\""),
        ("zero-bubble", 1, "\"InterleavedZeroBubble\""),
        ("interleaved", 2, "\"Interleaved1F1B\""),
    ] {
        let request =
            ["--cluster", "4xh100", "--parallel", "pp=4", "--global-batch", "8", "--schedule", schedule];
        let made = json(&run(&[&["plan", &graph, "--json", "--html", &page], &request[..]].concat()));
        let written = std::fs::read_to_string(&page).expect("a page");
        assert!(written.contains("Timeline") && written.contains("decoder.layer.5"), "{schedule}");
        let execution = &made["execution"];
        assert_eq!((&execution["schedule"], &execution["chunks"]), (&json!(schedule), &json!(chunks)));
        assert_eq!(made["stages"].as_array().map(Vec::len), Some(4 * chunks));
        std::fs::write(&plan, made.to_string()).unwrap();
        let checked = run(&["check", &graph, &plan]);
        assert_eq!(code(&checked), Some(0), "{schedule}: {}", stdout(&checked));
        let explained = run(&["explain", &graph, &plan, "--no-what-if"]);
        assert_eq!(code(&explained), Some(0), "{schedule}: {}", stderr(&explained));
        let text = run(&["export", &plan, "--to", "torchtitan"]);
        assert!(stdout(&text).contains(exported), "{schedule}: {}{}", stdout(&text), stderr(&text));
        let megatron = run(&["export", &plan, "--to", "megatron-lm"]);
        assert_eq!(code(&megatron) == Some(0), schedule != "zero-bubble", "{}", stderr(&megatron));
        values.push(made["objective"]["value_s"].as_f64().expect("a value"));
    }
    let all = ["--cluster", "4xh100", "--parallel", "pp=4", "--global-batch", "8", "--schedule"];
    let best =
        json(&run(&[&["plan", &graph, "--json"], &all[..], &["zero-bubble,1f1b,interleaved"]].concat()));
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(
        best["objective"]["value_s"].as_f64().is_some_and(|value| value <= least * (1.0 + 1e-9)),
        "{values:?}"
    );
    assert_eq!(best["objective"]["schedules"], json!(["1f1b", "interleaved", "zero-bubble"]));
    let none = run(&[&["plan", &graph], &all[..], &["gpipe"]].concat());
    assert!(stderr(&none).contains("J010"), "{}", stderr(&none));
    let several =
        run(&["plan", &graph, "--cluster", "4xh100", "--schedule", "1f1b,gpipe", "--microbatches", "4"]);
    assert!(stderr(&several).contains("U001"), "{}", stderr(&several));
    // 3 does not divide 8 microbatches.
    let uneven =
        ["--cluster", "4xh100", "--parallel", "pp=3", "--global-batch", "8", "--schedule", "interleaved"];
    let uneven = run(&[&["plan", &graph], &uneven[..]].concat());
    assert_eq!((code(&uneven), stdout(&uneven).contains("whose number divides")), (Some(3), true));
}

#[test]
fn a_file_of_piper_is_planned_and_checked() {
    let configuration = |seconds: f64, bytes: f64| {
        json!({"id": format!("{seconds}"), "timePerSample": seconds, "parameterSize": 1.0, "memoryUsageA": bytes,
               "memoryUsageB": 2.0, "syncTimeFw": {}, "syncTimeBw": {}})
    };
    let node = |id: i64| json!({"id": id, "name": "layer", "TMPCs": {"1": [configuration(2.0, 6.0), configuration(3.0, 1.0)]}});
    let piper = json!({"maxDevices": 2, "maxMemoryPerDevice": 9.0, "bandwidth": 8.0, "mbsInBatch": 4,
        "nodes": [node(0), node(1)], "edges": [{"sourceId": 0, "destId": 1, "communicationCost": 1.0}]});
    let files = folder(&[("piper.json", &piper.to_string())]);
    let (model, plan) = (path(&files, "piper.json"), path(&files, "plan.json"));
    let request = ["plan", &model, "--time-unit", "s", "--out", &plan, "--parallel"];
    let made = run(&[&request[..], &["tp,dp,pp,recompute"]].concat());
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    assert!(stdout(&made).contains("status     optimal"), "{}", stdout(&made));
    assert_eq!(code(&run(&["check", &model, &plan])), Some(0));
    let written = std::fs::read(&plan).expect("a plan");
    assert_eq!(code(&run_with_input(&["check", &model, "-"], &written)), Some(0));
    let page = path(&files, "page.html");
    assert_eq!(code(&run(&[&request[..], &["tp,dp,pp,recompute", "--html", &page]].concat())), Some(0));
    assert!(std::fs::read_to_string(&page).expect("a page").contains("time per sample"));
    let piped = ["plan", "-", "--time-unit", "s", "--json", "--parallel", "tp,dp,pp,recompute"];
    let piped = json(&run_with_input(&piped, piper.to_string().as_bytes()));
    let found: Value = serde_json::from_slice(&written).expect("JSON");
    assert_eq!(piped["stages"], found["stages"]);
    // One stage with two copies that recomputes: (3 + 3) / 2 seconds, and parameters are synchronised.
    assert_eq!(found["objective"]["value_s"], 3.125);
    // Without recomputation two microbatches in flight do not fit, and neither does the model on one device.
    let none = run(&[&request[..], &["tp,pp"]].concat());
    assert_eq!((code(&none), stdout(&none).contains("infeasible")), (Some(3), true));
}

#[test]
fn what_a_joint_plan_cannot_be_made_for_is_refused() {
    let files = folder(&[]);
    let graph = llama(&files);
    let refused = |arguments: &[&str]| {
        let refused = run(&[&["plan", &graph, "--cluster", "8xh100", "--parallel"], arguments].concat());
        assert_eq!(code(&refused), Some(2), "{arguments:?}");
        stderr(&refused)
    };
    assert!(refused(&["tp,xp", "--global-batch", "8"]).contains("U001"));
    assert!(refused(&["tp", "--split", "free", "--global-batch", "8"]).contains("U013"));
    assert!(refused(&["tp"]).contains("--global-batch"));
    assert!(refused(&["tp", "--global-batch", "8", "--microbatch", "3"]).contains("J010"));
    assert!(refused(&["dp=3", "--global-batch", "8"]).contains("J010"));
    assert!(refused(&["zero=4", "--global-batch", "8"]).contains("J010"));
    let inference = path(&files, "inference.json");
    run(&["workload", "llama", "--layers", "1", "--out", &inference]);
    let no_backward =
        run(&["plan", &inference, "--cluster", "8xh100", "--parallel", "tp", "--global-batch", "8"]);
    assert!(stderr(&no_backward).contains("J007"), "{}", stderr(&no_backward));
    // 25 heads.
    let odd = path(&files, "odd.json");
    run(&[
        "workload",
        "gpt",
        "--variant",
        "2-xl",
        "--layers",
        "2",
        "--training",
        "--precision",
        "bf16",
        "--out",
        &odd,
    ]);
    let heads = run(&["plan", &odd, "--cluster", "8xh100", "--parallel", "tp=2,dp", "--global-batch", "8"]);
    assert_eq!(code(&heads), Some(3), "{}", stdout(&heads));
    assert!(stdout(&heads).contains("the heads"), "{}", stdout(&heads));
    let large = run(&["plan", &graph, "--cluster", "1xt4", "--parallel", "tp,dp", "--global-batch", "8"]);
    assert_eq!(code(&large), Some(3));
    assert!(stdout(&large).contains("at least"), "{}", stdout(&large));
}
