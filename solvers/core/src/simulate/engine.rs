//! The event loop.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::clock::{Clock, Event, Kind, above};
use super::flow::{Flow, Kept};
use super::line::Lines;
use super::rules::Instant;
use super::timeline::{Activity, NOBODY, Span, Timeline};

/// Runs flows, and keeps its memory from one to the next.
#[derive(Debug, Clone, Default)]
pub struct Simulator {
    timeline: Timeline,
    clock: Clock,
    devices: Vec<Device>,
    /// Operators that are ready, by device: rank or time of the request above, index below.
    queues: Vec<BinaryHeap<Reverse<u64>>>,
    lines: Lines,
    /// Copies that each operator still waits for.
    waits: Vec<u32>,
    /// What each copy is still kept for.
    kept: Vec<Kept>,
    /// Devices that may have something to start, and transfers that may be first in line everywhere.
    idle: BinaryHeap<Reverse<u32>>,
    movable: BinaryHeap<Reverse<u32>>,
    /// Operators that the present event makes ready.
    woken: Vec<u32>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Device {
    is_busy: bool,
    bytes: f64,
    ran: Option<u32>,
}

impl Simulator {
    /// A simulator without memory yet.
    pub fn new() -> Simulator {
        Simulator::default()
    }

    /// The timeline of the last run.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Runs a flow, in O((operators + readers + transfers) log operators) but for requests of one instant
    /// that have to pass each other in a line. Allocates nothing once it has run a flow as large.
    pub fn run(&mut self, flow: &Flow) -> &Timeline {
        self.start(flow, &[], f64::INFINITY);
        &self.timeline
    }

    /// The same, given up as soon as it is plain that the makespan is no less than `limit`: when an operator
    /// starts that ends, by `tails`, too late. A tail is a lower bound on the seconds from the end of an operator
    /// to that of the step. Without an answer there is no timeline either.
    ///
    /// # Panics
    /// Where there is no tail for some operator.
    pub fn run_below(&mut self, flow: &Flow, tails: &[f64], limit: f64) -> Option<&Timeline> {
        assert_eq!(tails.len(), flow.operator_count(), "a tail for every operator");
        (self.start(flow, tails, limit) && self.timeline.makespan < limit).then_some(&self.timeline)
    }

    /// Whether it ran to the end.
    fn start(&mut self, flow: &Flow, tails: &[f64], limit: f64) -> bool {
        self.prepare(flow);
        let at_once = flow.rules.instant == Instant::AtOnce;
        let mut run = Run { flow, sim: self, at_once, tails, limit, is_late: false };
        run.run();
        !run.is_late
    }

    fn prepare(&mut self, flow: &Flow) {
        let timeline = &mut self.timeline;
        timeline.makespan = 0.0;
        timeline.last = None;
        // Everything runs and is written anew.
        timeline.operators.resize(flow.operator_count(), Span::default());
        timeline.transfers.resize(flow.transfer_count(), Span::default());
        timeline.arrived_by.resize(flow.operator_count(), None);
        timeline.ran_before.resize(flow.operator_count(), None);
        timeline.left_by.resize(flow.transfer_count(), NOBODY);
        timeline.peaks.clone_from(&flow.fixed);
        self.devices.clear();
        self.devices.extend(flow.fixed.iter().map(|&bytes| Device { bytes, ..Device::default() }));
        self.waits.clone_from(&flow.waits);
        self.kept.clone_from(&flow.kept);
        self.clock.reset();
        self.idle.clear();
        self.movable.clear();
        self.queues.iter_mut().for_each(BinaryHeap::clear);
        self.queues.resize_with(self.queues.len().max(flow.device_count()), BinaryHeap::new);
        self.lines.reset(&flow.places);
    }
}

impl Kept {
    /// One less needs it: the bytes that this frees, which are none until it was the last.
    #[inline]
    fn let_go(&mut self) -> f64 {
        self.holds -= 1;
        if self.holds == 0 { self.bytes } else { 0.0 }
    }
}

struct Run<'a> {
    flow: &'a Flow,
    sim: &'a mut Simulator,
    at_once: bool,
    /// Tails of the operators, where the run is given up once one of them ends too late.
    tails: &'a [f64],
    limit: f64,
    is_late: bool,
}

