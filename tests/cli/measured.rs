//! `explain --measured` and `--calibrate`: logs of training beside joint plans.

use serde_json::{Value, json};
use stagewright::formats::runtimes::import_runtime;

use super::{code, folder, json, path, run, stderr, stdout};

/// A graph of layers of Llama, and a plan with options.
fn planned(files: &tempfile::TempDir, layers: &str, cluster: &str, options: &[&str]) -> (String, String) {
    let (graph, plan) = (path(files, "llama.json"), path(files, "plan.json"));
    let model =
        ["workload", "llama", "--variant", "3-8b", "--layers", layers, "--sequence", "512", "--batch", "1"];
    let made = run(&[&model[..], &["--training", "--precision", "bf16", "--out", &graph]].concat());
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    plan_again(&graph, &plan, cluster, options);
    (graph, plan)
}

fn plan_again(graph: &str, plan: &str, cluster: &str, options: &[&str]) -> f64 {
    let request = ["plan", graph, "--cluster", cluster, "--threads", "1", "--out", plan];
    let made = run(&[&request[..], options].concat());
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    value(plan)
}

fn value(plan: &str) -> f64 {
    let text = std::fs::read_to_string(plan).expect("a plan");
    serde_json::from_str::<Value>(&text).expect("JSON")["objective"]["value_s"].as_f64().expect("a value")
}

/// Writes a plan with another runtime, and returns its seconds as the checker derives them.
fn under(files: &tempfile::TempDir, graph: &str, plan: &str, runtime: &str) -> (String, f64) {
    let read = |path: &str| std::fs::read(path).expect("a file");
    let mut changed: Value = serde_json::from_slice(&read(plan)).expect("a plan");
    changed["objective"]["runtime"] = json!(import_runtime(runtime, &read(runtime)).expect("a runtime"));
    let again = path(files, "again.json");
    std::fs::write(&again, changed.to_string()).expect("room");
    let seconds = json(&run(&["check", graph, &again, "--json"]))["value_s"].as_f64().expect("a value");
    (again, seconds)
}

fn log(files: &tempfile::TempDir, text: &str) -> String {
    let log = path(files, "train.log");
    std::fs::write(&log, text).expect("room");
    log
}

/// Lines of Megatron-LM with the seconds of an iteration and further text.
fn megatron(seconds: f64, more: &str) -> String {
    let line = format!(" iteration 10/ 100 | elapsed time per iteration (ms): {} |\n{more}", seconds * 1e3);
    line.repeat(6)
}

/// Seconds of a part of a comparison.
fn part<'j>(measured: &'j Value, name: &str) -> &'j Value {
    let rows = measured["parts"].as_array().expect("rows").iter();
    rows.into_iter()
        .find(|row| row["parts"].as_array().is_some_and(|parts| parts.contains(&json!(name))))
        .unwrap_or_else(|| panic!("no {name}: {measured}"))
}

const OPTIONS: [&str; 6] =
    ["--parallel", "tp=2,dp=2,pp=2,zero=1", "--global-batch", "16", "--microbatch", "1"];

#[test]
fn a_log_of_seconds_alone_gives_the_factor_of_compute() {
    let files = folder(&[]);
    let (graph, plan) = planned(&files, "4", "8xh100", &OPTIONS);
    let predicted = value(&plan);
    let runtime = path(&files, "own.toml");
    for factor in [1.5, 1.0, 3.0] {
        let log = log(&files, &megatron(factor * predicted, ""));
        let made = run(&[
            "explain",
            &graph,
            &plan,
            "--no-what-if",
            "--measured",
            &log,
            "--calibrate",
            &runtime,
            "--json",
        ]);
        assert_eq!(code(&made), Some(0), "{}", stderr(&made));
        let measured = &json(&made)["measured"];
        assert_eq!(
            (&measured["log"], &measured["readings"], &measured["warm_up"]),
            (&json!("megatron"), &json!(4), &json!(2))
        );
        let error = measured["iteration"]["error"].as_f64().expect("an error");
        assert!((error - (1.0 / factor - 1.0)).abs() < 1e-3, "{measured}");
        assert_eq!(part(measured, "compute")["measured_s"], Value::Null);
        assert_eq!(measured["largest"], Value::Null);
        let text = std::fs::read_to_string(&runtime).expect("a runtime");
        assert!(
            text.contains("name = \"megatron-calibrated\"")
                && text.contains("log of Megatron-LM, 4 readings"),
            "{text}"
        );
        let (_, calibrated) = under(&files, &graph, &plan, &runtime);
        let wanted = factor * predicted;
        assert!((calibrated / wanted - 1.0).abs() < 0.01, "{calibrated}, not {wanted}");
        // The planner reads the file.
        let planned = plan_again(
            &graph,
            &path(&files, "new.json"),
            "8xh100",
            &[&OPTIONS[..], &["--runtime", &runtime]].concat(),
        );
        assert!(planned <= 1.01 * wanted, "{planned}, more than {wanted}");
    }
}

