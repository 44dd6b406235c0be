//! Every file under `data/malformed` is rejected for the reason and at the place that the index states.
//!
//! To add a file, put it in the folder of its document kind, with a `[[case]]` in `index.toml`. Readers that check more
//! than text and shape (the builders that check a graph or a cluster as a whole) belong in [`load`], which reads a file
//! until something rejects it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use stagewright::costs;
use stagewright::formats::{InputError, import_cluster, import_graph, import_pins, import_plan};
use stagewright_core::cluster::{Cluster, ClusterError};
use stagewright_core::graph::{Graph, GraphError};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    file: String,
    code: String,
    place: String,
    model: Option<String>,
}

/// Code and place of a rejection.
#[derive(Debug, PartialEq)]
struct Rejection {
    code: String,
    place: String,
}

impl From<InputError> for Rejection {
    fn from(error: InputError) -> Self {
        Rejection { code: error.code.name.to_owned(), place: error.place.at.to_string() }
    }
}

impl From<GraphError> for Rejection {
    fn from(error: GraphError) -> Self {
        Rejection { code: error.code().name.to_owned(), place: error.place() }
    }
}

impl From<ClusterError> for Rejection {
    fn from(error: ClusterError) -> Self {
        Rejection { code: error.code().name.to_owned(), place: error.place() }
    }
}

fn folder() -> PathBuf {
    Path::new(crate::ROOT).join("data/malformed")
}

fn bytes(file: &str) -> Vec<u8> {
    let path = folder().join(file);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Reads a file as far as the last check that applies to it.
fn load(case: &Case) -> Result<(), Rejection> {
    let (label, bytes_of_file) = (case.file.as_str(), bytes(&case.file));
    match case.file.split('/').next() {
        Some("graph") => {
            Graph::from_document(import_graph(label, &bytes_of_file, None)?.graph)?;
        }
        Some("plan") => {
            let model = case.model.as_deref().expect("a plan needs a model to be read against");
            let model = import_graph(model, &bytes(model), None).expect("models in `with` are sound");
            import_plan(label, &bytes_of_file, &model)?;
        }
        Some("cluster") => {
            Cluster::from_document(import_cluster(label, &bytes_of_file)?)?;
        }
        Some("pins") => {
            import_pins(label, &bytes_of_file)?;
        }
        Some("costs") => {
            let costs = costs::import::import(label, &bytes_of_file, &costs::import::Options::default())?;
            costs::Costs::new([(label.to_owned(), costs)])?;
        }
        other => panic!("{}: nothing is read as {other:?}", case.file),
    }
    Ok(())
}

fn index() -> Index {
    toml::from_str(&String::from_utf8(bytes("index.toml")).unwrap()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_malformed_file_is_rejected_for_its_reason() {
    let mut wrong = Vec::new();
    for case in index().case {
        let expected = Rejection { code: case.code.clone(), place: case.place.clone() };
        match load(&case) {
            Err(rejection) if rejection == expected => {}
            outcome => wrong.push(format!("{}: expected {expected:?}, was {outcome:?}", case.file)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_file_is_in_the_index() {
    let index = index();
    let mut listed: BTreeSet<String> = BTreeSet::from(["index.toml".to_owned()]);
    for case in index.case {
        assert!(listed.insert(case.file.clone()), "{} is listed twice", case.file);
        listed.extend(case.model);
    }
    let mut found = BTreeSet::new();
    let mut folders = vec![folder()];
    while let Some(current) = folders.pop() {
        for entry in fs::read_dir(current).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let parts = path.strip_prefix(folder()).unwrap().components();
                let parts: Vec<_> = parts.map(|part| part.as_os_str().to_string_lossy()).collect();
                found.insert(parts.join("/"));
            }
        }
    }
    assert_eq!(found, listed);
}

/// Deeply nested inputs, which are too long to keep as files.
#[test]
fn depth_bombs_are_errors_and_no_crash() {
    let deep = 100_000;
    let model = import_graph("m", &bytes("with/model.json"), None).unwrap();
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
        for start in ["", "{\"schema\":", "{\"x\":", "{\"operators\":", "{\"nodes\":", "a = "] {
            for ends in [false, true] {
                let mut bomb = start.to_owned() + &open.repeat(deep);
                if ends {
                    bomb.push_str(&close.repeat(deep));
                }
                let bomb = bomb.as_bytes();
                assert!(import_graph("bomb", bomb, None).is_err());
                assert!(import_cluster("bomb", bomb).is_err());
                assert!(import_plan("bomb", bomb, &model).is_err());
                assert!(import_pins("bomb", bomb).is_err());
            }
        }
    }
}
