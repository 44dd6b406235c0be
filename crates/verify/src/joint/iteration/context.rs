//! Context parallelism: each device of a group has a part of the tokens of every sample, and attentions exchange tokens.
//!
//! Keys and values either pass from device to device (Liu et al., ICLR 2024), or all tokens are exchanged for heads
//! before an attention, and back after it (Jacobs et al. 2023).

use std::collections::BTreeMap;

use stagewright_core::document::{BatchDocument, ContextExchange, LinkDocument, Pass};

use super::collective::{all_gather, all_to_all};
use super::kinds::{forward_inputs, outputs, size};
use super::model::Model;
use crate::read::Graph;

/// What the operators of an attention in a layer exchange.
#[derive(Debug, Clone, Default)]
pub(super) struct Exchange {
    /// Bytes of the queries, the keys, the values and the result, each in a collective of its own.
    tensors: Vec<f64>,
    /// Bytes of keys and values.
    passed: f64,
    /// Bytes of queries, keys and values.
    read: f64,
}

impl Exchange {
    /// Adds the inputs of a first product: the keys are the smallest, and the queries the largest of the others.
    fn add_first(&mut self, graph: &Graph, product: usize) {
        let mut read: Vec<f64> =
            forward_inputs(graph, product).map(|(tensor, _)| size(graph, tensor)).collect();
        read.sort_by(f64::total_cmp);
        let Some((&keys, others)) = read.split_first() else { return };
        self.passed += keys;
        self.read += keys;
        self.tensors.push(keys);
        if let Some(&queries) = others.last() {
            self.read += queries;
            self.tensors.push(queries);
        }
    }

    /// Adds the values and the result of a last product.
    fn add_last(&mut self, graph: &Graph, product: usize, is_own: impl Fn(usize) -> bool) {
        let values = forward_inputs(graph, product).filter(|(_, tensor)| !is_own(tensor.producer));
        let values: f64 = values.map(|(tensor, _)| size(graph, tensor)).sum();
        self.passed += values;
        self.read += values;
        let result = outputs(graph, product).map(|(tensor, _)| size(graph, tensor)).fold(0.0, f64::max);
        self.tensors.extend([values, result]);
    }

    /// Seconds of the exchange in the forward pass among `count` devices, of which each has a `share` of the bytes.
    pub(super) fn seconds(
        &self,
        exchange: ContextExchange,
        count: u64,
        share: f64,
        link: &LinkDocument,
    ) -> f64 {
        let bytes_of = |bytes: f64| share * count as f64 * bytes;
        let is_there = |bytes: &&f64| **bytes > 0.0;
        match exchange {
            ContextExchange::Ring => {
                let passed = Some(&self.passed).filter(is_there);
                passed.map_or(0.0, |&bytes| all_gather(count, bytes_of(bytes), link))
            }
            ContextExchange::AllToAll => {
                let tensors = self.tensors.iter().filter(is_there);
                tensors.map(|&bytes| all_to_all(count, bytes_of(bytes), link)).sum()
            }
        }
    }

    /// Bytes of the workspace, times the share of a device: keys and values twice, or what is exchanged for heads.
    pub(super) fn workspace(&self, exchange: ContextExchange) -> f64 {
        match exchange {
            ContextExchange::Ring => 2.0 * self.passed,
            ContextExchange::AllToAll => self.read,
        }
    }

    /// Figures that determine the costs of the exchange.
    pub(super) fn figures(&self) -> impl Iterator<Item = u64> {
        let all = self.tensors.iter().chain([&self.passed, &self.read]).map(|bytes| bytes.to_bits());
        std::iter::once(self.tensors.len() as u64).chain(all)
    }
}