#[test]
fn timers_and_memory_of_a_log_stand_beside_their_parts() {
    let files = folder(&[]);
    let (graph, plan) = planned(&files, "4", "8xh100", &OPTIONS);
    let predicted = value(&plan);
    let unmeasured = json(&run(&["explain", &graph, &plan, "--no-what-if", "--json"]));
    assert!(unmeasured.get("measured").is_none());
    let milliseconds = |share: f64| share * predicted * 1e3;
    let timers = format!(
        "(min, max) time across ranks (ms):\n\
         \x20   forward-backward ...............................: ({0:.3}, {0:.3})\n\
         \x20   forward-compute ................................: ({1:.3}, {1:.3})\n\
         \x20   backward-compute ...............................: ({2:.3}, {2:.3})\n\
         \x20   all-grads-sync .................................: ({3:.3}, {4:.3})\n\
         \x20   optimizer-inner-step ...........................: ({3:.3}, {3:.3})\n\
         [Rank 0] (after 1 iterations) memory (MB) | allocated: 1.0 | max allocated: 40960.0 | reserved: 9.9\n",
        milliseconds(1.8),
        milliseconds(0.5),
        milliseconds(1.0),
        milliseconds(0.01),
        milliseconds(0.3),
    );
    let log = log(&files, &megatron(2.0 * predicted, &timers));
    let runtime = path(&files, "own.toml");
    let request = ["explain", &graph, &plan, "--no-what-if", "--measured", &log];
    let measured =
        json(&run(&[&request[..], &["--json", "--calibrate", &runtime]].concat()))["measured"].clone();
    let near = |name: &str, share: f64| {
        let seconds = part(&measured, name)["measured_s"].as_f64().expect("seconds");
        assert!((seconds / predicted - share).abs() < 1e-3, "{name}: {measured}");
    };
    near("compute", 1.5);
    near("tensor", 1.5);
    near("bubble", 0.29);
    near("copies", 0.01);
    near("update", 0.01);
    near("outside", 0.19);
    // Every second is in one row.
    let rows = measured["parts"].as_array().expect("rows");
    for figure in ["measured_s", "predicted_s"] {
        let sum: f64 = rows.iter().filter_map(|row| row[figure].as_f64()).sum();
        let whole = measured["iteration"][figure].as_f64().expect("seconds");
        assert!((sum / whole - 1.0).abs() < 1e-6, "{figure}: {sum}, not {whole}");
    }
    let largest = measured["largest"].as_u64().expect("a row") as usize;
    assert!(rows[largest]["parts"].as_array().expect("parts").contains(&json!("compute")));
    assert_eq!(measured["memory"]["measured_bytes"], json!(40960.0 * 1_048_576.0));
    let text = stdout(&run(&request));
    assert!(text.contains("measured: log of Megatron-LM, 4 readings after 2 readings of warm-up"), "{text}");
    assert!(text.contains("the largest part is compute, tensor parallelism"), "{text}");
    // The file gives the seconds of the log, and the bytes.
    let (again, calibrated) = under(&files, &graph, &plan, &runtime);
    assert!((calibrated / (2.0 * predicted) - 1.0).abs() < 0.01, "{calibrated}, not twice {predicted}");
    let explained = json(&run(&["explain", &graph, &again, "--no-what-if", "--measured", &log, "--json"]));
    let memory = &explained["measured"]["memory"];
    assert!(memory["error"].as_f64().is_some_and(|error| error.abs() < 1e-6), "{memory}");
}

#[test]
fn rates_become_seconds_with_the_batch_and_devices_of_the_plan() {
    let files = folder(&[]);
    let (graph, plan) = planned(&files, "4", "8xh100", &OPTIONS);
    for (text, seconds) in [
        // 16 samples of 512 tokens on 8 devices.
        ("step: 10  loss: 7.1  memory: 35.25GiB(37.17%)  tps: 2,048  mfu: 9%\n", 0.5),
        ("x, CurrSamplesPerSec=64.0, MaxMemAllocated=30.5GB\n", 0.25),
        // 8 microbatches of a copy.
        ("time (ms) | fwd_microstep: 10.0 | bwd_microstep: 20.0 | step_microstep: 10.0\n", 0.32),
    ] {
        let log = log(&files, text);
        let measured = json(&run(&["explain", &graph, &plan, "--no-what-if", "--measured", &log, "--json"]));
        let found = measured["measured"]["iteration"]["measured_s"].as_f64().expect("seconds");
        assert!((found - seconds).abs() < 1e-9, "{text}: {found}");
    }
}

