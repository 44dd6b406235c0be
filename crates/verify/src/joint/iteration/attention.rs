//! Attentions, each of which runs in one kernel (Dao et al. 2022), unless the runtime runs its operators apart.
//!
//! An attention is a product without parameters, elementwise operators, a softmax, elementwise operators, and another product
//! without parameters. The operators between the products take no time, and their tensors are never in memory.

use stagewright_core::document::{Pass, RuntimeDocument};

use super::kinds::{Kinds, colocated, forward_inputs, in_order, outputs};
use crate::read::Graph;

/// The attentions of a graph.
#[derive(Debug)]
pub(super) struct Attention {
    /// Operators that run in the kernel of an attention, including backward operators.
    pub(super) is_inside: Vec<bool>,
    /// First and last products.
    pub(super) is_first: Vec<bool>,
    pub(super) is_last: Vec<bool>,
    /// Products of attentions that run in one kernel, forward and backward.
    pub(super) is_product: Vec<bool>,
    /// Products that run again in the backward pass.
    pub(super) runs_again: Vec<bool>,
    /// Softmaxes of attentions whose operators run by themselves, and the operators colocated with them.
    pub(super) has_scores: Vec<bool>,
    /// Factor of the FLOP of each operator.
    pub(super) flop: Vec<f64>,
    /// Tensors that are never in memory.
    pub(super) is_hidden: Vec<bool>,
    /// Bytes of tensors never in memory that each operator would read or write.
    pub(super) unmoved: Vec<f64>,
}

impl Attention {
    /// Finds the attentions. O(operators + pins).
    pub(super) fn new(graph: &Graph, kinds: &Kinds, runtime: Option<&RuntimeDocument>) -> Self {
        let count = graph.operators.len();
        let (from, to) = (paths_from(graph, kinds), paths_to(graph, kinds));
        let is_bare = |operator: usize| kinds.is_bare_product(operator);
        let all = 0..count;
        let is_first: Vec<bool> =
            all.clone().map(|operator| is_bare(operator) && to.over[operator]).collect();
        let is_last: Vec<bool> =
            all.clone().map(|operator| is_bare(operator) && from.over[operator]).collect();
        let is_softmax =
            |operator: usize| kinds.is(operator, "softmax") && from.before[operator] && to.before[operator];
        if runtime.is_some_and(|runtime| !runtime.fused_attention) {
            let softmaxes: Vec<bool> = all.map(is_softmax).collect();
            return Attention::apart(graph, is_first, is_last, colocated(graph, &softmaxes));
        }
        let is_between = all.clone().map(|operator| match kinds.is(operator, "softmax") {
            true => is_softmax(operator),
            false => {
                kinds.is_element[operator]
                    && (from.before[operator] && to.over[operator]
                        || from.over[operator] && to.before[operator])
            }
        });
        let is_product = all.clone().map(|operator| is_first[operator] || is_last[operator]);
        let is_halved =
            all.map(|operator| is_bare(operator) && (to.over_causal[operator] || from.over_causal[operator]));
        let is_inside = colocated(graph, &is_between.collect::<Vec<_>>());
        let belongs = colocated(graph, &is_product.collect::<Vec<_>>());
        let is_halved = colocated(graph, &is_halved.collect::<Vec<_>>());
        let is_hidden = hidden(graph, &is_inside, &belongs);
        let mut unmoved = vec![0.0; count];
        for (tensor, _) in graph.tensors.iter().zip(&is_hidden).filter(|(_, hidden)| **hidden) {
            tensor.pins().for_each(|operator| unmoved[operator] += tensor.document.bytes);
        }
        let is_product: Vec<bool> = belongs
            .iter()
            .zip(&kinds.is_product)
            .map(|(&belongs, &is_product)| belongs && is_product)
            .collect();
        let (flop, runs_again) = (flop(runtime, &is_product, &is_halved), is_first.clone());
        let has_scores = vec![false; count];
        Attention {
            is_inside,
            is_first,
            is_last,
            is_product,
            runs_again,
            has_scores,
            flop,
            is_hidden,
            unmoved,
        }
    }

