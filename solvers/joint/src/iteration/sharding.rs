//! How the operators of a training graph are split over a tensor-parallel group: layouts of tensors, and the conversions
//! between them.

use super::network::{Network, Operator, is_element, is_product};

/// How a tensor is spread over the devices of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Layout {
    /// Part of the sequence on every device.
    Sequence,
    /// Part of the columns, heads or vocabulary.
    Columns,
    /// A partial sum.
    Partial,
}

/// Layout that an operator requires of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    Sequence,
    Columns,
    /// The whole tensor on every device.
    Whole,
}

/// A conversion of a tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Conversion {
    pub(crate) from: Layout,
    pub(crate) to: Need,
    /// Bytes of the whole tensor.
    pub(crate) bytes: f64,
}

/// Role of an operator in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// A product with parameters.
    Weights,
    /// A product without parameters.
    Product,
    Embedding,
    Softmax,
    Loss,
    /// Elementwise; whether it is a sum.
    Element(bool),
    Other,
}

fn part(network: &Network<'_>, operator: Operator) -> Part {
    let document = network.document(operator);
    match network.has_parameters(operator) {
        true if is_product(document) => Part::Weights,
        false if is_product(document) => Part::Product,
        _ if network.is_kind(operator, "embedding") => Part::Embedding,
        _ if network.is_kind(operator, "softmax") => Part::Softmax,
        _ if network.is_kind(operator, "loss") => Part::Loss,
        _ if is_element(document) => Part::Element(network.is_kind(operator, "add")),
        _ if network.is_kind(operator, "rotary") => Part::Element(false),
        _ => Part::Other,
    }
}

/// The sharding of a graph.
pub(crate) struct Sharding {
    /// Whether the parameters of each operator are split.
    pub(crate) is_split: Vec<bool>,
    /// Conversions that each operator is the first in its layer to need.
    pub(crate) conversions: Vec<Vec<Conversion>>,
    /// Whether each operator works on parts of the sequence.
    pub(crate) in_sequence: Vec<bool>,
    /// Whether each tensor is not divided by columns, heads or vocabulary.
    pub(crate) is_whole: Vec<bool>,
}

impl Sharding {
    /// Shards the forward operators in their order. O(operators + pins · log pins).
    pub(crate) fn new(network: &Network<'_>, layer_of: &[usize]) -> Sharding {
        let count = network.operators();
        let mut layout: Vec<Option<Layout>> = vec![None; network.tensors()];
        let mut is_split = vec![false; count];
        let mut conversions = vec![Vec::new(); count];
        let mut in_sequence = vec![false; count];
        let mut converted = std::collections::BTreeSet::new();
        for &operator in network.forward_order() {
            let part = part(network, operator);
            let inputs = network.inputs(operator);
            let known = || inputs.iter().filter_map(|&tensor| layout[tensor]);
            let all = |wanted: Layout| known().count() > 0 && known().all(|layout| layout == wanted);
            let (output, need) = match part {
                Part::Weights if known().any(|layout| layout == Layout::Columns) => (Layout::Partial, None),
                Part::Weights => (Layout::Columns, Some(Need::Whole)),
                Part::Product => (Layout::Columns, Some(Need::Columns)),
                Part::Embedding => (Layout::Partial, None),
                Part::Softmax if from_products(network, operator) => (Layout::Columns, Some(Need::Columns)),
                Part::Loss => (Layout::Columns, Some(Need::Columns)),
                Part::Element(_) if all(Layout::Columns) => (Layout::Columns, None),
                Part::Element(true) if all(Layout::Partial) => (Layout::Partial, None),
                Part::Softmax | Part::Element(_) | Part::Other => (Layout::Sequence, Some(Need::Sequence)),
            };
            let has_parameters = network.has_parameters(operator);
            is_split[operator] = has_parameters && matches!(part, Part::Weights | Part::Embedding);
            in_sequence[operator] = output == Layout::Sequence && !network.is_input(operator);
            for &tensor in network.outputs(operator) {
                layout[tensor] = Some(output).filter(|_| !network.is_input(operator));
            }
            let Some(need) = need else { continue };
            for &tensor in inputs {
                let Some(from) = layout[tensor] else { continue };
                let is_there = matches!(
                    (from, need),
                    (Layout::Sequence, Need::Sequence) | (Layout::Columns, Need::Columns)
                );
                if !is_there && converted.insert((tensor, layer_of[operator], need)) {
                    conversions[operator].push(Conversion { from, to: need, bytes: network.size(tensor) });
                }
            }
        }
        let is_whole =
            layout.iter().map(|layout| layout.is_some_and(|layout| layout != Layout::Columns)).collect();
        Sharding { is_split, conversions, in_sequence, is_whole }
    }
}

/// Whether all inputs come from products without parameters: the scores of an attention.
fn from_products(network: &Network<'_>, operator: Operator) -> bool {
    let is_scores = |tensor: &usize| {
        let producer = network.producer(*tensor);
        is_product(network.document(producer)) && !network.has_parameters(producer)
    };
    let inputs = network.inputs(operator);
    !inputs.is_empty() && inputs.iter().all(is_scores)
}