impl Run<'_> {
    fn run(&mut self) {
        for op in 0..self.flow.operators.len() as u32 {
            if self.sim.waits[op as usize] == 0 {
                self.ready(op, None);
            }
        }
        while let Some(event) = self.next() {
            self.take_effect(event);
            if self.is_late {
                return;
            }
        }
        self.sim.timeline.makespan = self.sim.clock.now;
    }

    /// The next event, after everything that starts before it.
    fn next(&mut self) -> Option<Event> {
        loop {
            let due = self.sim.clock.due();
            if due.is_some() {
                return due;
            }
            if !self.start_something() {
                return self.sim.clock.advance();
            }
        }
    }

    /// Starts one operator or transfer, if any can start now.
    fn start_something(&mut self) -> bool {
        match self.flow.rules.instant {
            Instant::OperatorsFirst => self.start_some_operator() || self.start_some_transfer(),
            Instant::TransfersFirst => self.start_some_transfer() || self.start_some_operator(),
            Instant::AtOnce => false,
        }
    }

    fn start_some_operator(&mut self) -> bool {
        while let Some(Reverse(device)) = self.sim.idle.pop() {
            if self.start_operator(device) {
                return true;
            }
        }
        false
    }

    fn start_some_transfer(&mut self) -> bool {
        while let Some(Reverse(transfer)) = self.sim.movable.pop() {
            if self.start_transfer(transfer) {
                return true;
            }
        }
        false
    }

    fn take_effect(&mut self, event: Event) {
        self.sim.timeline.last = Some(match event.kind() {
            Kind::OperatorEnds(op) => {
                self.operator_ends(op);
                Activity::Operator(op)
            }
            Kind::DeviceRested(op) => {
                self.device_is_free(self.flow.operators[op as usize].device);
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

    /// Events at one time come by producer, or in the order in which they were foreseen.
    fn tie(&mut self, producer: u32) -> u32 {
        if self.at_once { self.sim.clock.number() } else { producer }
    }

    fn operator_ends(&mut self, op: u32) {
        let flow = self.flow;
        let operator = &flow.operators[op as usize];
        let bytes = &mut self.sim.devices[operator.device as usize].bytes;
        *bytes -= operator.workspace_bytes;
        for &copy in flow.inputs.row(op as usize) {
            *bytes -= self.sim.kept[copy as usize].let_go();
        }
        if operator.pause > 0.0 {
            let tie = self.tie(op);
            self.sim.clock.foresee(operator.pause, tie, Kind::DeviceRested(op));
        } else {
            self.device_is_free(operator.device);
        }
        for &tensor in flow.outputs.row(op as usize) {
            let about = &flow.tensors[tensor as usize];
            self.sim.devices[operator.device as usize].bytes -= self.sim.kept[about.home as usize].let_go();
            if !about.announced {
                self.deliver(about.home);
            }
            for transfer in flow.transfers_of(tensor) {
                self.request(transfer);
            }
        }
        self.wake_readers(Activity::Operator(op));
    }

    fn deliver(&mut self, copy: u32) {
        for &reader in self.flow.readers_of(copy) {
            let waits = &mut self.sim.waits[reader as usize];
            *waits -= 1;
            if *waits == 0 {
                self.sim.woken.push(reader);
            }
        }
    }

    /// Those for which something delivered was the last input are ready, by index.
    fn wake_readers(&mut self, by: Activity) {
        if self.sim.woken.len() > 1 {
            self.sim.woken.sort_unstable();
        }
        for at in 0..self.sim.woken.len() {
            self.ready(self.sim.woken[at], Some(by));
        }
        self.sim.woken.clear();
    }

    fn ready(&mut self, op: u32, by: Option<Activity>) {
        let operator = &self.flow.operators[op as usize];
        self.sim.timeline.arrived_by[op as usize] = by;
        let key = match self.flow.has_priority {
            true => above(operator.rank, op),
            false => self.sim.clock.stamp(self.flow.rules.ties, op),
        };
        self.sim.queues[operator.device as usize].push(Reverse(key));
        if !self.sim.devices[operator.device as usize].is_busy {
            self.wake(operator.device);
        }
    }

    fn device_is_free(&mut self, device: u32) {
        self.sim.devices[device as usize].is_busy = false;
        if !self.sim.queues[device as usize].is_empty() {
            self.wake(device);
        }
    }

    fn wake(&mut self, device: u32) {
        if self.at_once {
            self.start_operator(device);
        } else {
            self.sim.idle.push(Reverse(device));
        }
    }

    /// Starts the first operator in the queue of a device, if there is one and the device is free.
    fn start_operator(&mut self, device: u32) -> bool {
        let state = &mut self.sim.devices[device as usize];
        if state.is_busy {
            return false;
        }
        let Some(Reverse(key)) = self.sim.queues[device as usize].pop() else { return false };
        let op = key as u32;
        state.is_busy = true;
        state.bytes += self.flow.start_bytes[op as usize];
        let peak = &mut self.sim.timeline.peaks[device as usize];
        *peak = peak.max(state.bytes);
        self.sim.timeline.ran_before[op as usize] = state.ran.replace(op);
        let start = self.sim.clock.now;
        let tie = self.tie(op);
        let seconds = self.flow.operators[op as usize].seconds;
        let end = self.sim.clock.foresee(seconds, tie, Kind::OperatorEnds(op));
        self.sim.timeline.operators[op as usize] = Span { start, end };
        if let Some(tail) = self.tails.get(op as usize) {
            self.is_late |= end + tail >= self.limit;
        }
        true
    }

    fn request(&mut self, transfer: u32) {
        let ports = self.flow.ports_of(transfer);
        let key = self.sim.clock.stamp(self.flow.rules.ties, transfer);
        let mut is_free = true;
        for &port in ports {
            self.sim.lines.join(port, key);
            is_free &= self.sim.lines.is_free_for(port, transfer);
        }
        if is_free {
            self.consider(transfer);
        }
    }

    fn consider(&mut self, transfer: u32) {
        if self.at_once {
            self.start_transfer(transfer);
        } else {
            self.sim.movable.push(Reverse(transfer));
        }
    }

    /// Starts a transfer if it is first in line at all its ports. One without ports is considered once and
    /// starts.
    fn start_transfer(&mut self, transfer: u32) -> bool {
        let flow = self.flow;
        let ports = flow.ports_of(transfer);
        if !ports.iter().all(|&port| self.sim.lines.is_free_for(port, transfer)) {
            return false;
        }
        let left = ports.iter().map(|&port| self.sim.lines.take(port)).fold(0, u64::max);
        self.sim.timeline.left_by[transfer as usize] = if left > 0 { left as u32 } else { NOBODY };
        let about = &flow.transfers[transfer as usize];
        if about.copies[0] != about.home {
            let copies = about.copies[0] as usize..about.copies[1] as usize;
            for (copy, kept) in flow.copies[copies.clone()].iter().zip(&self.sim.kept[copies]) {
                let bytes = &mut self.sim.devices[copy.device as usize].bytes;
                *bytes += kept.bytes;
                let peak = &mut self.sim.timeline.peaks[copy.device as usize];
                *peak = peak.max(*bytes);
            }
        }
        let start = self.sim.clock.now;
        let tie = self.tie(about.producer);
        let end = self.sim.clock.foresee(about.seconds, tie, Kind::TransferArrives(transfer));
        self.sim.timeline.transfers[transfer as usize] = Span { start, end };
        true
    }

    fn transfer_arrives(&mut self, transfer: u32) {
        let flow = self.flow;
        let about = &flow.transfers[transfer as usize];
        let home = flow.copies[about.home as usize].device;
        self.sim.devices[home as usize].bytes -= self.sim.kept[about.home as usize].let_go();
        for copy in about.copies[0]..about.copies[1] {
            self.deliver(copy);
        }
        self.wake_readers(Activity::Transfer(transfer));
        if about.gap > 0.0 {
            let tie = self.tie(about.producer);
            self.sim.clock.foresee(about.gap, tie, Kind::PortsRested(transfer));
        } else {
            self.ports_are_free(transfer);
        }
    }

    fn ports_are_free(&mut self, transfer: u32) {
        let ports = self.flow.ports_of(transfer);
        for &port in ports {
            self.sim.lines.leave(port, self.sim.clock.instant, transfer);
        }
        for &port in ports {
            if let Some(next) = self.sim.lines.first(port) {
                self.consider(next);
            }
        }
    }
}
