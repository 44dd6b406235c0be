//! Attentions, each of which runs in one kernel (Dao et al. 2022).
//!
//! An attention is a product without parameters, elementwise operators, a softmax, elementwise operators, and another product
//! without parameters. The operators between the products take no time, and their tensors are never in memory.

use stagewright_core::document::Pass;

use super::kinds::{Kinds, colocated, forward_inputs, in_order, outputs};
use crate::read::Graph;

/// The attentions of a graph.
#[derive(Debug)]
pub(super) struct Attention {
    /// Operators that run in the kernel of an attention, including backward operators.
    pub(super) is_inside: Vec<bool>,
    /// First products, which run again in the backward pass.
    pub(super) is_first: Vec<bool>,
    /// Tensors that are never in memory.
    pub(super) is_hidden: Vec<bool>,
    /// Bytes of tensors never in memory that each operator would read or write.
    pub(super) unmoved: Vec<f64>,
}

impl Attention {
    /// Finds the attentions. O(operators + pins).
    pub(super) fn new(graph: &Graph, kinds: &Kinds) -> Self {
        let count = graph.operators.len();
        let forward = in_order(graph, Pass::Forward);
        let is_softmax = |operator: usize| kinds.is(operator, "softmax");
        // Successors on paths from a product: operators reached without passing a softmax, and by passing one.
        let (mut before, mut after) = (vec![false; count], vec![false; count]);
        for &operator in &forward {
            for (_, tensor) in forward_inputs(graph, operator) {
                let from = tensor.producer;
                let starts = kinds.is_bare_product(from) || kinds.is_element[from] && before[from];
                let goes_on = is_softmax(from) && before[from] || kinds.is_element[from] && after[from];
                before[operator] |= starts;
                after[operator] |= goes_on;
            }
        }
        // Predecessors on paths to a product: operators that reach it without passing a softmax, and by passing one.
        let (mut ends, mut ends_over) = (vec![false; count], vec![false; count]);
        for &operator in forward.iter().rev() {
            for (_, tensor) in outputs(graph, operator) {
                for &to in tensor.consumers.iter().filter(|&&to| graph.pass(to) == Pass::Forward) {
                    ends[operator] |= kinds.is_bare_product(to) || kinds.is_element[to] && ends[to];
                    ends_over[operator] |=
                        is_softmax(to) && ends[to] || kinds.is_element[to] && ends_over[to];
                }
            }
        }
        let mut is_between = vec![false; count];
        let (mut is_first, mut is_product) = (vec![false; count], vec![false; count]);
        for &operator in &forward {
            is_between[operator] = if is_softmax(operator) {
                before[operator] && ends[operator]
            } else {
                kinds.is_element[operator]
                    && (before[operator] && ends_over[operator] || after[operator] && ends[operator])
            };
            is_first[operator] = kinds.is_bare_product(operator) && ends_over[operator];
            is_product[operator] = is_first[operator] || kinds.is_bare_product(operator) && after[operator];
        }
        let is_inside = colocated(graph, &is_between);
        let belongs = colocated(graph, &is_product);
        let is_hidden: Vec<bool> = graph
            .tensors
            .iter()
            .map(|tensor| {
                let is_gradient = tensor.consumers.iter().any(|&reader| graph.pass(reader) == Pass::Update);
                (is_inside[tensor.producer] || belongs[tensor.producer])
                    && !is_gradient
                    && tensor.pins().any(|operator| is_inside[operator])
            })
            .collect();
        let mut unmoved = vec![0.0; count];
        for (tensor, _) in graph.tensors.iter().zip(&is_hidden).filter(|(_, hidden)| **hidden) {
            tensor.pins().for_each(|operator| unmoved[operator] += tensor.document.bytes);
        }
        Attention { is_inside, is_first, is_hidden, unmoved }
    }
}
