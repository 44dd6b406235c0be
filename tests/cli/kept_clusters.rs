//! Plans keep their cluster: every command reads them without `--cluster`, and says which cluster it used.

use std::process::Output;

use serde_json::{Value, json};

use super::{code, command, demo, folder, json as parsed, path, run, stderr, stdout};

fn read(file: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(file).expect("a plan")).expect("JSON")
}

fn write(file: &str, plan: &Value) {
    std::fs::write(file, plan.to_string()).expect("room");
}

/// A plan of the demo on its cluster.
fn planned(files: &tempfile::TempDir, more: &[&str]) -> (String, String, String) {
    let (model, cluster, plan) = (demo("model.json"), demo("cluster.toml"), path(files, "plan.json"));
    let made = run(&[&["plan", &model, "--cluster", &cluster, "--out", &plan], more].concat());
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    (model, cluster, plan)
}

fn is_done(output: &Output) -> String {
    assert_eq!(code(output), Some(0), "{}{}", stdout(output), stderr(output));
    stdout(output)
}

#[test]
fn a_placement_is_read_without_its_cluster() {
    let files = folder(&[]);
    let (model, cluster, plan) = planned(&files, &["--memory-reserve", "1MiB"]);
    let name = read(&plan)["cluster"]["name"].as_str().expect("a name").to_owned();
    let checked = run(&["check", &model, &plan, "--json"]);
    is_done(&checked);
    assert_eq!(parsed(&checked)["cluster"], json!({"source": "plan", "name": name}));
    assert!(is_done(&run(&["check", &model, &plan])).contains("that of the plan"));
    assert!(is_done(&run(&["explain", &model, &plan, "--no-what-if"])).contains("that of the plan"));
    // The other commands print what they print with the cluster.
    for arguments in
        [&["simulate", &model, &plan, "--json"][..], &["export", &plan, "--model", &model, "--to", "dot"]]
    {
        let without = is_done(&run(arguments));
        assert_eq!(without, is_done(&run(&[arguments, &["--cluster", &cluster]].concat())), "{arguments:?}");
    }
    let given = run(&["check", &model, &plan, "--cluster", &cluster, "--json"]);
    assert_eq!(parsed(&given)["cluster"]["source"], "given");
    assert!(!stderr(&given).contains("was made for"), "{}", stderr(&given));
    // A comparison takes it only if there is no other.
    let mine = format!("mine={plan}");
    let compared = run(&["compare", &model, "--solvers", "none", "--plan", &mine, "--json"]);
    is_done(&compared);
    assert!(stderr(&compared).contains("no cluster is given, so that of"), "{}", stderr(&compared));
}

#[test]
fn a_plan_of_an_earlier_release_needs_its_cluster() {
    let files = folder(&[]);
    let (model, cluster, plan) = planned(&files, &[]);
    let mut old = read(&plan);
    let fields = old.as_object_mut().expect("an object");
    assert!(fields.remove("cluster").is_some() && fields.remove("origin").is_some());
    write(&plan, &old);
    for command in ["check", "explain", "simulate"] {
        let refused = run(&[command, &model, &plan]);
        assert_eq!(code(&refused), Some(2), "{command}");
        assert!(stderr(&refused).contains("error[U002]"), "{}", stderr(&refused));
    }
    is_done(&run(&["check", &model, &plan, "--cluster", &cluster]));
}

#[test]
fn a_check_on_a_forged_cluster_is_about_that_cluster() {
    let files = folder(&[]);
    let (model, cluster, plan) = planned(&files, &[]);
    let mut forged = read(&plan);
    for kind in forged["cluster"]["kinds"].as_array_mut().expect("kinds") {
        kind["memory_bytes"] = json!(1);
    }
    write(&plan, &forged);
    let own = run(&["check", &model, &plan]);
    assert_eq!(code(&own), Some(1), "{}", stderr(&own));
    assert!(
        stdout(&own).contains("that of the plan") && stdout(&own).contains("memory: "),
        "{}",
        stdout(&own)
    );
    // The cluster that is given wins, and a note says that the plan keeps another.
    let given = run(&["check", &model, &plan, "--cluster", &cluster]);
    assert!(is_done(&given).contains("given ("), "{}", stdout(&given));
    assert!(stderr(&given).contains("was made for other devices"), "{}", stderr(&given));
}

