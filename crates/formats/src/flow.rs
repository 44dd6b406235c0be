//! Problems of layer flow, and plans for them.

use stagewright_core::document::{
    LAYER_FLOW_SCHEMA, LAYER_PLAN_SCHEMA, LayerFlowDocument, LayerPlanDocument,
};

use super::error::Result;
use super::notation::Notation;
use super::pretty_json;
use super::strategies::HEAD;
use super::text::text;

/// Recognises a problem of layer flow by its first bytes: an object that names its schema or, if it names none, has rates of
/// nodes, or links from the source.
pub fn is_layer_flow(head: &[u8]) -> bool {
    let head = &head[..head.len().min(HEAD)];
    if !head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start().starts_with(b"{") {
        return false;
    }
    let has = |text: &str| head.windows(text.len()).any(|window| window == text.as_bytes());
    let is_alike = || has("\"layers\"") && (has("\"throughput\"") || has("[\"source\""));
    has(LAYER_FLOW_SCHEMA) || (!has("\"schema\"") && is_alike())
}

/// Reads a problem of layer flow. Its numbers are not checked.
///
/// # Errors
/// If the text is no such problem.
pub fn import_layer_flow(label: &str, bytes: &[u8]) -> Result<LayerFlowDocument> {
    Notation::Json.read_as(label, text(label, bytes)?, &[LAYER_FLOW_SCHEMA])
}

/// Reads a plan of layer flow. It is not compared with the problem.
///
/// # Errors
/// If the text is no such plan.
pub fn import_layer_plan(label: &str, bytes: &[u8]) -> Result<LayerPlanDocument> {
    Notation::Json.read_as(label, text(label, bytes)?, &[LAYER_PLAN_SCHEMA])
}

/// Formats a plan of layer flow as JSON.
pub fn write_layer_plan(plan: &LayerPlanDocument) -> String {
    pretty_json(plan)
}
