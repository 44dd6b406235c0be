//! `stagewright.graph/2` and `stagewright.graph/1`: the native format of models.
//!
//! The JSON mirrors [`GraphDocument`] field by field; `data/schema/graph.schema.json` is generated from the
//! same structure. Unknown fields are errors, since a misspelt `secnods` would otherwise mean zero cost.
//! Numbers are read back bit for bit as they were written.

use stagewright_core::document::{CLUSTER_SCHEMA, GRAPH_SCHEMA, GRAPH_SCHEMA_2, GraphDocument};

use super::error::Result;
use super::notation::{Notation, expect_schema};
use super::text::{Sniff, text};
use super::{Format, ImportOptions, Imported, pretty_json};

/// Accepts every native document, so that the error for a plan given as a model says that it is a plan.
pub(super) fn detect(_bytes: &[u8], json: &Sniff) -> bool {
    json.schema.as_deref().is_some_and(|schema| schema.starts_with("stagewright.")) || json.has("operators")
}

pub(super) fn import(label: &str, bytes: &[u8], _options: &ImportOptions) -> Result<Imported> {
    let text = text(label, bytes)?;
    let graph: GraphDocument = Notation::Json.read_as(label, text, &[GRAPH_SCHEMA, GRAPH_SCHEMA_2])?;
    if let Some(cluster) = &graph.cluster {
        expect_schema(label, "cluster.schema", &cluster.schema, CLUSTER_SCHEMA)?;
    }
    Ok(Imported { graph, format: Format::Native, ids: None })
}

/// Writes a model as native JSON.
pub fn write_graph(graph: &GraphDocument) -> String {
    pretty_json(graph)
}
