//! Names designed to manipulate a terminal, a page or a shell, passed through everything that prints names.

use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::run;

/// Escape sequences, line ends, a mark that reverses the writing direction, a character without width, and markup.
const NAME: &str = "a\u{1b}[31m\nINJECTED\u{202e}\u{200b}\r\u{9b}0m<b>|`x";

/// `NAME` as the program shows it.
const SHOWN: &str = r"a\u{1b}[31m\nINJECTED\u{202e}\u{200b}\r\u{9b}0m<b>|`x";

fn named(what: &str) -> String {
    format!("{NAME}{what}")
}

/// A chain of four operators on two devices, in which every name is `NAME` or begins with it.
fn model(seconds: f64, bytes: f64) -> Value {
    let operators: Vec<Value> = (0..4)
        .map(|index| {
            json!({ "name": named(&index.to_string()), "seconds": { NAME: seconds }, "parameter_bytes": bytes,
                    "kind": NAME, "layer": format!("{NAME}.{index}") })
        })
        .collect();
    let tensors: Vec<Value> = (0..3)
        .map(|index| {
            json!({ "producer": named(&index.to_string()), "consumers": [named(&(index + 1).to_string())], "bytes": 1.0 })
        })
        .collect();
    json!({ "schema": "stagewright.graph/1", "name": NAME, "operators": operators, "tensors": tensors, "cluster": {
        "schema": "stagewright.cluster/1", "name": NAME,
        "kinds": [{ "name": NAME, "class": NAME, "count": 2, "memory_bytes": 100.0, "group": named("g"),
                    "link": { "bandwidth": 1.0 } }],
        "groups": [{ "name": named("g"), "uplink": { "bandwidth": 1.0 } }],
    } })
}

fn file(folder: &TempDir, name: &str, document: &Value) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, document.to_string()).expect("there is room");
    path.display().to_string()
}

/// Asserts that all output is text whose only control characters are line ends, and that no name adds a line.
fn assert_harmless(arguments: &[&str], output: &Output) -> String {
    let texts = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8(bytes.clone()).expect("text"));
    for text in &texts {
        let mark = |c| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
        let hidden = |c: char| (c != '\n' && c.is_control()) || mark(c);
        assert!(!text.contains(hidden), "{arguments:?}: {text:?}");
        assert!(!text.lines().any(|line| line.trim_start().starts_with("INJECTED")), "{arguments:?}: {text}");
    }
    texts.concat()
}

/// Runs a command that must print a name, and asserts that it prints the name harmlessly.
fn shown(arguments: &[&str], code: i32) -> String {
    let output = run(arguments);
    let text = assert_harmless(arguments, &output);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
    assert!(text.contains("INJECTED"), "{arguments:?} prints no name: {text}");
    text
}

#[test]
fn tables_of_plans_show_every_character_of_a_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let (good, plan) = (file(&folder, "good.json", &model(1.0, 10.0)), folder.path().join("plan.json"));
    let plan = plan.display().to_string();
    let text = shown(&["plan", &good, "--out", &plan, "--pins", &file(&folder, "p.json", &json!({}))], 0);
    assert!(text.contains(SHOWN), "what can be seen is as it is: {text}");
    shown(&["plan", &good, "--objective", "makespan", "-v"], 0);
    shown(&["plan", &file(&folder, "large.json", &model(1.0, 60.0))], 3);
    shown(&["check", &good, &plan], 0);
    shown(&["explain", &good, &plan], 0);
    shown(&["explain", &good, &plan, "--no-what-if"], 0);
    shown(&["simulate", &good, &plan], 0);
    shown(&["simulate", &good, &plan, "--schedule", "1f1b", "--microbatches", "2"], 0);
    // Names in a plan are covered too: the source of its bound, its devices and its operators.
    let read: Value = serde_json::from_slice(&std::fs::read(&plan).expect("a plan")).expect("JSON");
    assert_eq!(read["devices"][0]["kind"], NAME, "JSON has the names themselves");
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut plan = read.clone();
        change(&mut plan);
        file(&folder, "changed.json", &plan)
    };
    shown(&["check", &good, &changed(&|plan| plan["bound"]["source"] = NAME.into())], 1);
    shown(&["check", &good, &changed(&|plan| plan["devices"][0]["ops"][0] = named("q").into())], 1);
    shown(&["explain", &good, &changed(&|plan| plan["devices"][0]["ops"][0] = named("q").into())], 2);
    shown(&["explain", &good, &changed(&|plan| plan["devices"][0]["name"] = named("q").into())], 2);
}

