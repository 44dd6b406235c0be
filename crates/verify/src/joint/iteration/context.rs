//! Context parallelism: each device of a group has a part of the tokens of every sample, and attentions exchange tokens.
//!
//! Keys and values either pass from device to device (Liu et al., ICLR 2024), or all tokens are exchanged for heads
//! before an attention, and back after it (Jacobs et al. 2023).

use std::collections::BTreeSet;

use stagewright_core::document::{BatchDocument, ContextExchange, LinkDocument, Pass, RuntimeDocument};

use super::attention::Attention;
use super::collective::{all_gather, all_to_all};
use super::kinds::{Kinds, forward_inputs, outputs, size};
use crate::read::Graph;

/// Bytes that an attention exchanges.
#[derive(Debug, Clone, Default)]
pub(super) struct Exchange {
    queries: f64,
    keys: f64,
    values: f64,
    results: f64,
}

impl Exchange {
    /// Adds the inputs of a first product: the smallest are the keys, the others the queries.
    fn add_first(&mut self, graph: &Graph, product: usize) {
        let sizes = || forward_inputs(graph, product).map(|(tensor, _)| size(graph, tensor));
        let keys = sizes().reduce(f64::min).unwrap_or(0.0);
        self.keys += keys;
        self.queries += sizes().sum::<f64>() - keys;
    }

    /// Adds the values and the result of a last product.
    fn add_last(&mut self, graph: &Graph, product: usize, own: &BTreeSet<usize>) {
        let values = forward_inputs(graph, product).filter(|(_, tensor)| !own.contains(&tensor.producer));
        self.values += values.map(|(tensor, _)| size(graph, tensor)).sum::<f64>();
        self.results += outputs(graph, product).map(|(tensor, _)| size(graph, tensor)).fold(0.0, f64::max);
    }

    /// Bytes of keys and values.
    fn passed(&self) -> f64 {
        self.keys + self.values
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
                let passed = Some(&self.passed()).filter(is_there).copied();
                passed.map_or(0.0, |bytes| all_gather(count, bytes_of(bytes), link))
            }
            ContextExchange::AllToAll => {
                let tensors = [self.queries, self.keys, self.values, self.results];
                tensors.iter().filter(is_there).map(|&bytes| all_to_all(count, bytes_of(bytes), link)).sum()
            }
        }
    }

    /// Bytes of the workspace, times the share of a device: keys and values twice, or what is exchanged for heads.
    pub(super) fn workspace(&self, exchange: ContextExchange) -> f64 {
        match exchange {
            ContextExchange::Ring => 2.0 * self.passed(),
            ContextExchange::AllToAll => self.queries + self.passed(),
        }
    }

    /// Figures that determine the costs of the exchange.
    pub(super) fn figures(&self) -> impl Iterator<Item = u64> {
        [self.queries, self.keys, self.values, self.results].map(f64::to_bits).into_iter()
    }
}

/// The exchanges of the attentions of every layer: each softmax is one, in its layer. O(attentions · pins).
pub(super) fn exchanges(
    graph: &Graph,
    kinds: &Kinds,
    attention: &Attention,
    layer_of: &[usize],
    layers: usize,
) -> Vec<Vec<Exchange>> {
    let is_softmax = |operator: usize| kinds.is(operator, "softmax") && attention.is_inside[operator];
    let mut exchanges = vec![Vec::new(); layers];
    let all = 0..graph.operators.len();
    for softmax in all.filter(|&operator| graph.pass(operator) == Pass::Forward && is_softmax(operator)) {
        let before = |operator: usize| -> Vec<usize> {
            forward_inputs(graph, operator).map(|(_, tensor)| tensor.producer).collect()
        };
        let after = |operator: usize| -> Vec<usize> {
            let readers = outputs(graph, operator).flat_map(|(_, tensor)| &tensor.consumers);
            readers.copied().filter(|&reader| graph.pass(reader) == Pass::Forward).collect()
        };
        // Another softmax begins another attention.
        let is_between = |operator: usize| attention.is_inside[operator] && !is_softmax(operator);
        let (first, inner) = walk(softmax, before, is_between, |operator| attention.is_first[operator]);
        let (last, behind) = walk(softmax, after, is_between, |operator| attention.is_last[operator]);
        let own = [&first, &inner, &last, &behind].into_iter().flatten().copied().collect();
        let mut exchange = Exchange::default();
        first.iter().for_each(|&product| exchange.add_first(graph, product));
        last.iter().for_each(|&product| exchange.add_last(graph, product, &own));
        exchanges[layer_of[softmax]].push(exchange);
    }
    exchanges
}

/// The operators at which paths from `start` over operators in between end, and those in between, with the start.
fn walk(
    start: usize,
    next: impl Fn(usize) -> Vec<usize>,
    is_between: impl Fn(usize) -> bool,
    is_end: impl Fn(usize) -> bool,
) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let (mut ends, mut seen, mut open) = (BTreeSet::new(), BTreeSet::from([start]), vec![start]);
    while let Some(operator) = open.pop() {
        for reached in next(operator) {
            if is_end(reached) {
                ends.insert(reached);
            } else if is_between(reached) && seen.insert(reached) {
                open.push(reached);
            }
        }
    }
    (ends, seen)
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
    /// The limits of a graph under a runtime.
    pub(super) fn new(
        graph: &Graph,
        kinds: &Kinds,
        attention: &Attention,
        runtime: Option<&RuntimeDocument>,
        batch: Option<BatchDocument>,
    ) -> Self {
        let is_joined = |operator: usize| attention.is_first[operator] || attention.is_last[operator];
        let is_apart = |operator: usize| {
            graph.pass(operator) == Pass::Forward && kinds.is_bare_product(operator) && !is_joined(operator)
        };
        let mut all = 0..graph.operators.len();
        let fault = if runtime.is_some_and(|runtime| !runtime.fused_attention) {
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
