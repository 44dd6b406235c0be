//! A model with its weights, for programs that run parts of it.

use std::collections::BTreeMap;

use prost::Message;

use super::proto::ModelProto;
use super::version2::operator_names;
use super::walk;
use super::{inline, not_a_model, without_nodes};
use crate::error::Result;
use crate::options::ImportOptions;

/// Element type and shape of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorType {
    /// Element type, as numbered by `TensorProto.DataType`.
    pub elem: i32,
    /// Shape.
    pub dims: Vec<u64>,
}

/// A model with its weights, and what the importer knows about it.
#[derive(Debug, Clone)]
pub struct Whole {
    /// The model. Calls of its functions are replaced by their bodies.
    pub model: ModelProto,
    /// For each node of the main graph, the name of its operator in the graph document; `None` for a
    /// node that depends on constants alone.
    pub operators: Vec<Option<String>>,
    /// Number of operators in the graph document. Those beyond the nodes of the main graph are in branches that replace
    /// their `If`.
    pub count: usize,
    /// Types of the named values of the main graph.
    pub types: BTreeMap<String, TensorType>,
}

impl Whole {
    /// Reads a model. Open dimensions take their sizes from the options, as on import.
    ///
    /// # Errors
    /// As on import.
    pub fn new(label: &str, bytes: &[u8], options: &ImportOptions) -> Result<Whole> {
        let mut model = ModelProto::decode(bytes).map_err(|error| not_a_model(label, &error))?;
        inline::inline(label, &mut model)?;
        let Some(graph) = model.graph.as_ref().filter(|graph| !graph.node.is_empty()) else {
            return Err(without_nodes(label));
        };
        let walked = walk::walk(label, &model, graph, options)?;
        let types = walked.values.iter().map(|entry| {
            let kind = TensorType { elem: entry.value.elem, dims: entry.value.dims.clone() };
            (entry.name.to_owned(), kind)
        });
        let types = types.collect();
        let names = operator_names(&walked);
        let by_node: BTreeMap<*const _, &String> = walked
            .operators
            .iter()
            .zip(&names)
            .map(|(operator, name)| (std::ptr::from_ref(operator.node), name))
            .collect();
        let operators =
            graph.node.iter().map(|node| by_node.get(&std::ptr::from_ref(node)).map(|&name| name.clone()));
        let operators = operators.collect();
        Ok(Whole { operators, count: names.len(), types, model })
    }
}
