//! Training from the command line: a run that is killed and resumed writes the same bytes as an uninterrupted one;
//! errors are reported with code and location; a user's own checkpoint can be used for planning, and fine-tuning
//! creates one.

#![cfg(feature = "policy")]

use base64::Engine;
use sha2::Digest;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use stagewright::train::Recipe;
use stagewright::train::system::SystemRunDocument;
use stagewright_policy::learn::AdamConfig;
use stagewright_systems::{Agent, Kind};

const CONFIGURATION: &str = r#"
schema = "stagewright.training/1"
stage = "imitation"
seed = 3
steps = 24
batch = 2
measure_every = 4
patience = 100

[network]
width = 8
layers = 2
heads = 2
segment = 16
summaries = 2

[data]
count = 6
seconds = 0.02

[data.recipe]
seed = 1
families = ["layered", "residual-training"]
operators = [20, 40]
devices = [2, 3]
objectives = ["makespan", "throughput"]

[held_out]
count = 3
seconds = 0.02

[held_out.recipe]
seed = 2
families = ["layered"]
operators = [20, 40]
devices = [2, 3]
objectives = ["makespan"]
"#;

fn stagewright(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stagewright"))
        .args(arguments)
        .current_dir(crate::ROOT)
        .output()
        .expect("the program runs")
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn path(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

fn configured(folder: &tempfile::TempDir, text: &str) -> String {
    let path = path(folder, "training.toml");
    fs::write(&path, text).expect("a file");
    path
}

fn train(configuration: &str, out: &str) -> Output {
    stagewright(&["train", configuration, "--out", out, "--threads", "2"])
}

fn assert_done(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Starts or resumes a run and kills it three times, each time shortly after it has written a state.
fn kill_three_times(configuration: &str, out: &str) {
    for state in 0..3 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_stagewright"))
            .current_dir(crate::ROOT)
            .args(["train", configuration, "--out", out, "--threads", "1"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program runs");
        let before =
            fs::metadata(Path::new(out).join("state.safetensors")).and_then(|file| file.modified()).ok();
        let began = Instant::now();
        let is_new = || {
            let now = fs::metadata(Path::new(out).join("state.safetensors"));
            now.and_then(|file| file.modified()).ok() != before
        };
        while !is_new()
            && began.elapsed() < Duration::from_secs(60)
            && child.try_wait().expect("a child").is_none()
        {
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(7 * state));
        child.kill().expect("a child");
        child.wait().expect("a child");
    }
}

/// Asserts that two runs with six measurements have equal best checkpoints, and equal values in the given fields.
fn assert_same(whole: &str, killed: &str, fields: &[&str]) {
    let best = |run: &str| fs::read(Path::new(run).join("best.safetensors")).expect("a file");
    assert!(best(whole) == best(killed), "the checkpoints differ");
    let measured = |run: &str| -> Vec<Vec<serde_json::Value>> {
        let lines = fs::read_to_string(Path::new(run).join("metrics.jsonl")).expect("a file");
        let lines = lines.lines().map(|line| serde_json::from_str(line).expect("a line of JSON"));
        lines.map(|row: serde_json::Value| fields.iter().map(|&field| row[field].clone()).collect()).collect()
    };
    let rows = measured(whole);
    assert_eq!(rows, measured(killed));
    assert!(rows.len() == 6 && rows.iter().flatten().all(serde_json::Value::is_number), "{rows:?}");
}

#[test]
fn a_run_that_is_killed_goes_on_to_the_same_bytes() {
    let folder = folder();
    let configuration = configured(&folder, CONFIGURATION);
    let whole = path(&folder, "whole");
    let output = train(&configuration, &whole);
    assert_done(&output);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("24 steps, done"), "{said}");

    // The labels are copied, because their quality depends on the clock.
    let killed = path(&folder, "killed");
    fs::create_dir(&killed).expect("a folder");
    for labels in ["labels.jsonl", "held-out.jsonl"] {
        fs::copy(Path::new(&whole).join(labels), Path::new(&killed).join(labels)).expect("a copy");
    }
    kill_three_times(&configuration, &killed);
    assert_done(&train(&configuration, &killed));
    assert_same(&whole, &killed, &["step", "held_out"]);

    // Training again has nothing left to do.
    let again = train(&configuration, &whole);
    assert!(String::from_utf8_lossy(&again.stdout).contains("24 steps, done"), "{again:?}");
    // The folder belongs to one configuration, and rejects another.
    let other = configured(&folder, &CONFIGURATION.replace("steps = 24", "steps = 25"));
    let refused = train(&other, &whole);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("D021"));

    plans_and_learns_more(&folder, &whole);
}

/// Uses a checkpoint for planning, further training and fine-tuning.
fn plans_and_learns_more(folder: &tempfile::TempDir, run: &str) {
    let checkpoint = format!("{run}/best.safetensors");
    let model = ["data/demo/model.json", "--cluster", "data/demo/cluster.toml"];
    let plan = |checkpoint: &str| {
        let mut arguments = vec!["plan"];
        arguments.extend(model);
        arguments.extend(["--solver", "policy", "--objective", "makespan", "--time-limit", "1s", "--json"]);
        arguments.extend(["--checkpoint", checkpoint]);
        stagewright(&arguments)
    };
    let output = plan(&checkpoint);
    assert_done(&output);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a plan");
    assert_eq!(document["solver"], "policy");
    assert!(document["gap"].as_f64().is_some_and(|gap| (0.0..1.0).contains(&gap)), "{}", document["gap"]);

    let further = CONFIGURATION
        .replace("seed = 3", "seed = 4\nfrom = \"whole/best.safetensors\"")
        .replace("steps = 24", "steps = 4");
    let further = configured(folder, &format!("{further}\n[adam]\nrate = 1e-3\n"));
    let out = path(folder, "further");
    assert_done(&train(&further, &out));
    assert_done(&plan(&format!("{out}/best.safetensors")));

    let tuned = path(folder, "tuned.safetensors");
    let mut arguments = vec!["finetune"];
    arguments.extend(model);
    arguments.extend([
        "--objective",
        "makespan",
        "--time-limit",
        "2s",
        "--checkpoint",
        &checkpoint,
        "--out",
        &tuned,
    ]);
    assert_done(&stagewright(&arguments));
    assert_done(&plan(&tuned));

    // An empty graph gives nothing to learn from.
    let empty = path(folder, "empty.json");
    let graph = r#"{"schema": "stagewright.graph/1", "name": "empty", "operators": [], "tensors": []}"#;
    fs::write(&empty, graph).expect("a file");
    let output =
        stagewright(&["finetune", &empty, "--cluster", "2xa100", "--out", &tuned, "--time-limit", "1s"]);
    assert_eq!(output.status.code(), Some(5), "{}", String::from_utf8_lossy(&output.stderr));

    // Damaged checkpoints are rejected with their code.
    let bytes = fs::read(&checkpoint).expect("a file");
    let damaged = path(folder, "damaged.safetensors");
    let mut nan = bytes.clone();
    let end = nan.len();
    nan[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    for (bytes, code) in [(&bytes[..bytes.len() / 2], "K001"), (&nan, "K007"), (&b"{}"[..], "K001")] {
        fs::write(&damaged, bytes).expect("a file");
        let refused = plan(&damaged);
        assert_eq!(refused.status.code(), Some(2));
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            said.contains(code) && said.contains("damaged.safetensors") && said.contains("help:"),
            "{said}"
        );
    }
    let state = plan(&format!("{run}/state.safetensors"));
    assert!(String::from_utf8_lossy(&state.stderr).contains("K003"));
}

const SYSTEM: &str = r#"
schema = "stagewright.system-training/1"
system = "gdp"
seed = 3
episodes = 24
measure_every = 4

[settings]
devices = 3
width = 16
layers = 1

[data]
count = 4

[data.recipe]
seed = 1
families = ["layered", "residual-training"]
operators = [20, 40]
devices = [2, 3]
objectives = ["makespan"]

[held_out]
count = 2

[held_out.recipe]
seed = 2
except = ["layered", "residual-training"]
operators = [20, 40]
devices = [2, 3]
objectives = ["makespan"]
"#;

/// Trains a system without and with three kills on the way, and asserts that the results are the same. Returns both
/// folders.
fn train_with_kills(folder: &tempfile::TempDir, text: &str) -> [String; 2] {
    let configuration = configured(folder, text);
    let [whole, killed] = ["whole", "killed"].map(|run| path(folder, run));
    let output = train(&configuration, &whole);
    assert_done(&output);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("24 episodes, done"), "{said}");
    fs::create_dir(&killed).expect("a folder");
    kill_three_times(&configuration, &killed);
    assert_done(&train(&configuration, &killed));
    assert_same(&whole, &killed, &["episode", "steps", "placements", "over_bound", "fits"]);
    // The whole state, except for the seconds.
    let state = |run: &str| {
        let bytes = fs::read(Path::new(run).join("state.safetensors")).expect("a file");
        let read = Agent::from_bytes(&bytes, Some(AdamConfig::default())).expect("a state");
        let (agent, descent, mut card) = read;
        card.progress["seconds"].take();
        // Families are listed by name, so that families added later do not change the run.
        let families = &card.progress["document"]["held_out"]["recipe"]["families"];
        assert!(families.as_array().is_some_and(|names| names.len() > 10), "{families}");
        agent.to_bytes(&descent, card.progress).expect("a state")
    };
    assert!(state(&whole) == state(&killed), "the states differ");
    [whole, killed]
}

/// The state includes Placeto's baselines, which are earlier episodes, and HSDAG's, which is the first placement.
#[test]
fn a_learned_system_that_is_killed_remembers_what_it_compares_with() {
    let placeto = SYSTEM.replace("\"gdp\"", "\"placeto\"").replace("width = 16\n", "");
    for text in [placeto, SYSTEM.replace("\"gdp\"", "\"hsdag\"")] {
        train_with_kills(&folder(), &text);
    }
}

#[test]
fn a_learned_system_that_is_killed_goes_on_to_the_same_bytes_and_plays() {
    let folder = folder();
    let [whole, killed] = train_with_kills(&folder, SYSTEM);
    // The folder rejects another configuration, and invalid settings are rejected too.
    let refused = |text: &str| {
        let refused = train(&configured(&folder, text), &whole);
        assert_eq!(refused.status.code(), Some(2));
        String::from_utf8_lossy(&refused.stderr).into_owned()
    };
    assert!(refused(&SYSTEM.replace("episodes = 24", "episodes = 25")).contains("D021"));
    assert!(refused(&SYSTEM.replace("width = 16", "width = 15")).contains("multiple of 8"));
    assert!(refused(&format!("{SYSTEM}\n[adam]\nclip = inf\n")).contains("`adam.clip` is inf"));
    assert!(refused(&SYSTEM.replace("devices = 3", "devices = 2")).contains("`settings.devices` is 2"));

    // A state of another version is rejected as well.
    let state = Path::new(&killed).join("state.safetensors");
    let mut bytes = fs::read(&state).expect("a file");
    let field = br#"generations\":["#;
    let offset =
        bytes.windows(field.len()).position(|window| window == field).expect("generations") + field.len();
    bytes[offset] = b'0';
    fs::write(&state, bytes).expect("room");
    let refused = train(&configured(&folder, SYSTEM), &killed);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("D021"));

    let checkpoint = format!("{whole}/best.safetensors");
    let plan = |more: &[&str]| {
        let mut arguments = vec!["plan", "data/demo/model.json", "--cluster", "1xt4:fp32+1xrtx-4090:fp32"];
        arguments.extend(["--objective", "makespan", "--time-limit", "none", "--json"]);
        arguments.extend(more);
        let output = stagewright(&arguments);
        let story = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), story, output.stdout)
    };
    let played = ["--solver", "gdp", "--checkpoint", &checkpoint, "--zero-shot"];
    let (is_done, story, first) = plan(&played);
    assert!(is_done, "{story}");
    // The parameters in the file are used: a system for three devices has no solution for four.
    let more = ["plan", "data/demo/model.json", "--cluster", "4xt4:fp32", "--objective", "makespan"];
    let output = stagewright(&[&more[..], &played[..]].concat());
    let story =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && story.contains("at most 3 devices"), "{story}");
    let learning = ["--solver", "gdp", "--checkpoint", &checkpoint, "--simulations", "80"];
    let (is_done, story, second) = plan(&learning);
    assert!(is_done, "{story}");
    let value = |plan: &[u8]| {
        let plan: serde_json::Value = serde_json::from_slice(plan).expect("a plan");
        plan["objective"]["value_s"].as_f64().expect("a value")
    };
    let bound = |plan: &[u8]| {
        let plan: serde_json::Value = serde_json::from_slice(plan).expect("a plan");
        plan["bound"]["value_s"].as_f64().expect("a bound")
    };
    assert!(value(&first) >= bound(&first) && value(&second) >= bound(&second));
    for (wrong, code) in [
        (vec!["--solver", "hdp", "--checkpoint", &checkpoint], "K003"),
        (vec!["--solver", "policy", "--checkpoint", &checkpoint], "K003"),
        (vec!["--solver", "heft", "--checkpoint", &checkpoint], "U001"),
        (vec!["--solver", "heft", "--simulations", "5"], "U001"),
    ] {
        let (is_done, story, _) = plan(&wrong);
        assert!(!is_done && story.contains(code), "{wrong:?}: {story}");
    }
}

