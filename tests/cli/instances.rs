//! `instances`: the shipped library is verified, and tampered copies of it are refused.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::{code, json, root, run, stderr, stdout};

/// A small free split, with a certificate of column generation.
const CERTIFIED: &str = "random-19-free";
/// A small contiguous split, whose bound `dp` proves.
const REPLAYED: &str = "random-20";
/// A makespan with a bound that needs no search.
const BOUNDED: &str = "random-22-makespan";

/// A copy of the library.
fn copy() -> TempDir {
    let copy = tempfile::tempdir().expect("a folder");
    let from = root().join("data/instances");
    for folder in ["", "plans", "graphs"] {
        fs::create_dir_all(copy.path().join(folder)).expect("room");
        for entry in fs::read_dir(from.join(folder)).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_file() {
                let name = path.strip_prefix(&from).expect("it is below");
                fs::copy(&path, copy.path().join(name)).expect("room");
            }
        }
    }
    copy
}

fn verify(library: &TempDir, names: &[&str]) -> Output {
    let folder = library.path().display().to_string();
    run(&[&["instances", "--library", &folder, "verify"], names].concat())
}

/// Edits the entry of an instance in the index.
fn edit(library: &TempDir, name: &str, change: impl FnOnce(&mut toml::Table)) {
    let path = library.path().join("index.toml");
    let mut index: toml::Table =
        toml::from_str(&fs::read_to_string(&path).expect("an index")).expect("it is TOML");
    let entries = index["instance"].as_array_mut().expect("a list");
    let is_meant = |entry: &&mut toml::Value| entry["name"].as_str() == Some(name);
    let entry = entries.iter_mut().find(is_meant).and_then(toml::Value::as_table_mut).expect("an entry");
    change(entry);
    fs::write(path, toml::to_string(&index).expect("TOML")).expect("room");
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unpacked(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let packed = fs::File::open(path).expect("a file");
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).expect("it is whole");
    bytes
}

/// Changes the plan of an instance; the index gets the digest of the changed plan if `is_careful`.
fn tamper(library: &TempDir, name: &str, is_careful: bool, change: impl FnOnce(&mut Value)) {
    let path = library.path().join(format!("plans/{name}.json.gz"));
    let mut plan: Value = serde_json::from_slice(&unpacked(&path)).expect("a plan");
    change(&mut plan);
    let text = plan.to_string();
    let mut packed = flate2::write::GzEncoder::new(fs::File::create(path).expect("room"), Default::default());
    packed.write_all(text.as_bytes()).expect("room");
    packed.finish().expect("room");
    if is_careful {
        edit(library, name, |entry| {
            entry.insert("plan_sha256".into(), digest(text.as_bytes()).into());
        });
    }
}

#[track_caller]
fn refused(output: &Output, name: &str, refusal: &str) {
    let story = stderr(output);
    assert_eq!(code(output), Some(1), "{story}");
    assert!(story.contains(&format!("error[{refusal}]: ")), "{story}");
    assert!(story.contains(&format!("--> instance {name}\n")), "{story}");
    assert!(stdout(output).contains(&format!("refused: {refusal}")), "{}", stdout(output));
}

fn figure(entry: &toml::Table, field: &str) -> f64 {
    entry[field].as_float().expect("a number")
}

/// Bounds on the makespan of larger steps take up to half a minute each; `instances verify` replays them as well.
#[test]
fn claims_of_the_library_hold() {
    let all = json(&run(&["instances", "list", "--json"]));
    let is_quick = |entry: &&Value| entry["proof"] != "bounds" || entry["operators"].as_u64() < Some(60);
    let is_ours = |entry: &&Value| entry["model"]["published"].is_null();
    let chosen = all.as_array().expect("a list").iter().filter(is_quick).filter(is_ours);
    let names: Vec<&str> = chosen.map(|entry| entry["name"].as_str().expect("a name")).collect();
    let output = run(&[&["instances", "verify", "--json"], &names[..]].concat());
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let verdicts = json(&output);
    let verdicts = verdicts.as_array().expect("a list");
    assert!(verdicts.len() >= 35, "{} instances", verdicts.len());
    assert!(verdicts.iter().all(|verdict| verdict["holds"] == true && verdict["better"].is_null()));
}

#[test]
fn a_copy_is_verified_as_the_library_is() {
    let output = verify(&copy(), &[CERTIFIED, REPLAYED, BOUNDED]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("\n3 verified, 0 refused, in "), "{}", stdout(&output));
}

