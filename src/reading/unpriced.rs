//! Note about operators without a known FLOP count.
//!
//! For an unknown operator, an importer knows at most the shapes, and records the bytes moved without FLOP. The
//! roofline then prices the operator as if it only moved data, which is far too little for a fused attention. So a note
//! marks plans made with such prices.

use std::collections::BTreeMap;

use stagewright_core::document::GraphDocument;
use stagewright_report::units::name;

/// Maximum number of operator kinds that a note names; the rest are only counted.
const KINDS_NAMED: usize = 8;

/// A note on the operators of a model that are priced only by the bytes they move, if any.
pub(super) fn note(label: &str, graph: &GraphDocument) -> Option<String> {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for operator in &graph.operators {
        if operator.flop.is_none() && operator.bytes_moved.is_some() && operator.seconds.is_empty() {
            *kinds.entry(operator.kind.as_deref().unwrap_or("of no kind")).or_default() += 1;
        }
    }
    if kinds.is_empty() {
        return None;
    }
    let mut told: Vec<String> =
        kinds.iter().take(KINDS_NAMED).map(|(kind, count)| format!("{count} {}", name(kind))).collect();
    if kinds.len() > KINDS_NAMED {
        told.push(format!("{} more kinds", kinds.len() - KINDS_NAMED));
    }
    let told = told.join(", ");
    Some(format!("{label}: operators without FLOP are priced only by the bytes that they move: {told}"))
}
