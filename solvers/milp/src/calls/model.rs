//! The program of a scope in variables and rows; see [`super`] for what they say.

use std::collections::BTreeMap;

use good_lp::solvers::highs::{HighsProblem, highs};
use good_lp::{
    Constraint, Expression, ProblemVariables, SolverModel, Variable, VariableDefinition, constraint, variable,
};
use rustc_hash::FxHashMap;
use stagewright_core::graph::{OpId, TensorId};
use stagewright_core::tolerance::MEMORY_RELATIVE;

use super::reach::Reach;
use super::scope::{End, Moment, Scope};
use super::seats::bytes;
use crate::choice::{Choices, Term};
use crate::run::Model;

/// The value, in the model's unit, that the known value becomes, and the capacity that a memory becomes:
/// HiGHS has absolute tolerances.
const SCALE: f64 = 100.0;
const MEMORY_SCALE: f64 = 1e4;
/// By how much more than the known value a plan may be worth, which is rounding.
pub(super) const SLACK: f64 = 1e-9;

/// What is known before the program is solved.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    /// A lower bound on the value, seconds.
    pub low: f64,
    /// The value of a plan, or of any plan that loses no time; finite.
    pub high: f64,
}

/// Rows that a program may do without.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rows {
    /// Those of the order of calls, for the whole of a problem alone: in a part calls have their names.
    pub order: bool,
    /// Those that exclude every cycle, however short.
    pub positions: bool,
}

/// The program.
pub struct CallsModel {
    variables: ProblemVariables,
    rows: Vec<Constraint>,
    objective: Expression,
    choices: Choices,
    /// Column of the variable that says whether an open call comes after another.
    follows: Vec<(u32, u32, usize)>,
    unit_seconds: f64,
}

impl CallsModel {
    /// The program of a scope. O(calls · (operators + edges) · (seats of a block + calls)).
    pub fn new(scope: &Scope<'_>, reach: &Reach, range: Range, rows: Rows) -> CallsModel {
        let mut writer = Writer::new(scope, reach, range);
        writer.add_paths();
        if rows.order {
            writer.add_order();
        }
        if rows.positions {
            writer.add_positions();
        }
        writer.write()
    }

    /// The columns of a start from a seat for every block. `follows` says whether the second of two open
    /// calls waits for the first.
    pub fn start(&self, chosen: &[u32], follows: impl Fn(u32, u32) -> bool) -> Vec<f64> {
        let mut columns = vec![0.0; self.variables.len()];
        self.choices.write(chosen, &mut columns);
        for &(one, next, column) in &self.follows {
            columns[column] = f64::from(u8::from(follows(one, next)));
        }
        columns
    }
}

impl Model for CallsModel {
    fn into_highs(self) -> HighsProblem {
        let mut program = self.variables.minimise(self.objective).using(highs);
        for row in self.rows {
            program.add_constraint(row);
        }
        program
    }

    fn choices(&self) -> &Choices {
        &self.choices
    }

    fn is_linear(&self) -> bool {
        self.choices.are_made() && self.follows.is_empty()
    }

    fn columns(&self) -> usize {
        self.variables.len()
    }

    fn unit_seconds(&self) -> f64 {
        self.unit_seconds
    }
}

/// A tensor, or several with the same producer and consumers.
pub(super) struct Tensor {
    pub(super) producer: OpId,
    pub(super) consumers: Vec<OpId>,
    /// By open call, in the model's unit.
    cost: Vec<f64>,
    /// Whether it is brought into an open call.
    received: Vec<Term>,
    /// Whether it is sent out of one.
    sent: Vec<Term>,
}

