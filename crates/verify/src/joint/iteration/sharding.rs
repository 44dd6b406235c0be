//! Layouts of tensors in a tensor-parallel group, and the conversions between them.

use std::collections::BTreeSet;

use stagewright_core::document::{LinkDocument, Pass};

use super::collective::{all_gather, all_to_all, reduce_scatter};
use super::kinds::{Kinds, forward_inputs, in_order, size};
use crate::read::Graph;

/// How a tensor is spread over the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// Every device has a part of the sequence.
    Sequence,
    /// Every device has a part of the columns, heads or vocabulary.
    Columns,
    /// Every device has a partial sum.
    Partial,
}

/// Layouts that an operator requires of its inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Needed {
    AsTheyAre,
    Sequence,
    Columns,
    Whole,
}

/// Seconds of a conversion.
#[derive(Debug, Clone, Copy)]
pub(super) struct Converted {
    /// Seconds in the forward pass; the backward pass takes as long for the gradients.
    pub(super) there: f64,
    /// Seconds to gather the input once more, for the gradient of the weights.
    pub(super) again: f64,
}

/// A tensor that the operators of a layer need in another layout.
#[derive(Debug, Clone, Copy)]
pub(super) struct Conversion {
    pub(super) layer: usize,
    /// Bytes of the whole tensor.
    pub(super) bytes: f64,
    from: Layout,
    to: Needed,
}

impl Conversion {
    /// Whether the conversion gathers the whole tensor.
    pub(super) fn is_to_whole(&self) -> bool {
        self.to == Needed::Whole
    }

    /// Figures that determine the seconds of the conversion.
    pub(super) fn figures(&self) -> [u64; 3] {
        [self.bytes.to_bits(), self.from as u64, self.to as u64]
    }

    /// Seconds to convert `share` of the bytes.
    pub(super) fn seconds(&self, tensor: u64, share: f64, link: &LinkDocument) -> Converted {
        let bytes = self.bytes * share;
        let gather = all_gather(tensor, bytes, link);
        let there = match (self.from, self.to) {
            (_, Needed::AsTheyAre)
            | (Layout::Sequence, Needed::Sequence)
            | (Layout::Columns, Needed::Columns) => 0.0,
            (Layout::Sequence, Needed::Columns) | (Layout::Columns, Needed::Sequence) => {
                all_to_all(tensor, bytes, link)
            }
            (Layout::Sequence | Layout::Columns, Needed::Whole) => gather,
            (Layout::Partial, Needed::Sequence | Needed::Columns) => reduce_scatter(tensor, bytes, link),
            (Layout::Partial, Needed::Whole) => reduce_scatter(tensor, bytes, link) + gather,
        };
        let again = if self.to == Needed::Whole { gather } else { 0.0 };
        Converted { there, again }
    }
}

/// The layouts of the outputs of forward operators, and the conversions of all layers. O((operators + pins) · log).
pub(super) fn shard(
    graph: &Graph,
    kinds: &Kinds,
    layer_of: &[usize],
) -> (Vec<Option<Layout>>, Vec<Conversion>) {
    let mut layouts: Vec<Option<Layout>> = vec![None; graph.operators.len()];
    let mut seen = BTreeSet::new();
    let mut conversions = Vec::new();
    for operator in in_order(graph, Pass::Forward) {
        // Inputs of the model have no layout.
        if kinds.is(operator, "input") {
            continue;
        }
        let inputs: Vec<(usize, Layout)> = forward_inputs(graph, operator)
            .filter_map(|(tensor, document)| Some((tensor, layouts[document.producer]?)))
            .collect();
        let (layout, needed) = rule(graph, kinds, operator, &inputs);
        layouts[operator] = Some(layout);
        for (tensor, from) in inputs {
            let is_there = matches!(
                (from, needed),
                (_, Needed::AsTheyAre)
                    | (Layout::Sequence, Needed::Sequence)
                    | (Layout::Columns, Needed::Columns)
            );
            let layer = layer_of[operator];
            if !is_there && seen.insert((layer, tensor, needed)) {
                let bytes = size(graph, tensor);
                conversions.push(Conversion { layer, bytes, from, to: needed });
            }
        }
    }
    (layouts, conversions)
}

/// The layout of a forward operator's outputs, and the layouts that the operator requires of its inputs. `inputs` lists
/// the inputs that have a layout.
fn rule(graph: &Graph, kinds: &Kinds, operator: usize, inputs: &[(usize, Layout)]) -> (Layout, Needed) {
    let all_in = |layout| !inputs.is_empty() && inputs.iter().all(|&(_, from)| from == layout);
    let comes_from_bare_products = || {
        let mut producers = forward_inputs(graph, operator).map(|(_, tensor)| tensor.producer).peekable();
        producers.peek().is_some() && producers.all(|producer| kinds.is_bare_product(producer))
    };
    if kinds.is_product[operator] {
        return match kinds.has_parameters[operator] {
            true if inputs.iter().any(|&(_, from)| from == Layout::Columns) => {
                (Layout::Partial, Needed::AsTheyAre)
            }
            true => (Layout::Columns, Needed::Whole),
            false => (Layout::Columns, Needed::Columns),
        };
    }
    if kinds.is(operator, "embedding") {
        return (Layout::Partial, Needed::AsTheyAre);
    }
    if kinds.is(operator, "loss") || kinds.is(operator, "softmax") && comes_from_bare_products() {
        return (Layout::Columns, Needed::Columns);
    }
    let is_element = kinds.is_element[operator];
    if (is_element || kinds.is(operator, "rotary")) && all_in(Layout::Columns) {
        return (Layout::Columns, Needed::Columns);
    }
    if is_element && kinds.is(operator, "add") && all_in(Layout::Partial) {
        return (Layout::Partial, Needed::AsTheyAre);
    }
    (Layout::Sequence, Needed::Sequence)
}