#[test]
fn a_wrong_digest_is_refused() {
    let library = copy();
    edit(&library, REPLAYED, |entry| {
        entry.insert("model_sha256".into(), "0".repeat(64).into());
    });
    refused(&verify(&library, &[REPLAYED]), REPLAYED, "O003");
    tamper(&library, CERTIFIED, false, |plan| plan["seconds"] = 0.5.into());
    refused(&verify(&library, &[CERTIFIED]), CERTIFIED, "O004");
}

#[test]
fn a_plan_of_another_value_is_refused() {
    let library = copy();
    tamper(&library, CERTIFIED, true, |plan| {
        let value = plan["objective"]["value_s"].as_f64().expect("a value");
        plan["objective"]["value_s"] = (0.99 * value).into();
    });
    refused(&verify(&library, &[CERTIFIED]), CERTIFIED, "O005");
    // The plan is right, and the index claims too much.
    edit(&library, REPLAYED, |entry| {
        let value = figure(entry, "value");
        entry.insert("value".into(), (0.99 * value).into());
        entry.insert("bound".into(), (0.99 * value).into());
    });
    refused(&verify(&library, &[REPLAYED]), REPLAYED, "O005");
}

#[test]
fn a_plan_of_another_placement_is_refused() {
    let library = copy();
    tamper(&library, REPLAYED, true, |plan| {
        let devices = plan["devices"].as_array_mut().expect("devices");
        let moved = devices[0]["ops"].as_array_mut().expect("operators").remove(0);
        let last = devices.last_mut().expect("a device");
        last["ops"].as_array_mut().expect("operators").push(moved);
    });
    refused(&verify(&library, &[REPLAYED]), REPLAYED, "O005");
}

#[test]
fn a_plan_for_another_objective_is_refused() {
    let library = copy();
    edit(&library, REPLAYED, |entry| {
        entry.insert("options".into(), "--split free".into());
    });
    refused(&verify(&library, &[REPLAYED]), REPLAYED, "O005");
}

#[test]
fn a_false_bound_is_refused_whatever_its_proof() {
    let library = copy();
    for name in [CERTIFIED, REPLAYED] {
        // By a part in a million, which leaves the status as it is.
        edit(&library, name, |entry| {
            let bound = figure(entry, "bound");
            entry.insert("bound".into(), (1.000_001 * bound).into());
        });
        refused(&verify(&library, &[name]), name, "O006");
    }
    edit(&library, BOUNDED, |entry| {
        let (value, bound) = (figure(entry, "value"), figure(entry, "bound"));
        assert!(bound < 0.95 * value, "the instance is open");
        entry.insert("bound".into(), (0.5 * (value + bound)).into());
    });
    refused(&verify(&library, &[BOUNDED]), BOUNDED, "O006");
    // A gap is claimed to be none.
    let library = copy();
    edit(&library, BOUNDED, |entry| {
        entry.insert("status".into(), "optimal".into());
    });
    refused(&verify(&library, &[BOUNDED]), BOUNDED, "O006");
}

#[test]
fn a_feasible_instance_is_not_infeasible() {
    let library = copy();
    edit(&library, REPLAYED, |entry| {
        for claim in ["value", "bound", "plan_sha256"] {
            entry.remove(claim);
        }
        entry.insert("status".into(), "infeasible".into());
    });
    refused(&verify(&library, &[REPLAYED]), REPLAYED, "O006");
}

#[test]
fn documents_of_an_instance_can_be_used() {
    let all = json(&run(&["instances", "list", "--json"]));
    let mut entries = all.as_array().expect("a list").iter();
    let entry = entries.find(|entry| entry["name"] == REPLAYED).expect("an entry");
    let model = run(&["instances", "show", REPLAYED, "--model"]);
    assert_eq!(entry["model_sha256"].as_str(), Some(digest(&model.stdout).as_str()));
    let folder = tempfile::tempdir().expect("a folder");
    let plan = folder.path().join("plan.json").display().to_string();
    let shown = run(&["instances", "show", REPLAYED, "--plan", "--out", &plan]);
    assert_eq!(code(&shown), Some(0), "{}", stderr(&shown));
    let checked = run(&["check", &format!("instance:{REPLAYED}"), &plan, "--json"]);
    assert_eq!((code(&checked), json(&checked)["value_s"].as_f64()), (Some(0), entry["value"].as_f64()));
    let planned = run(&["plan", &format!("instance:{REPLAYED}"), "--json"]);
    assert_eq!(json(&planned)["objective"]["value_s"], entry["value"]);
}

