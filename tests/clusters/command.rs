//! Built-in clusters on the command line.

#![expect(clippy::print_stdout, reason = "a skipped test says so")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use stagewright::clusters::{devices, names, shorthand};
use stagewright::formats::import_cluster;

fn stagewright(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stagewright"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the program starts")
}

fn model() -> String {
    format!("{}/data/demo/model.json", crate::ROOT)
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("output is text")
}

fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

#[test]
fn the_demo_on_a_shorthand_is_planned_and_checked() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let (model, place) = (model(), folder.path());
    let plan =
        json(&stagewright(&["plan", &model, "--cluster", "8xA100", "--json", "--out", "plan.json"], place));
    assert_eq!(plan["status"], "optimal");
    assert_eq!(plan["devices"][0]["kind"], "gpu");
    assert!(plan["devices"].as_array().is_some_and(|devices| devices.len() <= 8));
    let check =
        |cluster: &str| stagewright(&["check", &model, "plan.json", "--cluster", cluster, "--json"], place);
    let report = json(&check("8xa100"));
    assert_eq!(report["holds"], true);
    // With slower devices the claimed value is wrong, which shows that the named cluster is the one that is checked.
    assert_eq!(check("8xt4").status.code(), Some(1));
    // The written cluster is the one for which the model was planned.
    assert_eq!(stagewright(&["convert", "8xa100", "cluster.toml"], place).status.code(), Some(0));
    assert_eq!(json(&check("cluster.toml")), report);
}

/// Every named cluster and every device prices the demo by a roofline, so a bound can be computed.
#[test]
fn the_demo_can_be_bounded_on_every_cluster() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let model = model();
    let devices = devices().iter().map(|device| device.name.as_str());
    for name in names().chain(devices) {
        let output = stagewright(&["bound", &model, "--cluster", name, "--json"], folder.path());
        assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output.stderr));
    }
}

#[test]
fn a_shorthand_and_a_name_are_written_out_and_read_back() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    for name in ["8xv100:fp32@nvlink", "4xt4+1xepyc-7742", "two-dgx-a100-hdr"] {
        for file in ["cluster.toml", "cluster.json"] {
            let output = stagewright(&["convert", name, file], folder.path());
            assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output.stderr));
            let bytes = fs::read(folder.path().join(file)).expect("it was written");
            let written = import_cluster(file, &bytes).expect("it is a cluster");
            assert_eq!(Ok(written), stagewright::clusters::find(name), "{name} as {file}");
        }
    }
    let embedded = stagewright(&["convert", &model(), "-", "--cluster", "2xt4"], folder.path());
    assert_eq!(json(&embedded)["cluster"]["kinds"][0]["count"], 2);
}

#[test]
fn a_file_goes_before_a_name() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let mut own = shorthand("2xt4").expect("there is one");
    own.name = "mine".into();
    let own = stagewright::formats::write_cluster(&own, stagewright::formats::Notation::Toml);
    fs::write(folder.path().join("dgx-a100"), own).expect("there is room for a file");
    fs::create_dir(folder.path().join("dgx-h100")).expect("there is room for a folder");
    let name = |cluster: &str| {
        let output = stagewright(&["convert", cluster, "-", "--to", "json"], folder.path());
        json(&output)["name"].as_str().map(str::to_owned)
    };
    assert_eq!(name("dgx-a100").as_deref(), Some("mine"));
    assert_eq!(name("dgx-h100").as_deref(), Some("dgx-h100"), "a folder is no cluster");
    let plan = stagewright(&["plan", &model(), "--cluster", "dgx-a100", "--json"], folder.path());
    assert!(json(&plan)["devices"].as_array().is_some_and(|devices| devices.len() <= 2));
}

#[test]
fn a_suite_may_name_clusters() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let suite = format!(
        "name = \"names\"\ninputs = [{:?}]\nclusters = [\"2xt4\", \"four-p100\"]\nsolvers = [\"one-device\"]\n",
        model()
    );
    fs::write(folder.path().join("suite.toml"), suite).expect("there is room for a file");
    let output = stagewright(&["bench", "suite.toml", "--out-csv", "table.csv"], folder.path());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let table = fs::read_to_string(folder.path().join("table.csv")).expect("it was written");
    assert!(table.contains("2xt4") && table.contains("four-p100"), "{table}");
}

/// Four operators of 1.8 MB in a chain, measured on a class.
fn small_model(class: &str) -> String {
    let names = ["a", "b", "c", "d"];
    let operators =
        names.map(|name| json!({"name": name, "seconds": {class: 1e-3}, "parameter_bytes": 1.8e6}));
    let tensors: Vec<Value> = names
        .windows(2)
        .map(|pair| json!({"producer": pair[0], "consumers": [pair[1]], "bytes": 1000.0}))
        .collect();
    json!({"schema": "stagewright.graph/2", "operators": operators, "tensors": tensors}).to_string()
}

