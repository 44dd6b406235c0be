//! Local plans from GGUF files, with forged claims and lines that do not fit.

use serde_json::Value;

use super::{code, folder, path, root, run, stderr, stdout};

const MACHINE: &str = "1xrtx-3090+1xrtx-3060:12GiB+1xryzen-7950x:64GiB";

fn model(name: &str) -> String {
    root().join("tests/fuzz/seeds/gguf").join(name).display().to_string()
}

fn refused(words: &[&str], part: &str) {
    let output = run(words);
    assert_eq!(code(&output), Some(2), "{words:?}: {}", stdout(&output));
    assert!(stderr(&output).contains(part), "{part} is not in {}", stderr(&output));
}

#[test]
fn plans_of_files_are_proved_checked_explained_and_exported() {
    let files = folder(&[]);
    let plan = path(&files, "plan.json");
    for file in ["llama.gguf", "experts.gguf"] {
        let model = model(file);
        for goal in [&["--context", "512"][..], &["--prompt", "200", "--output", "50"]] {
            let question =
                [&["plan", &model, "--local", "--cluster", MACHINE, "--out", &plan], goal].concat();
            let output = run(&question);
            assert_eq!(code(&output), Some(0), "{}", stderr(&output));
            let text = std::fs::read_to_string(&plan).expect("a plan");
            let document: Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!((&document["status"], &document["gap"]), (&"optimal".into(), &0.0.into()));
            let checked = run(&["check", &model, &plan]);
            assert_eq!(code(&checked), Some(0), "{}", stdout(&checked));
            assert!(stdout(&checked).contains(": verified"), "{}", stdout(&checked));
            let explained = run(&["explain", &model, &plan]);
            assert!(stdout(&explained).contains("what if"), "{}", stderr(&explained));
            for target in ["llama-server", "llama-cli", "llama-bench", "ik_llama.cpp"] {
                let line = run(&["export", &plan, "--to", target]);
                assert!(stdout(&line).contains("-c 512") || target != "llama-server" || goal.len() > 2);
                assert_eq!(code(&line), Some(0), "{target}: {}", stderr(&line));
            }
        }
    }
}

#[test]
fn plans_and_comparisons_have_a_page() {
    let files = folder(&[]);
    let page = path(&files, "page.html");
    let model = model("experts.gguf");
    for (command, machine) in [("plan", MACHINE), ("compare", MACHINE), ("plan", "1xryzen-7950x:64GiB")] {
        let output =
            run(&[command, &model, "--local", "--cluster", machine, "--context", "512", "--html", &page]);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        let text = std::fs::read_to_string(&page).expect("a page");
        assert!(text.contains("<code>llama-server -dev "), "{command}: {text}");
        assert_eq!(text.contains("id=\"comparison-table\""), command == "compare");
        std::fs::remove_file(&page).expect("a page");
    }
    let small = ["--cluster", "1xryzen-7950x:2.01GiB", "--context", "512", "--html", &page];
    let output = run(&[&["plan", &model, "--local"], &small[..]].concat());
    assert_eq!(code(&output), Some(3), "{}", stderr(&output));
    assert!(std::fs::read_to_string(&page).expect("a page").contains("infeasibility is proved"));
}

/// A value, a bound and memory that the line does not have, and a line that was changed after its plan.
#[test]
fn forged_claims_are_refused() {
    let files = folder(&[]);
    let (plan, forged) = (path(&files, "plan.json"), path(&files, "forged.json"));
    let model = model("experts.gguf");
    let done = run(&["plan", &model, "--local", "--cluster", MACHINE, "--context", "512", "--out", &plan]);
    assert_eq!(code(&done), Some(0), "{}", stderr(&done));
    let text = std::fs::read_to_string(&plan).expect("a plan");
    let honest: Value = serde_json::from_str(&text).expect("JSON");
    let value = honest["objective"]["value_s"].as_f64().expect("a value");
    let forgeries: [&dyn Fn(&mut Value); 9] = [
        &|plan| plan["gap"] = 0.5.into(),
        &|plan| plan["status"] = "infeasible".into(),
        &|plan| plan["bound"]["value_s"] = Value::Null,
        &|plan| plan["objective"]["value_s"] = Value::Null,
        &|plan| plan["options"]["context"] = 1024.into(),
        &|plan| plan["objective"]["value_s"] = (0.9 * value).into(),
        &|plan| plan["bound"]["value_s"] = (1.1 * value).into(),
        &|plan| plan["setting"]["host"]["weights"] = 1.into(),
        &|plan| plan["setting"]["flags"] = "-dev CUDA1 -ngl 1 -c 512 -np 1".into(),
    ];
    for forge in forgeries {
        let mut document = honest.clone();
        forge(&mut document);
        std::fs::write(&forged, document.to_string()).expect("room");
        let checked = run(&["check", &model, &forged]);
        assert_eq!(code(&checked), Some(1), "{}{}", stdout(&checked), stderr(&checked));
    }
}