#[test]
fn a_question_about_an_instance_is_its_own_by_default() {
    let kind = |options: &[&str]| {
        let output = run(&[&["plan", &format!("instance:{BOUNDED}"), "--json"], options].concat());
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        (json(&output)["objective"]["kind"].clone(), stderr(&output).contains("cannot be compared"))
    };
    assert_eq!(kind(&["--solver", "heft"]), ("makespan".into(), false));
    assert_eq!(kind(&["--solver", "one-device", "--objective", "latency"]), ("latency".into(), true));
    // With the objective of the instance, the solver for splits is refused.
    let output = run(&["compare", &format!("instance:{BOUNDED}"), "--solvers", "dp"]);
    assert!(stderr(&output).starts_with("error[U004]: "), "{}", stderr(&output));
    // A joint plan: the value is that of the library.
    let joint = "llama-3-8b-joint";
    let known = json(&run(&["instances", "list", "--json"]));
    let known = known.as_array().expect("a list").iter().find(|entry| entry["name"] == joint);
    let known = known.and_then(|entry| entry["value"].as_f64()).expect("a value");
    let plan = json(&run(&["plan", &format!("instance:{joint}"), "--json"]));
    let value = plan["objective"]["value_s"].as_f64().expect("a value");
    assert!((value - known).abs() <= 1e-6 * known, "{value}, known {known}");
}

#[test]
fn only_the_best_plan_is_added() {
    let library = copy();
    let folder = library.path().display().to_string();
    let plan = library.path().join("plan.json").display().to_string();
    let add = |plan: &str| {
        let by = ["--by", "a test", "--on", "2026-01-02"];
        run(&[&["instances", "--library", &folder, "add", BOUNDED, plan], &by[..]].concat())
    };
    let model = format!("instance:{BOUNDED}");
    let worse = run(&["plan", &model, "--objective", "makespan", "--solver", "heft", "--out", &plan]);
    assert_eq!(code(&worse), Some(0), "{}", stderr(&worse));
    let output = add(&plan);
    assert!(stderr(&output).starts_with("error[O009]: "), "{}", stderr(&output));
    // An instance without a plan takes any.
    edit(&library, BOUNDED, |entry| {
        for claim in ["value", "bound", "plan_sha256", "status", "found_by"] {
            entry.remove(claim);
        }
    });
    let output = add(&plan);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert_eq!(code(&verify(&library, &[BOUNDED])), Some(0));
    // A plan for another objective is not a plan of the instance.
    let other = ["--objective", "throughput", "--split", "free", "--solver", "one-device"];
    run(&[&["plan", &model], &other[..], &["--out", &plan]].concat());
    let output = add(&plan);
    assert!(stderr(&output).starts_with("error[O005]: "), "{}", stderr(&output));
}

#[test]
fn a_plan_as_good_as_the_best_known_one_leaves_it_in_place() {
    let library = copy();
    let folder = library.path().display().to_string();
    let stored = library.path().join(format!("plans/{CERTIFIED}.json.gz"));
    let add = |plan: &str| {
        let by = ["--by", "a test", "--on", "2026-01-02"];
        run(&[&["instances", "--library", &folder, "add", CERTIFIED, plan], &by[..]].concat())
    };
    let index = || fs::read_to_string(library.path().join("index.toml")).expect("an index");
    let (before, known) = (index(), unpacked(&stored));
    // The same plan, written differently.
    let mut equal: Value = serde_json::from_slice(&known).expect("a plan");
    equal["seconds"] = 0.5.into();
    let plan = library.path().join("plan.json");
    fs::write(&plan, equal.to_string()).expect("room");
    let plan = plan.display().to_string();
    let output = add(&plan);
    let told = stderr(&output);
    assert_eq!(code(&output), Some(0), "{told}");
    assert!(told.contains("as good as the best-known one, found by "), "{told}");
    assert!(told.contains(", which stays in the library"), "{told}");
    assert_eq!(unpacked(&stored), known);
    let entries = |text: &str| toml::from_str::<toml::Table>(text).expect("it is TOML");
    assert_eq!(entries(&index()), entries(&before));
    // It replaces a file that was damaged, and the finder stays.
    tamper(&library, CERTIFIED, false, |plan| plan["seconds"] = 0.25.into());
    let output = add(&plan);
    assert!(stderr(&output).contains("replaces its file, because that is missing"), "{}", stderr(&output));
    assert_eq!(unpacked(&stored), equal.to_string().into_bytes());
    assert!(!index().contains("a test"));
    assert_eq!(code(&verify(&library, &[CERTIFIED])), Some(0));
}

