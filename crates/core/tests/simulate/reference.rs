//! A naive reference implementation of the rules, without clever data structures.
//!
//! It keeps only starts, ends and the numbers of requests. Readiness, queue order and memory are recomputed from these
//! each time. [`in_turn`] implements the rules of [`Instant::InTurn`].

use stagewright_core::simulate::{Instant, Ties};

use super::in_turn;
use super::step::{Step, Tensor, Transfer};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) makespan: f64,
    pub(crate) operators: Vec<[f64; 2]>,
    pub(crate) transfers: Vec<[f64; 2]>,
    pub(crate) peaks: Vec<f64>,
}

/// A started activity: its start and end, the time at which it frees its device or ports, and which of the two have
/// taken effect.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ran {
    start: f64,
    end: f64,
    rested: f64,
    pub(super) has_ended: bool,
    has_rested: bool,
}

pub(super) struct State<'a> {
    pub(super) step: &'a Step,
    pub(super) transfers: Vec<(&'a Tensor, &'a Transfer)>,
    pub(super) now: f64,
    pub(super) operators: Vec<Option<Ran>>,
    pub(super) moves: Vec<Option<Ran>>,
    /// Time and number of each operator's request for its device. `requested` has those of each transfer for its ports.
    ready: Vec<Option<(f64, usize)>>,
    requested: Vec<Option<(f64, usize)>>,
    counter: usize,
    peaks: Vec<f64>,
}

#[derive(Debug, Clone, Copy)]
enum End {
    Operator(usize),
    Device(usize),
    Transfer(usize),
    Ports(usize),
}

pub(crate) fn simulate(step: &Step) -> Outcome {
    let mut state = State {
        step,
        transfers: step.transfers(),
        now: 0.0,
        operators: vec![None; step.operators.len()],
        moves: vec![None; step.transfers().len()],
        ready: vec![None; step.operators.len()],
        requested: vec![None; step.transfers().len()],
        counter: 0,
        peaks: Vec::new(),
    };
    state.peaks = state.memory();
    match step.rules.instant {
        Instant::InTurn => in_turn::run(&mut state),
        Instant::OperatorsFirst => state.run(|state| state.start_operator() || state.start_transfer()),
        Instant::TransfersFirst => state.run(|state| state.start_transfer() || state.start_operator()),
    }
    let spans = |ran: &[Option<Ran>]| {
        ran.iter().map(|ran| ran.map(|ran| [ran.start, ran.end]).expect("everything runs")).collect()
    };
    Outcome {
        makespan: state.now,
        operators: spans(&state.operators),
        transfers: spans(&state.moves),
        peaks: state.peaks,
    }
}

