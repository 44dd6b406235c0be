//! Builder of a program: its columns, the seats of blocks, and memory.

use good_lp::{Constraint, Expression, ProblemVariables, Variable, VariableDefinition, constraint, variable};
use rustc_hash::FxHashMap;
use stagewright_core::graph::{ClassId, OpId};
use stagewright_core::ids::Keyed;
use stagewright_core::tolerance::MEMORY_RELATIVE;

use super::nodes::NodeId;
use super::reach::{Reach, SLACK};
use super::scope::{BlockId, CallId, Scope};
use super::seats::SeatId;
use crate::choice::Term;

/// Value in the model to which the known value is scaled, and capacity to which the memory of a device is scaled,
/// because the tolerances of HiGHS are absolute.
const SCALE: f64 = 100.0;
const MEMORY_SCALE: f64 = 1e4;

/// Range of the value, known before the program is solved.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    /// A lower bound on the value, in seconds.
    pub low: f64,
    /// Value of a plan, or upper bound on every plan without idle time; finite.
    pub high: f64,
}

/// A tensor, or several tensors with the same producer and consumers.
pub(super) struct Tensor {
    pub(super) producer: OpId,
    pub(super) consumers: Vec<OpId>,
    /// Transfer time by open call, in the model's unit.
    pub(super) cost: Keyed<CallId, f64>,
    /// By open call: whether the call receives the tensor.
    pub(super) received: Keyed<CallId, Term>,
    /// By open call: whether the call sends the tensor.
    pub(super) sent: Keyed<CallId, Term>,
}

