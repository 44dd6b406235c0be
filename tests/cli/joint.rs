//! Joint plans from the model to the checked and exported plan.

#![expect(clippy::print_stdout, reason = "a skipped test says so")]

use serde_json::{Value, json};

use super::{code, folder, input, json, path, run, run_with_input, stderr, stdout};

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
fn the_reserve_of_a_runtime_applies_unless_another_is_given() {
    // Bytes of an H100: 81,559 MiB.
    const MEMORY: f64 = 81_559.0 * 1_048_576.0;
    let files = folder(&[]);
    let (graph, plan) = (llama(&files), path(&files, "plan.json"));
    let reserve = |options: &[&str]| {
        let request = ["plan", &graph, "--cluster", "8xh100", "--parallel", "dp", "--global-batch", "8"];
        let made = run(&[&request[..], &["--out", &plan], options].concat());
        assert_eq!(code(&made), Some(0), "{}", stderr(&made));
        let checked = run(&["check", &graph, &plan]);
        assert_eq!(code(&checked), Some(0), "{}", stderr(&checked));
        let plan: Value =
            serde_json::from_str(&std::fs::read_to_string(&plan).expect("a plan")).expect("JSON");
        let figure = |name: &str| plan["cluster"]["kinds"][0][name].as_f64().expect("a figure");
        assert_eq!(figure("memory_bytes"), MEMORY);
        figure("reserve_bytes")
    };
    // What the runtime takes, and a tenth of the memory.
    let runtime = |name: &str| {
        let constants = stagewright::formats::runtimes::runtime(name).expect("shipped");
        constants.reserve_bytes + 0.1 * MEMORY
    };
    assert_eq!(reserve(&[]), runtime("megatron"));
    assert_eq!(reserve(&["--runtime", "deepspeed"]), runtime("deepspeed"));
    assert_eq!(reserve(&["--runtime", "deepspeed", "--memory-reserve", "1GiB"]), f64::from(1 << 30));
    // Without a runtime the larger of 1 GiB and 6%.
    assert!(reserve(&["--runtime", "ideal"]) > f64::from(1 << 30));
}

