//! The event loop.

use std::collections::VecDeque;

use super::clock::{Event, Kind, above, low};
use super::flow::Flow;
use super::prefetch;
use super::queue::Queue;
use super::rules::Instant;
use super::state::RunState;
use super::timeline::{Activity, NOBODY, Span, Timeline};

/// Runs flows, reusing its memory between runs.
#[derive(Debug, Clone, Default)]
pub struct Simulator {
    pub(super) timeline: Timeline,
    pub(super) state: RunState,
    /// Devices that may have an operator to start. `movable` has transfers that may be first in the queues of all their
    /// ports.
    idle: Queue,
    movable: Queue,
    /// Operators that the current event makes ready.
    woken: Vec<u32>,
    /// Steps that are still due at this instant, in the order in which they were scheduled. Used by [`Instant::InTurn`]
    /// only.
    steps: VecDeque<Step>,
}

impl Simulator {
    /// Creates a simulator without allocating.
    pub fn new() -> Simulator {
        Simulator::default()
    }

    /// The timeline of the last run.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Runs a flow, in O((operators + readers + transfers) log operators), not counting requests of one instant that
    /// must overtake each other in a queue. Allocates nothing once it has run a flow of that size.
    pub fn run(&mut self, flow: &Flow) -> &Timeline {
        self.begin(flow);
        self.go_on(flow, &[], f64::INFINITY, NO_PAUSE);
        self.end(flow);
        &self.timeline
    }

    /// Runs a flow, but stops as soon as the makespan is known to be at least `limit`: when an operator starts whose
    /// end plus tail reaches the limit. A tail is a lower bound on the seconds from the end of an operator to the end
    /// of the step. If the result is `None`, there is no timeline either.
    ///
    /// # Panics
    /// If `tails` does not have one entry per operator.
    pub fn run_below(&mut self, flow: &Flow, tails: &[f64], limit: f64) -> Option<&Timeline> {
        assert_eq!(tails.len(), flow.operator_count(), "a tail for every operator");
        self.begin(flow);
        match self.go_on(flow, tails, limit, NO_PAUSE) {
            Stop::Ended => self.end(flow),
            Stop::Paused | Stop::Late => return None,
        }
        (self.timeline.makespan < limit).then_some(&self.timeline)
    }

    /// Resets to the start of a flow, and marks operators without inputs as ready.
    pub(super) fn begin(&mut self, flow: &Flow) {
        let timeline = &mut self.timeline;
        timeline.makespan = 0.0;
        timeline.last = None;
        // The run overwrites every entry that is read later.
        timeline.operators.resize(flow.operator_count(), Span::default());
        timeline.transfers.resize(flow.transfer_count(), Span::default());
        timeline.arrived_by.resize(flow.operator_count(), None);
        timeline.ran_before.resize(flow.operator_count(), None);
        timeline.left_by.resize(flow.transfer_count(), NOBODY);
        self.state.begin(flow);
        self.clear();
        match flow.rules.instant {
            Instant::InTurn => Run::<true>::new(flow, self, &[]).begin(),
            Instant::OperatorsFirst | Instant::TransfersFirst => Run::<false>::new(flow, self, &[]).begin(),
        }
    }

    /// Restores the state in which another run paused.
    pub(super) fn resume(&mut self, state: &RunState) {
        self.state.clone_from(state);
        self.clear();
    }

    /// Drops the pending starts and steps that a stopped run has left.
    fn clear(&mut self) {
        self.idle.clear();
        self.movable.clear();
        self.woken.clear();
        self.steps.clear();
    }

    /// Runs until the makespan is known to be at least `limit`, or until `pause` events have happened and everything
    /// that can start at that time has started, or to the end.
    pub(super) fn go_on(&mut self, flow: &Flow, tails: &[f64], limit: f64, pause: u32) -> Stop {
        match flow.rules.instant {
            Instant::InTurn => Run::<true>::new(flow, self, tails).go_on(limit, pause),
            Instant::OperatorsFirst | Instant::TransfersFirst => {
                Run::<false>::new(flow, self, tails).go_on(limit, pause)
            }
        }
    }

    /// Completes the timeline after the last event.
    pub(super) fn end(&mut self, flow: &Flow) {
        self.timeline.synchronisation = flow.synchronisation;
        self.timeline.makespan = self.state.clock.now + flow.synchronisation;
        self.timeline.peaks.clear();
        let peaks = flow.fixed.iter().zip(&self.state.devices).map(|(fixed, device)| fixed + device.peak);
        self.timeline.peaks.extend(peaks);
    }
}

