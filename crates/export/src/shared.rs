//! Weights and constants that several devices of a plan hold, one copy each: a tied embedding, a mask, a rotary table.

use std::collections::BTreeMap;

use stagewright_core::document::ParameterDocument;

use super::error::ExportError;
use super::placed::Placed;

/// A parameter of the model with readers on several devices.
#[derive(Debug)]
pub struct Shared<'a> {
    /// Entry of the parameter in the model.
    pub document: &'a ParameterDocument,
    /// Readers of all passes, in the order of the model, as indices into [`Placed::operators`].
    pub readers: Vec<usize>,
    /// The first reader on every device that holds the parameter, in the order of the devices.
    firsts: Vec<usize>,
}

impl Shared<'_> {
    /// The devices that hold the parameter, for display.
    pub fn holders(&self, placed: &Placed) -> String {
        let mut names: Vec<String> =
            self.firsts.iter().map(|&first| placed.shown(placed.operators[first].device)).collect();
        let last = names.pop().unwrap_or_default();
        format!("{} and {last}", names.join(", "))
    }

    /// The error of a runtime that does not train copies of the parameter, with the runtime's rule and a hint.
    pub(crate) fn refused(&self, placed: &Placed, (rule, help): (&'static str, &'static str)) -> ExportError {
        ExportError::Shared {
            weight: self.document.name.clone(),
            devices: self.holders(placed),
            rule,
            help,
            at: placed.sited(&placed.operators[self.firsts[1]]).at,
        }
    }
}

/// The parameters that several devices hold, in the order of the model; empty without the model.
///
/// Takes time O(readers · log readers).
pub fn shared<'a>(placed: &Placed<'a>) -> Vec<Shared<'a>> {
    let Some(graph) = placed.graph else { return Vec::new() };
    let of_several = |(parameter, document): (usize, &'a ParameterDocument)| {
        let mut readers: Vec<usize> = graph.readers(parameter).iter().map(|op| op.index()).collect();
        readers.sort_unstable();
        let mut first: BTreeMap<usize, usize> = BTreeMap::new();
        for &reader in &readers {
            first.entry(placed.operators[reader].device).or_insert(reader);
        }
        let firsts: Vec<usize> = first.into_values().collect();
        (firsts.len() > 1).then_some(Shared { document, readers, firsts })
    };
    graph.parameters().iter().enumerate().filter_map(of_several).collect()
}