/// The exchanges of the attentions of every layer. An operator exchanges in its own layer. O(pins · log).
pub(super) fn exchanges(model: &Model) -> Vec<Vec<Exchange>> {
    let (graph, attention) = (model.graph, &model.attention);
    let count = graph.operators.len();
    // Operators that a kernel joins. A product may end one attention and begin another, so it is twice in the list.
    let mut attentions = Joined::new(2 * count);
    let is_before = |operator: usize| attention.is_inside[operator] || attention.is_first[operator];
    let forward = || (0..count).filter(|&operator| graph.pass(operator) == Pass::Forward);
    for operator in forward() {
        for (_, tensor) in forward_inputs(graph, operator) {
            let from = tensor.producer;
            if attention.is_inside[operator] && is_before(from) {
                attentions.join(from, operator);
            }
            if attention.is_last[operator] && attention.is_inside[from] {
                attentions.join(from, count + operator);
            }
        }
    }
    let mut found: BTreeMap<(usize, usize), Exchange> = BTreeMap::new();
    for operator in forward() {
        let layer = model.layer_of[operator];
        if attention.is_first[operator] {
            let own = attentions.find(operator);
            found.entry((layer, own)).or_default().add_first(graph, operator);
        }
        if attention.is_last[operator] {
            let own = attentions.find(count + operator);
            let is_own = |from: usize| is_before(from) && attentions.find(from) == own;
            found.entry((layer, own)).or_default().add_last(graph, operator, is_own);
        }
    }
    let mut exchanges = vec![Vec::new(); model.layers.len()];
    found.into_iter().for_each(|((layer, _), exchange)| exchanges[layer].push(exchange));
    exchanges
}

/// Disjoint sets of numbers.
struct Joined(Vec<usize>);

impl Joined {
    fn new(count: usize) -> Self {
        Joined((0..count).collect())
    }

    /// The representative of the set of a number.
    fn find(&self, mut number: usize) -> usize {
        while self.0[number] != number {
            number = self.0[number];
        }
        number
    }

    /// Joins the sets of two numbers, and shortens the paths to their representative.
    fn join(&mut self, first: usize, second: usize) {
        let root = self.find(first).min(self.find(second));
        for mut number in [first, second] {
            while self.0[number] != root {
                number = std::mem::replace(&mut self.0[number], root);
            }
        }
    }
}

/// The degrees of context parallelism that a graph allows.
#[derive(Debug)]
pub(super) struct Limits {
    /// Tokens of a sample.
    tokens: Option<u64>,
    /// Why the degree must be 1.
    fault: Option<&'static str>,
}

impl Limits {
    /// The limits of a model.
    pub(super) fn new(model: &Model, batch: Option<BatchDocument>) -> Self {
        let attention = &model.attention;
        let is_joined = |operator: usize| attention.is_first[operator] || attention.is_last[operator];
        let is_apart = |operator: usize| {
            model.graph.pass(operator) == Pass::Forward
                && model.kinds.is_bare_product(operator)
                && !is_joined(operator)
        };
        let mut all = 0..model.graph.operators.len();
        let fault = if model.runtime.is_some_and(|runtime| !runtime.fused_attention) {
            Some("the runtime has no attention in one kernel")
        } else if !attention.is_first.contains(&true) {
            Some("there is no attention")
        } else if all.any(is_apart) {
            Some("a product without parameters is in no attention")
        } else {
            None
        };
        Limits { tokens: batch.and_then(|batch| batch.tokens).map(|tokens| tokens.get()), fault }
    }

    /// The tokens of a sample, if a degree above 1 is possible.
    pub(super) fn tokens(&self) -> Option<u64> {
        self.tokens.filter(|_| self.fault.is_none())
    }

    /// Checks a degree of context parallelism. The error states the requirement.
    pub(super) fn allow(&self, degree: u64) -> Result<(), String> {
        match (self.fault, self.tokens) {
            _ if degree <= 1 => Ok(()),
            (Some(fault), _) => Err(format!("1: {fault}")),
            (None, None) => Err("1: the graph states no tokens".to_owned()),
            (None, Some(tokens)) if !tokens.is_multiple_of(degree.saturating_mul(2)) => {
                Err(format!("half of a divisor of the {tokens} tokens of a sample"))
            }
            (None, Some(_)) => Ok(()),
        }
    }
}

/// Number of devices that have different heads in an attention: those of a tensor-parallel group, times `context` if tokens
/// are exchanged for heads.
pub(super) fn over_heads(tensor: u64, context: u32, exchange: Option<ContextExchange>) -> u64 {
    match exchange {
        Some(ContextExchange::AllToAll) => tensor.saturating_mul(u64::from(context)),
        Some(ContextExchange::Ring) | None => tensor,
    }
}
