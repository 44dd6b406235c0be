//! Exports of well-known models in `data/models`: the importers have the parameters and the FLOP that PyTorch counts, and
//! the plans on four GPUs use all of them and pass the checker.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use stagewright::clusters;
use stagewright::formats::{ImportOptions, import_model};
use stagewright::report::document::{Provenance, plan_document};
use stagewright_core::cluster::Cluster;
use stagewright_core::document::GraphDocument;
use stagewright_core::evaluate::evaluate;
use stagewright_core::graph::Graph;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Limits, Silent, Solver};
use stagewright_search::Dpl;
use stagewright_verify::check;

/// How far the FLOP may be from PyTorch's, which counts products, convolutions and attention alone.
const FLOP_TOLERANCE: f64 = 0.02;
/// Angles of 256 tokens by 64 numbers.
const LARGEST_TABLE: f64 = 4.0 * 256.0 * 64.0;
/// PyTorch's counter leaves the grouped products of experts out.
const WITHOUT_EXPERTS: &str = "mixtral-2l.json.gz";

#[derive(Deserialize)]
struct Table {
    model: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    file: String,
    parameter_bytes: f64,
    flop: f64,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/models")
}

/// Every model of the table that is there, as its importer reads it.
fn models() -> Vec<(Row, GraphDocument)> {
    let text = fs::read_to_string(folder().join("models.toml")).expect("the table is there");
    let rows = toml::from_str::<Table>(&text).expect("the table is TOML").model;
    let read = |row: Row| {
        let mut bytes = Vec::new();
        let compressed = fs::File::open(folder().join(&row.file)).expect("the model is there");
        flate2::read::GzDecoder::new(compressed).read_to_end(&mut bytes).expect("the model is whole");
        let imported = import_model(&row.file, &bytes, &ImportOptions::default());
        (row, imported.unwrap_or_else(|error| panic!("{error}")).graph)
    };
    rows.into_iter().map(read).collect()
}

#[test]
fn parameters_and_flop_are_those_of_the_framework() {
    let models = models();
    assert!(models.len() >= 18, "{} models", models.len());
    for (row, graph) in models {
        let own: f64 = graph.operators.iter().map(|operator| operator.parameter_bytes).sum();
        let shared: f64 =
            graph.parameters.iter().filter(|entry| entry.trained).map(|entry| entry.bytes).sum();
        // An export may keep a buffer as numbers like a weight's: the frequencies or angles of a rotary table.
        let buffers = own + shared - row.parameter_bytes;
        assert!((0.0..=LARGEST_TABLE).contains(&buffers), "{}: {buffers} bytes more", row.file);
        let flop: f64 = graph.operators.iter().filter_map(|operator| operator.flop).sum();
        let is_close = (flop / row.flop - 1.0).abs() <= FLOP_TOLERANCE;
        assert!(is_close || row.file == WITHOUT_EXPERTS, "{}: {flop} of {}", row.file, row.flop);
    }
}

/// A mask, a rotary table or a tied embedding binds nothing: every model divides among four GPUs.
#[test]
fn every_model_divides_among_four_devices() {
    let cluster = clusters::find("4xa100").expect("a built-in device");
    for (row, graph) in models() {
        let graph = Graph::from_document(graph).unwrap_or_else(|error| panic!("{}: {error}", row.file));
        let cluster = Cluster::from_document(cluster.clone()).expect("a sound cluster");
        let problem =
            Problem::new(graph, cluster, Objective::default(), Default::default()).expect("a problem");
        let mut silent = Silent;
        let mut context = Context::new(Limits::default(), Default::default(), &mut silent);
        let solution = Dpl.solve(&problem, &mut context).expect("a contiguous problem");
        let plan = solution.plan.as_ref().unwrap_or_else(|| panic!("{}: {:?}", row.file, solution.reason));
        assert_eq!(plan.evaluation.devices.len(), 4, "{}", row.file);
        assert_eq!(evaluate(&problem, &plan.placement), plan.evaluation, "{}", row.file);
        let provenance = Provenance { solver: "dpl".into(), seconds: 0.0, seed: 0 };
        let document = plan_document(&problem, &solution, provenance);
        let report = check(problem.graph().document(), problem.cluster().document(), None, &document)
            .unwrap_or_else(|error| panic!("{}: {error}", row.file));
        assert!(report.violations.is_empty(), "{}: {:?}", row.file, report.violations);
    }
}
