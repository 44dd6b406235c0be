//! Properties of an operator that determine its sharding, derived from its kind.

use stagewright_core::document::{OperatorDocument, Pass, Role, role};

use crate::read::{Graph, Tensor};

/// Properties of operators that the cost model needs.
#[derive(Debug)]
pub(super) struct Kinds {
    /// Whether an operator is a product; a backward operator if the part of its kind before `grad` is.
    pub(super) is_product: Vec<bool>,
    /// Whether an operator is a norm, by the same part of its kind.
    pub(super) is_norm: Vec<bool>,
    pub(super) is_element: Vec<bool>,
    /// Whether an operator reads parameters, its own or shared.
    pub(super) has_parameters: Vec<bool>,
    /// Kinds in lower case, without separators.
    names: Vec<String>,
}

impl Kinds {
    pub(super) fn new(graph: &Graph) -> Self {
        let bases: Vec<String> = graph.operators.iter().map(base).collect();
        let roles: Vec<Role> = bases.iter().map(|base| role(base)).collect();
        let mut has_parameters: Vec<bool> =
            graph.operators.iter().map(|operator| operator.parameter_bytes > 0.0).collect();
        for &reader in graph.parameters.iter().flat_map(|parameter| &parameter.readers) {
            has_parameters[reader] = true;
        }
        Kinds {
            is_product: roles.iter().map(|&role| role == Role::Product).collect(),
            is_norm: bases.iter().map(|base| base.contains("norm")).collect(),
            is_element: roles.iter().map(|&role| role == Role::Element).collect(),
            has_parameters,
            names: graph.operators.iter().map(plain).collect(),
        }
    }

    /// Whether the kind of an operator has this plain name.
    pub(super) fn is(&self, operator: usize, name: &str) -> bool {
        self.names[operator] == name
    }

    /// Whether an operator is a product without parameters, such as those of an attention.
    pub(super) fn is_bare_product(&self, operator: usize) -> bool {
        self.is_product[operator] && !self.has_parameters[operator]
    }

    /// Whether the parameters of an operator are split over a tensor-parallel group.
    pub(super) fn splits_parameters(&self, operator: usize) -> bool {
        self.is_product[operator] || self.is(operator, "embedding")
    }
}

/// The plain kind of an operator; of a backward operator, the part of it before `grad`.
fn base(operator: &OperatorDocument) -> String {
    let mut kind = plain(operator);
    if operator.pass == Pass::Backward
        && let Some(end) = kind.find("grad")
    {
        kind.truncate(end);
    }
    kind
}

/// The kind of an operator in lower case, without separators.
pub(super) fn plain(operator: &OperatorDocument) -> String {
    let kind = operator.kind.as_deref().unwrap_or_default();
    kind.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

/// Bytes of a tensor that crosses between devices: a tensor of zero bytes counts as the largest that its forward
/// readers write.
pub(super) fn size(graph: &Graph, tensor: usize) -> f64 {
    let Tensor { document, consumers, .. } = &graph.tensors[tensor];
    if document.bytes > 0.0 {
        return document.bytes;
    }
    let readers = consumers.iter().filter(|&&reader| graph.pass(reader) == Pass::Forward);
    let written = readers.flat_map(|&reader| outputs(graph, reader));
    written.map(|(_, tensor)| tensor.document.bytes).fold(0.0, f64::max)
}

/// Tensors of forward operators that an operator reads.
pub(super) fn forward_inputs<'g>(
    graph: &'g Graph<'g>,
    operator: usize,
) -> impl Iterator<Item = (usize, &'g Tensor<'g>)> {
    let tensors = graph.tensors_of[operator].iter().map(|&tensor| (tensor, &graph.tensors[tensor]));
    tensors.filter(move |(_, tensor)| {
        tensor.producer != operator && graph.pass(tensor.producer) == Pass::Forward
    })
}

/// Tensors that an operator writes.
pub(super) fn outputs<'g>(
    graph: &'g Graph<'g>,
    operator: usize,
) -> impl Iterator<Item = (usize, &'g Tensor<'g>)> {
    let tensors = graph.tensors_of[operator].iter().map(|&tensor| (tensor, &graph.tensors[tensor]));
    tensors.filter(move |(_, tensor)| tensor.producer == operator)
}

/// Operators of a graph in a pass, in the order in which a device runs them.
pub(super) fn in_order(graph: &Graph, pass: Pass) -> Vec<usize> {
    let mut operators: Vec<usize> =
        (0..graph.operators.len()).filter(|&operator| graph.pass(operator) == pass).collect();
    operators.sort_by_key(|&operator| graph.work_place[operator]);
    operators
}

/// Whether the colocation class of each operator has a forward operator with a property.
pub(super) fn colocated(graph: &Graph, has: &[bool]) -> Vec<bool> {
    let class_has: Vec<bool> = graph
        .classes
        .iter()
        .map(|members| members.iter().any(|&operator| graph.pass(operator) == Pass::Forward && has[operator]))
        .collect();
    let all = graph.class_of.iter().enumerate();
    all.map(|(operator, &class)| match graph.pass(operator) {
        Pass::Forward => has[operator],
        Pass::Backward | Pass::Update => class_has[class],
    })
    .collect()
}