#[test]
fn a_joint_plan_is_explained_compared_and_refuted() {
    let files = folder(&[]);
    let (graph, plan) = (llama(&files), path(&files, "plan.json"));
    let request = ["--cluster", "16xh100", "--parallel", "tp,dp,pp,zero,recompute", "--global-batch", "32"];
    let with = |first: &[&str]| run(&[first, &request].concat());
    let made = with(&["plan", &graph, "--out", &plan]);
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    let printed = json(&with(&["plan", &graph, "--json"]));
    assert_eq!(printed["schema"], "stagewright.joint-plan/1");
    assert_eq!(printed["objective"]["kind"], "iteration");
    let bounded = json(&with(&["bound", &graph, "--json"]));
    assert_eq!(bounded["strongest"]["value_s"], printed["bound"]["value_s"]);

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

    // A given plan beside a rule, with a page; the checker finds its value anew.
    let (page, mine) = (path(&files, "page.html"), format!("mine={plan}"));
    let beside = ["--json", "--solvers", "fsdp", "--plan", &mine, "--baseline", "fsdp", "--html", &page];
    let rows = json(&with(&[&["compare", &*graph], &beside[..]].concat()));
    assert_eq!(
        (&rows[0]["plan"], &rows[0]["status"], &rows[1]["plan"]),
        (&json!("mine"), &json!("given"), &json!("fsdp"))
    );
    let near = |value: &Value, other: &Value| {
        let [value, other] = [value, other].map(|number| number.as_f64().expect("a number"));
        (value / other - 1.0).abs() < 1e-9
    };
    assert!(near(&rows[0]["value_s"], &printed["objective"]["value_s"]), "{rows}");
    assert_eq!(rows[1]["speedup"], json!(1.0));
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("comparison-table") && page.contains("<bdi>mine</bdi>"));
    // Figures that the file claims are not taken over.
    let mut stale: Value = serde_json::from_str(&std::fs::read_to_string(&plan).unwrap()).unwrap();
    (stale["stages"][0]["memory_bytes"], stale["stop"]) = (json!(1.0), json!("a reason of its own"));
    let odd = path(&files, "odd.json");
    std::fs::write(&odd, stale.to_string()).unwrap();
    let rows =
        json(&with(&["compare", &graph, "--json", "--solvers", "none", "--plan", &format!("odd={odd}")]));
    assert_eq!(rows[0]["status"], json!("given"), "{rows}");
    assert!(rows[0]["memory_bytes"].as_f64().is_some_and(|bytes| bytes > 1e6), "{rows}");
    // A rule that had no time says nothing of memory.
    let hurried = with(&["compare", &graph, "--json", "--solvers", "megatron", "--time-limit", "1ns"]);
    assert!(!stdout(&hurried).contains("fit into memory"), "{}", stdout(&hurried));
    let several = with(&["compare", &graph, &graph, "--solvers", "best,fsdp", "--csv"]);
    assert_eq!(stdout(&several).lines().count(), 5, "{}", stdout(&several));

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
        ("dualpipe-v", 2, "\"DualPipeV\""),
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
        let is_apart = ["zero-bubble", "dualpipe-v"].contains(&schedule);
        assert_eq!(code(&megatron) == Some(0), !is_apart, "{}", stderr(&megatron));
        let slowest =
            stdout(&explained).lines().find(|line| line.starts_with("slowest stages")).map(str::to_owned);
        let pairs = ["0, 7", "1, 6", "2, 5", "3, 4"];
        assert!(
            schedule != "dualpipe-v"
                || slowest.is_some_and(|line| pairs.iter().any(|pair| line.ends_with(pair)))
        );
        values.push(made["objective"]["value_s"].as_f64().expect("a value"));
    }
    let all = ["--cluster", "4xh100", "--parallel", "pp=4", "--global-batch", "8", "--schedule"];
    let best =
        json(&run(
            &[&["plan", &graph, "--json"], &all[..], &["zero-bubble,1f1b,interleaved,dualpipe-v"]].concat()
        ));
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(
        best["objective"]["value_s"].as_f64().is_some_and(|value| value <= least * (1.0 + 1e-9)),
        "{values:?}"
    );
    assert_eq!(best["objective"]["schedules"], json!(["1f1b", "interleaved", "zero-bubble", "dualpipe-v"]));
}