#[test]
fn errors_show_every_character_of_a_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut model = model(1.0, 10.0);
        change(&mut model);
        file(&folder, "model.json", &model)
    };
    type Change = fn(&mut Value);
    let cases: [(&str, Change); 9] = [
        ("G002", |model| model["operators"][1]["name"] = named("0").into()),
        ("G004", |model| model["operators"][0]["seconds"][NAME] = (-1.0).into()),
        ("G005", |model| model["tensors"][0]["producer"] = named("q").into()),
        ("G007", |model| model["tensors"][2]["consumers"] = json!([named("0")])),
        ("C004", |model| {
            let kind = model["cluster"]["kinds"][0].clone();
            model["cluster"]["kinds"].as_array_mut().expect("kinds").push(kind);
        }),
        ("C005", |model| model["cluster"]["kinds"][0]["group"] = named("q").into()),
        ("F004", |model| model[NAME] = 1.into()),
        ("F005", |model| model["operators"][0]["seconds"][NAME] = NAME.into()),
        ("P001", |model| {
            let kind = model["cluster"]["kinds"][0].as_object_mut().expect("a kind");
            kind.retain(|field, _| !["link", "group"].contains(&field.as_str()));
            model["cluster"]["groups"] = json!([]);
        }),
    ];
    for (code, change) in cases {
        let text = shown(&["plan", &changed(&|model| change(model))], 2);
        assert!(text.starts_with(&format!("error[{code}]")), "{text}");
    }
    let good = changed(&|_| {});
    for (code, pins) in [("P004", json!({ named("q"): NAME })), ("P005", json!({ named("0"): named("q") }))] {
        let text = shown(&["plan", &good, "--pins", &file(&folder, "pins.json", &pins)], 2);
        assert!(text.starts_with(&format!("error[{code}]")), "{text}");
    }
    for (code, typed) in [
        ("I001", &["plan", NAME][..]),
        ("U003", &["plan", &good, "--solver", NAME]),
        ("U005", &["plan", &good, "--format", NAME]),
        ("W001", &["workload", NAME]),
        ("N001", &["devices", NAME]),
        ("U003", &["solvers", NAME]),
        ("U009", &["--explain", NAME]),
    ] {
        let text = shown(typed, 2);
        assert!(text.starts_with(&format!("error[{code}]")), "{text}");
    }
    let unknown = "a\u{1b}[31m\u{202e}b";
    for typed in [&["plan", &good, "--cluster", unknown][..], &["clusters", unknown]] {
        assert!(assert_harmless(typed, &run(typed)).starts_with("error[N001]"));
    }
    shown(&["plan", &good, "--no\u{1b}[31m\u{202e}INJECTED"], 2);
}