/// Reason why a run stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// No event is left.
    Ended,
    /// The requested number of events has happened.
    Paused,
    /// The makespan is at least the limit.
    Late,
}

/// A pause that no run reaches, because no run has that many events.
pub(super) const NO_PAUSE: u32 = u32::MAX;

/// One of the consequences of an event.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A transfer has arrived, and its readers have the copies.
    Arrived(u32),
    /// A ready operator requests its device.
    Asks(u32),
    /// An operator has been given its device, and starts.
    Starts(u32),
    /// A device is free for the next operator in its queue.
    Freed(u32),
    /// The outputs of an operator become available and are sent.
    Sends(u32),
    /// An activity without duration ends.
    Ends(Kind),
}

/// A run of a flow in a simulator. [`Instant::InTurn`] is compiled separately, because there every [`Step`] waits for
/// its turn, whereas under the other rules each step is taken at once.
struct Run<'a, const IN_TURN: bool> {
    flow: &'a Flow,
    /// Tails of the operators if the run may stop early; otherwise empty.
    tails: &'a [f64],
    timeline: &'a mut Timeline,
    state: &'a mut RunState,
    idle: &'a mut Queue,
    movable: &'a mut Queue,
    woken: &'a mut Vec<u32>,
    steps: &'a mut VecDeque<Step>,
}