    /// Attentions whose operators run by themselves.
    fn apart(graph: &Graph, is_first: Vec<bool>, is_last: Vec<bool>, has_scores: Vec<bool>) -> Self {
        let none = vec![false; graph.operators.len()];
        Attention {
            is_inside: none.clone(),
            is_first,
            is_last,
            is_product: none.clone(),
            runs_again: none,
            has_scores,
            flop: vec![1.0; graph.operators.len()],
            is_hidden: vec![false; graph.tensors.len()],
            unmoved: vec![0.0; graph.operators.len()],
        }
    }
}

/// Operators on the paths of elementwise operators that lead from products without parameters, or to them.
struct Paths {
    /// Operators on a path without a softmax.
    before: Vec<bool>,
    /// Operators on a path over a softmax.
    over: Vec<bool>,
    /// Operators on a path over a causal softmax.
    over_causal: Vec<bool>,
}

impl Paths {
    fn new(count: usize) -> Self {
        Paths { before: vec![false; count], over: vec![false; count], over_causal: vec![false; count] }
    }

    /// Continues the paths to an operator by `next`, which is beyond it.
    fn go_on(&mut self, graph: &Graph, kinds: &Kinds, operator: usize, next: usize) {
        let (is_element, is_softmax) = (kinds.is_element[operator], kinds.is(operator, "softmax"));
        self.before[next] |= kinds.is_bare_product(operator) || is_element && self.before[operator];
        let turns = is_softmax && self.before[operator];
        self.over[next] |= turns || is_element && self.over[operator];
        self.over_causal[next] |=
            turns && graph.operators[operator].causal || is_element && self.over_causal[operator];
    }
}

/// The paths from products to the operators behind them.
fn paths_from(graph: &Graph, kinds: &Kinds) -> Paths {
    let mut paths = Paths::new(graph.operators.len());
    for operator in in_order(graph, Pass::Forward) {
        for (_, tensor) in forward_inputs(graph, operator) {
            paths.go_on(graph, kinds, tensor.producer, operator);
        }
    }
    paths
}

/// The paths from operators to the products behind them.
fn paths_to(graph: &Graph, kinds: &Kinds) -> Paths {
    let mut paths = Paths::new(graph.operators.len());
    for operator in in_order(graph, Pass::Forward).into_iter().rev() {
        for (_, tensor) in outputs(graph, operator) {
            for &to in tensor.consumers.iter().filter(|&&to| graph.pass(to) == Pass::Forward) {
                paths.go_on(graph, kinds, to, operator);
            }
        }
    }
    paths
}

/// Factors of the FLOP of the operators: the products of an attention, forward and backward, run at a rate of their own, and
/// a causal softmax hides half of their work.
fn flop(runtime: Option<&RuntimeDocument>, is_product: &[bool], is_halved: &[bool]) -> Vec<f64> {
    let factor = |(&is_product, &is_halved): (&bool, &bool)| match runtime {
        Some(runtime) if is_product => (if is_halved { 0.5 } else { 1.0 }) / runtime.attention,
        _ => 1.0,
    };
    is_product.iter().zip(is_halved).map(factor).collect()
}

/// Whether each tensor is never in memory: one between operators in the kernel, or between one of them and an operator that
/// belongs to the products.
fn hidden(graph: &Graph, is_inside: &[bool], belongs: &[bool]) -> Vec<bool> {
    let is_hidden = graph.tensors.iter().map(|tensor| {
        let is_gradient = tensor.consumers.iter().any(|&reader| graph.pass(reader) == Pass::Update);
        (is_inside[tensor.producer] || belongs[tensor.producer])
            && !is_gradient
            && tensor.pins().any(|operator| is_inside[operator])
    });
    is_hidden.collect()
}