#[test]
fn comparisons_and_benches_hold_names_in_markdown_and_plots() {
    let folder = tempfile::tempdir().expect("a folder");
    let stem = NAME.replace('/', "");
    let good = file(&folder, &format!("{stem}.json"), &model(1.0, 10.0));
    let text = shown(&["compare", &good, &good, "--solvers", "dp,one-device"], 0);
    assert!(text.contains("INJECTED"), "{text}");
    let markdown = shown(&["compare", &good, &good, "--solvers", "dp", "--markdown"], 0);
    let mut cells = markdown.lines().filter(|line| line.starts_with('|'));
    assert!(cells.all(|line| !line.replace("\\<", "").replace("\\`", "").contains(['<', '`'])), "{markdown}");
    shown(
        &[
            "compare",
            &file(&folder, "large.json", &model(1.0, 60.0)),
            "--solvers",
            "dp,one-device",
            "--markdown",
        ],
        0,
    );
    let misfit = format!("{NAME}={}/{{}}", folder.path().display());
    std::fs::write(folder.path().join("good"), "no plan").expect("there is room");
    let plain = file(&folder, "good.json", &model(1.0, 10.0));
    shown(&["compare", &plain, "--solvers", "dp", "--plan", &misfit], 0);
    let suite = format!(
        "name = {NAME:?}\ninputs = [\"good.json\"]\nsolvers = [\"dp\", {NAME:?}]\nlook_at = {NAME:?}\n\
         [[variants]]\nname = {NAME:?}\nsolver = \"dpl\"\n"
    )
    .replace("\\u{1b}", "\\u001b")
    .replace("\\u{202e}", "\\u202e")
    .replace("\\u{200b}", "\\u200b")
    .replace("\\u{9b}", "\\u009b");
    std::fs::write(folder.path().join("suite.toml"), suite).expect("there is room");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (plots, written) = (path("plots"), path("table.md"));
    let text = shown(&["bench", &path("suite.toml"), "--plots", &plots, "--out-markdown", &written], 0);
    let written = std::fs::read_to_string(written).expect("a table");
    assert!(text.starts_with(&written), "the file has what is printed");
    assert!(!written.contains("\u{1b}") && written.matches("\\<b>\\|\\`x").count() > 3, "{written}");
    assert!(written.lines().all(|line| !line.starts_with('|') || line.ends_with('|')), "{written}");
    for plot in ["profile.svg", "means.svg"] {
        let drawing = std::fs::read_to_string(Path::new(&plots).join(plot)).expect("a plot");
        let drawing = roxmltree::Document::parse(&drawing).expect("well-formed XML");
        let names = |node: roxmltree::Node<'_, '_>| node.text().is_some_and(|text| text.contains(SHOWN));
        assert!(drawing.descendants().any(names), "{plot} names the solver");
    }
}

#[test]
fn a_model_whose_names_try_everything_is_harmless() {
    let Some(shared) = std::env::var_os("STAGEWRIGHT_SHARED") else {
        eprintln!("skipped: STAGEWRIGHT_SHARED is not set");
        return;
    };
    let model = Path::new(&shared).join("data/hostile/hostile.json").display().to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let plan = folder.path().join("plan.json").display().to_string();
    for arguments in [
        &["plan", &model, "--out", &plan, "-v"][..],
        &["check", &model, &plan],
        &["explain", &model, &plan, "--no-what-if"],
        &["simulate", &model, &plan],
        &["simulate", &model, &plan, "--schedule", "gpipe", "--microbatches", "3"],
        &["bound", &model],
        &["compare", &model, "--solvers", "dp,one-device", "--markdown"],
        &["export", &plan, "--to", "accelerate", "--model", &model],
    ] {
        assert_harmless(arguments, &run(arguments));
    }
}

#[test]
fn a_command_to_paste_has_its_file_in_quotes() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, pasted) in
        [("it's $(touch pwned).pt2", r"it'\''s $(touch pwned).pt2'"), ("plain.pt2", "plain.pt2 ")]
    {
        let path = folder.path().join(name);
        std::fs::write(&path, b"PK\x03\x04 archive_format").expect("there is room");
        let path = path.display().to_string();
        let text = assert_harmless(&["plan", &path], &run(&["plan", &path]));
        let begin =
            if name == "plain.pt2" { "stagewright_exporter.py /" } else { "stagewright_exporter.py '/" };
        assert!(text.contains(begin) && text.contains(pasted), "{text}");
    }
}
