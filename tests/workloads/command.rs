//! The command `workload` of the built program.

use std::process::{Command, Output};

use stagewright::workloads::FAMILIES;
use stagewright_core::document::GraphDocument;

fn workload(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stagewright"))
        .arg("workload")
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("output is text")
}

#[test]
fn the_graph_goes_to_standard_output_and_a_line_about_it_to_standard_error() {
    let output = workload(&["resnet"]);
    assert_eq!(output.status.code(), Some(0));
    let graph: GraphDocument = serde_json::from_slice(&output.stdout).expect("it is a graph");
    assert_eq!(graph.name, "resnet-50");
    let story = text(&output.stderr);
    assert!(story.starts_with("resnet-50: 175 operators, "), "{story}");
    assert!(story.contains("25557032 parameters, 265.10 GFLOP"), "{story}");
}

#[test]
fn options_reach_the_graph() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let path = folder.path().join("graph.json");
    let output = workload(&[
        "gpt",
        "--variant",
        "2-small",
        "--layers",
        "2",
        "--hidden",
        "128",
        "--vocabulary",
        "1000",
        "--sequence",
        "64",
        "--batch",
        "3",
        "--precision",
        "bf16",
        "--training",
        "--optimizer",
        "momentum",
        "--granularity",
        "layer",
        "--out",
        path.to_str().expect("the path is text"),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "");
    let graph = std::fs::read(path).expect("the graph was written");
    let graph: GraphDocument = serde_json::from_slice(&graph).expect("it is a graph");
    let update = graph.operators.iter().find(|operator| operator.name == "decoder.layer.1.attention.update");
    assert_eq!(update.expect("layers are updated").kind.as_deref(), Some("momentum"));
    let positions = graph.operators.iter().find(|operator| operator.name == "embeddings");
    // The positions are a table of 1024 rows; the table of 1000 tokens is tied to the head.
    assert_eq!(positions.expect("there are embeddings").parameter_bytes, 2.0 * 128.0 * 1024.0);
    assert_eq!(graph.parameters[0].bytes, 2.0 * 128.0 * 1000.0);
}

#[test]
fn the_list_has_every_variant() {
    let output = workload(&["--list"]);
    assert_eq!(output.status.code(), Some(0));
    let list = text(&output.stdout);
    let variants: usize = FAMILIES.iter().map(|family| family.variants().len()).sum();
    assert_eq!(list.lines().count(), variants + 1, "{list}");
    let llama = list.lines().find(|line| line.starts_with("llama") && line.contains("2-70b"));
    assert!(llama.is_some_and(|line| line.contains("68976648192")), "{list}");
    let listed = workload(&["vgg", "--list"]);
    assert_eq!(text(&listed.stdout).lines().count(), 5);
}

#[test]
fn bad_usage_is_told_by_code_and_place() {
    for (arguments, code, place) in [
        (vec!["alexnet"], "W001", "FAMILY"),
        (vec!["resnet", "--variant", "51"], "W002", "--variant"),
        (vec!["resnet", "--hidden", "64"], "W003", "--hidden"),
        (vec!["resnet", "--batch", "0"], "W004", "--batch"),
        (vec!["vit", "--image", "100"], "W005", "--image"),
        (vec!["rnnlm", "--sequence", "1000000", "--layers", "1000"], "W007", "sizes"),
    ] {
        let output = workload(&arguments);
        let story = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {story}");
        assert!(story.starts_with(&format!("error[{code}]: ")), "{story}");
        assert!(story.contains(&format!("--> {place}\n  help: ")), "{story}");
        assert_eq!(text(&output.stdout), "");
    }
    assert_eq!(workload(&[]).status.code(), Some(2), "a family is needed");
    assert_eq!(workload(&["resnet", "--optimizer", "adam"]).status.code(), Some(2), "nothing is trained");
}
