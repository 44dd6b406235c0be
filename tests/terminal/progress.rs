//! Progress is shown on a terminal or with `-v`: in a file or a pipe, standard error has notes and errors only.

use std::path::Path;

use super::{root, run, stderr};

fn assert_silent(arguments: &[&str], progress: &[&str]) {
    let quiet = run(arguments);
    let story = stderr(&quiet);
    assert!(story.lines().all(|line| line.starts_with("note: ")), "{arguments:?}: {story}");
    let told = stderr(&run(&[arguments, &["-v"]].concat()));
    for line in progress {
        assert!(told.contains(line) && !story.contains(line), "{arguments:?}: {line}: {told}");
    }
}

#[test]
fn a_pipe_gets_no_progress_unless_it_is_asked_for() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let demo = |name: &str| root().join("data/demo").join(name).display().to_string();
    let [model, cluster, plan] = [demo("model.json"), demo("cluster.toml"), path("plan.json")];
    let on = ["--cluster", &cluster];
    assert_silent(&[&["plan", &model, "--out", &plan][..], &on].concat(), &["plan: ", "bound: "]);
    assert_silent(&[&["bound", &model][..], &on].concat(), &["peak memory bytes: "]);
    assert_silent(&[&["explain", &model, &plan][..], &on].concat(), &["phase: what if: "]);
    let both = [&["compare", &model, &model, "--solvers", "dp,one-device"][..], &on].concat();
    assert_silent(&both, &["model: dp", "model: one-device"]);
    assert_silent(&["instances", "verify", "random-20"], &["1 of 1: random-20"]);
    let suite = path("suite.toml");
    let text =
        format!("name = \"one\"\ninputs = [{model:?}]\nclusters = [{cluster:?}]\nsolvers = [\"dp\"]\n");
    std::fs::write(Path::new(&suite), text).expect("there is room for a file");
    assert_silent(&["bench", &suite], &["1 of 1: "]);
}
