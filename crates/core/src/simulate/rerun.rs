//! Incremental simulation of schedules that differ little from one another.
//!
//! A search evaluates the makespan of one schedule after each of very many moves of one or a few operators. Rebuilding
//! every flow and running it from the beginning would repeat all the work that a move does not affect. A [`Rerun`]
//! changes one flow in place ([`room`](super::room)), in time proportional to the tensors of the moved operators, and
//! starts where the move can first take effect. It keeps states from the run of the current schedule, spread evenly
//! over the events, and resumes from the last state before that moment.
//!
//! # First effect of a move
//!
//! Call a tensor *touched* if a moved operator reads or produces it. Suppose that up to some moment, nothing has read
//! any data that the move changes. By induction over the events, everything up to that moment is the same in both runs,
//! to the last bit. It remains to determine when the changed data is read:
//!
//! - The device, rank and seconds of an operator are first read when it is ready, which is when the last of its inputs
//!   has arrived. That is no earlier than the first end of any producer of its inputs; for an operator without inputs
//!   it is time 0.
//! - The readers, transfers and ports of a tensor are first read when its producer ends. For an input of a moved
//!   operator, that is the end of the input's producer; for an output it is later than the moment of the previous item.
//! - The copies that a reader of a touched tensor releases are read when the reader ends, hence after the tensor's
//!   producer.
//! - The number of holders of a copy first changes when its producer ends. An earlier state is correct except for the
//!   numbers of touched tensors, which are overwritten from the current flow.
//! - Resident bytes, such as parameters, are added to a device's peak at the end, and the outputs of an operator take
//!   the same number of bytes on any device.
//!
//! A change of devices thus takes effect no earlier than the first end of a producer of the moved operators' inputs. A
//! change of ranks alone takes effect no earlier than the time at which the operators are ready. A run may resume from
//! a state only if the state has an earlier time than the first effect. A state is stored after everything at its time
//! has happened and everything that can start then has started, so at an equal time it would come too late.
//!
//! So a rerun gives the same result as a run from the beginning, to the last bit, including peaks of memory.

use super::batch::Outcome;
use super::builder::FlowBuilder;
use super::engine::{NO_PAUSE, Simulator, Stop};
use super::flow::Flow;
use super::rules::Rules;
use super::snapshots::Snapshots;
use super::state::RunState;
use super::template::Template;
use super::timeline::{Span, Timeline};
use crate::cluster::DeviceId;
use crate::graph::{OpId, TensorId};
use crate::problem::Problem;

/// Span of a transfer that is not in use and thus never starts.
const NEVER: Span = Span { start: f64::INFINITY, end: f64::INFINITY };

/// A change to a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Moves an operator to a device.
    Device(OpId, DeviceId),
    /// Sets the rank of an operator in the queues, if the schedule has ranks.
    Rank(OpId, u32),
}

/// Simulates a schedule and changes to it.
///
/// First [`settle`](Rerun::settle) on a schedule. Then [`change`](Rerun::change) it, evaluate the makespan with
/// [`run_below`](Rerun::run_below), and either [`take_back`](Rerun::take_back) the changes or [`keep`](Rerun::keep)
/// them. Timelines refer to [`flow`](Rerun::flow), which has room for changes: only its transfers with a destination
/// are in use. The others have no ports, and spans that begin and end at infinity.
///
/// Keeps about sixteen states, each of 4 bytes per operator and per copy for which the flow has room. Evaluations
/// allocate nothing once that memory exists.
#[derive(Debug, Clone)]
pub struct Rerun<'p> {
    template: Template<'p>,
    tails: Vec<f64>,
    /// The changed schedule; `flow` is its flow.
    device_of: Vec<DeviceId>,
    flow: Flow,
    /// Holds the tensor that is being rewritten.
    piece: FlowBuilder,
    /// Runs the changed schedule.
    simulator: Simulator,
    /// Time of the state from which the last run resumed, and whether that run ended.
    resumed: f64,
    has_ended: bool,
    outcome: Outcome,
    /// The timeline of the settled schedule.
    settled: Timeline,
    /// States of the run of the settled schedule.
    snapshots: Snapshots,
    /// Number of states from before the changes. Later states belong to runs of the changed schedule.
    unchanged: usize,
    /// Inverses of the changes, to be applied from the last to the first.
    back: Vec<Change>,
    touched: Vec<TensorId>,
    is_touched: Vec<bool>,
    /// Lower bound on the time at which the changes take effect.
    felt: f64,
}