#[test]
fn a_comparison_notes_plans_for_other_clusters() {
    let files = folder(&[]);
    let (model, cluster, plan) = planned(&files, &[]);
    let mut forged = read(&plan);
    forged["cluster"]["kinds"][0]["link"]["bandwidth"] = json!(1e9);
    let other = path(&files, "other.json");
    write(&other, &forged);
    let (mine, theirs) = (format!("mine={plan}"), format!("theirs={other}"));
    let words =
        ["compare", &model, "--cluster", &cluster, "--solvers", "none", "--plan", &mine, "--plan", &theirs];
    let compared = run(&words);
    is_done(&compared);
    let said = stderr(&compared);
    assert_eq!(said.matches("was made for other devices").count(), 1, "{said}");
    assert!(said.contains(&format!("note: {other} was made for other devices")), "{said}");
}

#[test]
fn an_invalid_cluster_of_a_plan_is_refused_as_one_of_a_file() {
    let files = folder(&[]);
    let (model, _, plan) = planned(&files, &[]);
    let kept = read(&plan);
    let defects: [(&str, &str, Value, &str); 7] = [
        ("", "kinds", json!([]), "kinds"),
        ("/kinds/0", "count", json!(4_000_000_000_u32), "kinds"),
        ("/kinds/0", "name", json!(""), "kinds[0].name"),
        ("/kinds/0", "name", kept["cluster"]["kinds"][1]["name"].clone(), "kinds[1].name"),
        ("/kinds/0", "group", json!("nowhere"), "kinds[0].group"),
        ("/kinds/0", "link", json!({"bandwidth": -1.0}), "kinds[0].link.bandwidth"),
        ("/kinds/0", "memory_bytes", json!(-1.0), "kinds[0].memory_bytes"),
    ];
    for (within, field, value, place) in defects {
        let mut cluster = kept["cluster"].clone();
        cluster.pointer_mut(within).expect("a part")[field] = value;
        let file = path(&files, "cluster.json");
        write(&file, &cluster);
        let of_file = run(&["plan", &model, "--cluster", &file]);
        let error = stderr(&of_file).lines().next().unwrap_or_default().to_owned();
        assert!(error.starts_with("error[C"), "{error}");
        let mut forged = kept.clone();
        forged["cluster"] = cluster;
        write(&plan, &forged);
        for command in [&["check", &model, &plan][..], &["export", &plan, "--model", &model, "--to", "dot"]] {
            let refused = run(command);
            assert_eq!(code(&refused), Some(2), "{place}: {}", stdout(&refused));
            assert_eq!(stderr(&refused).lines().next(), Some(&*error), "{place}");
            assert!(
                stderr(&refused).contains(&format!("--> {plan}: cluster.{place}\n")),
                "{}",
                stderr(&refused)
            );
        }
    }
}

#[test]
fn a_model_with_a_cluster_of_its_own_is_trusted_before_the_plan() {
    let cluster = |count: u32| {
        let kind = json!({"name": "gpu", "class": "gpu", "count": count, "memory_bytes": 1e10,
                          "link": {"bandwidth": 1e9}});
        json!({"schema": "stagewright.cluster/1", "name": format!("{count} devices"), "kinds": [kind]})
    };
    let model = json!({"schema": "stagewright.graph/2", "cluster": cluster(2), "operators": [
        {"name": "a", "seconds": {"gpu": 1.0}, "parameter_bytes": 4.0},
        {"name": "b", "seconds": {"gpu": 1.0}, "parameter_bytes": 4.0}]});
    let files = folder(&[("model.json", &model.to_string()), ("three.json", &cluster(3).to_string())]);
    let (model, three, plan) =
        (path(&files, "model.json"), path(&files, "three.json"), path(&files, "plan.json"));
    is_done(&run(&["plan", &model, "--out", &plan]));
    assert_eq!(parsed(&run(&["check", &model, &plan, "--json"]))["cluster"]["source"], "model");
    is_done(&run(&["plan", &model, "--cluster", &three, "--out", &plan]));
    let checked = run(&["check", &model, &plan, "--json"]);
    assert_eq!(parsed(&checked)["cluster"]["source"], "model");
    assert!(stderr(&checked).contains("was made for other devices"), "{}", stderr(&checked));
}

