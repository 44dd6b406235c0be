//! `compare`: every row equals the result of the solver run alone, in order, with the right baseline and
//! bound.

use std::process::{Command, Output};

use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stagewright")).args(arguments).output().expect("the program starts")
}

fn demo(file: &str) -> String {
    format!("{}/data/demo/{file}", crate::ROOT)
}

/// Compares solvers that end by themselves.
fn compare(more: &[&str]) -> Output {
    compare_within("none", more)
}

fn compare_within(limit: &str, more: &[&str]) -> Output {
    let (model, cluster) = (demo("model.json"), demo("cluster.toml"));
    run(&[&["compare", &model, "--cluster", &cluster, "--time-limit", limit], more].concat())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn rows(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["schema"], "stagewright.comparison/1");
    document["models"][0]["rows"].as_array().expect("rows").clone()
}

fn number(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or_else(|| panic!("{field} of {row}"))
}

#[test]
fn rows_are_what_solvers_say_alone() {
    let output =
        compare(&["--json", "--solvers", "one-device,equal-layers,dp,dp@contiguous", "--threads", "1"]);
    let rows = rows(&output);
    assert_eq!(rows.len(), 4);
    let values: Vec<f64> = rows.iter().map(|row| number(row, "value_s")).collect();
    assert!(values.is_sorted(), "{values:?}");
    let best = values[0];
    let unit = rows.iter().find(|row| row["name"] == "one-device").map(|row| number(row, "value_s"));
    for row in &rows {
        let name = row["name"].as_str().expect("a name");
        let solver = name.split('@').next().expect("a name");
        let (model, cluster) = (demo("model.json"), demo("cluster.toml"));
        let alone = run(&["plan", &model, "--cluster", &cluster, "--json", "--solver", solver]);
        let alone: Value = serde_json::from_slice(&alone.stdout).expect("a plan");
        let value = number(row, "value_s");
        assert_eq!(number(&alone["objective"], "value_s"), value, "{name}");
        assert_eq!(number(row, "speedup"), unit.expect("it takes part") / value, "{name}");
        // The proof of the exact solver is a bound for all rows.
        assert!((number(row, "bound_s") / best - 1.0).abs() < 1e-9, "{name}");
        let gap = (value - number(row, "bound_s")) / value;
        assert!((number(row, "gap") - gap).abs() < 1e-9, "{name}");
        let devices = alone["devices"].as_array().expect("devices");
        let communication: f64 = devices.iter().map(|device| number(device, "communication_s")).sum();
        assert!((number(row, "communication_s") - communication).abs() <= 1e-12, "{name}");
        let busy: f64 = devices.iter().map(|device| number(device, "load_s")).sum();
        let idle = 1.0 - busy / (devices.len() as f64 * value);
        assert!((number(row, "idle_share") - idle.max(0.0)).abs() < 1e-9, "{name}");
    }
}

#[test]
fn given_plans_take_part_and_broken_ones_stand_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (model, cluster) = (demo("model.json"), demo("cluster.toml"));
    let sound = path("model.json");
    assert!(run(&["plan", &model, "--cluster", &cluster, "--out", &sound]).status.success());
    // Swaps the operators of two devices, and claims a wrong value.
    let mut plan: Value =
        serde_json::from_str(&std::fs::read_to_string(&sound).expect("a plan")).expect("JSON");
    let devices = plan["devices"].as_array_mut().expect("devices");
    let first = devices[0]["ops"].clone();
    devices[0]["ops"] = devices[1]["ops"].clone();
    devices[1]["ops"] = first;
    plan["objective"]["value_s"] = 1e-9.into();
    std::fs::write(path("broken.json"), plan.to_string()).expect("room");

    let pattern = format!("given={}", folder.path().join("{}.json").display());
    let broken = format!("broken={}", path("broken.json"));
    let output =
        compare(&["--json", "--solvers", "dp", "--plan", &pattern, "--plan", &broken, "--baseline", "given"]);
    let rows = rows(&output);
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).expect("it takes part");
    let ratio = number(row("given"), "value_s") / number(row("dp"), "value_s");
    assert!((ratio - 1.0).abs() < 1e-9, "{ratio}");
    assert_eq!(row("given")["status"], "given");
    assert_eq!(number(row("given"), "speedup"), 1.0);
    assert_eq!(row("given")["seconds"], Value::Null);
    assert_eq!(row("broken")["status"], "invalid");
    assert_eq!(row("broken")["breaks"], serde_json::json!(["order"]));
    assert!(number(row("broken"), "value_s") > 1e-6, "a claim is not believed");
    assert_eq!(rows.last().map(|row| &row["name"]), Some(&row("broken")["name"]));
}

#[test]
fn the_page_of_a_comparison_names_every_contender() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("page.html");
    let page = path.display().to_string();
    let solvers = ["dp", "one-device", "equal-layers"];
    let output = compare(&["--json", "--solvers", &solvers.join(","), "--html", &page]);
    assert_eq!(rows(&output).len(), solvers.len());
    let page = std::fs::read_to_string(&path).expect("a page");
    let (_, table) = page.split_once("id=\"comparison-table\"").expect("a table of the comparison");
    for solver in solvers {
        assert_eq!(table.matches(&format!("<bdi>{solver}</bdi></th>")).count(), 1, "{solver}");
    }
    // The page title is the name of the model, as in the page of a plan, not the name of its file.
    let other = folder.path().join("plan.html");
    let (model, cluster) = (demo("model.json"), demo("cluster.toml"));
    let of_plan = other.display().to_string();
    assert!(run(&["plan", &model, "--cluster", &cluster, "--html", &of_plan]).status.success());
    let heading = |page: &str| {
        let (_, title) = page.split_once("<title>").expect("a title");
        title.split_once("</title>").expect("its end").0.to_owned()
    };
    assert_eq!(heading(&page), heading(&std::fs::read_to_string(other).expect("a page")));
}

#[test]
fn the_usual_contenders_are_auto_and_the_baselines() {
    // Free splits are searched until the limit, from the contiguous one.
    let rows = rows(&compare_within("2s", &["--json"]));
    let names: Vec<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    for name in ["auto", "auto@free", "one-device", "pipedream", "equal-layers", "equal-time"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).expect("it takes part");
    assert!(number(row("auto@free"), "value_s") <= number(row("auto"), "value_s") * (1.0 + 1e-9));
    assert!(
        number(row("auto@free"), "bound_s") <= number(row("auto"), "bound_s"),
        "less is proved of more plans"
    );
}

/// The plans of one model may be those of no other, and every name is checked before the first solve.
#[test]
fn a_plan_of_one_model_is_a_baseline_for_several() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (cluster, plan, other) = (demo("cluster.toml"), path("plan.json"), path("other.json"));
    std::fs::copy(demo("model.json"), &other).expect("room");
    assert!(run(&["plan", &demo("model.json"), "--cluster", &cluster, "--out", &plan]).status.success());
    let given = format!("model:ref={plan}");
    let models = ["compare", &demo("model.json"), &other, "--cluster", &cluster, "--json", "--plan", &given];
    for more in [&["--solvers", "dp", "--baseline", "ref"][..], &["--solvers", "none"]] {
        let output = run(&[&models, more].concat());
        assert!(output.status.success(), "{more:?}: {}", text(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(document["models"].as_array().map(Vec::len), Some(2), "{more:?}");
    }
    for more in [&["--baseline", "nope"][..], &["--solvers", "nope"]] {
        let output = run(&[&models, more].concat());
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{more:?}");
        assert!(text(&output.stderr).starts_with("error[U00"), "{}", text(&output.stderr));
    }
}