#[test]
fn an_equal_plan_with_a_higher_bound_replaces_the_best_known_one() {
    let library = copy();
    edit(&library, CERTIFIED, |entry| {
        let bound = figure(entry, "bound");
        entry.insert("bound".into(), (0.9 * bound).into());
        entry.insert("status".into(), "open".into());
    });
    let folder = library.path().display().to_string();
    let plan = library.path().join("plan.json");
    let stored = library.path().join(format!("plans/{CERTIFIED}.json.gz"));
    let mut made: Value = serde_json::from_slice(&unpacked(&stored)).expect("a plan");
    made["origin"] =
        serde_json::json!({"version": "0.1.0", "command": "stagewright plan /home/me/secret.onnx"});
    fs::write(&plan, made.to_string()).expect("room");
    let by = ["--by", "a test", "--on", "2026-01-02"];
    let plan = plan.display().to_string();
    let output = run(&[&["instances", "--library", &folder, "add", CERTIFIED, &plan], &by[..]].concat());
    // The command that made the plan may hold private paths.
    let kept: Value = serde_json::from_slice(&unpacked(&stored)).expect("a plan");
    assert_eq!(kept["origin"], serde_json::json!({"version": "0.1.0"}));
    assert_eq!(code(&verify(&library, &[CERTIFIED])), Some(0));
    assert!(stderr(&output).contains("because its certificate proves a higher bound"), "{}", stderr(&output));
    assert!(stdout(&output).ends_with(", optimal\n"), "{}", stdout(&output));
}

#[test]
fn a_day_has_the_form_of_the_index() {
    let library = copy();
    let folder = library.path().display().to_string();
    for day in ["26.11.2026", "2026-11-31", "2026-02-29", "2026-1-2", "2026-11-26T10:00:00", "today", ""] {
        let by = ["--by", "a test", "--on", day];
        let output = run(&[&["instances", "--library", &folder, "add", REPLAYED], &by[..]].concat());
        let told = stderr(&output);
        assert_eq!(code(&output), Some(2), "{told}");
        assert!(told.starts_with("error[U001]: ") && told.contains("--> --on\n"), "{told}");
        assert!(told.contains("YYYY-MM-DD"), "{told}");
    }
}

/// Pins restrict the plans that a bound covers, so a plan with additional pins proves nothing about its instance.
#[test]
fn a_plan_with_pins_of_its_own_is_refused() {
    let library = copy();
    tamper(&library, CERTIFIED, true, |plan| {
        let device = &plan["devices"][0];
        let pins = serde_json::json!({ device["ops"][0].as_str().expect("a name"): device["name"] });
        plan["pins"] = pins;
    });
    refused(&verify(&library, &[CERTIFIED]), CERTIFIED, "O005");
}

#[test]
fn a_proof_by_another_program_is_refused() {
    let library = copy();
    let mark = library.path().join("it-ran").display().to_string();
    edit(&library, REPLAYED, |entry| {
        let proof = toml::Table::from_iter([("solver".to_owned(), format!("exec:touch {mark}").into())]);
        entry.insert("proof".into(), proof.into());
    });
    refused(&verify(&library, &[REPLAYED]), REPLAYED, "O002");
    assert!(!Path::new(&mark).exists());
}

#[test]
fn a_bench_marks_what_beats_the_library() {
    let suite = format!(
        "name = \"x\"\ninputs = [\"instance:{REPLAYED}\", \"instance:random-19-*\"]\nsolvers = [\"auto\"]\n\
         plans = [\"instance:{REPLAYED}:best=best.json\"]\ntime_limit = \"3s\"\n"
    );
    let best = stdout(&run(&["instances", "show", REPLAYED, "--plan"]));
    let folder = super::folder(&[("suite.toml", &suite), ("best.json", &best)]);
    let output = run(&["bench", &super::path(&folder, "suite.toml")]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let table = stdout(&output);
    for name in [REPLAYED, CERTIFIED, "random-19-makespan"] {
        assert!(table.contains(&format!("| instance:{name} |")), "{table}");
    }
    let given = table.lines().find(|line| line.contains("| best ")).expect("a row of the plan");
    assert!(given.contains(REPLAYED), "{table}");
    assert!(!table.contains("new best") && !table.contains("below the bound"), "{table}");
}

#[test]
fn published_files_are_verified_where_they_are() {
    let Some(shared) = std::env::var_os("STAGEWRIGHT_SHARED").filter(|folder| !folder.is_empty()) else {
        return;
    };
    let folder = Path::new(&shared).join("data").display().to_string();
    let names = ["msr-layer-bert24-inference", "iopddl-G", "pipedream-gnmt"];
    let output = run(&[&["instances", "verify", "--published", &folder], &names[..]].concat());
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("digest verified"), "{}", stdout(&output));
}
