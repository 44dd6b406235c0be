//! Limits end every phase, and return a plan whenever one is found quickly.
//!
//! On these inputs, some phase once ran for 8 s to minutes under a limit of 1 s. The tests allow
//! minutes, because the machine may be busy: they find phases that never end, and do not measure the time that a limit takes.

#![expect(clippy::print_stdout, reason = "a skipped test says so")]

use serde_json::{Value, json};

use super::{code, folder, json as parsed, path, run, run_in_time, stderr};

/// An input of the reference folder; `None`, with a message, if there is no such folder.
fn hostile(name: &str) -> Option<String> {
    let Some(folder) = std::env::var_os("STAGEWRIGHT_SHARED") else {
        println!("skipped: STAGEWRIGHT_SHARED is not set");
        return None;
    };
    Some(std::path::Path::new(&folder).join("data/hostile").join(name).display().to_string())
}

/// Solves under a limit of one second and returns the answer, which must have a plan.
fn plan(model: &str, more: &[&str]) -> Value {
    let output = run_in_time(&[&["plan", model, "--time-limit", "1s", "--json"], more].concat());
    assert_eq!(code(&output), Some(0), "{model} {more:?}: {}", stderr(&output));
    parsed(&output)
}

#[test]
fn many_kinds_of_devices_keep_to_the_limit() {
    for name in ["kinds8", "kinds16", "kinds32", "big_kinds"] {
        let Some(model) = hostile(&format!("{name}.json")) else { return };
        plan(&model, &[]);
        plan(&model, &["--split", "free"]);
        plan(&model, &["--objective", "latency"]);
        plan(&model, &["--objective", "makespan"]);
    }
}

#[test]
fn many_pins_keep_to_the_limit() {
    let (Some(model), Some(pins)) = (hostile("pools32.json"), hostile("pools32.pins.json")) else { return };
    plan(&model, &["--pins", &pins, "--split", "free"]);
    plan(&model, &["--pins", &pins, "--objective", "makespan"]);
}

#[test]
fn bounds_keep_to_the_limit() {
    for name in ["kinds8", "kinds16", "big_kinds"] {
        let Some(model) = hostile(&format!("{name}.json")) else { return };
        let output = run_in_time(&["bound", &model, "--split", "free", "--time-limit", "1s"]);
        assert_eq!(code(&output), Some(0), "{name}: {}", stderr(&output));
    }
}

/// A model of operators of 1 to 7 ms, on identical devices.
fn model(operators: usize, tensors: Vec<Value>, devices: u32) -> String {
    let operators: Vec<Value> = (0..operators)
        .map(|index| json!({"name": format!("o{index}"), "seconds": {"g": 1e-3 * (1 + index % 7) as f64}}))
        .collect();
    let kind = json!({"name": "acc", "class": "g", "count": devices, "link": {"bandwidth": 1e9}});
    let cluster = json!({"schema": "stagewright.cluster/1", "kinds": [kind]});
    let schema = "stagewright.graph/1";
    json!({"schema": schema, "operators": operators, "tensors": tensors, "cluster": cluster}).to_string()
}

fn tensor(from: usize, to: impl Iterator<Item = usize>) -> Value {
    let consumers: Vec<String> = to.map(|to| format!("o{to}")).collect();
    json!({"producer": format!("o{from}"), "consumers": consumers, "bytes": 1e6})
}

#[test]
fn extreme_graphs_have_a_plan_at_the_limit() {
    const WIDE: usize = 50_000;
    let chain = (0..WIDE - 1).map(|index| tensor(index, index + 1..index + 2)).collect();
    // One operator reads the tensors of all others, so their transfers share the ports of each device.
    let into_one = (0..WIDE - 1).map(|index| tensor(index, WIDE - 1..WIDE)).collect();
    let from_one = vec![tensor(0, 1..WIDE)];
    let dense = (0..999).map(|index| tensor(index, index + 1..1000)).collect();
    let models = folder(&[
        ("chain.json", &model(WIDE, chain, 4)),
        ("into-one.json", &model(WIDE, into_one, 4)),
        ("from-one.json", &model(WIDE, from_one, 4)),
        ("dense.json", &model(1000, dense, 4)),
        (
            "devices.json",
            &model(200, (0..199).map(|index| tensor(index, index + 1..index + 2)).collect(), 100_000),
        ),
    ]);
    for name in ["chain", "into-one", "from-one", "dense", "devices"] {
        let model = path(&models, &format!("{name}.json"));
        for more in [&[][..], &["--objective", "makespan"], &["--objective", "makespan", "--solver", "heft"]]
        {
            plan(&model, more);
        }
    }
}

#[test]
fn the_answer_of_a_solved_program_does_not_depend_on_time() {
    let Some(model) = hostile("det_43006.json") else { return };
    let answer = |limit: &str| {
        let more = ["--objective", "latency", "--solver", "milp", "--json", "--time-limit", limit];
        let mut plan = parsed(&run(&[&["plan", &model], &more[..]].concat()));
        plan["seconds"] = Value::Null;
        (plan["stop"] == Value::Null, plan)
    };
    let (is_solved, first) = answer("20m");
    assert!(is_solved, "{first}");
    // With another limit, its runs get other shares of the time.
    assert_eq!(answer("10m").1["bound"], first["bound"]);
}
