//! Start and end times of calls, and ready times of operators.

use good_lp::{Expression, Variable, constraint};
use rustc_hash::FxHashMap;
use stagewright_core::graph::OpId;

use super::nodes::NodeId;
use super::reach::SLACK;
use super::scope::{End, Moment};
use super::writer::Writer;
use crate::choice::Term;

impl Writer<'_> {
    /// Adds the times of calls, of operators, and of nodes between decisions.
    pub(super) fn times(&mut self) {
        let scope = self.scope;
        for _ in scope.calls.iter() {
            let (start, finish) = (self.time(0.0), self.time(0.0));
            self.start.push(start);
            self.finish.push(finish);
        }
        for op in scope.offload.graph().operators() {
            let ready = match (scope.block_of(op), scope.outside(op)) {
                (Some(block), _) => {
                    let only = match scope.blocks[block].domain[..] {
                        [seat] => scope.call_at(seat),
                        _ => None,
                    };
                    match only {
                        Some(call) => self.finish[call].into(),
                        None => {
                            let least = self.scaled(self.reach.ready(op));
                            self.time(least * (1.0 - SLACK)).into()
                        }
                    }
                }
                (None, Some((_, Moment::Known(start)))) => self.scaled(start).into(),
                (None, Some((node, Moment::Between(_)))) => self.node(node).into(),
                _ => continue,
            };
            self.ready[op.index()] = Some(ready);
        }
    }

    pub(super) fn node(&mut self, node: NodeId) -> Variable {
        if let Some(&known) = self.nodes.get(&node) {
            return known;
        }
        let time = self.time(0.0);
        self.nodes.insert(node, time);
        time
    }

    /// Time at which the result of an operator is ready; `None` if nothing decided follows.
    pub(super) fn ready(&self, op: OpId) -> Option<Expression> {
        self.ready[op.index()].clone()
    }

    /// Adds the loads, starts and ends of the open calls, and their order on an accelerator.
    pub(super) fn calls(&mut self) {
        let (scope, value, high) = (self.scope, self.value, self.high);
        for call in scope.calls.ids() {
            let (start, finish) = (self.start[call], self.finish[call]);
            let mut load = Expression::from(start);
            for (index, block) in scope.blocks.enumerate() {
                let here = self.at(index, scope.calls[call]);
                if !here.is_zero() {
                    let sum: f64 = block.ops.iter().map(|&op| scope.seconds(op, scope.calls[call])).sum();
                    load.add_mul(self.scaled(sum), here.expression());
                }
            }
            let mut waits: FxHashMap<OpId, Vec<Term>> = FxHashMap::default();
            let mut producers: Vec<OpId> = Vec::new();
            for tensor in self.tensors.iter() {
                for term in [tensor.received[call], tensor.sent[call]] {
                    if !term.is_zero() && tensor.cost[call] > 0.0 {
                        load.add_mul(tensor.cost[call], term.expression());
                    }
                }
                if !tensor.received[call].is_zero() {
                    let terms = waits.entry(tensor.producer).or_default();
                    if terms.is_empty() {
                        producers.push(tensor.producer);
                    }
                    terms.push(tensor.received[call]);
                }
            }
            self.rows.push(constraint!(finish == load));
            self.rows.push(constraint!(value >= finish));
            for producer in producers {
                let head = self.scaled(self.reach.ready(producer)) * (1.0 - SLACK);
                let Some(ready) = self.ready(producer) else { continue };
                for &term in &waits[&producer] {
                    let waits = term.expression();
                    if head > 0.0 {
                        self.rows.push(constraint!(start >= head * waits.clone()));
                    }
                    if !matches!(scope.outside(producer), Some((_, Moment::Known(_)))) {
                        let rest = high * (1.0 - waits);
                        self.rows.push(constraint!(start >= ready.clone() - rest));
                    }
                }
            }
        }
        self.in_order();
    }

    fn in_order(&mut self) {
        let scope = self.scope;
        for &(call, next) in &scope.chain {
            let finished: Expression = match call {
                End::Open(call) => self.finish[call].into(),
                End::Closed(node) => match scope.moment(node) {
                    Moment::Known(finish) => self.scaled(finish).into(),
                    Moment::Between(_) => self.node(node).into(),
                    Moment::Last(_) => continue,
                },
            };
            match next {
                End::Open(call) => {
                    let start = self.start[call];
                    self.rows.push(constraint!(start >= finished));
                }
                End::Closed(node) => self.outside(node, scope.moment(node), finished),
            }
        }
    }

    /// Adds the row of an outside node that starts once `done` has passed.
    fn outside(&mut self, node: NodeId, moment: Moment, done: Expression) {
        match moment {
            Moment::Known(_) => {}
            Moment::Between(seconds) => {
                let (time, seconds) = (self.node(node), self.scaled(seconds));
                self.rows.push(constraint!(time >= done + seconds));
            }
            Moment::Last(tail) => {
                let (value, tail) = (self.value, self.scaled(tail));
                self.rows.push(constraint!(value >= done + tail));
            }
        }
    }

    /// Adds the rows of edges and of operators.
    pub(super) fn edges(&mut self) {
        let (scope, reach, value, high) = (self.scope, self.reach, self.value, self.high);
        let graph = scope.offload.graph();
        for to in graph.operators() {
            if scope.block_of(to).is_some() {
                self.decided(to);
            }
            for &from in graph.predecessors(to) {
                if scope.block_of(to).is_some() {
                    self.edge(from, to);
                    continue;
                }
                let (Some(ready), Some((node, moment))) = (self.ready(from), scope.outside(to)) else {
                    continue;
                };
                if scope.outside(from).is_some_and(|outside| outside.0 == node) {
                    continue;
                }
                self.outside(node, moment, ready);
            }
        }
        for op in graph.operators().filter(|&op| scope.block_of(op).is_some()) {
            let ready = self.ready(op).expect("what is decided has a time");
            let tail = self.scaled(reach.after(op)) * (1.0 - SLACK);
            let mut ends = ready.clone();
            for (_, host) in self.on_hosts(op) {
                ends.add_mul(tail, host.expression());
            }
            self.rows.push(constraint!(value >= ends));
            // All operators of a call finish together.
            for call in scope.calls.ids() {
                if let Term::Variable(here) = self.within(op, call) {
                    let finish = self.finish[call];
                    let least = self.scaled(reach.ready(op)) * (1.0 - SLACK);
                    let rest = (high - least).max(0.0) * (1.0 - here);
                    self.rows.push(constraint!(ready.clone() >= finish - rest));
                }
            }
        }
    }

    /// Adds the lower bound on the ready time of an operator: its own time after its predecessors at their fastest.
    fn decided(&mut self, op: OpId) {
        let before = self.scaled(self.reach.before(op)) * (1.0 - SLACK);
        let mut least = Expression::from(before);
        for (seconds, term) in self.on_hosts(op) {
            least.add_mul(seconds, term.expression());
        }
        for call in self.scope.calls.ids() {
            let here = self.within(op, call);
            if !here.is_zero() {
                let seconds = self.scaled(self.scope.seconds(op, self.scope.calls[call]));
                least.add_mul(seconds, here.expression());
            }
        }
        let ready = self.ready(op).expect("what is decided has a time");
        self.rows.push(constraint!(ready >= least));
    }

    /// Adds the rows of an edge that leads to a decided operator.
    fn edge(&mut self, from: OpId, to: OpId) {
        let (scope, value) = (self.scope, self.value);
        let Some(ready) = self.ready(from) else { return };
        let mut after = ready.clone();
        for (seconds, host) in self.on_hosts(to) {
            after.add_mul(seconds, host.expression());
        }
        // Minimum time of everything from `to` on, once `from` is done.
        let behind = self.scaled(self.reach.from(to)) * (1.0 - SLACK);
        let mut end = ready;
        for (_, host) in self.on_hosts(to) {
            end.add_mul(behind, host.expression());
        }
        for call in scope.calls.ids() {
            let enters = self.enters(from, to, call);
            if enters.is_zero() {
                continue;
            }
            let seconds = self.scaled(scope.seconds(to, scope.calls[call]));
            after.add_mul(seconds, enters.expression());
            end.add_mul(behind, enters.expression());
        }
        for call in scope.calls.ids() {
            let (here, there) = (self.within(from, call), self.within(to, call));
            if let Term::Variable(here) = here {
                let finish = self.finish[call];
                self.rows.push(constraint!(value >= finish + behind * (here - there.expression())));
            }
        }
        let ready = self.ready(to).expect("what is decided has a time");
        self.rows.push(constraint!(ready >= after));
        self.rows.push(constraint!(value >= end));
    }
}
