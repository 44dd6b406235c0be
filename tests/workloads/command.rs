//! The command `workload` of the built program.

use std::process::{Command, Output};

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