impl<'a, const IN_TURN: bool> Run<'a, IN_TURN> {
    fn new(flow: &'a Flow, simulator: &'a mut Simulator, tails: &'a [f64]) -> Run<'a, IN_TURN> {
        let Simulator { timeline, state, idle, movable, woken, steps } = simulator;
        Run { flow, tails, timeline, state, idle, movable, woken, steps }
    }

    /// Marks operators without inputs as ready.
    fn begin(&mut self) {
        for op in self.flow.tasks.ids() {
            if self.state.waits[op] == 0 {
                self.ready(op, None);
            }
        }
    }

    fn go_on(&mut self, limit: f64, pause: u32) -> Stop {
        while self.state.least < limit {
            match self.next(pause) {
                Some(event) => {
                    if prefetch::is_due(self.state) {
                        prefetch::read(self.flow, self.state, self.timeline);
                    }
                    self.take_effect(event.kind());
                }
                None if self.state.clock.is_over() => return Stop::Ended,
                None => return Stop::Paused,
            }
        }
        Stop::Late
    }

    /// Returns the next event after starting everything that starts before it. Once `pause` events have happened,
    /// returns `None` in place of an event at a later time.
    #[inline]
    fn next(&mut self, pause: u32) -> Option<Event> {
        loop {
            let due = self.state.clock.due();
            if due.is_some() {
                return due;
            }
            if !self.start_something() {
                return if self.state.clock.happened < pause { self.state.clock.advance() } else { None };
            }
        }
    }

    /// Starts one operator or transfer, if any can start now. Usually none can, so that check is inlined and the actual
    /// start is not.
    #[inline]
    fn start_something(&mut self) -> bool {
        match self.flow.rules.instant {
            Instant::OperatorsFirst => self.start_some_operator() || self.start_some_transfer(),
            Instant::TransfersFirst => self.start_some_transfer() || self.start_some_operator(),
            Instant::InTurn => self.take_next_step(),
        }
    }

    /// Takes the first step that is waiting for its turn. Events scheduled before this instant precede all such steps.
    #[inline]
    fn take_next_step(&mut self) -> bool {
        match self.steps.pop_front() {
            None => return false,
            Some(Step::Ends(kind)) => {
                self.state.clock.happened += 1;
                self.take_effect(kind);
            }
            Some(step) => self.take(step),
        }
        true
    }

    /// Takes a step when its turn comes, or at once.
    #[inline]
    fn then(&mut self, step: Step) {
        if IN_TURN {
            self.steps.push_back(step);
        } else {
            self.take(step);
        }
    }

    #[inline]
    fn take(&mut self, step: Step) {
        match step {
            Step::Arrived(transfer) => self.has_arrived(transfer),
            Step::Asks(op) => self.queue(op),
            Step::Starts(op) => self.start(op),
            Step::Freed(device) => self.wake(device),
            Step::Sends(op) => self.send(op),
            // Only steps that wait for their turn include ends, and `take_next_step` takes these.
            Step::Ends(_) => {}
        }
    }

    #[inline]
    fn start_some_operator(&mut self) -> bool {
        while let Some(device) = self.idle.pop() {
            if self.start_operator(low(device)) {
                return true;
            }
        }
        false
    }

    #[inline]
    fn start_some_transfer(&mut self) -> bool {
        while let Some(transfer) = self.movable.pop() {
            if self.start_transfer(low(transfer)) {
                return true;
            }
        }
        false
    }

    fn take_effect(&mut self, kind: Kind) {
        self.timeline.last = Some(match kind {
            Kind::OperatorEnds(op) => {
                self.operator_ends(op);
                Activity::Operator(op)
            }
            Kind::DeviceRested(op) => {
                self.device_is_free(self.flow.operator(op).device);
                Activity::Operator(op)
            }
            Kind::TransferArrives(transfer) => {
                self.transfer_arrives(transfer);
                Activity::Transfer(transfer)
            }
            Kind::PortsRested(transfer) => {
                self.ports_are_free(transfer);
                Activity::Transfer(transfer)
            }
        });
    }

    /// Schedules an event `after` seconds from now and returns its time. Simultaneous events are ordered by their
    /// producers, or by the order in which they were scheduled.
    #[inline]
    fn foresee(&mut self, after: f64, producer: u32, kind: Kind) -> f64 {
        let clock = &mut self.state.clock;
        if IN_TURN {
            if clock.now + after == clock.now {
                self.steps.push_back(Step::Ends(kind));
                return clock.now;
            }
            let number = clock.number();
            return clock.foresee(after, number, kind);
        }
        clock.foresee(after, producer, kind)
    }

    fn operator_ends(&mut self, op: u32) {
        let flow = self.flow;
        let task = &flow.tasks[op];
        let operator = &task.operator;
        let mut bytes = self.state.devices[operator.device].bytes - operator.workspace_bytes;
        for &copy in flow.inputs_of(task) {
            bytes -= self.let_go(copy);
        }
        // Outputs without readers are freed before the device continues.
        for &tensor in flow.outputs_of(task) {
            bytes -= self.let_go(flow.tensors[tensor].home);
        }
        self.state.devices[operator.device].bytes = bytes;
        if operator.pause > 0.0 {
            self.foresee(operator.pause, op, Kind::DeviceRested(op));
        } else {
            self.device_is_free(operator.device);
        }
        self.then(Step::Sends(op));
    }

    /// Delivers the outputs of an operator to readers on its device, and requests their transfers to other devices.
    fn send(&mut self, op: u32) {
        let flow = self.flow;
        for &tensor in flow.outputs_of(&flow.tasks[op]) {
            let about = &flow.tensors[tensor];
            if !about.announced {
                self.deliver(about.home);
            }
            for transfer in flow.transfers_of(tensor) {
                self.request(transfer);
            }
        }
        self.wake_readers(Activity::Operator(op));
    }

    /// Removes one holder of a copy. Returns the bytes freed, zero unless it was the last holder.
    #[inline]
    fn let_go(&mut self, copy: u32) -> f64 {
        let holds = &mut self.state.holds[copy];
        *holds -= 1;
        // Branch-free, because a branch would be unpredictable.
        let mask = u64::from(*holds == 0).wrapping_neg();
        f64::from_bits(self.flow.copies[copy].bytes.to_bits() & mask)
    }

    fn deliver(&mut self, copy: u32) {
        for &reader in self.flow.readers_of(copy) {
            let waits = &mut self.state.waits[reader];
            *waits -= 1;
            if *waits == 0 {
                self.woken.push(reader);
            }
        }
    }

    /// Marks operators as ready whose last input has just been delivered, in index order.
    #[inline]
    fn wake_readers(&mut self, by: Activity) {
        if self.woken.is_empty() {
            return;
        }
        self.woken.sort_unstable();
        for index in 0..self.woken.len() {
            self.ready(self.woken[index], Some(by));
        }
        self.woken.clear();
    }

    fn ready(&mut self, op: u32, by: Option<Activity>) {
        self.timeline.arrived_by[op] = by;
        self.then(Step::Asks(op));
    }

    /// Puts a ready operator into the queue of its device.
    fn queue(&mut self, op: u32) {
        let operator = self.flow.operator(op);
        let key = match self.flow.has_priority {
            true => above(operator.rank, op),
            false => self.state.clock.stamp(self.flow.rules.ties, op),
        };
        self.state.queues[operator.device].push(key);
        self.wake(operator.device);
    }

    fn device_is_free(&mut self, device: u32) {
        self.state.devices[device].is_busy = false;
        self.then(Step::Freed(device));
    }

    /// Lets a device continue if the device is free and an operator waits for it.
    #[inline]
    fn wake(&mut self, device: u32) {
        if self.state.devices[device].is_busy || self.state.queues[device].first().is_none() {
            return;
        }
        if IN_TURN {
            self.start_operator(device);
        } else {
            self.idle.push(device.into());
        }
    }

    /// Gives a device to the first operator in its queue, if there is one and the device is free.
    #[inline(never)]
    fn start_operator(&mut self, device: u32) -> bool {
        let state = &mut self.state.devices[device];
        if state.is_busy {
            return false;
        }
        let Some(key) = self.state.queues[device].pop() else { return false };
        state.is_busy = true;
        self.then(Step::Starts(low(key)));
        true
    }

    /// Starts an operator on its device.
    #[inline]
    fn start(&mut self, op: u32) {
        let task = &self.flow.tasks[op];
        let state = &mut self.state.devices[task.operator.device];
        state.take(task.start_bytes);
        self.timeline.ran_before[op] = state.ran.replace(op);
        let start = self.state.clock.now;
        let end = self.foresee(task.operator.seconds, op, Kind::OperatorEnds(op));
        self.timeline.operators[op] = Span { start, end };
        if let Some(tail) = self.tails.get(op as usize) {
            self.state.least = self.state.least.max(end + tail);
        }
    }

    fn request(&mut self, transfer: u32) {
        let ports = self.flow.ports_of(transfer);
        let key = self.state.clock.stamp(self.flow.rules.ties, transfer);
        let mut is_free = true;
        for &port in ports {
            self.state.lines.join(port, key);
            is_free &= self.state.lines.is_free_for(port, transfer);
        }
        if is_free {
            self.consider(transfer);
        }
    }

    fn consider(&mut self, transfer: u32) {
        if IN_TURN {
            self.start_transfer(transfer);
        } else {
            self.movable.push(transfer.into());
        }
    }

    /// Starts a transfer if it is first in the queues of all its ports. A transfer without ports starts when it is
    /// considered for the first time.
    #[inline(never)]
    fn start_transfer(&mut self, transfer: u32) -> bool {
        let flow = self.flow;
        let ports = flow.ports_of(transfer);
        if !ports.iter().all(|&port| self.state.lines.is_free_for(port, transfer)) {
            return false;
        }
        let left = ports.iter().map(|&port| self.state.lines.take(port)).fold(0, u64::max);
        self.timeline.left_by[transfer] = if left > 0 { low(left) } else { NOBODY };
        let about = &flow.transfers[transfer];
        if about.copies[0] != about.home {
            for copy in flow.copies.range(about.copies) {
                self.state.devices[copy.device].take(copy.bytes);
            }
        }
        let start = self.state.clock.now;
        let end = self.foresee(about.seconds, about.producer, Kind::TransferArrives(transfer));
        self.timeline.transfers[transfer] = Span { start, end };
        true
    }

    fn transfer_arrives(&mut self, transfer: u32) {
        let flow = self.flow;
        let about = &flow.transfers[transfer];
        let home = flow.copies[about.home].device;
        self.state.devices[home].bytes -= self.let_go(about.home);
        self.then(Step::Arrived(transfer));
        if about.gap > 0.0 {
            self.foresee(about.gap, about.producer, Kind::PortsRested(transfer));
        } else {
            self.ports_are_free(transfer);
        }
    }

    /// Delivers the copies of a transfer that has arrived to their readers.
    fn has_arrived(&mut self, transfer: u32) {
        let [first, last] = self.flow.transfers[transfer].copies;
        for copy in first..last {
            self.deliver(copy);
        }
        self.wake_readers(Activity::Transfer(transfer));
    }

    fn ports_are_free(&mut self, transfer: u32) {
        let ports = self.flow.ports_of(transfer);
        for &port in ports {
            self.state.lines.leave(port, self.state.clock.instant, transfer);
        }
        for &port in ports {
            if let Some(next) = self.state.lines.next(port) {
                self.consider(next);
            }
        }
    }
}
