//! A model with its weights, for programs that run parts of it.

use std::collections::BTreeMap;

use prost::Message;

use super::document::{free, operator_names};
use super::proto::ModelProto;
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

/// A model with its weights, and the findings of the importer.
#[derive(Debug, Clone)]
pub struct Whole {
    /// The model. Calls of its functions are replaced by their bodies.
    pub model: ModelProto,
    /// Names of operators in the graph document, by node of the main graph; `None` for a node that depends on constants
    /// alone.
    pub operators: Vec<Option<String>>,
    /// Whether the operator of each node of the main graph is a view: it costs nothing, and its readers read its
    /// source.
    pub views: Vec<bool>,
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
    /// The errors of an import.
    pub fn new(label: &str, bytes: &[u8], options: &ImportOptions) -> Result<Whole> {
        let mut model = ModelProto::decode(bytes).map_err(|error| not_a_model(label, &error))?;
        inline::inline(label, &mut model)?;
        let Some(graph) = model.graph.as_ref().filter(|graph| !graph.node.is_empty()) else {
            return Err(without_nodes(label));
        };
        let walked = walk::walk(label, &model, graph, options)?;
        let types = walked.names.iter().map(|(name, &value)| {
            let value = &walked.values[value].value;
            ((*name).to_owned(), TensorType { elem: value.elem, dims: value.dims.clone() })
        });
        let types = types.collect();
        let names = operator_names(&walked);
        let by_node: BTreeMap<*const _, usize> = walked
            .operators
            .iter()
            .enumerate()
            .map(|(index, operator)| (std::ptr::from_ref(operator.node), index))
            .collect();
        let is_free = free(&walked, options);
        let found = graph.node.iter().map(|node| by_node.get(&std::ptr::from_ref(node)).copied());
        let views = found.clone().map(|index| index.is_some_and(|index| is_free[index])).collect();
        let operators = found.map(|index| index.map(|index| names[index].clone())).collect();
        Ok(Whole { operators, views, count: names.len(), types, model })
    }
}
