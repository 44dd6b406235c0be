//! Inputs of the program: files that it would overwrite, that never end, that name missing items, or whose figures
//! are out of range.

#![expect(clippy::print_stdout, reason = "a skipped test says so")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

#[cfg(unix)]
use super::run_in_time;
use super::{code, demo, folder, json as parsed, path, run, stderr, stdout};

/// A file of the reference folder; `None`, with a message, if there is no such folder.
fn shared(file: &str) -> Option<String> {
    let Some(shared) = std::env::var_os("STAGEWRIGHT_SHARED") else {
        println!("skipped: STAGEWRIGHT_SHARED is not set");
        return None;
    };
    Some(Path::new(&shared).join("data").join(file).display().to_string())
}

fn refused(arguments: &[&str], start: &str, says: &str) {
    let output = run(arguments);
    assert_eq!(code(&output), Some(2), "{arguments:?}: {}", stderr(&output));
    // Notes on an input may come before the error of the next.
    assert!(stderr(&output).contains(start), "{arguments:?}: {}", stderr(&output));
    assert!(stderr(&output).contains(says), "{arguments:?}: {}", stderr(&output));
    assert_eq!(stdout(&output), "", "{arguments:?}");
}

/// The demo in a folder of its own, with a plan and files to give beside it.
fn inputs() -> TempDir {
    let files = folder(&[
        ("pins.json", "{}"),
        ("costs.json", r#"{"schema": "stagewright.costs/1", "name": "none"}"#),
        (
            "suite.toml",
            "name = \"one\"\ninputs = [\"model.json\"]\nclusters = [\"cluster.toml\"]\nsolvers = [\"one-device\"]\n",
        ),
    ]);
    fs::copy(demo("model.json"), files.path().join("model.json")).expect("room");
    fs::copy(demo("cluster.toml"), files.path().join("cluster.toml")).expect("room");
    let [model, cluster, plan] = ["model.json", "cluster.toml", "plan.json"].map(|name| path(&files, name));
    assert_eq!(code(&run(&["plan", &model, "--cluster", &cluster, "--out", &plan])), Some(0));
    files
}

#[test]
fn no_output_goes_over_an_input() {
    let files = inputs();
    let file = |name: &str| path(&files, name);
    let [model, cluster, plan, pins] = ["model.json", "cluster.toml", "plan.json", "pins.json"].map(file);
    let [costs, suite] = ["costs.json", "suite.toml"].map(file);
    let content = |input: &str| fs::read(input).expect("it is there");
    let around = ["--cluster", &cluster, "--pins", &pins, "--costs", &costs];
    let mut cases: Vec<(Vec<&str>, &str)> = Vec::new();
    for input in [&model, &cluster, &pins, &costs] {
        for option in ["--out", "--html", "--dot", "--trace", "--convergence"] {
            cases.push(([&["plan", &model, option, input][..], &around].concat(), input));
        }
        cases.push(([&["costs", "apply", &model, "--out", input][..], &around].concat(), input));
    }
    let of_plan = ["--cluster", &cluster];
    let others: [(Vec<&str>, &str); 13] = [
        ([&["plan", &model, "--start", &plan, "--out", &plan][..], &of_plan].concat(), &*plan),
        ([&["simulate", &model, &plan, "--trace", &plan][..], &of_plan].concat(), &plan),
        ([&["simulate", &model, &plan, "--trace", &model][..], &of_plan].concat(), &model),
        (vec!["convert", &model, &model], &model),
        (vec!["convert", &cluster, &cluster, "--to", "json"], &cluster),
        (vec!["convert", &model, &cluster, "--cluster", &cluster], &cluster),
        (vec!["convert", &plan, &model, "--plan-of", &model], &model),
        (vec!["export", &plan, "--to", "dot", "--out", &plan], &plan),
        (vec!["export", &plan, "--to", "dot", "--model", &model, "--out", &model], &model),
        ([&["compare", &model, "--html", &model][..], &of_plan].concat(), &model),
        (vec!["costs", "import", &costs, "--out", &costs], &costs),
        (vec!["bench", &suite, "--out-csv", &suite], &suite),
        (vec!["bench", &suite, "--out-markdown", &model], &model),
    ];
    cases.extend(others);
    for (arguments, input) in cases {
        let kept = content(input);
        refused(&arguments, "error[U001]: ", "which the command reads");
        assert_eq!(content(input), kept, "{arguments:?}");
    }
    // A separate file is none of them.
    let output = run(&["convert", &model, &file("other.json")]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
}

#[cfg(unix)]
#[test]
fn links_to_an_input_are_the_input() {
    let files = inputs();
    let file = |name: &str| path(&files, name);
    let (model, cluster) = (file("model.json"), file("cluster.toml"));
    std::os::unix::fs::symlink(&model, file("soft")).expect("a link");
    fs::hard_link(&model, file("hard")).expect("a link");
    let detour = files.path().join(".").join("../").join(files.path().file_name().expect("a name"));
    let detour = detour.join("model.json").display().to_string();
    for output in [file("soft"), file("hard"), detour] {
        refused(
            &["plan", &model, "--cluster", &cluster, "--out", &output],
            "error[U001]: ",
            "would overwrite",
        );
        refused(
            &["plan", &output, "--cluster", &cluster, "--out", &model],
            "error[U001]: ",
            "would overwrite",
        );
    }
}

/// A file of more than 1 GiB, which takes no room on the disk.
fn hollow(folder: &TempDir, name: &str) -> String {
    let file = File::create(folder.path().join(name)).expect("room");
    file.set_len((1 << 30) + 1).expect("a file system with holes");
    path(folder, name)
}

#[test]
fn an_input_that_is_too_large_is_refused_before_it_is_read() {
    let files = inputs();
    let file = |name: &str| path(&files, name);
    let (model, cluster, plan) = (file("model.json"), file("cluster.toml"), file("plan.json"));
    let (hole, out) = (hollow(&files, "hole.json"), file("out"));
    let of_plan = ["--cluster", &*cluster];
    let cases: Vec<Vec<&str>> = vec![
        [&["plan", &*hole][..], &of_plan].concat(),
        vec!["plan", &model, "--cluster", &hole],
        [&["plan", &model, "--pins", &hole][..], &of_plan].concat(),
        [&["plan", &model, "--costs", &hole][..], &of_plan].concat(),
        [&["plan", &model, "--start", &hole][..], &of_plan].concat(),
        [&["check", &model, &hole][..], &of_plan].concat(),
        [&["explain", &hole, &plan][..], &of_plan].concat(),
        vec!["convert", &hole, &out],
        vec!["export", &hole, "--to", "dot"],
        vec!["costs", "import", &hole],
        vec!["bench", &hole],
        vec!["workload", "--recipe", &hole, "--count", "1", "--out", &out],
    ];
    for arguments in cases {
        refused(&arguments, "error[I006]: the input is larger than 1 GiB", "hole.json");
    }
}

/// A pipe with a name has one reader, which may not open it a second time.
#[cfg(unix)]
#[test]
fn a_named_pipe_is_read_once() {
    let files = inputs();
    let (pipe, cluster) = (path(&files, "pipe"), path(&files, "cluster.toml"));
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("Unix has it").success());
    let model = fs::read(path(&files, "model.json")).expect("it is there");
    for command in ["plan", "bound"] {
        let (to, model) = (pipe.clone(), model.clone());
        // It waits for the program to open the pipe; the end of the test ends it.
        std::thread::spawn(move || fs::write(to, model));
        let output = run_in_time(&[command, &pipe, "--cluster", &cluster]);
        assert_eq!(code(&output), Some(0), "{command}: {}", stderr(&output));
    }
}

/// A table of a package may be a link, and a link stays one when its file is replaced.
#[cfg(unix)]
#[test]
fn a_table_behind_a_link_is_an_input() {
    let files = folder(&[("table.parquet", "a table")]);
    let (package, table) = (files.path().join("package"), path(&files, "table.parquet"));
    let inside = package.join("systems/data/h100_sxm/gemm/vllm/1.0");
    fs::create_dir_all(&inside).expect("room");
    let link = inside.join("gemm_perf.parquet");
    std::os::unix::fs::symlink(&table, &link).expect("a link");
    let package = package.display().to_string();
    for out in [&table, &link.display().to_string()] {
        let arguments = ["costs", "import", &package, "--out", out];
        refused(&arguments, "error[U001]: ", "which the command reads");
        assert_eq!(fs::read_to_string(&table).expect("it is there"), "a table");
    }
}

#[test]
fn a_recipe_is_kept_and_nothing_is_written_beside_it() {
    let recipe = "seed = 1\nfamilies = [\"layered\"]\noperators = [20, 40]\ndevices = [2, 4]\n\
                  objectives = [\"makespan\"]\n";
    let files = folder(&[("layered-1-2.json", recipe)]);
    let (file, out) = (path(&files, "layered-1-2.json"), files.path().display().to_string());
    let arguments = ["workload", "--recipe", &file, "--count", "4", "--out", &out];
    refused(&arguments, "error[U001]: --out would overwrite", "layered-1-2.json");
    assert_eq!(fs::read_to_string(&file).expect("it is there"), recipe);
    assert_eq!(files.path().read_dir().expect("a folder").count(), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn a_device_without_an_end_is_read_up_to_the_limit() {
    refused(&["plan", "/dev/zero", "--cluster", &demo("cluster.toml")], "error[I006]: ", "/dev/zero");
}

/// Bytes of an ONNX model with one weight that is stored in the file.
fn onnx(weight_bytes: u64) -> (Vec<u8>, u64) {
    fn field(number: u64, content: &[u8]) -> Vec<u8> {
        [varint(number << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
    }
    fn varint(mut value: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while value >= 0x80 {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes
    }
    let dim = |size: u64| field(1, &[vec![0x08], varint(size)].concat());
    let shape = field(2, &[dim(1), dim(1)].concat());
    let kind = field(1, &[vec![0x08, 1], shape].concat());
    let input = field(11, &[field(1, b"x"), field(2, &kind)].concat());
    let node = field(1, &[field(1, b"x"), field(1, b"w"), field(2, b"y"), field(4, b"MatMul")].concat());
    let output = field(12, &field(1, b"y"));
    let head = [vec![0x08, 1, 0x08], varint(weight_bytes / 4), vec![0x10, 1], field(8, b"w")].concat();
    // The values are a hole of the file.
    let values = [varint(9 << 3 | 2), varint(weight_bytes)].concat();
    let tensor = (head.len() + values.len()) as u64 + weight_bytes;
    let start = [node, input, output, varint(5 << 3 | 2), varint(tensor), head, values].concat();
    let graph = start.len() as u64 + weight_bytes;
    let opset = field(8, &[0x10, 17]);
    let file = [vec![0x08, 8], opset, varint(7 << 3 | 2), varint(graph), start].concat();
    let length = file.len() as u64 + weight_bytes;
    (file, length)
}

#[test]
fn a_model_with_its_weights_may_be_larger() {
    let files = folder(&[]);
    let place = files.path().join("large.onnx");
    let (head, length) = onnx(3 << 30);
    fs::write(&place, head).expect("room");
    File::options().write(true).open(&place).and_then(|file| file.set_len(length)).expect("holes");
    let out = path(&files, "out.json");
    let output = run(&["convert", &place.display().to_string(), &out]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let model: Value = serde_json::from_slice(&fs::read(&out).expect("written")).expect("JSON");
    assert_eq!(model["operators"][0]["parameter_bytes"].as_f64(), Some(3.0 * 1024.0 * 1024.0 * 1024.0));
}

/// Whether a text shows a figure that is not finite.
fn has_infinity(text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).any(|word| matches!(word, "inf" | "NaN" | "Infinity"))
}

#[test]
fn no_figure_of_an_answer_is_infinite() {
    let cluster = json!({"schema": "stagewright.cluster/1",
        "kinds": [{"name": "k", "class": "gpu", "count": 2, "memory_bytes": 1e12, "link": {"bandwidth": 1e9}}],
        "classes": {"gpu": {"peak_flops": 1e14, "memory_bandwidth": 1e12}}});
    let model = |seconds: &str, bytes: &str| {
        format!(
            r#"{{"schema": "stagewright.graph/2", "batch": {{"samples": 18446744073709551615}},
            "operators": [{{"name": "a", "seconds": {{"gpu": {seconds}}}, "parameter_bytes": {bytes}}},
            {{"name": "b", "seconds": {{"gpu": 1e-9}}}}],
            "tensors": [{{"producer": "a", "consumers": ["b"], "bytes": {bytes}}}]}}"#
        )
    };
    let files = folder(&[("cluster.json", &cluster.to_string())]);
    let (file, cluster, plan) =
        (path(&files, "m.json"), path(&files, "cluster.json"), path(&files, "p.json"));
    for figure in ["5e-324", "1e-99", "-0.0", "1e199", "1e308"] {
        for text in [model(figure, "1e6"), model("1e-6", figure)] {
            fs::write(&file, text).expect("room");
            let made = run(&["plan", &file, "--cluster", &cluster, "--out", &plan, "--threads", "1"]);
            let is_planned = code(&made) == Some(0);
            assert!(is_planned || code(&made) == Some(3) || stderr(&made).starts_with("error["), "{figure}");
            let mut outputs = vec![made];
            if is_planned {
                let around = ["--cluster", &*cluster];
                for more in [
                    &["check", &*file, &*plan][..],
                    &["explain", &*file, &*plan, "--no-what-if"],
                    &["simulate", &*file, &*plan],
                    &["bound", &*file],
                    &["compare", &*file, "--solvers", "one-device,dp", "--csv"],
                ] {
                    outputs.push(run(&[more, &around].concat()));
                }
                assert!(!has_infinity(&fs::read_to_string(&plan).expect("written")), "{figure}");
            }
            for output in outputs {
                let text = stdout(&output);
                assert!(!has_infinity(&text), "{figure}: {text}");
            }
        }
    }
}

#[test]
fn the_reference_inputs_are_read_as_they_are_meant() {
    let Some(function) = shared("reports/11-function-overloads/model.onnx") else { return };
    let files = folder(&[]);
    let out = path(&files, "out.json");
    let graph = |model: &str| -> Value {
        let output = run(&["convert", model, &out]);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        serde_json::from_slice(&fs::read(PathBuf::from(&out)).expect("written")).expect("JSON")
    };
    let operators = graph(&function)["operators"].clone();
    let named = |name: &str| {
        let all = operators.as_array().expect("a list");
        all.iter().find(|operator| operator["name"] == name).cloned().unwrap_or_default()
    };
    assert_eq!(named("second/product")["flop"].as_f64(), Some(524_288.0));
    let branch = shared("reports/13-omitted-input-and-branch/model.onnx").expect("it is there");
    let graph = graph(&branch);
    let sum = |field: &str| -> f64 {
        let all = graph["operators"].as_array().expect("a list");
        all.iter().filter_map(|operator| operator[field].as_f64()).sum()
    };
    assert_eq!((sum("flop"), sum("parameter_bytes")), (524_288.0, 16384.0));
    let repeated = shared("reports/17-repeated-constants/model.onnx").expect("it is there");
    let planned = run(&["plan", &repeated, "--cluster", "1xa10:fp32", "--threads", "1", "--json"]);
    let memory = parsed(&planned)["devices"][0]["memory_bytes"].as_f64().expect("a figure");
    assert!((45e6..55e6).contains(&memory), "{memory}");
    let costs = shared("attacks/08-costs-inf").expect("it is there");
    let file = |name: &str| format!("{costs}/{name}.json");
    refused(
        &["plan", &file("m"), "--cluster", &file("c"), "--costs", &file("op_den")],
        "error[P009]: ",
        "`o0`",
    );
}
