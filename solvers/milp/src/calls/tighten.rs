//! Rows that are redundant for plans but tighten the relaxation; see [`super`].

use good_lp::{Expression, Variable, constraint, variable};
use rustc_hash::FxHashMap;
use stagewright_core::graph::OpId;
use stagewright_core::ids::Keyed;

use super::nodes::NodeId;
use super::scope::{CallId, End, Moment};
use super::transfers::TensorsOf;
use super::writer::Writer;
use crate::choice::Term;

/// Maximum number of rows for pairs of calls that may wait for one another.
const MAX_PAIR_ROWS: usize = 20_000;

impl Writer<'_> {
    /// Adds the rows of paths: operators with the transfers that they pay for, without large constants.
    pub(super) fn add_paths(&mut self) {
        let scope = self.scope;
        let graph = scope.offload.graph();
        let tensors = TensorsOf::new(self);
        let mut along: Vec<Option<Variable>> = vec![None; graph.operator_count()];
        for &op in graph.topological() {
            if scope.block_of(op).is_none() {
                continue;
            }
            let here = self.time(0.0);
            let cost = self.on_path(op, &tensors);
            self.rows.push(constraint!(here >= cost.clone()));
            for &from in graph.predecessors(op) {
                let before = match along[from.index()] {
                    Some(before) => before.into(),
                    None => match self.ready(from) {
                        Some(ready) => ready,
                        None => continue,
                    },
                };
                self.rows.push(constraint!(here >= before + cost.clone()));
            }
            let ready = self.ready(op).expect("what is decided has a time");
            self.rows.push(constraint!(ready >= here));
            along[op.index()] = Some(here);
        }
    }

    /// Adds the rows of the order of calls: convexity and symmetry breaking as rows of operators, and the order in time
    /// of two calls as a binary for each pair.
    pub(super) fn add_order(&mut self) {
        let calls = self.scope.calls.ids();
        let waits: Keyed<CallId, Vec<Option<Variable>>> =
            calls.clone().map(|call| self.waits_for(call)).collect();
        for (call, waits) in waits.enumerate() {
            self.named_in_order(call, waits);
        }
        let operators = self.scope.offload.graph().operator_count();
        if operators * calls.len() * calls.len() <= MAX_PAIR_ROWS {
            for call in calls.clone() {
                for next in calls.clone() {
                    self.pair(call, next, &waits[call]);
                }
            }
        }
    }

    /// By operator: whether the operator is outside a call and waits for the call.
    fn waits_for(&mut self, call: CallId) -> Vec<Option<Variable>> {
        let graph = self.scope.offload.graph();
        let mut waits: Vec<Option<Variable>> = vec![None; graph.operator_count()];
        for &op in graph.topological() {
            let before: Vec<OpId> = graph.predecessors(op).to_vec();
            if before.is_empty() {
                continue;
            }
            let here = self.fraction();
            for from in before {
                if !self.within(from, call).is_zero() && self.scope.block_of(from) != self.scope.block_of(op)
                {
                    let (left, stayed) = (self.within(from, call), self.within(op, call));
                    self.rows.push(constraint!(here >= left.expression() - stayed.expression()));
                }
                if let Some(before) = waits[from.index()] {
                    self.rows.push(constraint!(here >= before));
                }
            }
            waits[op.index()] = Some(here);
        }
        waits
    }

    /// Calls with higher numbers than a call: no operator of the call comes after an operator of theirs.
    fn later(&self, call: CallId) -> Vec<CallId> {
        let seats = self.scope.seats;
        let own = self.scope.calls[call];
        let seat = seats.seat(own);
        let is_later = |&other: &CallId| {
            let there = self.scope.calls[other];
            match seats.beside(own).contains(&there) {
                true => there > own,
                // The first calls of a pool's devices can be made in the order of the devices.
                false => seat.call == Some(0) && seats.seat(there).pool == seat.pool && there > own,
            }
        };
        self.scope.calls.ids().filter(is_later).collect()
    }

    /// Adds the rows by which an operator that waits for a call, or for a call with a higher number, is not in the
    /// call.
    fn named_in_order(&mut self, call: CallId, waits: &[Option<Variable>]) {
        let graph = self.scope.offload.graph();
        let later = self.later(call);
        // Calls that have this call and all its later calls among their own later calls.
        let earlier: Vec<CallId> = self
            .scope
            .calls
            .ids()
            .filter(|&other| {
                let than = self.later(other);
                than.contains(&call) && later.iter().all(|later| than.contains(later))
            })
            .collect();
        let mut after: Vec<Option<Variable>> = vec![None; graph.operator_count()];
        for &op in graph.topological() {
            let Some(waits) = waits[op.index()] else { continue };
            let here = match later.is_empty() {
                true => waits,
                false => {
                    let here = self.fraction();
                    self.rows.push(constraint!(here >= waits));
                    for &from in graph.predecessors(op) {
                        let named: Expression =
                            later.iter().map(|&later| self.within(from, later).expression()).sum();
                        self.rows.push(constraint!(here >= named));
                        if let Some(before) = after[from.index()] {
                            self.rows.push(constraint!(here >= before));
                        }
                    }
                    here
                }
            };
            after[op.index()] = Some(here);
            let within = earlier.iter().chain([&call]).map(|&call| self.within(op, call));
            let within: Vec<Term> = within.filter(|term| !term.is_zero()).collect();
            if !within.is_empty() {
                let within: Expression = within.into_iter().map(Term::expression).sum();
                self.rows.push(constraint!(within + here <= 1.0));
            }
        }
    }

    /// Adds the binary variable that is 1 if call `next` waits for call `call`.
    fn pair(&mut self, call: CallId, next: CallId, waits: &[Option<Variable>]) {
        let seats = self.scope.seats;
        let seat_of = |call: CallId| self.scope.calls[call];
        if call == next
            || self.later(next).contains(&call)
            || seats.beside(seat_of(call)).contains(&seat_of(next))
        {
            return;
        }
        let follows = self.add(variable().binary());
        self.follows.push((call, next, self.last_column()));
        let graph = self.scope.offload.graph();
        for op in graph.operators() {
            let here = self.within(op, next);
            if let (Some(waits), false) = (waits[op.index()], here.is_zero()) {
                self.rows.push(constraint!(follows >= waits + here.expression() - 1.0));
            }
        }
        let (start, finish, high) = (self.start[next], self.finish[call], self.high);
        self.rows.push(constraint!(start >= finish - high * (1.0 - follows)));
    }

    /// Adds positions from 0 to 1 in an order of everything that can be on a cycle, at least one step apart along every
    /// edge. They exclude the cycles that times miss because something takes no time, or almost none.
    ///
    /// In a part of a plan, the nodes with positions are the open calls, the operators of blocks, and the nodes
    /// between, which include closed calls.
    ///
    /// *Proof.* The plan is acyclic, so a cycle that a choice closes contains something decided, and everything else on
    /// the cycle comes both before and after that: it is decided or between. Each edge of the cycle then has a row that
    /// raises the position by a step, which cannot hold all the way round. Conversely, an acyclic choice satisfies all
    /// rows if its nodes are numbered in topological order and an operator in a call has the number of the call. ∎
    pub(super) fn add_positions(&mut self) {
        let scope = self.scope;
        let graph = scope.offload.graph();
        let step = 1.0 / scope.places() as f64;
        let calls: Keyed<CallId, Variable> = scope.calls.iter().map(|_| self.fraction()).collect();
        let mut nodes: FxHashMap<NodeId, Variable> = FxHashMap::default();
        let mut ops: Vec<Option<Variable>> = Vec::with_capacity(graph.operator_count());
        for op in graph.operators() {
            ops.push(match scope.outside(op) {
                None => Some(self.fraction()),
                Some((node, Moment::Between(_))) => {
                    Some(*nodes.entry(node).or_insert_with(|| self.fraction()))
                }
                Some(_) => None,
            });
        }
        for to in graph.operators() {
            let Some(here) = ops[to.index()] else { continue };
            for (call, &position) in calls.enumerate() {
                let within = self.within(to, call);
                if !within.is_zero() {
                    let rest = 1.0 - within.expression();
                    self.rows.push(constraint!(here - position <= rest.clone()));
                    self.rows.push(constraint!(position - here <= rest));
                }
            }
            let outside = scope.outside(to).is_some();
            for &from in graph.predecessors(to) {
                // Operators of one closed call share a position.
                let Some(before) = ops[from.index()].filter(|&before| before != here) else { continue };
                let mut after = Expression::from(before);
                if outside {
                    after += step;
                }
                for (_, host) in self.on_hosts(to) {
                    after.add_mul(step, host.expression());
                }
                for call in calls.ids() {
                    after.add_mul(step, self.enters(from, to, call).expression());
                }
                self.rows.push(constraint!(here >= after));
            }
        }
        let position = |end| match end {
            End::Open(call) => Some(calls[call]),
            End::Closed(node) => nodes.get(&node).copied(),
        };
        for &(call, next) in &scope.chain {
            if let (Some(call), Some(next)) = (position(call), position(next)) {
                self.rows.push(constraint!(next >= call + step));
            }
        }
    }
}