#[test]
fn chunks_and_cuts_are_those_that_are_asked_for() {
    let files = folder(&[]);
    let graph = workload(&files, "llama --variant 3-8b --layers 6 --sequence 512");
    let with = |first: &[&str], rest: &[&str]| {
        let request = ["--cluster", "2xh100", "--parallel", "pp=2", "--global-batch", "4"];
        run(&[first, &[&*graph], &request, rest].concat())
    };
    let asked = ["--schedule", "interleaved", "--chunks", "2", "--cut", "2,1,1,2"];
    let made = json(&with(&["plan", "--json"], &asked));
    let objective = &made["objective"];
    assert_eq!((&objective["chunks"], &objective["cut"]), (&json!(2), &json!([2, 1, 1, 2])));
    assert_eq!(made["execution"]["chunks"], json!(2));
    let stages = made["stages"].as_array().expect("stages").iter();
    let layers = |stage: &Value| {
        let names = stage["layers"].as_array().expect("layers").iter();
        names
            .filter(|layer| layer["layer"].as_str().is_some_and(|name| name.starts_with("decoder.layer")))
            .count()
    };
    assert_eq!(stages.map(layers).collect::<Vec<_>>(), [2, 1, 1, 2]);
    let text = stdout(&with(&["plan"], &asked));
    assert!(text.contains("interleaved with 2 stages of a device") && text.contains("2, 1, 1, 2"), "{text}");
    let bounded = json(&with(&["bound", "--json"], &asked));
    assert_eq!(bounded["strongest"]["value_s"], made["bound"]["value_s"]);
    // Rules of one stage have neither.
    let compared = json(&with(&["compare", "--json"], &asked));
    assert_eq!((&compared[0]["chunks"], &compared[2]["stages"]), (&json!(2), &json!(1)), "{compared}");

    let refused = with(&["plan"], &["--cut", "3,4"]);
    assert!(
        stderr(&refused).contains("error[J010]") && stderr(&refused).contains("--cut"),
        "{}",
        stderr(&refused)
    );
    assert_eq!(code(&with(&["plan"], &["--cut", "3,x"])), Some(2));
    let refused = stderr(&with(&["plan"], &["--chunks", "2"]));
    assert!(refused.contains("error[J010]") && refused.contains("--> --chunks"), "{refused}");
    let piper = input("models/piper-recomputation.json");
    for option in [
        ["--chunks", "2"],
        ["--cut", "1,2"],
        ["--parallel", "pp,cp"],
        ["--parallel", "pp,shard"],
        ["--parallel", "pp,offload"],
    ] {
        let request: &[&str] = match option {
            ["--parallel", _] => &["plan", &piper, "--time-unit", "s"],
            _ => &["plan", &piper, "--time-unit", "s", "--parallel", "pp"],
        };
        let refused = run(&[request, &option].concat());
        assert!(stderr(&refused).contains("error[U013]"), "{}", stderr(&refused));
    }
}

#[test]
fn context_parallelism_and_groups_of_shards_are_shown_and_exported() {
    let files = folder(&[]);
    let [plan, page] = ["plan.json", "page.html"].map(|name| path(&files, name));
    let graph = workload(&files, "llama --variant 3-8b --layers 2 --sequence 4096");
    let request = ["--cluster", "8xh100", "--parallel", "cp=2,dp=4,zero=3,shard=4", "--global-batch", "8"];
    let with = |first: &[&str]| run(&[first, &request].concat());
    let made = with(&["plan", &graph, "--out", &plan, "--html", &page]);
    let text = stdout(&made);
    let exchange = |by: &str| text.contains(&format!("cp 2 by {by}"));
    assert!(exchange("ring") || exchange("all-to-all"), "{text}{}", stderr(&made));
    assert!(text.contains("ZeRO 3 over groups of 4") && !text.contains("without work"), "{text}");
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("8 of 8 in use") && page.contains("<dt>cp</dt>"));
    let megatron = run(&["export", &plan, "--to", "megatron-lm"]);
    for option in ["--context-parallel-size 2\n--cp-comm-type ", "--num-distributed-optimizer-instances 2\n"]
    {
        assert!(stdout(&megatron).contains(option), "{}{}", stdout(&megatron), stderr(&megatron));
    }
    let table = stdout(&with(&["compare", &graph, "--solvers", "best,fsdp"]));
    assert!(table.contains("cp") && table.contains("shards"), "{table}");
    let rows = json(&with(&["compare", &graph, "--solvers", "best,fsdp", "--json"]));
    assert_eq!((&rows[0]["context"], &rows[0]["shards"]), (&json!(2), &json!(4)), "{rows}");
    // The rule has copies alone, all of which divide states.
    assert_eq!(
        (&rows[1]["context"], &rows[1]["shards"], &rows[1]["data"]),
        (&Value::Null, &Value::Null, &json!(8))
    );
}