#[test]
fn collectives_of_a_trace_belong_to_the_degrees_of_the_plan() {
    let files = folder(&[]);
    let (graph, plan) =
        planned(&files, "4", "8xh100", &["--parallel", "tp=2,dp=4,zero=1", "--global-batch", "16"]);
    let event = |category: &str, name: &str, start: f64, length: f64| {
        let device = 0;
        json!({"ph": "X", "cat": category, "name": name, "pid": device, "tid": 7, "ts": start, "dur": length})
    };
    let collective = |start: f64, devices: u32| {
        let mut event = event("kernel", "ncclDevKernel_AllGather_RING_LL", start, 1e3);
        event["args"] = json!({"Collective name": "_allgather_base", "Group size": devices});
        event
    };
    let events = [
        event("user_annotation", "ProfilerStep#3", 0.0, 20e3),
        event("kernel", "sm90_gemm", 0.0, 10e3),
        collective(11e3, 2),
        collective(12e3, 4),
        collective(13e3, 4),
        collective(14e3, 8),
    ];
    let log = log(&files, &json!({"traceEvents": events}).to_string());
    let measured =
        json(&run(&["explain", &graph, &plan, "--no-what-if", "--measured", &log, "--json"]))["measured"]
            .clone();
    for (name, milliseconds) in [("tensor", 1.0), ("copies", 2.0), ("compute", 10.0)] {
        let seconds = part(&measured, name)["measured_s"].as_f64().expect("seconds");
        assert!((seconds * 1e3 - milliseconds).abs() < 1e-6, "{name}: {measured}");
    }
}

#[test]
fn collectives_with_a_name_belong_to_its_kind_of_parallelism() {
    let files = folder(&[]);
    let options = ["--parallel", "tp=2,cp=2,pp=2", "--global-batch", "16"];
    let (graph, plan) = planned(&files, "4", "8xh100", &options);
    let event = |category: &str, name: &str, start: f64, length: f64| {
        let device = 0;
        json!({"ph": "X", "cat": category, "name": name, "pid": device, "tid": 7, "ts": start, "dur": length})
    };
    let named = |kernel: &str, group: &str, start: f64, length: f64| {
        let mut event = event("kernel", kernel, start, length);
        event["args"] = json!({"Group size": 2, "Process Group Description": group});
        event
    };
    // All groups have two devices, as those of tensor parallelism.
    let events = [
        event("user_annotation", "ProfilerStep#3", 0.0, 20e3),
        event("kernel", "sm90_gemm", 0.0, 10e3),
        named("ncclDevKernel_AllGather_RING_LL", "mesh_tp", 10e3, 4e3),
        named("ncclDevKernel_AllGather_RING_LL", "mesh_cp", 14e3, 1e3),
        named("ncclDevKernel_SendRecv", "mesh_cp", 15e3, 500.0),
        named("ncclDevKernel_SendRecv", "mesh_pp", 16e3, 2e3),
    ];
    let log = log(&files, &json!({"traceEvents": events}).to_string());
    let explained = json(&run(&["explain", &graph, &plan, "--no-what-if", "--measured", &log, "--json"]));
    let measured = &explained["measured"];
    for (name, milliseconds) in [("tensor", 4.0), ("exchanges", 1.5), ("transfers", 2.0)] {
        let seconds = part(measured, name)["measured_s"].as_f64().expect("seconds");
        assert!((seconds * 1e3 - milliseconds).abs() < 1e-6, "{name}: {measured}");
    }
}

#[test]
fn logs_and_plans_that_do_not_fit_are_refused() {
    let files = folder(&[]);
    let (graph, plan) = planned(&files, "2", "8xh100", &["--parallel", "dp", "--global-batch", "8"]);
    let own = path(&files, "own.toml");
    let refused = |arguments: &[&str], error: &str| {
        let made = run(&[&["explain", &graph, &plan][..], arguments].concat());
        assert_eq!(code(&made), Some(2), "{arguments:?}: {}", stdout(&made));
        assert!(stderr(&made).contains(error), "{arguments:?}: {}", stderr(&made));
        assert!(!std::path::Path::new(&own).exists(), "{arguments:?}");
    };
    let empty = log(&files, "training ...\n");
    refused(&["--measured", &empty], "Q112");
    refused(&["--calibrate", &own], "--measured");
    // Faster than the plan without any compute.
    let fast = log(&files, &megatron(1e-6, ""));
    refused(&["--measured", &fast, "--calibrate", &own], "U015");
    let ideal = ["--parallel", "dp", "--global-batch", "8", "--runtime", "ideal"];
    plan_again(&graph, &plan, "8xh100", &ideal);
    let slow = log(&files, &megatron(10.0, ""));
    refused(&["--measured", &slow, "--calibrate", &own], "ideal runtime");
    assert_eq!(code(&run(&["explain", &graph, &plan, "--no-what-if", "--measured", &slow])), Some(0));
    // A placement has no iterations.
    let placed = path(&files, "placed.json");
    assert_eq!(
        code(&run(&["plan", &graph, "--cluster", "8xh100", "--out", &placed, "--time-limit", "5s"])),
        Some(0)
    );
    let made = run(&["explain", &graph, &placed, "--measured", &slow]);
    assert!(stderr(&made).contains("U013"), "{}", stderr(&made));
}
