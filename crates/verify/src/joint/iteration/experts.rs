//! Experts: the forward operators after a dispatch and before a combine.

use stagewright_core::document::Pass;

use super::kinds::{Kinds, colocated, forward_inputs, in_order, outputs, size};
use crate::read::Graph;

/// The experts of a graph.
#[derive(Debug)]
pub(super) struct Experts {
    /// Whether an operator belongs to an expert; decided by its class if it is not a forward operator.
    pub(super) is_expert: Vec<bool>,
    /// Dispatches, each with the bytes that experts read from it, and combines, each with the bytes that it reads from
    /// experts.
    pub(super) exchanges: Vec<(usize, f64)>,
    /// Number of experts of every dispatch: the number that it states, otherwise one for every output.
    pub(super) counts: Vec<u64>,
}

impl Experts {
    /// Finds the experts. O(operators + pins).
    pub(super) fn new(graph: &Graph, kinds: &Kinds) -> Self {
        let count = graph.operators.len();
        let forward = in_order(graph, Pass::Forward);
        let is_dispatch = |operator: usize| kinds.is(operator, "dispatch");
        let is_combine = |operator: usize| kinds.is(operator, "combine");
        let (mut behind, mut before) = (vec![false; count], vec![false; count]);
        for &operator in forward.iter().filter(|&&operator| !is_combine(operator)) {
            behind[operator] = forward_inputs(graph, operator)
                .any(|(_, tensor)| is_dispatch(tensor.producer) || behind[tensor.producer]);
        }
        for &operator in forward.iter().rev().filter(|&&operator| !is_dispatch(operator)) {
            before[operator] = outputs(graph, operator)
                .any(|(_, tensor)| tensor.consumers.iter().any(|&to| is_combine(to) || before[to]));
        }
        let is_inside: Vec<bool> = (0..count)
            .map(|operator| {
                behind[operator] && before[operator] && !is_dispatch(operator) && !is_combine(operator)
            })
            .collect();
        let (mut exchanges, mut counts) = (Vec::new(), Vec::new());
        for &operator in &forward {
            if is_dispatch(operator) {
                let read = |&to: &usize| graph.pass(to) == Pass::Forward;
                let sent = outputs(graph, operator).filter(|(_, tensor)| tensor.consumers.iter().any(read));
                let stated = graph.operators[operator].experts.map(|experts| u64::from(experts.get()));
                counts.push(stated.unwrap_or(sent.count() as u64));
                let to_experts = outputs(graph, operator)
                    .filter(|(_, tensor)| tensor.consumers.iter().any(|&to| is_inside[to]));
                exchanges.push((operator, to_experts.map(|(tensor, _)| size(graph, tensor)).sum()));
            }
            if is_combine(operator) {
                let from_experts =
                    forward_inputs(graph, operator).filter(|(_, tensor)| is_inside[tensor.producer]);
                exchanges.push((operator, from_experts.map(|(tensor, _)| size(graph, tensor)).sum()));
            }
        }
        Experts { is_expert: colocated(graph, &is_inside), exchanges, counts }
    }

    /// Checks that a degree of expert parallelism divides the number of experts of every dispatch, and that it is 1
    /// without experts. The error states the requirement.
    pub(super) fn allow(&self, degree: u64) -> Result<(), String> {
        let is_whole = |count: &&u64| degree == 0 || count.is_multiple_of(degree);
        match self.counts.iter().find(|count| !is_whole(count)) {
            Some(count) => Err(format!("a divisor of the {count} experts of a dispatch")),
            None if self.counts.iter().all(|&count| count == 0) && degree > 1 => {
                Err("1: there are no experts".to_owned())
            }
            None => Ok(()),
        }
    }
}