#[test]
fn states_on_the_host_are_planned_shown_and_exported() {
    let files = folder(&[]);
    let [plan, page] = ["plan.json", "page.html"].map(|name| path(&files, name));
    let graph = workload(&files, "llama --variant 3-8b --layers 2 --sequence 4096");
    let with = |first: &[&str], cluster: &str, offload: &str| {
        let parallel = format!("dp=8,zero=1,{offload}");
        run(&[first, &["--cluster", cluster, "--parallel", &parallel, "--global-batch", "8"]].concat())
    };
    let made = with(&["plan", &graph, "--out", &plan, "--html", &page], "dgx-h100", "offload=1");
    let text = stdout(&made);
    assert!(text.contains("states on the host") && text.contains("host's memory"), "{text}{}", stderr(&made));
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("<dt>optimizer</dt><dd>states on the host</dd>"));
    let document: Value = serde_json::from_str(&std::fs::read_to_string(&plan).unwrap()).unwrap();
    assert_eq!(document["execution"]["offload"], json!(true));
    let on_host = document["stages"][0]["host_bytes"].as_f64().expect("bytes on the host");
    let on_devices = json(&with(&["plan", &graph, "--json"], "dgx-h100", "offload=0"));
    assert_eq!(on_devices["execution"].get("offload"), None);
    assert_eq!(on_devices["stages"][0].get("host_bytes"), None);
    // The states leave the device, and updates take longer.
    let figure = |plan: &Value, name: &str| plan["stages"][0][name].as_f64().expect("a figure");
    let left = figure(&on_devices, "state_bytes") - figure(&document, "state_bytes");
    assert!((left / on_host - 1.0).abs() < 1e-9, "{left} and {on_host}");
    assert!(figure(&document, "update_s") > figure(&on_devices, "update_s"));
    // Nothing is on hosts if the devices have room and the plan may choose.
    let chosen = json(&with(&["plan", &graph, "--json"], "dgx-h100", "offload"));
    assert_eq!(chosen["objective"]["value_s"], on_devices["objective"]["value_s"]);

    let explained = json(&run(&["explain", &graph, &plan, "--json"]));
    assert_eq!(explained["stages"][0]["host_bytes"].as_f64(), Some(on_host));
    assert_eq!(explained["stages"][0]["optimizer_bytes"], json!(0.0));
    let changes = explained["what_ifs"].as_array().expect("changes");
    assert!(
        changes.iter().any(|change| change["change"] == json!("hosts of gpu twice as fast")),
        "{explained}"
    );
    let megatron = run(&["export", &plan, "--to", "megatron-lm"]);
    assert!(stdout(&megatron).contains("--optimizer-cpu-offload\n"), "{}", stdout(&megatron));
    let refused = run(&["export", &plan, "--to", "torchtitan"]);
    assert!(stderr(&refused).contains("error[E034]"), "{}", stderr(&refused));
    let rows = json(&with(&["compare", &graph, "--solvers", "best,fsdp", "--json"], "dgx-h100", "offload=1"));
    assert_eq!((&rows[0]["offload"], &rows[1]["offload"]), (&json!(1), &Value::Null), "{rows}");
    let table = stdout(&with(&["compare", &graph, "--solvers", "best"], "dgx-h100", "offload=1"));
    assert!(table.contains("offload"), "{table}");

    // A cluster without the memory of its hosts, and a degree that does not exist.
    let nowhere = json(&with(&["plan", &graph, "--json"], "8xh100", "offload=1"));
    assert_eq!(nowhere["status"], json!("infeasible"));
    assert!(nowhere["reason"].as_str().is_some_and(|reason| reason.contains("add `ram`")), "{nowhere}");
    let number = with(&["plan", &graph], "dgx-h100", "offload=2");
    assert!(stderr(&number).contains("error[J010]"), "{}", stderr(&number));
}