#[test]
fn lines_are_judged() {
    let model = model("experts.gguf");
    let check = |machine: &str, flags: &str| {
        run(&["check", &model, "--local", "--cluster", machine, "--json", "--flags", flags])
    };
    let fits = check(MACHINE, "-ngl 99 -ncmoe 1 -c 512 -np 1");
    assert_eq!(code(&fits), Some(0), "{}", stderr(&fits));
    let report: Value = serde_json::from_str(&stdout(&fits)).expect("JSON");
    assert!(report["behind"].as_f64().is_some_and(|behind| behind > 0.0), "{report}");
    let small = check("1xrtx-3090:0.55GiB+1xryzen-7950x:64GiB", "-ngl 99 -c 512 -np 1");
    assert_eq!(code(&small), Some(1), "{}", stderr(&small));
    assert!(stdout(&small).contains("CUDA0 lacks"), "{}", stdout(&small));
}

/// A chip with one memory runs all layers on its GPU, or none fits.
#[test]
fn one_memory_is_shared() {
    let model = root().join("data/structures/qwen3-30b-a3b-q4_k_m.json.gz").display().to_string();
    let plan = |memory: &str| {
        let machine = format!("1xm2-ultra:{memory}");
        run(&["plan", &model, "--local", "--cluster", &machine, "--context", "4096", "--json"])
    };
    let fits: Value = serde_json::from_str(&stdout(&plan("24GiB"))).expect("JSON");
    assert_eq!(fits["setting"]["devices"][0]["slots"], serde_json::json!([0, 49]));
    for memory in ["17GiB", "1GiB"] {
        let output = plan(memory);
        assert_eq!(code(&output), Some(3), "{memory}: {}", stderr(&output));
    }
}

#[test]
fn wrong_questions_have_a_place() {
    let experts = model("experts.gguf");
    let plan = |more: &[&str]| {
        [&["plan", &experts, "--local"], more]
            .concat()
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<_>>()
    };
    let check = |words: Vec<String>, part: &str| {
        refused(&words.iter().map(String::as_str).collect::<Vec<_>>(), part);
    };
    check(plan(&[]), "error[U002]");
    check(plan(&["--cluster", "1xrtx-3090"]), "error[L010]");
    check(plan(&["--cluster", MACHINE, "--prompt", "0", "--output", "1"]), "error[U001]");
    check(plan(&["--cluster", MACHINE, "--prompt", "5"]), "--output");
    check(plan(&["--cluster", MACHINE, "--goal", "prefill"]), "--prompt");
    check(plan(&["--cluster", MACHINE, "--cache", "none"]), "--cache");
    check(plan(&["--cluster", MACHINE, "--cache", "fp8"]), "error[U001]");
    check(plan(&["--cluster", MACHINE, "--context", "0"]), "error[U001]");
    check(plan(&["--cluster", MACHINE, "--context", "16", "--prompt", "20", "--output", "1"]), "error[U001]");
    check(
        plan(&["--cluster", MACHINE, "--goal", "prefill", "--prompt", "5", "--output", "5"]),
        "error[U013]",
    );
    check(plan(&["--cluster", "1xm2-ultra+1xrtx-3090+1xryzen-7950x:64GiB"]), "error[L010]");
    check(plan(&["--cluster", MACHINE, "--phase", "decode"]), "error[U013]");
    check(plan(&["--cluster", MACHINE, "--split", "free"]), "error[U013]");
    for option in ["--memory-limit=8GiB", "--seed=0", "--threads=1", "--format=language"] {
        check(plan(&["--cluster", MACHINE, option]), "error[U013]");
    }
    refused(&["compare", &experts, "--local", "--cluster", MACHINE, "--seeds", "2"], "--seeds");
    let flags = ["check", &experts, "--local", "--cluster", MACHINE, "--flags", "-ngl many"];
    refused(&flags, "error[L007]");
    let configuration = root().join("data/configurations/llama-3.1-8b").display().to_string();
    refused(&["plan", &configuration, "--local", "--cluster", MACHINE], "error[F006]");
    refused(
        &["plan", &configuration, "--local", "--cluster", MACHINE],
        "plan without --local, with whole layers",
    );
}