#[test]
fn shipped_configurations_of_systems_read() {
    let folder = Path::new(crate::ROOT).join("data/policy/systems");
    let mut systems = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let file = entry.expect("an entry").path();
        let document = SystemRunDocument::from_toml(&fs::read_to_string(&file).expect("a file"));
        let document = document.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_eq!(file.file_stem().and_then(|stem| stem.to_str()), Some(document.system.name()));
        assert!(Recipe::new(document.data.recipe).is_ok() && Recipe::new(document.held_out.recipe).is_ok());
        systems.push(document.system);
    }
    systems.sort();
    assert_eq!(systems, Kind::ALL);
}

/// An untrained system places everything on the first device, which the one problem here does not fit.
#[test]
fn a_learned_system_that_fits_nowhere_is_kept_all_the_same() {
    let folder = folder();
    let tight = SYSTEM
        .replace(
            "except = [\"layered\", \"residual-training\"]",
            "families = [\"layered\"]\nalike = true\nroom = [1.1, 1.1]",
        )
        .replace("count = 2", "count = 1")
        .replace("seed = 2", "seed = 3")
        .replace("episodes = 24", "episodes = 2")
        .replace("measure_every = 4", "measure_every = 1");
    let run = path(&folder, "run");
    let output = train(&configured(&folder, &tight), &run);
    assert_done(&output);
    let [said, story] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(story.contains("held out – times the bound, 0.0% fit"), "{story}");
    assert!(said.contains("best.safetensors"), "{said}");
    let checkpoint = format!("{run}/best.safetensors");
    // As long as nothing fits, the last state counts as the best.
    let bytes = fs::read(&checkpoint).expect("a file");
    let (_, _, card) = Agent::from_bytes(&bytes, None).expect("a system");
    assert_eq!(card.progress["episode"], 2, "{}", card.progress);
    let plan = ["plan", "data/demo/model.json", "--cluster", "2xt4:fp32", "--objective", "makespan"];
    let output =
        stagewright(&[&plan[..], &["--solver", "gdp", "--checkpoint", &checkpoint, "--zero-shot"]].concat());
    assert_done(&output);
}