#[test]
fn published_recipes_take_part_by_name() {
    let files = folder(&[]);
    let graph = workload(&files, "llama --variant 3-8b --layers 6 --sequence 512");
    let rows = |cluster: &str, batch: &str, names: &str| {
        let request =
            ["--cluster", cluster, "--parallel", "tp,dp,pp,zero,recompute", "--global-batch", batch];
        let compared = run(&[&["compare", &*graph, "--json", "--solvers", names], &request[..]].concat());
        assert!(stderr(&compared).is_empty(), "{}", stderr(&compared));
        json(&compared).as_array().expect("rows").clone()
    };
    let all = rows("16xh100", "32", "best,torchtitan-8b,megatron-selective-22b,megatron-175b,deepseek-v3");
    let row_of = |name: &str| {
        all.iter().find(|row| row["plan"] == name).unwrap_or_else(|| panic!("no {name}: {all:?}"))
    };
    let value = |row: &Value| row["value_s"].as_f64();
    let degrees =
        |name| (row_of(name)["tensor"].clone(), row_of(name)["data"].clone(), row_of(name)["zero"].clone());
    assert_eq!(degrees("torchtitan-8b"), (json!([1]), json!(16), json!(3)));
    assert_eq!(degrees("megatron-selective-22b"), (json!([8]), json!(2), json!(0)));
    for name in ["torchtitan-8b", "megatron-selective-22b"] {
        assert!(value(row_of(name)) >= value(row_of("best")), "{all:?}");
    }
    let infeasible = |row: &Value, why: &str| {
        assert_eq!((&row["status"], value(row)), (&json!("infeasible"), None), "{row}");
        assert!(row["reason"].as_str().is_some_and(|reason| reason.contains(why)), "{row}");
    };
    infeasible(row_of("megatron-175b"), "multiples of 96 devices, and the cluster has 16");
    infeasible(row_of("deepseek-v3"), "the model has no dispatch");
    infeasible(&rows("16xh100", "24", "torchtitan-8b")[0], "the degree of dp is 16");
    infeasible(&rows("48xh100", "32", "bloom-176b")[0], "6 layers of the model do not divide into 12 stages");
    let help = stdout(&run(&["compare", "--help"]));
    assert!(
        stagewright::formats::recipes::recipes().iter().all(|recipe| help.contains(&recipe.name)),
        "{help}"
    );
}

/// Writes the training graph of a workload.
fn workload(files: &tempfile::TempDir, text: &str) -> String {
    let graph = path(files, "graph.json");
    let fixed = ["workload", "--training", "--batch", "1", "--precision", "bf16", "--out", &graph];
    let all: Vec<&str> = fixed.into_iter().chain(text.split(' ')).collect();
    let made = run(&all);
    assert_eq!(code(&made), Some(0), "{text}: {}", stderr(&made));
    graph
}

/// A workload with eight experts in one operator allows the same degrees as one with an operator for each expert.
#[test]
fn expert_parallelism_divides_the_experts_and_not_the_operators_that_hold_them() {
    for (text, expert) in [
        ("deepseek --variant v2-lite --layers 2 --sequence 128", 64),
        ("mixtral --layers 1 --sequence 128", 8),
    ] {
        let files = folder(&[]);
        let (graph, plan) = (workload(&files, text), path(&files, "plan.json"));
        let parallel = format!("dp={expert},ep={expert},zero");
        let request = ["--cluster", "64xh100", "--parallel", &parallel, "--global-batch", "64"];
        let made = run(&[&["plan", &graph, "--out", &plan], &request[..]].concat());
        assert_eq!(code(&made), Some(0), "{text}: {}{}", stdout(&made), stderr(&made));
        let checked = run(&["check", &graph, &plan]);
        assert_eq!(code(&checked), Some(0), "{text}: {}", stdout(&checked));
        assert!(stdout(&checked).contains("(joint): verified"), "{text}: {}", stdout(&checked));
        let flags = run(&["export", &plan, "--to", "megatron-lm"]);
        let flag = format!("--expert-model-parallel-size {expert}\n");
        assert!(stdout(&flags).contains(&flag), "{text}: {}{}", stdout(&flags), stderr(&flags));
        let compared = json(&run(&[&["compare", &graph, "--json"], &request[..]].concat()));
        assert_eq!(compared[0]["expert"], json!(expert), "{text}");
    }
}

