//! Telling of operators whose work is not known.
//!
//! An importer that does not know an operator knows its shapes at most, and gives it bytes moved without
//! FLOP. The roofline then prices it as if it only moved data, which is far too little for an attention in
//! one piece: a plan made of such prices should not look like any other.

use std::collections::BTreeMap;

use stagewright::core::document::GraphDocument;
use stagewright::report::units::name;

use super::output;

/// Kinds that a note names before it only counts them.
const KINDS_NAMED: usize = 8;

/// Says on standard error which operators of a model are priced by the bytes they move alone, if any are.
pub(crate) fn tell(label: &str, graph: &GraphDocument) {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for operator in &graph.operators {
        if operator.flop.is_none() && operator.bytes_moved.is_some() && operator.seconds.is_empty() {
            *kinds.entry(operator.kind.as_deref().unwrap_or("of no kind")).or_default() += 1;
        }
    }
    if kinds.is_empty() {
        return;
    }
    let mut told: Vec<String> =
        kinds.iter().take(KINDS_NAMED).map(|(kind, count)| format!("{count} {}", name(kind))).collect();
    if kinds.len() > KINDS_NAMED {
        told.push(format!("{} more kinds", kinds.len() - KINDS_NAMED));
    }
    output::note(&format!(
        "note: {label}: operators without FLOP are priced by the bytes they move alone: {}",
        told.join(", ")
    ));
}
