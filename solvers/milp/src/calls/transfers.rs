//! Tensors: the calls that they enter and leave, and their cost on a path.

use std::collections::BTreeMap;

use good_lp::{Expression, constraint};
use stagewright_core::graph::{OpId, TensorId};
use stagewright_core::ids::Keyed;

use super::scope::CallId;
use super::writer::{Tensor, Writer};
use crate::choice::Term;

impl Writer<'_> {
    /// Merges tensors, and adds the variables of the calls that they enter and leave.
    pub(super) fn tensors(&mut self) {
        let scope = self.scope;
        let graph = scope.offload.graph();
        let mut merged: BTreeMap<(OpId, &[OpId]), Vec<TensorId>> = BTreeMap::new();
        for tensor in graph.tensors().filter(|&tensor| !graph.consumers(tensor).is_empty()) {
            if graph.pins(tensor).iter().any(|&op| scope.block_of(op).is_some()) {
                merged.entry((graph.producer(tensor), graph.consumers(tensor))).or_default().push(tensor);
            }
        }
        for ((producer, consumers), parts) in merged {
            let consumers = consumers.to_vec();
            let mut tensor = Tensor {
                producer,
                consumers,
                cost: Keyed::new(),
                received: Keyed::new(),
                sent: Keyed::new(),
            };
            for call in scope.calls.ids() {
                let pool = scope.seats.pool(scope.calls[call]);
                let seconds: f64 = parts.iter().map(|&part| scope.offload.transfer(part, pool)).sum();
                // A transfer that is capped here takes longer than the plan, and is excluded either way.
                tensor.cost.push(self.scaled(seconds).min(2.0 * self.high));
                let entering = tensor.consumers.clone();
                let entering = entering.into_iter().map(|to| self.enters(producer, to, call)).collect();
                tensor.received.push(self.any(entering));
                let sent = self.leaves(producer, &tensor.consumers, call);
                tensor.sent.push(sent);
            }
            self.tensors.push(tensor);
        }
    }

    /// Whether an operator is in a call and some consumer is not.
    fn leaves(&mut self, producer: OpId, consumers: &[OpId], call: CallId) -> Term {
        let here = self.within(producer, call);
        let block = self.scope.block_of(producer);
        let away: Vec<Term> = consumers
            .iter()
            .filter(|&&to| self.scope.block_of(to) != block)
            .map(|&to| self.within(to, call))
            .collect();
        if here.is_zero() || away.is_empty() {
            return Term::Constant(0.0);
        }
        if away.iter().any(|away| away.is_zero()) {
            return here;
        }
        if away.iter().all(|away| matches!(away, Term::Constant(_))) {
            return Term::Constant(0.0);
        }
        let leaves = self.fraction();
        for away in away {
            self.rows.push(constraint!(leaves >= here.expression() - away.expression()));
        }
        Term::Variable(leaves)
    }

    /// Time that an operator adds to every path through it: its own time, and its inputs and outputs that its call pays
    /// for.
    pub(super) fn on_path(&self, op: OpId, tensors: &TensorsOf) -> Expression {
        let mut sum = Expression::from(0.0);
        for (seconds, term) in self.on_hosts(op) {
            sum.add_mul(seconds, term.expression());
        }
        for (call, &seat) in self.scope.calls.enumerate() {
            let here = self.within(op, call);
            if !here.is_zero() {
                sum.add_mul(self.scaled(self.scope.seconds(op, seat)), here.expression());
            }
        }
        for &tensor in &tensors.out[op.index()] {
            let tensor = &self.tensors[tensor];
            for (cost, sent) in tensor.cost.iter().zip(tensor.sent.iter()) {
                sum.add_mul(*cost, sent.expression());
            }
        }
        for &tensor in &tensors.first[op.index()] {
            let tensor = &self.tensors[tensor];
            for call in self.scope.calls.ids() {
                let entered = self.entered(tensor.producer, op, call);
                sum.add_mul(tensor.cost[call], entered.expression());
            }
        }
        sum
    }

    /// Looks up [`Writer::enters`], without adding a variable.
    fn entered(&self, from: OpId, to: OpId, call: CallId) -> Term {
        let Some(to) = self.scope.block_of(to) else { return Term::Constant(0.0) };
        let here = self.at(to, self.scope.calls[call]);
        let Some(from) = self.scope.block_of(from) else { return here };
        let there = self.at(from, self.scope.calls[call]);
        match self.enters.get(&(from, to, call)) {
            Some(&known) => known,
            None if from == to => Term::Constant(0.0),
            None => match (here, there) {
                (_, Term::Constant(0.0)) => here,
                _ => Term::Constant(0.0),
            },
        }
    }
}

/// Tensors by operator.
pub(super) struct TensorsOf {
    /// Tensors that the operator produces.
    out: Vec<Vec<u32>>,
    /// Tensors of which the operator is the first reader in the graph's topological order: no path contains two first
    /// readers of one tensor.
    first: Vec<Vec<u32>>,
}

impl TensorsOf {
    pub(super) fn new(writer: &Writer<'_>) -> TensorsOf {
        let graph = writer.scope.offload.graph();
        let mut position = vec![0u32; graph.operator_count()];
        for (index, op) in (0..).zip(graph.topological()) {
            position[op.index()] = index;
        }
        let mut tensors =
            TensorsOf { out: vec![Vec::new(); position.len()], first: vec![Vec::new(); position.len()] };
        for (id, tensor) in writer.tensors.enumerate() {
            tensors.out[tensor.producer.index()].push(id);
            if let Some(first) = tensor.consumers.iter().min_by_key(|op| position[op.index()]) {
                tensors.first[first.index()].push(id);
            }
        }
        tensors
    }
}
