//! The importer on small models, which are written with the structures that the importer reads.

mod bodies;
mod caches;
mod edges;
mod equal;
mod fused;
mod model;
mod published;
mod quantized;
mod resnet;
mod scopes;
mod shapes;

use stagewright_core::document::{GraphDocument, OperatorDocument};

use super::*;
use crate::import_model;
use crate::options::Fusion;
use model::Model;

fn import_bytes(bytes: &[u8], batch: Option<u64>) -> Result<Imported> {
    import_model("model.onnx", bytes, &ImportOptions { batch, ..ImportOptions::default() })
}

fn graph_of(model: &Model, batch: Option<u64>) -> GraphDocument {
    import_bytes(&model.bytes(), batch).unwrap_or_else(|error| panic!("{error}")).graph
}

/// Imports without fusion: every operator is a kernel, every tensor has its bytes.
fn unfused(model: &Model, batch: Option<u64>) -> GraphDocument {
    let options = ImportOptions { batch, fusion: Fusion::Off, ..ImportOptions::default() };
    import_model("model.onnx", &model.bytes(), &options).unwrap_or_else(|error| panic!("{error}")).graph
}

/// Code and text of the error.
fn rejection(model: &Model) -> (&'static str, String) {
    let error = import_bytes(&model.bytes(), None).expect_err("a faulty model");
    (error.code.name, error.to_string())
}

fn total(graph: &GraphDocument, figure: impl Fn(&OperatorDocument) -> f64) -> f64 {
    graph.operators.iter().map(figure).sum()
}