impl<'p> Rerun<'p> {
    /// Creates the reruns of a problem. The tail of an operator is a lower bound, in any schedule, on the seconds from
    /// the operator's end to the end of the step. Takes the time of [`Template::new`].
    ///
    /// # Panics
    /// If `tails` does not have one entry per operator.
    pub fn new(problem: &'p Problem, tails: Vec<f64>) -> Rerun<'p> {
        assert_eq!(tails.len(), problem.graph().operator_count(), "a tail for every operator");
        Rerun {
            template: Template::new(problem),
            tails,
            device_of: Vec::new(),
            flow: Flow::default(),
            piece: FlowBuilder::new(Rules::PORTS, 0, 0, false),
            simulator: Simulator::new(),
            resumed: f64::NEG_INFINITY,
            has_ended: false,
            outcome: Outcome { makespan: 0.0, peak_bytes: Vec::new() },
            settled: Timeline::default(),
            snapshots: Snapshots::default(),
            unchanged: 0,
            back: Vec::new(),
            touched: Vec::new(),
            is_touched: vec![false; problem.graph().tensor_count()],
            felt: f64::INFINITY,
        }
    }

    /// Replaces the tails, which only serve to end runs below a limit early.
    ///
    /// # Panics
    /// If `tails` does not have one entry per operator.
    pub fn set_tails(&mut self, tails: Vec<f64>) {
        assert_eq!(tails.len(), self.tails.len(), "a tail for every operator");
        self.tails = tails;
    }

    /// The flow of the schedule, including its changes.
    pub fn flow(&self) -> &Flow {
        &self.flow
    }

    /// The timeline of the settled schedule, without later changes.
    pub fn timeline(&self) -> &Timeline {
        &self.settled
    }

    /// Settles on a schedule and runs it. `device_of` has the device of every operator by index; `ranks` has the
    /// position of every operator in the priority, or is empty. Changes that were neither kept nor taken back are
    /// dropped. Takes the time of building and running a flow, plus that of copying about sixteen states.
    ///
    /// # Panics
    /// If the schedule was made for another graph or cluster, or there are more than 2³⁰ operators or transfers.
    pub fn settle(&mut self, device_of: &[DeviceId], ranks: &[u32]) -> &Timeline {
        self.forget_changes();
        self.device_of.clear();
        self.device_of.extend_from_slice(device_of);
        self.flow = self.template.roomy_flow(device_of, ranks, std::mem::take(&mut self.flow));
        self.snapshots.clear(self.flow.events);
        self.simulator.timeline.transfers.clear();
        self.simulator.timeline.transfers.resize(self.flow.transfer_count(), NEVER);
        self.run(f64::INFINITY);
        self.settled.clone_from(&self.simulator.timeline);
        self.unchanged = self.snapshots.len();
        &self.settled
    }

    /// Changes the settled schedule, in addition to earlier changes. Takes O(pins of the moved operators' tensors ·
    /// (log pins + log inputs of a reader) + the room of these tensors).
    ///
    /// # Panics
    /// If an operator or a device is unknown, or a rank is given in a schedule without ranks.
    pub fn change(&mut self, changes: impl IntoIterator<Item = Change>) {
        self.has_ended = false;
        for change in changes {
            // A change without effect touches nothing.
            if !self.is_so(change) {
                self.felt = self.felt.min(self.felt(change));
                let back = self.apply(change);
                self.back.push(back);
            }
        }
        self.write_touched();
    }

    /// Runs the changed schedule; `None` if its makespan is at least `limit`. Takes the time of copying a state, plus
    /// that of the events after the changes first take effect.
    pub fn run_below(&mut self, limit: f64) -> Option<&Outcome> {
        self.run(limit);
        (self.has_ended && self.outcome.makespan < limit).then_some(&self.outcome)
    }

    /// Takes back the changes made since the schedule was settled or changes were last kept. Takes as long as making
    /// them did.
    pub fn take_back(&mut self) {
        while let Some(change) = self.back.pop() {
            self.apply(change);
        }
        self.write_touched();
        for state in self.snapshots.rest_mut(self.unchanged) {
            adapt(state, &self.flow, &self.settled, &self.touched);
        }
        self.unchanged = self.snapshots.len();
        self.forget_changes();
    }

    /// Settles on the changed schedule. Needs no run if the last run ended. States from after the changes first take
    /// effect are dropped; runs that would have resumed from them store them again.
    pub fn keep(&mut self) -> &Timeline {
        if !self.has_ended {
            self.run(f64::INFINITY);
        }
        self.simulator.timeline.begin_as(&self.settled, self.resumed);
        std::mem::swap(&mut self.simulator.timeline, &mut self.settled);
        self.snapshots.truncate(self.snapshots.count_before(self.felt));
        for state in self.snapshots.rest_mut(0) {
            adapt(state, &self.flow, &self.settled, &self.touched);
        }
        self.unchanged = self.snapshots.len();
        for tensor in &self.touched {
            never(&mut self.simulator.timeline, &self.flow, *tensor);
        }
        self.forget_changes();
        &self.settled
    }

    fn forget_changes(&mut self) {
        for tensor in self.touched.drain(..) {
            self.is_touched[tensor.index()] = false;
        }
        self.back.clear();
        self.felt = f64::INFINITY;
        self.has_ended = false;
    }

    /// Whether the schedule already has the device or rank that a change sets.
    fn is_so(&self, change: Change) -> bool {
        match change {
            Change::Rank(op, rank) => self.flow.operator(op.0).rank == rank,
            Change::Device(op, device) => self.device_of[op.index()] == device,
        }
    }

    /// Lower bound on the time at which a change takes effect in the run of the settled schedule.
    fn felt(&self, change: Change) -> f64 {
        match change {
            Change::Rank(op, _) => self.settled.ready(op.0),
            Change::Device(op, _) => {
                let graph = self.template.problem().graph();
                let ends = graph.predecessors(op).iter().map(|op| self.settled.operators[op.0].end);
                ends.reduce(f64::min).unwrap_or(0.0)
            }
        }
    }

    /// Applies a change, except for rewriting the tensors that it touches. Returns the inverse change.
    fn apply(&mut self, change: Change) -> Change {
        match change {
            Change::Rank(op, rank) => {
                assert!(self.flow.has_priority, "a schedule without ranks");
                let operator = &mut self.flow.tasks[op.0].operator;
                Change::Rank(op, std::mem::replace(&mut operator.rank, rank))
            }
            Change::Device(op, to) => {
                let graph = self.template.problem().graph();
                let from = std::mem::replace(&mut self.device_of[op.index()], to);
                let operator = &mut self.flow.tasks[op.0].operator;
                operator.device = to.0;
                operator.seconds = self.template.seconds(op, to);
                for &tensor in graph.inputs(op).iter().chain(graph.outputs(op)) {
                    if !std::mem::replace(&mut self.is_touched[tensor.index()], true) {
                        self.touched.push(tensor);
                    }
                }
                Change::Device(op, from)
            }
        }
    }

    /// Rewrites the touched tensors.
    fn write_touched(&mut self) {
        for &tensor in &self.touched {
            self.piece.clear_tensors();
            self.template.spread(&mut self.piece, tensor, &self.device_of);
            self.flow.replace(tensor.0, &self.piece);
            never(&mut self.simulator.timeline, &self.flow, tensor);
        }
    }

    /// Runs the changed schedule, stopping once its makespan is known to be at least `limit`.
    fn run(&mut self, limit: f64) {
        let Rerun { simulator, flow, tails, settled, touched, snapshots, .. } = self;
        self.has_ended = false;
        let from = snapshots.count_before(self.felt);
        let mut pause = NO_PAUSE;
        match snapshots.first(from).last() {
            Some(state) if state.least >= limit => return,
            Some(state) => {
                simulator.resume(state);
                adapt(&mut simulator.state, flow, settled, touched);
                self.resumed = state.clock.now;
            }
            None => {
                simulator.begin(flow);
                self.resumed = f64::NEG_INFINITY;
                pause = 0;
            }
        }
        if from == snapshots.len() && from > 0 {
            pause = snapshots.next(&simulator.state);
        }
        loop {
            match simulator.go_on(flow, tails, limit, pause) {
                Stop::Ended => break,
                Stop::Late => return,
                Stop::Paused if simulator.state.clock.now < self.felt => {
                    snapshots.push(&simulator.state);
                    pause = snapshots.next(&simulator.state);
                }
                // From here on, states differ from those of the settled schedule.
                Stop::Paused => pause = NO_PAUSE,
            }
        }
        flow.add_up_fixed();
        simulator.end(flow);
        self.outcome.makespan = simulator.timeline.makespan;
        self.outcome.peak_bytes.clone_from(&simulator.timeline.peaks);
        self.has_ended = true;
    }
}

/// Turns a state of the settled schedule into a state of a flow that differs from it in touched tensors whose producers
/// have not ended. (Before the changes take effect, no producer of a touched tensor has ended. But a state stored after
/// a first change may be later than the first effect of a second one.)
fn adapt(state: &mut RunState, flow: &Flow, settled: &Timeline, touched: &[TensorId]) {
    let is_to_come = |tensor: &&TensorId| {
        let producer = flow.tensors[tensor.0].producer;
        settled.operators[producer].end > state.clock.now
    };
    for tensor in touched.iter().filter(is_to_come) {
        let copies = flow.copies_of(tensor.0);
        let copies = [copies.start, copies.end];
        state.holds.range_mut(copies).copy_from_slice(flow.holds.range(copies));
    }
}

/// Marks the unused transfers of a tensor as never starting.
fn never(timeline: &mut Timeline, flow: &Flow, tensor: TensorId) {
    let unused = flow.unused_of(tensor.0);
    timeline.transfers.range_mut([unused.start, unused.end]).fill(NEVER);
}

impl Timeline {
    /// Time at which an operator became ready.
    fn ready(&self, op: u32) -> f64 {
        self.arrived_by[op].map_or(0.0, |by| self.span(by).end)
    }

    /// Copies everything up to a time from another timeline.
    fn begin_as(&mut self, other: &Timeline, until: f64) {
        for op in self.operators.ids() {
            if other.operators[op].start <= until {
                self.operators[op] = other.operators[op];
                self.ran_before[op] = other.ran_before[op];
                self.arrived_by[op] = other.arrived_by[op];
            } else if other.ready(op) <= until {
                self.arrived_by[op] = other.arrived_by[op];
            }
        }
        for (transfer, span) in other.transfers.enumerate() {
            if span.start <= until {
                self.transfers[transfer] = *span;
                self.left_by[transfer] = other.left_by[transfer];
            }
        }
    }
}