/// Trains with labels made by a number of workers, which a driver without Ray starts.
fn train_elsewhere(configuration: &str, out: &str, workers: &str) -> Output {
    let driver = Path::new(crate::ROOT).join("tests/driver");
    Command::new(env!("CARGO_BIN_EXE_stagewright"))
        .current_dir(crate::ROOT)
        .args(["train", configuration, "--out", out, "--threads", "2", "--ray", workers])
        .env("STAGEWRIGHT_PYTHON", "python3")
        .env("PYTHONPATH", driver)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("the program runs")
}

/// The files of a run that must not depend on which processes made the labels.
fn made(run: &str) -> Vec<(String, Vec<u8>)> {
    let mut made: Vec<(String, Vec<u8>)> = fs::read_dir(run)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            ["labels.jsonl", "held-out.jsonl", "best.safetensors"].contains(&name)
        })
        .map(|path| {
            (path.file_name().expect("a name").display().to_string(), fs::read(path).expect("a file"))
        })
        .collect();
    made.sort();
    made
}

/// Labels with a counted effort, and the parameters learned from them, are the same for any number of workers.
#[test]
fn labels_of_any_number_of_workers_are_those_of_this_process() {
    let folder = folder();
    let counted =
        CONFIGURATION.replace("seconds = 0.02", "simulations = 120").replace("steps = 24", "steps = 4");
    let configuration = configured(&folder, &counted);
    let here = path(&folder, "here");
    assert_done(&train(&configuration, &here));
    let wanted = made(&here);
    assert_eq!(wanted.len(), 3);
    for workers in ["1", "2", "4"] {
        let there = path(&folder, workers);
        let output = train_elsewhere(&configuration, &there, workers);
        assert_done(&output);
        assert!(!String::from_utf8_lossy(&output.stderr).contains("in a number of seconds"));
        assert!(made(&there) == wanted, "{workers}");
    }

    // An effort in seconds is accepted with a note.
    let seconds = configured(&folder, &CONFIGURATION.replace("steps = 24", "steps = 4"));
    let output = train_elsewhere(&seconds, &path(&folder, "seconds"), "2");
    assert_done(&output);
    assert!(String::from_utf8_lossy(&output.stderr).contains("in a number of seconds"));
}

