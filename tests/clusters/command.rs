//! Built-in clusters on the command line.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use stagewright::clusters::{devices, names, shorthand};
use stagewright::formats::import_cluster;

fn stagewright(arguments: &[&str], at: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stagewright"))
        .args(arguments)
        .current_dir(at)
        .output()
        .expect("the program starts")
}

fn model() -> String {
    format!("{}/data/demo/model.json", env!("CARGO_MANIFEST_DIR"))
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
    let (model, at) = (model(), folder.path());
    let plan =
        json(&stagewright(&["plan", &model, "--cluster", "8xA100", "--json", "--out", "plan.json"], at));
    assert_eq!(plan["status"], "optimal");
    assert_eq!(plan["devices"][0]["kind"], "gpu");
    assert!(plan["devices"].as_array().is_some_and(|devices| devices.len() <= 8));
    let check =
        |cluster: &str| stagewright(&["check", &model, "plan.json", "--cluster", cluster, "--json"], at);
    let report = json(&check("8xa100"));
    assert_eq!(report["holds"], true);
    // Slower devices make the claimed value wrong: the named cluster is the one that is checked.
    assert_eq!(check("8xt4").status.code(), Some(1));
    // The written cluster is the one that was planned for.
    assert_eq!(stagewright(&["convert", "8xa100", "cluster.toml"], at).status.code(), Some(0));
    assert_eq!(json(&check("cluster.toml")), report);
}

/// Every named cluster and every device accepts the demo, as far as it has a roofline for it.
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

#[test]
fn what_is_no_cluster_says_so_and_exits_with_2() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let model = model();
    let cases: &[(&[&str], &str)] = &[
        (&["plan", &model, "--cluster", "8xb100"], "error[N001]: unknown cluster or device `b100`"),
        (&["plan", &model, "--cluster", "missing"], "error[N001]"),
        (&["plan", &model, "--cluster", "missing.toml"], "error[I001]"),
        (&["plan", &model, "--cluster", "./8xa100"], "error[I001]"),
        (&["plan", &model, "--cluster", "4xt4:bf16"], "error[N005]"),
        (&["convert", "8xb100", "-"], "error[N001]"),
        (&["convert", "missing", "-"], "error[I001]"),
        (&["convert", "8xa100", "-", "--plan-of", &model], "error[I001]"),
        (&["convert", "8xa100", "-", "--to", "reference"], "error[U005]"),
    ];
    for (arguments, start) in cases {
        let output = stagewright(arguments, folder.path());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).starts_with(start), "{arguments:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
    }
}