/// The program of a scope under construction.
pub(super) struct Writer<'a> {
    pub(super) scope: &'a Scope<'a>,
    pub(super) reach: &'a Reach,
    pub(super) rows: Vec<Constraint>,
    pub(super) variables: ProblemVariables,
    pub(super) columns: usize,
    pub(super) choices: Vec<Vec<(SeatId, usize)>>,
    /// The seats of each block.
    pub(super) seats: Keyed<BlockId, Vec<(SeatId, Term)>>,
    /// `(from, to, call)`: whether block `to` is in an open call and block `from` is not.
    pub(super) enters: FxHashMap<(BlockId, BlockId, CallId), Term>,
    pub(super) tensors: Keyed<u32, Tensor>,
    /// `[operator]`: ready time of the operator, if it has one.
    pub(super) ready: Vec<Option<Expression>>,
    pub(super) nodes: FxHashMap<NodeId, Variable>,
    pub(super) start: Keyed<CallId, Variable>,
    pub(super) finish: Keyed<CallId, Variable>,
    pub(super) value: Variable,
    /// Maximum value, in the model's unit.
    pub(super) high: f64,
    pub(super) unit: f64,
    pub(super) follows: Vec<(CallId, CallId, usize)>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(scope: &'a Scope<'a>, reach: &'a Reach, range: Range) -> Writer<'a> {
        let unit = Some(range.high / SCALE).filter(|unit| unit.is_normal()).unwrap_or(1.0);
        let high = range.high / unit * (1.0 + SLACK);
        let low = range.low.max(scope.latest_known).max(reach.longest()) / unit * (1.0 - SLACK);
        let mut variables = ProblemVariables::new();
        let value = variables.add(variable().min(low.min(high)).max(high));
        Writer {
            scope,
            reach,
            rows: Vec::new(),
            variables,
            columns: 1,
            choices: Vec::new(),
            seats: Keyed::new(),
            enters: FxHashMap::default(),
            tensors: Keyed::new(),
            ready: vec![None; scope.offload.graph().operator_count()],
            nodes: FxHashMap::default(),
            start: Keyed::new(),
            finish: Keyed::new(),
            value,
            high,
            unit,
            follows: Vec::new(),
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

    pub(super) fn seats(&mut self) {
        let scope = self.scope;
        for block in scope.blocks.iter() {
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

    /// Adds the rows by which blocks of one class share a device.
    fn colocate(&mut self) {
        let scope = self.scope;
        let mut first: FxHashMap<ClassId, BlockId> = FxHashMap::default();
        for (id, block) in scope.blocks.enumerate() {
            let first_block = *first.entry(block.class).or_insert(id);
            if first_block == id {
                continue;
            }
            let mut devices: Vec<SeatId> =
                block.domain.iter().map(|&seat| scope.seats.beside(seat).start).collect();
            devices
                .extend(scope.blocks[first_block].domain.iter().map(|&seat| scope.seats.beside(seat).start));
            devices.sort_unstable();
            devices.dedup();
            if devices.len() < 2 {
                continue;
            }
            for device in devices {
                let [here, there] = [id, first_block].map(|block| self.on_device(block, device));
                self.rows.push(constraint!(here == there));
            }
        }
    }

    fn on_device(&self, block: BlockId, device: SeatId) -> Expression {
        let beside = self.scope.seats.beside(device);
        let here = self.seats[block].iter().filter(|(seat, _)| beside.contains(seat));
        here.map(|&(_, term)| term.expression()).sum()
    }

    /// Whether a block has a seat.
    pub(super) fn at(&self, block: BlockId, seat: SeatId) -> Term {
        let found = self.seats[block].iter().find(|&&(own, _)| own == seat);
        found.map_or(Term::Constant(0.0), |&(_, term)| term)
    }

    /// Whether an operator is in an open call; an outside operator is in no open call.
    pub(super) fn within(&self, op: OpId, call: CallId) -> Term {
        let block = self.scope.block_of(op);
        block.map_or(Term::Constant(0.0), |block| self.at(block, self.scope.calls[call]))
    }

    /// The hosts that may run an operator, with its time there.
    pub(super) fn on_hosts(&self, op: OpId) -> Vec<(f64, Term)> {
        let Some(block) = self.scope.block_of(op) else { return Vec::new() };
        let seats = self.seats[block].iter();
        let hosts = seats.filter(|(seat, _)| self.scope.call_at(*seat).is_none());
        hosts.map(|&(seat, term)| (self.scaled(self.scope.seconds(op, seat)), term)).collect()
    }

    /// Whether operator `to` is in a call and operator `from` is not.
    pub(super) fn enters(&mut self, from: OpId, to: OpId, call: CallId) -> Term {
        let Some(to) = self.scope.block_of(to) else { return Term::Constant(0.0) };
        let seat = self.scope.calls[call];
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

    /// Maximum of the terms, which is exact if it is minimised.
    pub(super) fn any(&mut self, mut terms: Vec<Term>) -> Term {
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
            [variable] => Term::Variable(variable),
            _ => {
                let any = self.fraction();
                self.rows.extend(variables.into_iter().map(|term| constraint!(any >= term)));
                Term::Variable(any)
            }
        }
    }

    pub(super) fn memory(&mut self) {
        let scope = self.scope;
        let problem = scope.offload.problem();
        let mut devices: Vec<SeatId> = scope
            .blocks
            .iter()
            .flat_map(|block| &block.domain)
            .map(|&seat| scope.seats.beside(seat).start)
            .collect();
        devices.sort_unstable();
        devices.dedup();
        for device in devices {
            let capacity = problem.pools()[scope.seats.pool(device)].memory;
            if scope.seats.all_fit(capacity) {
                continue;
            }
            // Devices with no memory, or nearly none, hold operators that take no memory.
            let scale = if capacity > 0.0 { capacity / MEMORY_SCALE } else { 1.0 };
            let beside = scope.seats.beside(device);
            let outside: f64 =
                scope.bytes_outside.as_slice()[beside.start.index()..beside.end.index()].iter().sum();
            let mut sum = Expression::from(outside / scale);
            for (id, block) in scope.blocks.enumerate() {
                let bytes: f64 = block.ops.iter().map(|&op| problem.graph().least_bytes(op)).sum();
                if bytes > 0.0 {
                    sum.add_mul(bytes / scale, self.on_device(id, device));
                }
            }
            let limit = capacity / scale * (1.0 + MEMORY_RELATIVE);
            self.rows.push(constraint!(sum <= limit));
        }
    }
}