/// The degrees that DeepSeek-V3 was trained with.
#[test]
fn deepseek_v3_is_planned_with_the_degrees_that_it_was_trained_with() {
    let files = folder(&[]);
    let graph = workload(&files, "deepseek --variant v3 --sequence 4096");
    let parallel = "tp=1,dp=64,pp=16,ep=64,zero,recompute";
    let request = ["--cluster", "1024xh100", "--global-batch", "2048", "--microbatch", "1", "--threads", "1"];
    let made = json(&run(&[&["plan", &graph, "--json", "--parallel", parallel], &request[..]].concat()));
    assert_eq!(
        (&made["execution"]["expert"], made["stages"].as_array().map(Vec::len)),
        (&json!(64), Some(16))
    );
}

/// The plan of a graph without colocations has forward operators of 6127666 and 796671 bytes, of which a device has an
/// eighth, backward operators, and updates that no device shares but the two copies. `docs/joint.md` has all that is
/// counted here.
#[test]
fn a_graph_without_colocations_takes_what_the_page_says() {
    let Some(shared) = std::env::var_os("STAGEWRIGHT_SHARED") else {
        println!("skipped: STAGEWRIGHT_SHARED is not set");
        return;
    };
    let case = std::path::Path::new(&shared).join("data/attacks/06-joint-colocation-undocumented");
    let [graph, cluster] = ["g.json", "c.json"].map(|name| case.join(name).display().to_string());
    let request =
        ["--parallel", "tp,dp,zero,recompute", "--runtime", "ideal", "--global-batch", "2", "--json"];
    let made = json(&run(&[&["plan", &graph, "--cluster", &cluster], &request[..]].concat()));
    let (peak, bandwidth, launch) = (0.5e12, 1e11, 1e-5);
    let takes =
        |flop: f64, bytes: f64, share: f64| launch + f64::max(flop * share / peak, bytes * share / bandwidth);
    let passes = [
        (0.0, 6127666.0),
        (0.0, 796671.0),
        (170423642.0, 1322911.0),
        (207331102.0, 904317.0),
        (587728962.0, 3618009.0),
        (0.0, 8839427.0),
    ];
    let passes: f64 = passes.into_iter().map(|(flop, bytes)| takes(flop, bytes, 0.125)).sum();
    // Parameters are split over two devices, gradients are not; both pass half of their bytes.
    let (parameters, gradients) = (5534652.0 / 2.0, 5534652.0);
    let copies = 0.5 * (parameters + gradients) / bandwidth;
    let updates = (takes(0.0, 9167919.0, 1.0) + takes(146273155.0, 6426491.0, 1.0)) / 2.0;
    let value = made["objective"]["value_s"].as_f64().expect("a value");
    let expected = passes + copies + updates;
    assert!((value / expected - 1.0).abs() < 1e-12, "{value} and {expected}");
    assert_eq!(made["stages"][0]["state_bytes"], json!(parameters + gradients + 11069304.0 / 4.0));
}

#[test]
fn a_file_of_piper_and_its_plan_may_come_from_standard_input() {
    let files = folder(&[]);
    let (model, plan, page) =
        (input("models/piper-recomputation.json"), path(&files, "plan.json"), path(&files, "page.html"));
    let request = ["--time-unit", "s", "--parallel", "tp,dp,pp,recompute"];
    let made = run(&[&["plan", &model, "--out", &plan, "--html", &page], &request[..]].concat());
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    assert!(std::fs::read_to_string(&page).expect("a page").contains("time per sample"));
    let written = std::fs::read(&plan).expect("a plan");
    assert_eq!(code(&run_with_input(&["check", &model, "-"], &written)), Some(0));
    let piped = [&["plan", "-", "--json"], &request[..]].concat();
    let piped = json(&run_with_input(&piped, &std::fs::read(model).expect("a model")));
    let found: Value = serde_json::from_slice(&written).expect("JSON");
    assert_eq!(piped["stages"], found["stages"]);
    assert_eq!(found["objective"]["value_s"], 3.125);
}