pub(super) struct Writer<'a> {
    pub(super) scope: &'a Scope<'a>,
    pub(super) reach: &'a Reach,
    pub(super) rows: Vec<Constraint>,
    variables: ProblemVariables,
    columns: usize,
    choices: Vec<Vec<(u32, usize)>>,
    /// The seats of each block.
    seats: Vec<Vec<(u32, Term)>>,
    /// Whether a block is in an open call and another is not: by the two and the call.
    enters: FxHashMap<(u32, u32, u32), Term>,
    pub(super) tensors: Vec<Tensor>,
    /// By operator, where it has one.
    ready: Vec<Option<Expression>>,
    nodes: FxHashMap<u32, Variable>,
    pub(super) start: Vec<Variable>,
    pub(super) finish: Vec<Variable>,
    pub(super) value: Variable,
    /// Most that the value may be, in the model's unit.
    pub(super) high: f64,
    unit: f64,
    pub(super) follows: Vec<(u32, u32, usize)>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(scope: &'a Scope<'a>, reach: &'a Reach, range: Range) -> Writer<'a> {
        let unit = Some(range.high / SCALE).filter(|unit| unit.is_normal()).unwrap_or(1.0);
        let high = range.high / unit * (1.0 + SLACK);
        let low = range.low.max(scope.latest_known).max(reach.longest()) / unit * (1.0 - SLACK);
        let mut variables = ProblemVariables::new();
        let value = variables.add(variable().min(low.min(high)).max(high));
        let mut writer = Writer {
            scope,
            reach,
            rows: Vec::new(),
            variables,
            columns: 1,
            choices: Vec::new(),
            seats: Vec::new(),
            enters: FxHashMap::default(),
            tensors: Vec::new(),
            ready: vec![None; scope.offload.graph().operator_count()],
            nodes: FxHashMap::default(),
            start: Vec::new(),
            finish: Vec::new(),
            value,
            high,
            unit,
            follows: Vec::new(),
        };
        writer.seats();
        writer.times();
        writer.tensors();
        writer.calls();
        writer.memory();
        writer.edges();
        writer
    }

    pub(super) fn write(self) -> CallsModel {
        CallsModel {
            objective: self.value.into(),
            variables: self.variables,
            rows: self.rows,
            choices: Choices {
                columns: self.choices,
                first: self.scope.blocks.iter().map(|block| block.domain[0]).collect(),
            },
            follows: self.follows,
            unit_seconds: self.unit,
        }
    }

    pub(super) fn add(&mut self, definition: VariableDefinition) -> Variable {
        self.columns += 1;
        self.variables.add(definition)
    }

    /// Column of the variable that was added last.
    pub(super) fn last_column(&self) -> usize {
        self.columns - 1
    }

    pub(super) fn fraction(&mut self) -> Variable {
        self.add(variable().min(0.0).max(1.0))
    }

    pub(super) fn time(&mut self, least: f64) -> Variable {
        let high = self.high;
        self.add(variable().min(least.min(high)).max(high))
    }

    pub(super) fn scaled(&self, seconds: f64) -> f64 {
        seconds / self.unit
    }

    fn seats(&mut self) {
        let scope = self.scope;
        for block in &scope.blocks {
            if let [seat] = block.domain[..] {
                self.seats.push(vec![(seat, Term::Constant(1.0))]);
                self.choices.push(Vec::new());
                continue;
            }
            let (mut seats, mut columns) = (Vec::new(), Vec::new());
            for &seat in &block.domain {
                seats.push((seat, Term::Variable(self.add(variable().binary()))));
                columns.push((seat, self.last_column()));
            }
            let sum: Expression = seats.iter().map(|&(_, term)| term.expression()).sum();
            self.rows.push(constraint!(sum == 1.0));
            self.seats.push(seats);
            self.choices.push(columns);
        }
        self.colocate();
    }

    /// Blocks of one class share a device.
    fn colocate(&mut self) {
        let scope = self.scope;
        let mut first: FxHashMap<u32, u32> = FxHashMap::default();
        for (at, block) in (0u32..).zip(&scope.blocks) {
            let one = *first.entry(block.class).or_insert(at);
            if one == at {
                continue;
            }
            let mut devices: Vec<u32> =
                block.domain.iter().map(|&seat| scope.seats.beside(seat).start).collect();
            devices
                .extend(scope.blocks[one as usize].domain.iter().map(|&seat| scope.seats.beside(seat).start));
            devices.sort_unstable();
            devices.dedup();
            if devices.len() < 2 {
                continue;
            }
            for device in devices {
                let [here, there] = [at, one].map(|block| self.on_device(block, device));
                self.rows.push(constraint!(here == there));
            }
        }
    }

    fn on_device(&self, block: u32, device: u32) -> Expression {
        let beside = self.scope.seats.beside(device);
        let here = self.seats[block as usize].iter().filter(|(seat, _)| beside.contains(seat));
        here.map(|&(_, term)| term.expression()).sum()
    }

    /// Whether a block has a seat.
    pub(super) fn at(&self, block: u32, seat: u32) -> Term {
        let found = self.seats[block as usize].iter().find(|&&(at, _)| at == seat);
        found.map_or(Term::Constant(0.0), |&(_, term)| term)
    }

    /// Whether an operator is in an open call; what is outside is in none.
    pub(super) fn within(&self, op: OpId, call: u32) -> Term {
        let block = self.scope.block_of(op);
        block.map_or(Term::Constant(0.0), |block| self.at(block, self.scope.calls[call as usize]))
    }

    /// The hosts that may run an operator, with its time there.
    pub(super) fn on_hosts(&self, op: OpId) -> Vec<(f64, Term)> {
        let Some(block) = self.scope.block_of(op) else { return Vec::new() };
        let seats = self.seats[block as usize].iter();
        let hosts = seats.filter(|(seat, _)| self.scope.call_at(*seat).is_none());
        hosts.map(|&(seat, term)| (self.scaled(self.scope.seconds(op, seat)), term)).collect()
    }

    /// Whether an operator is in a call that another is not in.
    pub(super) fn enters(&mut self, from: OpId, to: OpId, call: u32) -> Term {
        let Some(to) = self.scope.block_of(to) else { return Term::Constant(0.0) };
        let seat = self.scope.calls[call as usize];
        let here = self.at(to, seat);
        let Some(from) = self.scope.block_of(from) else { return here };
        if from == to || here.is_zero() {
            return Term::Constant(0.0);
        }
        let there = self.at(from, seat);
        match (here, there) {
            (_, Term::Constant(0.0)) => return here,
            (Term::Constant(here), Term::Constant(there)) => return Term::Constant((here - there).max(0.0)),
            _ => {}
        }
        if let Some(&known) = self.enters.get(&(from, to, call)) {
            return known;
        }
        let enters = self.fraction();
        self.rows.push(constraint!(enters >= here.expression() - there.expression()));
        self.enters.insert((from, to, call), Term::Variable(enters));
        Term::Variable(enters)
    }

    /// The least upper bound of some terms, as far as a minimum makes it so.
    fn any(&mut self, mut terms: Vec<Term>) -> Term {
        terms.retain(|term| !term.is_zero());
        if terms.iter().any(|term| matches!(term, Term::Constant(_))) {
            return Term::Constant(1.0);
        }
        let mut variables: Vec<Variable> = Vec::new();
        for term in &terms {
            if let Term::Variable(variable) = *term
                && !variables.contains(&variable)
            {
                variables.push(variable);
            }
        }
        match variables[..] {
            [] => Term::Constant(0.0),
            [one] => Term::Variable(one),
            _ => {
                let any = self.fraction();
                self.rows.extend(variables.into_iter().map(|one| constraint!(any >= one)));
                Term::Variable(any)
            }
        }
    }

    /// Times of calls, of operators and of nodes between.
    fn times(&mut self) {
        let scope = self.scope;
        for _ in &scope.calls {
            let (start, finish) = (self.time(0.0), self.time(0.0));
            self.start.push(start);
            self.finish.push(finish);
        }
        for op in scope.offload.graph().operators() {
            let ready = match (scope.block_of(op), scope.outside(op)) {
                (Some(block), _) => {
                    let only = match scope.blocks[block as usize].domain[..] {
                        [seat] => scope.call_at(seat),
                        _ => None,
                    };
                    match only {
                        Some(call) => self.finish[call as usize].into(),
                        None => {
                            let least = self.scaled(self.reach.ready(op));
                            self.time(least * (1.0 - SLACK)).into()
                        }
                    }
                }
                (None, Some((_, Moment::Known(at)))) => self.scaled(at).into(),
                (None, Some((node, Moment::Between(_)))) => self.node(node).into(),
                _ => continue,
            };
            self.ready[op.index()] = Some(ready);
        }
    }

    fn node(&mut self, node: u32) -> Variable {
        if let Some(&known) = self.nodes.get(&node) {
            return known;
        }
        let time = self.time(0.0);
        self.nodes.insert(node, time);
        time
    }

    /// The time at which a result is ready; none where nothing that is decided follows.
    pub(super) fn ready(&self, op: OpId) -> Option<Expression> {
        self.ready[op.index()].clone()
    }

    /// Merges tensors, and says which calls they enter and leave.
    fn tensors(&mut self) {
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
            let mut tensor =
                Tensor { producer, consumers, cost: Vec::new(), received: Vec::new(), sent: Vec::new() };
            for call in 0..scope.calls.len() as u32 {
                let pool = scope.seats.seat(scope.calls[call as usize]).pool as usize;
                let seconds: f64 = parts.iter().map(|&part| scope.offload.transfer(part, pool)).sum();
                // What takes longer than the plan is no plan either way.
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
    fn leaves(&mut self, producer: OpId, consumers: &[OpId], call: u32) -> Term {
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

    /// Loads, starts and ends of the open calls, and their order on an accelerator.
    fn calls(&mut self) {
        let (scope, value, high) = (self.scope, self.value, self.high);
        for call in 0..scope.calls.len() as u32 {
            let at = call as usize;
            let (start, finish) = (self.start[at], self.finish[at]);
            let mut load = Expression::from(start);
            for (index, block) in (0u32..).zip(&scope.blocks) {
                let here = self.at(index, scope.calls[at]);
                if !here.is_zero() {
                    let sum: f64 = block.ops.iter().map(|&op| scope.seconds(op, scope.calls[at])).sum();
                    load.add_mul(self.scaled(sum), here.expression());
                }
            }
            let mut waits: FxHashMap<OpId, Vec<Term>> = FxHashMap::default();
            let mut producers: Vec<OpId> = Vec::new();
            for tensor in &self.tensors {
                for term in [tensor.received[at], tensor.sent[at]] {
                    if !term.is_zero() && tensor.cost[at] > 0.0 {
                        load.add_mul(tensor.cost[at], term.expression());
                    }
                }
                if !tensor.received[at].is_zero() {
                    let terms = waits.entry(tensor.producer).or_default();
                    if terms.is_empty() {
                        producers.push(tensor.producer);
                    }
                    terms.push(tensor.received[at]);
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
        let (scope, value) = (self.scope, self.value);
        for &(one, next) in &scope.chain {
            let finished: Expression = match one {
                End::Open(call) => self.finish[call as usize].into(),
                End::Closed(node) => match scope.moment(node) {
                    Moment::Known(at) => self.scaled(at).into(),
                    Moment::Between(_) => self.node(node).into(),
                    Moment::Last(_) => continue,
                },
            };
            match next {
                End::Open(call) => {
                    let start = self.start[call as usize];
                    self.rows.push(constraint!(start >= finished));
                }
                End::Closed(node) => match scope.moment(node) {
                    Moment::Known(_) => {}
                    Moment::Between(seconds) => {
                        let (time, seconds) = (self.node(node), self.scaled(seconds));
                        self.rows.push(constraint!(time >= finished + seconds));
                    }
                    Moment::Last(tail) => {
                        let tail = self.scaled(tail);
                        self.rows.push(constraint!(value >= finished + tail));
                    }
                },
            }
        }
    }

    fn memory(&mut self) {
        let scope = self.scope;
        let problem = scope.offload.problem();
        let mut devices: Vec<u32> = scope
            .blocks
            .iter()
            .flat_map(|block| &block.domain)
            .map(|&seat| scope.seats.beside(seat).start)
            .collect();
        devices.sort_unstable();
        devices.dedup();
        for device in devices {
            let capacity = problem.pools()[scope.seats.seat(device).pool as usize].memory;
            if scope.seats.all_fit(capacity) {
                continue;
            }
            // Devices without memory, or nearly so, hold what takes none.
            let scale = if capacity > 0.0 { capacity / MEMORY_SCALE } else { 1.0 };
            let outside: f64 =
                scope.seats.beside(device).map(|seat| scope.bytes_outside[seat as usize]).sum();
            let mut sum = Expression::from(outside / scale);
            for (at, block) in (0u32..).zip(&scope.blocks) {
                let bytes: f64 = block.ops.iter().map(|&op| bytes(problem, op)).sum();
                if bytes > 0.0 {
                    sum.add_mul(bytes / scale, self.on_device(at, device));
                }
            }
            let most = capacity / scale * (1.0 + MEMORY_RELATIVE);
            self.rows.push(constraint!(sum <= most));
        }
    }

    /// What every edge asks for, and what every operator does.
    fn edges(&mut self) {
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
                match moment {
                    Moment::Known(_) => {}
                    Moment::Between(seconds) => {
                        let (time, seconds) = (self.node(node), self.scaled(seconds));
                        self.rows.push(constraint!(time >= ready + seconds));
                    }
                    Moment::Last(tail) => {
                        let tail = self.scaled(tail);
                        self.rows.push(constraint!(value >= ready + tail));
                    }
                }
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
            // Within a call all is done at once.
            for call in 0..scope.calls.len() as u32 {
                if let Term::Variable(here) = self.within(op, call) {
                    let finish = self.finish[call as usize];
                    let least = self.scaled(reach.ready(op)) * (1.0 - SLACK);
                    let rest = (high - least).max(0.0) * (1.0 - here);
                    self.rows.push(constraint!(ready.clone() >= finish - rest));
                }
            }
        }
    }

    /// An operator by itself, with all that comes before at its fastest.
    fn decided(&mut self, op: OpId) {
        let before = self.scaled(self.reach.before(op)) * (1.0 - SLACK);
        let mut least = Expression::from(before);
        for (seconds, term) in self.on_hosts(op) {
            least.add_mul(seconds, term.expression());
        }
        for call in 0..self.scope.calls.len() as u32 {
            let here = self.within(op, call);
            if !here.is_zero() {
                let seconds = self.scaled(self.scope.seconds(op, self.scope.calls[call as usize]));
                least.add_mul(seconds, here.expression());
            }
        }
        let ready = self.ready(op).expect("what is decided has a time");
        self.rows.push(constraint!(ready >= least));
    }

    /// An edge to what is decided.
    fn edge(&mut self, from: OpId, to: OpId) {
        let (scope, value) = (self.scope, self.value);
        let Some(ready) = self.ready(from) else { return };
        let mut after = ready.clone();
        for (seconds, host) in self.on_hosts(to) {
            after.add_mul(seconds, host.expression());
        }
        // The least that everything from `to` on takes, if `from` is done before.
        let behind = self.scaled(self.reach.from(to)) * (1.0 - SLACK);
        let mut end = ready;
        for (_, host) in self.on_hosts(to) {
            end.add_mul(behind, host.expression());
        }
        for call in 0..scope.calls.len() as u32 {
            let enters = self.enters(from, to, call);
            if enters.is_zero() {
                continue;
            }
            let seconds = self.scaled(scope.seconds(to, scope.calls[call as usize]));
            after.add_mul(seconds, enters.expression());
            end.add_mul(behind, enters.expression());
        }
        for call in 0..scope.calls.len() as u32 {
            let (here, there) = (self.within(from, call), self.within(to, call));
            if let Term::Variable(here) = here {
                let finish = self.finish[call as usize];
                self.rows.push(constraint!(value >= finish + behind * (here - there.expression())));
            }
        }
        let ready = self.ready(to).expect("what is decided has a time");
        self.rows.push(constraint!(ready >= after));
        self.rows.push(constraint!(value >= end));
    }

    /// What an operator adds to every path through it: its own time, the inputs and the outputs that its call
    /// pays for.
    pub(super) fn on_path(&self, op: OpId, tensors: &TensorsOf) -> Expression {
        let mut sum = Expression::from(0.0);
        for (seconds, term) in self.on_hosts(op) {
            sum.add_mul(seconds, term.expression());
        }
        for (call, &seat) in self.scope.calls.iter().enumerate() {
            let here = self.within(op, call as u32);
            if !here.is_zero() {
                sum.add_mul(self.scaled(self.scope.seconds(op, seat)), here.expression());
            }
        }
        for &tensor in &tensors.out[op.index()] {
            let tensor = &self.tensors[tensor as usize];
            for (cost, sent) in tensor.cost.iter().zip(&tensor.sent) {
                sum.add_mul(*cost, sent.expression());
            }
        }
        for &tensor in &tensors.first[op.index()] {
            let tensor = &self.tensors[tensor as usize];
            for call in 0..self.scope.calls.len() {
                let entered = self.entered(tensor.producer, op, call as u32);
                sum.add_mul(tensor.cost[call], entered.expression());
            }
        }
        sum
    }

    /// As [`Writer::enters`], once it has been asked for.
    fn entered(&self, from: OpId, to: OpId, call: u32) -> Term {
        let Some(to) = self.scope.block_of(to) else { return Term::Constant(0.0) };
        let here = self.at(to, self.scope.calls[call as usize]);
        let Some(from) = self.scope.block_of(from) else { return here };
        let there = self.at(from, self.scope.calls[call as usize]);
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
    /// Those it makes.
    out: Vec<Vec<u32>>,
    /// Those it is the first to read, in the graph's topological order: no path has two such readers of one
    /// tensor.
    first: Vec<Vec<u32>>,
}

impl TensorsOf {
    pub(super) fn new(writer: &Writer<'_>) -> TensorsOf {
        let graph = writer.scope.offload.graph();
        let mut position = vec![0u32; graph.operator_count()];
        for (at, op) in (0..).zip(graph.topological()) {
            position[op.index()] = at;
        }
        let mut of =
            TensorsOf { out: vec![Vec::new(); position.len()], first: vec![Vec::new(); position.len()] };
        for (at, tensor) in (0..).zip(&writer.tensors) {
            of.out[tensor.producer.index()].push(at);
            if let Some(first) = tensor.consumers.iter().min_by_key(|op| position[op.index()]) {
                of.first[first.index()].push(at);
            }
        }
        of
    }
}
