//! Heads of attentions, which tensor parallelism divides.

use stagewright_core::document::BatchDocument;

use super::attention::Attention;
use super::kinds::{forward_inputs, outputs};
use crate::read::Graph;

/// Numbers of query heads and of key heads, if the sizes of tensors determine them as whole numbers.
pub(super) fn heads(graph: &Graph, attention: &Attention, batch: Option<BatchDocument>) -> Vec<u64> {
    let Some((samples, tokens)) = batch.and_then(|batch| Some((batch.samples, batch.tokens?))) else {
        return Vec::new();
    };
    let scores = samples.get() as f64 * tokens.get() as f64 * tokens.get() as f64;
    let mut heads = Vec::new();
    for (operator, document) in graph.operators.iter().enumerate() {
        let Some(precision) = document.precision.filter(|_| attention.is_first[operator]) else { continue };
        let written = outputs(graph, operator).map(|(_, tensor)| tensor.document.bytes).fold(0.0, f64::max);
        let read: Vec<f64> =
            forward_inputs(graph, operator).map(|(_, tensor)| tensor.document.bytes).collect();
        let queries = written / (precision.bytes() * scores);
        let (least, largest) =
            (read.iter().copied().fold(f64::INFINITY, f64::min), read.iter().copied().fold(0.0, f64::max));
        let is_whole = |count: &f64| *count >= 1.0 && count.fract() == 0.0 && *count <= 1e9;
        heads.extend(
            [queries, queries * least / largest].into_iter().filter(is_whole).map(|count| count as u64),
        );
    }
    heads
}
