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

/// A policy that draws a device for every colocation group from the seed of the problem document, in Python.
#[cfg(unix)]
const POLICY: &str = "import json, random, sys\nproblem = json.load(open(sys.argv[1]))\n\
    draw, homes = random.Random(problem['seed']), {}\n\
    place = lambda name: homes.setdefault(name, draw.randrange(len(problem['devices'])))\n\
    operators = problem['graph']['operators']\n\
    print(json.dumps([place(operator.get('colocation', operator['name'])) for operator in operators]))\n";

/// Without the column of times.
#[cfg(unix)]
fn without_times(table: &str) -> String {
    let header = table.lines().find(|line| line.contains(" & time")).expect("a column of times");
    let column = header.split(" & ").position(|cell| cell.starts_with("time")).expect("the column");
    let line = |line: &str| {
        let cells: Vec<&str> = line.split(" & ").collect();
        let kept = cells.iter().enumerate().filter(|(index, _)| cells.len() == 1 || *index != column);
        kept.map(|(_, cell)| *cell).collect::<Vec<_>>().join(" & ")
    };
    table.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(unix)]
#[test]
fn a_table_of_a_paper_is_one_command_and_the_same_again() {
    if Command::new("python3").arg("--version").output().is_err() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let policy = folder.path().join("policy.py");
    std::fs::write(&policy, POLICY).expect("room");
    let models = ["mobilenet-v2", "resnet-50", "vit", "swin-t", "unet"]
        .map(|name| format!("{}/data/models/{name}.onnx.gz", crate::ROOT));
    let solvers = format!("one-device,equal-time,graph-partition,exec:python3 {}", policy.display());
    let compare = |shape: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stagewright"));
        command.arg("compare").args(&models).args(["--cluster", "4xt4:fp32", "--split", "free"]);
        command.args(["--solvers", &solvers, "--seeds", "3", "--time-limit", "none"]);
        let output = command.args(["--threads", "1", shape]).env("SOURCE_DATE_EPOCH", "0").output();
        let output = output.expect("the program starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let table = compare("--latex");
    assert_eq!(without_times(&table), without_times(&compare("--latex")));
    for part in [
        "% command: stagewright compare ",
        "% version: stagewright ",
        ", 1970-01-01T00:00:00Z\n",
        "% cluster: ",
        "4 × gpu",
        "% costs: 100% guessed\n",
        "% seeds: 0, 1, 2: values are means ",
        "\\begin{tabular}{llrrrrrrr}",
        "exec:python3 ",
        "\\bottomrule\n\\end{tabular}\n",
    ] {
        assert!(table.contains(part), "{part} is not in {table}");
    }
    let document: Value = serde_json::from_str(&compare("--json")).expect("JSON");
    assert_eq!(document["seeds"], serde_json::json!([0, 1, 2]));
    let models = document["models"].as_array().expect("models");
    assert_eq!(models.len(), 5);
    let mut intervals = 0;
    for model in models {
        for row in model["rows"].as_array().expect("rows") {
            let name = row["name"].as_str().expect("a name");
            let is_random = name == "graph-partition" || name.starts_with("exec:");
            assert_eq!(row["runs"].as_array().map(Vec::len), is_random.then_some(3), "{name}");
            let Some(runs) = row["runs"].as_array() else { continue };
            let values: Vec<f64> = runs.iter().filter_map(|run| run["value_s"].as_f64()).collect();
            let Some(half) = row["interval_s"].as_f64() else { continue };
            // Student's t for two degrees of freedom.
            let mean = values.iter().sum::<f64>() / 3.0;
            let deviation = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 2.0).sqrt();
            let expected = 4.302_652_729_7 * deviation / 3f64.sqrt();
            assert!((half - expected).abs() <= 1e-9 * mean, "{name}: {half} instead of {expected}");
            assert!((number(row, "value_s") / mean - 1.0).abs() < 1e-12);
            intervals += usize::from(half > 0.0);
            let best = values.into_iter().fold(f64::INFINITY, f64::min);
            assert!(number(model, "best_known_s") <= best);
            assert!(number(model, "bound_s") <= best);
        }
    }
    assert!(intervals >= 5, "seeds change the plans: {intervals}");
    assert_eq!(table.matches(" $\\pm$ ").count(), 10, "{table}");
    assert!(table.matches("\\textbf{").count() >= 5);
}

#[test]
fn seeds_are_a_number_or_a_list() {
    for (given, expected) in [("2", "[0,1]"), ("7,3", "[7,3]"), ("1", "[0]")] {
        let output = compare(&["--json", "--solvers", "dp", "--seeds", given]);
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(document["seeds"].to_string(), expected);
    }
    for wrong in ["0", "a", "1,1", "1001", "-1,2", ""] {
        let option = format!("--seeds={wrong}");
        let output = compare(&["--solvers", "dp", &option]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(text(&output.stderr).starts_with("error[U001]: "), "{}", text(&output.stderr));
    }
}

#[test]
fn an_unsupported_solver_is_a_row_unless_all_are() {
    let compared = |solvers: &str, shape: &str| compare(&["--solvers", solvers, shape, "--threads", "1"]);
    let reason = "solver `heft` does not support objectives other than makespan";
    for shape in ["--json", "--csv", "--markdown", "--latex", "--threads=1"] {
        let output = match shape {
            "--threads=1" => compare(&["--solvers", "heft,one-device", shape]),
            shape => compared("heft,one-device", shape),
        };
        assert!(output.status.success(), "{}", text(&output.stderr));
        let table = text(&output.stdout);
        assert!(table.contains("unsupported"), "{shape}: {table}");
        let reason = if shape == "--markdown" { reason.replace('`', "\\`") } else { reason.to_owned() };
        assert!(table.contains(&reason), "{shape}: {table}");
    }
    let rows = rows(&compared("one-device,heft,dp@free", "--json"));
    let names: Vec<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names, ["one-device", "heft", "dp@free"]);
    assert_eq!(rows[2]["status"], "unsupported");
    let output = compared("heft,brkga", "--json");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()));
    assert!(text(&output.stderr).starts_with(&format!("error[U004]: {reason}")));
    let output = compared("heft,no-such-solver,dp", "--json");
    assert!(text(&output.stderr).starts_with("error[U003]: "));
}

/// The recorded value of an instance is known in addition to the rows, unless the question is another.
#[test]
fn the_library_knows_a_best_value() {
    let compare = |more: &[&str]| {
        let fixed = ["compare", "instance:random-20", "--solvers", "one-device", "--json"];
        let output = run(&[&fixed, more].concat());
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        document["models"][0].clone()
    };
    let model = compare(&[]);
    let value = number(&model["rows"][0], "value_s");
    assert!(number(&model, "recorded_s") < value);
    assert_eq!(model["best_known_s"], model["recorded_s"]);
    let model = compare(&["--split", "free"]);
    assert_eq!(model["recorded_s"], Value::Null);
    assert_eq!(number(&model, "best_known_s"), value);
}
