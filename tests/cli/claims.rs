//! Plans whose documents name something that does not exist: `check` accepts none of them.

use serde_json::{Value, json};

use super::{code, demo, folder, json as parsed, path, run, stderr, stdout};

/// A place of a document, a nonexistent name there, and the exit code of `check`.
type Case = (&'static [&'static str], i32);

/// Cases of every plan document.
const OF_ALL: [Case; 4] = [(&["bound", "source"], 1), (&["stop"], 1), (&["status"], 2), (&["schema"], 2)];

/// Changes one place of a plan after the other. `of_check` are the options of `check`.
fn refused(arguments: &[&str], of_check: &[&str], more: &[Case]) {
    let files = folder(&[]);
    let plan = path(&files, "plan.json");
    let made = run(&[&["plan"], arguments, &["--out", &plan]].concat());
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    let check = || run(&[&["check", arguments[0], &plan], of_check].concat());
    assert_eq!(code(&check()), Some(0), "{}", stderr(&check()));
    let whole: Value = serde_json::from_str(&std::fs::read_to_string(&plan).expect("a plan")).expect("JSON");
    for (place, exit) in OF_ALL.iter().chain(more) {
        let mut changed = whole.clone();
        *place.iter().fold(&mut changed, |part, &name| &mut part[name]) = json!("no-such-name");
        std::fs::write(&plan, changed.to_string()).expect("room");
        let checked = check();
        assert_eq!(code(&checked), Some(*exit), "{place:?}: {}{}", stdout(&checked), stderr(&checked));
        let (said, what) = match exit {
            1 => (
                stdout(&checked).split_whitespace().collect::<Vec<_>>().join(" "),
                "`no-such-name`, which does not exist",
            ),
            _ => (stderr(&checked), "error["),
        };
        assert!(said.contains(what), "{place:?}: {said}");
    }
}

#[test]
fn a_plan_names_only_what_there_is() {
    let (model, cluster) = (demo("model.json"), demo("cluster.toml"));
    let of_objective = ["kind", "split", "communication", "training", "schedule", "execution"];
    let places = of_objective.map(|field| vec!["objective", field]);
    let places: Vec<Case> = places.into_iter().map(|place| (&*place.leak(), 2)).collect();
    let on = ["--cluster", &cluster];
    refused(&[&model, "--cluster", &cluster], &on, &places);
    let step = ["--objective", "makespan", "--solver", "heft"];
    refused(&[&[&model[..]], &on[..], &step].concat(), &on, &places);
    refused(&[&model, "--cluster", &cluster, "--robust", "10%"], &on, &[(&["robust", "source"], 1)]);
}

#[test]
fn a_strategy_plan_names_only_what_there_is() {
    let problem = json!({"problem": {
        "name": "two", "usage_limit": 3,
        "nodes": {"intervals": [[0, 2], [1, 3]], "costs": [[1, 4], [0, 5]], "usages": [[2, 1], [2, 1]]},
        "edges": {"nodes": [[0, 1]], "costs": [[0, 3, 0, 0]]},
    }});
    let files = folder(&[("two.json", &problem.to_string())]);
    refused(&[&path(&files, "two.json")], &[], &[]);
}

#[test]
fn a_joint_plan_names_only_what_there_is() {
    let files = folder(&[]);
    let graph = path(&files, "llama.json");
    let made = run(&[
        "workload",
        "llama",
        "--variant",
        "3-8b",
        "--layers",
        "2",
        "--sequence",
        "512",
        "--training",
        "--batch",
        "1",
        "--precision",
        "bf16",
        "--out",
        &graph,
    ]);
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    refused(
        &[&graph, "--cluster", "8xh100", "--parallel", "tp,dp,pp", "--global-batch", "8"],
        &[],
        &[(&["objective", "kind"], 2), (&["execution", "schedule"], 2)],
    );
}

/// Every list of bounds names sources that the checker knows.
#[test]
fn the_sources_of_bounds_are_those_that_the_checker_knows() {
    use stagewright::core::document::BOUND_SOURCES;

    for bound in stagewright::registry::BOUNDS {
        assert!(BOUND_SOURCES.contains(&bound.name()), "{}", bound.name());
    }
    let (model, cluster) = (demo("model.json"), demo("cluster.toml"));
    for objective in ["throughput", "latency", "makespan"] {
        let found = run(&["bound", &model, "--cluster", &cluster, "--objective", objective, "--json"]);
        for bound in parsed(&found)["bounds"].as_array().expect("bounds") {
            assert!(BOUND_SOURCES.iter().any(|source| bound["source"] == *source), "{bound}");
        }
    }
}