#[test]
fn a_joint_plan_says_which_cluster_it_was_checked_for() {
    let files = folder(&[]);
    let (graph, plan, page) =
        (path(&files, "llama.json"), path(&files, "plan.json"), path(&files, "page.html"));
    let words =
        "workload llama --variant 3-8b --layers 2 --sequence 512 --training --batch 1 --precision bf16 --out";
    is_done(&run(&words.split(' ').chain([&*graph]).collect::<Vec<_>>()));
    let words = "--cluster 16xh100 --parallel tp,dp,pp --global-batch 32 --memory-reserve 2GiB --out";
    let asked: Vec<&str> = words.split(' ').chain([&*plan, "--html", &page]).collect();
    let table = is_done(&run(&[&["plan", &graph], &asked[..]].concat()));
    assert!(table.contains("costs ") && table.contains(" tokens per second"), "{table}");
    let document = read(&plan);
    let shares = document["sources"].as_object().expect("shares").values().filter_map(Value::as_f64);
    assert!((shares.sum::<f64>() - 1.0).abs() < 1e-9, "{document}");
    let page = std::fs::read_to_string(page).expect("a page");
    for part in ["<dt>costs</dt>", "<dt>command</dt>", "memory reserve 2.0 GiB", "id=\"origin-table\""] {
        assert!(page.contains(part), "{part} is not in the page");
    }
    assert!(is_done(&run(&["check", &graph, &plan])).contains("that of the plan (16xh100)"));
    let given = run(&["check", &graph, &plan, "--cluster", "16xh100"]);
    assert!(is_done(&given).contains("given (16xh100)"));
    assert!(!stderr(&given).contains("was made for"), "{}", stderr(&given));
    let other = run(&["check", &graph, &plan, "--cluster", "16xa100"]);
    assert_eq!(code(&other), Some(1));
    assert!(stderr(&other).contains("was made for other devices"), "{}", stderr(&other));
    let mut old = document;
    old.as_object_mut().expect("an object").remove("cluster");
    write(&plan, &old);
    assert!(stderr(&run(&["check", &graph, &plan])).contains("error[U002]"));
}

#[test]
fn a_page_and_a_document_say_where_they_come_from() {
    let files = folder(&[]);
    let (model, cluster) = (demo("model.json"), demo("cluster.toml"));
    let [page, plan] = ["page.html", "plan.json"].map(|name| path(&files, name));
    let words = ["plan", &model, "--cluster", &cluster, "--whole-layers", "--out", &plan, "--html", &page];
    let made = command(&words).env("SOURCE_DATE_EPOCH", "86400").output().expect("the program starts");
    let table = is_done(&made);
    assert!(table.contains("\ncosts "), "{table}");
    let origin = &read(&plan)["origin"];
    assert_eq!(
        (&origin["date"], &origin["version"]),
        (&json!("1970-01-02T00:00:00Z"), &json!(env!("CARGO_PKG_VERSION")))
    );
    let called = origin["command"].as_str().expect("a command");
    assert!(called.starts_with("stagewright plan ") && called.contains(" --whole-layers "), "{called}");
    let page = std::fs::read_to_string(&page).expect("a page");
    for part in ["<dt>costs</dt>", "1970-01-02T00:00:00Z", "<bdi>whole layers</bdi>", "id=\"origin-table\""] {
        assert!(page.contains(part), "{part} is not in the page");
    }
    let wrong = command(&words).env("SOURCE_DATE_EPOCH", "today").output().expect("the program starts");
    assert_eq!(code(&wrong), Some(2));
    assert!(stderr(&wrong).contains("SOURCE_DATE_EPOCH"), "{}", stderr(&wrong));
}

#[test]
fn the_page_of_a_comparison_has_the_origin_of_the_comparison() {
    let files = folder(&[]);
    let (model, cluster, page) = (demo("model.json"), demo("cluster.toml"), path(&files, "page.html"));
    let plan = path(&files, "plan.json");
    let words = ["plan", &model, "--cluster", &cluster, "--whole-layers", "--out", &plan];
    is_done(&command(&words).env("SOURCE_DATE_EPOCH", "86400").output().expect("the program starts"));
    let mine = format!("mine={plan}");
    let words =
        ["compare", &model, "--cluster", &cluster, "--solvers", "none", "--plan", &mine, "--html", &page];
    is_done(&command(&words).env("SOURCE_DATE_EPOCH", "172800").output().expect("the program starts"));
    let page = std::fs::read_to_string(&page).expect("a page");
    for part in ["stagewright compare ", "1970-01-03T00:00:00Z", "<dt>plan</dt>", "id=\"origin-table\""] {
        assert!(page.contains(part), "{part} is not in the page");
    }
    for part in ["stagewright plan ", "1970-01-02T00:00:00Z", "<dt>solved in</dt>", "<dt>seed</dt>"] {
        assert!(!page.contains(part), "{part} is in the page");
    }
    for name in ["command", "version", "cluster", "costs"] {
        assert_eq!(page.matches(&format!("<dt>{name}</dt>")).count(), 1, "{name}");
    }
}