#[test]
fn what_a_worker_refuses_is_reported_with_its_cause() {
    let folder = folder();
    let counted =
        CONFIGURATION.replace("seconds = 0.02", "simulations = 120").replace("steps = 24", "steps = 4");
    let configuration = configured(&folder, &counted);
    let answers = |requests: &str| {
        let mut worker = Command::new(env!("CARGO_BIN_EXE_stagewright"))
            .current_dir(crate::ROOT)
            .args(["train", &configuration, "--worker"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut pipe = worker.stdin.take().expect("a pipe");
        pipe.write_all(requests.as_bytes()).expect("a reader");
        // The end of the input would end a search, so the pipe is closed only after the answers have arrived.
        let lines =
            BufReader::new(worker.stdout.take().expect("a pipe")).lines().take(requests.lines().count());
        let answers = lines.map(|line| serde_json::from_str(&line.expect("a line")).expect("JSON"));
        let answers: Vec<serde_json::Value> = answers.collect();
        drop(pipe);
        assert!(worker.wait().expect("an end").success());
        answers
    };
    let bytes = fs::read(env!("CARGO_BIN_EXE_stagewright")).expect("the program");
    let program = base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(bytes));
    let recipe = r#"{"seed": 1, "operators": [20, 40], "devices": [2, 3], "objectives": ["makespan"]}"#;
    let request = |index: &str, effort: &str| {
        format!(
            r#"{{"program": "{program}", "request": {{"recipe": {recipe}, "effort": {effort}, "index": {index}}}}}"#
        ) + "\n"
    };
    let effort = r#"{"simulations": 50}"#;
    for (wrong, cause) in [
        ("{}\n".to_owned(), "another version"),
        (request("0", r#"{"simulations": 0}"#), "D006"),
        (request("0", effort).replace("[20, 40]", "[40, 20]"), "D003"),
        (request("0", effort).replace(&program, "another"), "another build"),
    ] {
        let answer = &answers(&wrong)[0];
        assert!(answer["error"].as_str().is_some_and(|error| error.contains(cause)), "{cause}: {answer}");
    }
    // There are as many answers as requests, in the same order.
    let both = answers(&(request("7", effort) + &request("2", effort)));
    assert_eq!(both.iter().map(|answer| &answer["reply"]["index"]).collect::<Vec<_>>(), [7, 2]);

    // An address that is not a number makes the driver fail.
    let refused = train_elsewhere(&configuration, &path(&folder, "run"), "many");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("A004"));
    let system = configured(&folder, SYSTEM);
    let refused = train_elsewhere(&system, &path(&folder, "run"), "1");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("without labels"));
}

/// A second run would overwrite the state of the first. The lock is on a file, so it works across processes.
#[test]
fn two_runs_in_one_folder_at_once_are_refused() {
    let folder = folder();
    let run = path(&folder, "run");
    fs::create_dir(&run).expect("a folder");
    for text in [CONFIGURATION.to_owned(), SYSTEM.replace("episodes = 24", "episodes = 1")] {
        let configuration = configured(&folder, &text);
        let lock = fs::File::create(Path::new(&run).join("lock")).expect("a file");
        lock.lock().expect("a lock");
        let refused = train(&configuration, &run);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains("error[D023]") && said.contains(&format!("--> {run}\n")), "{said}");
        assert!(!Path::new(&run).join("state.safetensors").exists());
    }
    // The lock file still exists, but no process holds the lock.
    assert_done(&train(&configured(&folder, &SYSTEM.replace("episodes = 24", "episodes = 1")), &run));
}