impl State<'_> {
    /// Runs to the end. `start` starts one activity and returns true, or returns false if none can start.
    fn run(&mut self, start: impl Fn(&mut Self) -> bool) {
        self.find_ready();
        loop {
            let next = self.next_end();
            if let Some((time, end)) = next.filter(|&(time, _)| time == self.now) {
                self.take_effect(time, end);
                continue;
            }
            if start(self) {
                continue;
            }
            let Some((time, _)) = next else { break };
            self.now = time;
        }
    }

    fn count(&mut self) -> usize {
        self.counter += 1;
        self.counter
    }

    /// The earliest end that has not taken effect; ties are broken by producer.
    fn next_end(&self) -> Option<(f64, End)> {
        let mut ends: Vec<(f64, usize, usize, End)> = Vec::new();
        let mut add = |ran: &Option<Ran>, producer: usize, end: End, rest: End| {
            let Some(ran) = ran else { return };
            if !ran.has_ended {
                ends.push((ran.end, producer, 0, end));
            } else if !ran.has_rested {
                ends.push((ran.rested, producer, 1, rest));
            }
        };
        for (op, ran) in self.operators.iter().enumerate() {
            add(ran, op, End::Operator(op), End::Device(op));
        }
        for (index, ran) in self.moves.iter().enumerate() {
            add(ran, self.transfers[index].0.producer as usize, End::Transfer(index), End::Ports(index));
        }
        ends.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        ends.first().map(|&(time, _, _, end)| (time, end))
    }

    fn take_effect(&mut self, time: f64, end: End) {
        let ran = match end {
            End::Operator(op) | End::Device(op) => self.operators[op].as_mut(),
            End::Transfer(index) | End::Ports(index) => self.moves[index].as_mut(),
        };
        let ran = ran.expect("what ends has started");
        match end {
            End::Operator(_) | End::Transfer(_) => ran.has_ended = true,
            End::Device(_) | End::Ports(_) => ran.has_rested = true,
        }
        ran.has_rested |= ran.rested == time;
        if let End::Operator(op) = end {
            for index in 0..self.transfers.len() {
                if self.transfers[index].0.producer as usize == op {
                    self.requested[index] = Some((time, self.count()));
                }
            }
        }
        self.find_ready();
    }

    /// Whether an operator can read a tensor.
    fn has_arrived(&self, tensor: usize, reader: u32) -> bool {
        let made = &self.step.tensors[tensor];
        let ended = |ran: &Option<Ran>| ran.is_some_and(|ran| ran.has_ended);
        let arrived = |wanted: &dyn Fn(&Transfer) -> bool| {
            (0..self.transfers.len()).any(|index| {
                let (tensor, transfer) = self.transfers[index];
                std::ptr::eq(tensor, made) && wanted(transfer) && ended(&self.moves[index])
            })
        };
        if made.at_home.contains(&reader) {
            match made.transfers.iter().any(|transfer| transfer.copies.is_empty()) {
                true => arrived(&|transfer| transfer.copies.is_empty()),
                false => ended(&self.operators[made.producer as usize]),
            }
        } else {
            arrived(&|transfer| transfer.copies.iter().any(|(_, readers)| readers.contains(&reader)))
        }
    }

    fn reads(&self, tensor: usize, op: u32) -> bool {
        let made = &self.step.tensors[tensor];
        let elsewhere =
            |transfer: &Transfer| transfer.copies.iter().any(|(_, readers)| readers.contains(&op));
        made.at_home.contains(&op) || made.transfers.iter().any(elsewhere)
    }

    fn find_ready(&mut self) {
        for op in 0..self.operators.len() {
            let has_all = (0..self.step.tensors.len())
                .all(|tensor| !self.reads(tensor, op as u32) || self.has_arrived(tensor, op as u32));
            if self.ready[op].is_none() && has_all {
                self.ready[op] = Some((self.now, self.count()));
            }
        }
    }

    /// Whether request `a` comes before request `b`: by time and then index, or by number.
    fn precedes(&self, a: (Option<(f64, usize)>, usize), b: (Option<(f64, usize)>, usize)) -> bool {
        let (Some(first), Some(second)) = (a.0, b.0) else { return a.0.is_some() };
        match self.step.rules.ties {
            Ties::Index => first.0 < second.0 || (first.0 == second.0 && a.1 < b.1),
            Ties::Request => first.1 < second.1,
        }
    }

    fn goes_before(&self, a: usize, b: usize) -> bool {
        let rank = |op: usize| self.step.operators[op].rank;
        match self.step.has_priority {
            true => (rank(a), a) < (rank(b), b),
            false => self.precedes((self.ready[a], a), (self.ready[b], b)),
        }
    }

    /// The first operator in the queue of a free device.
    fn next_on(&self, device: u32) -> Option<usize> {
        let on_it: Vec<usize> =
            (0..self.operators.len()).filter(|&op| self.step.operators[op].device == device).collect();
        let runs = |op: &usize| self.operators[*op].is_some_and(|ran| !ran.has_rested);
        if on_it.iter().any(runs) {
            return None;
        }
        let waits = |op: &usize| self.ready[*op].is_some() && self.operators[*op].is_none();
        let waiting: Vec<usize> = on_it.into_iter().filter(waits).collect();
        let is_first = |op: &usize| waiting.iter().all(|other| other == op || self.goes_before(*op, *other));
        waiting.iter().copied().find(is_first)
    }

    /// Starts one operator, on the first device that can start any; returns whether it did.
    fn start_operator(&mut self) -> bool {
        let next = (0..self.step.devices).find_map(|device| self.next_on(device));
        let Some(op) = next else { return false };
        let about = self.step.operators[op];
        self.operators[op] = Some(self.ran(about.seconds, about.pause));
        self.look_at_memory();
        true
    }

    fn start_transfer(&mut self) -> bool {
        let waits = |index: &usize| self.requested[*index].is_some() && self.moves[*index].is_none();
        let waiting: Vec<usize> = (0..self.moves.len()).filter(waits).collect();
        let first_in_line = waiting.iter().find(|&&index| {
            self.transfers[index].1.ports.iter().all(|port| {
                let uses = |other: &usize| self.transfers[*other].1.ports.contains(port);
                let holds = |other: usize| self.moves[other].is_some_and(|ran| !ran.has_rested);
                let request = |index: usize| (self.requested[index], index);
                !(0..self.moves.len()).filter(uses).any(holds)
                    && waiting
                        .iter()
                        .filter(|&other| uses(other) && *other != index)
                        .all(|&other| self.precedes(request(index), request(other)))
            })
        });
        let Some(&index) = first_in_line else { return false };
        let about = self.transfers[index].1;
        self.moves[index] = Some(self.ran(about.seconds, about.gap));
        self.look_at_memory();
        true
    }

    pub(super) fn ran(&self, seconds: f64, rest: f64) -> Ran {
        let end = self.now + seconds;
        Ran { start: self.now, end, rested: end + rest, has_ended: false, has_rested: false }
    }

    pub(super) fn look_at_memory(&mut self) {
        let bytes = self.memory();
        for (peak, bytes) in self.peaks.iter_mut().zip(bytes) {
            *peak = peak.max(bytes);
        }
    }

    /// Bytes on every device now.
    fn memory(&self) -> Vec<f64> {
        let mut bytes = vec![0.0; self.step.devices as usize];
        let has_started = |ran: &Option<Ran>| ran.is_some();
        let has_ended = |ran: &Option<Ran>| ran.is_some_and(|ran| ran.has_ended);
        for (op, about) in self.step.operators.iter().enumerate() {
            bytes[about.device as usize] += about.fixed_bytes;
            if has_started(&self.operators[op]) && !has_ended(&self.operators[op]) {
                bytes[about.device as usize] += about.workspace_bytes;
            }
        }
        let all_ended = |readers: &[u32]| readers.iter().all(|&op| has_ended(&self.operators[op as usize]));
        for tensor in &self.step.tensors {
            let producer = &self.operators[tensor.producer as usize];
            let sent = (0..self.moves.len())
                .filter(|&index| std::ptr::eq(self.transfers[index].0, tensor))
                .all(|index| has_ended(&self.moves[index]));
            let is_done = has_ended(producer) && all_ended(&tensor.at_home) && sent;
            if has_started(producer) && !is_done {
                bytes[self.step.operators[tensor.producer as usize].device as usize] += tensor.bytes;
            }
        }
        for (index, (tensor, transfer)) in self.transfers.iter().enumerate() {
            for (device, readers) in &transfer.copies {
                if has_started(&self.moves[index]) && !all_ended(readers) {
                    bytes[*device as usize] += tensor.bytes;
                }
            }
        }
        bytes
    }
}