/// The default reserve used to be at least 1 GiB, which is more than these devices have.
#[test]
fn a_device_smaller_than_a_gibibyte_fits_what_it_has_room_for() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let place = folder.path();
    let file = "schema = \"stagewright.cluster/1\"\n[[kinds]]\nname = \"small\"\nclass = \"edge-tpu\"\ncount = 2\n\
                memory_bytes = \"8MB\"\nlink = { bandwidth = 5e8 }\n";
    fs::write(place.join("small.toml"), file).expect("there is room for a file");
    fs::write(place.join("model.json"), small_model("edge-tpu")).expect("there is room for a file");
    for cluster in ["1xedge-tpu", "2xcoral@usb", "coral-chain", "small.toml"] {
        let plan = |more: &[&str]| {
            stagewright(&[&["plan", "model.json", "--cluster", cluster, "--json"], more].concat(), place)
        };
        let by_default = json(&plan(&["--out", "plan.json"]));
        let without = json(&plan(&["--memory-reserve", "none"]));
        assert_eq!(by_default["status"], "optimal", "{cluster}");
        assert_eq!(by_default["objective"]["value_s"], without["objective"]["value_s"], "{cluster}");
        let checked = stagewright(&["check", "model.json", "plan.json", "--cluster", cluster], place);
        assert_eq!(checked.status.code(), Some(0), "{cluster}: {}", text(&checked.stdout));
        let too_much = plan(&["--memory-reserve", "1GiB"]);
        assert_eq!(too_much.status.code(), Some(3), "{cluster}");
        assert!(
            text(&too_much.stdout).contains("give a smaller --memory-reserve"),
            "{}",
            text(&too_much.stdout)
        );
    }
}

/// The memory that a diagnosis reports as sufficient also suffices in a cluster file, with the default reserve for that
/// memory.
#[test]
fn memory_that_is_said_to_suffice_does() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let place = folder.path();
    let model = small_model("gpu").replace("1800000.0", "10e9");
    fs::write(place.join("model.json"), model).expect("there is room for a file");
    let with = |memory: &str| {
        let file = format!(
            "schema = \"stagewright.cluster/1\"\n[[kinds]]\nname = \"gpu\"\nclass = \"gpu\"\ncount = 1\n\
             memory_bytes = \"{memory}\"\nlink = {{ bandwidth = 1e9 }}\n"
        );
        fs::write(place.join("cluster.toml"), file).expect("there is room for a file");
        stagewright(&["plan", "model.json", "--cluster", "cluster.toml", "--json"], place)
    };
    for memory in ["512MiB", "16GiB"] {
        let refused = with(memory);
        assert_eq!(refused.status.code(), Some(3), "{memory}");
        let plan: Value = serde_json::from_slice(&refused.stdout).expect("it is JSON");
        let reason = plan["reason"].as_str().expect("there is one");
        let enough = reason.split("feasible with ").nth(1).and_then(|rest| rest.split(" on each").next());
        let enough = enough.unwrap_or_else(|| panic!("{reason}")).replace(' ', "");
        // 40 GB, plus a reserve of 6% of the memory.
        let gib: f64 = enough.trim_end_matches("GiB").parse().expect("a number");
        assert!((39.6..39.9).contains(&gib), "{reason}");
        assert_eq!(with(&enough).status.code(), Some(0), "{memory}: {enough}");
    }
}

/// Path of a reported case in `STAGEWRIGHT_SHARED`. If that is not set, prints a message and returns `None`.
fn reported(case: &str) -> Option<String> {
    let Some(shared) = std::env::var_os("STAGEWRIGHT_SHARED") else {
        println!("skipped: STAGEWRIGHT_SHARED is not set");
        return None;
    };
    Some(Path::new(&shared).join("data/reports").join(case).join("model.json").display().to_string())
}

#[test]
fn a_chain_of_edge_tpus_has_a_plan_by_default() {
    let Some(model) = reported("05-reserve-of-small-devices") else { return };
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let plan = ["plan", &model, "--cluster", "4xedge-tpu", "--threads", "1"];
    let plan = json(&stagewright(&[&plan[..], &["--json"]].concat(), folder.path()));
    assert_eq!(plan["status"], "optimal");
    assert!(plan["objective"]["value_s"].as_f64().is_some_and(|value| (value - 8.3e-3).abs() < 5e-8));
    let operators = plan["devices"].as_array().expect("devices").iter();
    let operators: Vec<usize> =
        operators.map(|device| device["ops"].as_array().map_or(0, Vec::len)).collect();
    assert_eq!(operators, [2, 5, 2, 3]);
}

/// A card sold with 24 GB has 24576 MiB.
#[test]
fn two_graphics_cards_hold_what_people_run_on_them() {
    let Some(model) = reported("07-memory-of-graphics-cards") else { return };
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let plan = ["plan", &model, "--cluster", "2xrtx-3090", "--whole-layers", "--threads", "1", "--json"];
    let plan = json(&stagewright(&plan, folder.path()));
    assert_eq!(plan["status"], "optimal");
    assert!(plan["objective"]["value_s"].as_f64().is_some_and(|value| (value - 24.414e-3).abs() < 5e-7));
}