#[test]
fn a_checkpoint_that_the_run_would_replace_is_refused() {
    let folder = folder();
    let run = path(&folder, "run");
    fs::create_dir(&run).expect("a folder");
    let best = Path::new(&run).join("best.safetensors");
    fs::write(&best, "weights").expect("room");
    for text in [CONFIGURATION, SYSTEM] {
        for from in ["run/best.safetensors", "run/../run/state.safetensors"] {
            let text = text.replacen("seed = 3", &format!("seed = 3\nfrom = \"{from}\""), 1);
            assert!(text.contains(from));
            let refused = train(&configured(&folder, &text), &run);
            let said = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert_eq!(refused.status.code(), Some(2), "{said}");
            assert!(said.contains("error[D025]"), "{said}");
        }
    }
    assert_eq!(fs::read(&best).expect("it is there"), b"weights");
}

#[cfg(unix)]
#[test]
fn a_checkpoint_without_an_end_is_read_up_to_the_limit() {
    let folder = folder();
    let text = CONFIGURATION.replacen("seed = 3", "seed = 3\nfrom = \"/dev/zero\"", 1);
    let refused = train(&configured(&folder, &text), &path(&folder, "run"));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("error[D020]") && said.contains("larger than 1 GiB"), "{said}");
}

#[test]
fn what_is_wrong_is_refused_with_its_place() {
    let folder = folder();
    let cases = [
        ("steps = 24", "steps = ", "D018", ":5"),
        ("steps = 24", "stepps = 24", "D018", ":5"),
        ("steps = 24", "steps = 0", "D018", "training.toml: steps"),
        ("batch = 2", "batch = 0", "D018", "training.toml: batch"),
        ("steps = 24", "steps = 9223372036854775807", "D018", "training.toml: steps"),
        ("measure_every = 4", "measure_every = 9223372036854775807", "D018", "training.toml: measure_every"),
        ("patience = 100", "patience = 9223372036854775807", "D018", "training.toml: patience"),
        ("count = 6", "count = 1000000000000", "D018", "training.toml: data.count"),
        ("count = 3", "count = 1000000000000", "D018", "training.toml: held_out.count"),
        ("[data]", "[adam]\nwarmup = 9223372036854775807\n[data]", "D018", "training.toml: adam.warmup"),
        ("width = 8\nlayers = 2", "width = 1024\nlayers = 1024", "D018", "training.toml"),
        ("heads = 2", "heads = 3", "D018", "training.toml"),
        ("batch = 2", "batch = 9223372036854775807", "D018", "training.toml: batch"),
        ("seconds = 0.02", "seconds = 1e30", "D018", "training.toml"),
        ("\"imitation\"", "\"intuition\"", "D018", ":3"),
        ("stage = \"imitation\"\n", "", "D018", "training.toml"),
        ("training/1", "training/2", "D018", "training.toml"),
        ("seed = 2", "seed = 1", "D018", "training.toml"),
        ("\"residual-training\"", "\"residuals\"", "D002", "data.recipe.families[1]"),
        ("devices = [2, 3]", "devices = [3, 2]", "D003", "data.recipe.devices"),
        ("seed = 3", "seed = 3\nfrom = \"nowhere.safetensors\"", "D020", "nowhere.safetensors"),
    ];
    for (from, to, code, place) in cases {
        let text = CONFIGURATION.replacen(from, to, 1);
        assert_ne!(text, CONFIGURATION, "{from}");
        let output = train(&configured(&folder, &text), &path(&folder, "run"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{to}: {said}");
        assert!(said.contains(code) && said.contains(place) && said.contains("help:"), "{to}: {said}");
    }
    for (from, field) in [("count = 2", "held_out.count"), ("episodes = 24", "episodes")] {
        let (name, _) = from.split_once(" = ").expect("a field");
        let text = SYSTEM.replacen(from, &format!("{name} = 1000000000000000"), 1);
        assert_ne!(text, SYSTEM, "{from}");
        let said = train(&configured(&folder, &text), &path(&folder, "run"));
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.contains("D018") && said.contains(&format!("training.toml: {field}\n")), "{said}");
    }
    let missing = stagewright(&["train", "nowhere.toml", "--out", &path(&folder, "run")]);
    assert_eq!(missing.status.code(), Some(2));
    let other = stagewright(&[
        "plan",
        "data/demo/model.json",
        "--cluster",
        "data/demo/cluster.toml",
        "--checkpoint",
        "x",
    ]);
    assert!(String::from_utf8_lossy(&other.stderr).contains("U001"));
}
