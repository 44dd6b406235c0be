//! Event simulation of the offload rule.
//!
//! Every accelerator is a worker with a list of calls. It starts the next call when all inputs from elsewhere
//! are ready, receives one tensor after another, runs one operator after another, sends one tensor after
//! another, and only then are its operators ready. A host operator runs independently as soon as all its
//! inputs are ready. If nothing is running and something is left, the calls wait for each other.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::random::{ACCELERATORS, DEVICES, Random};

/// Part of a call; parts run one after the other.
#[derive(Debug, Clone, Copy)]
enum Job {
    Move(u64),
    Compute(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    JobDone { device: usize },
    OperatorDone { operator: usize },
}

/// Result of a simulation: the time of the last event, and compute, communication and bytes of each device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) value: u64,
    pub(crate) devices: [[u64; 3]; DEVICES.len()],
}

struct Simulation<'a> {
    random: &'a Random,
    clock: u64,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    ready: Vec<bool>,
    started: Vec<bool>,
    /// The running call of each accelerator, and its jobs after the running one.
    under_way: [Option<(usize, VecDeque<Job>)>; ACCELERATORS],
    calls_done: [usize; ACCELERATORS],
    devices: [[u64; 3]; DEVICES.len()],
}

impl Random {
    pub(crate) fn simulate(&self) -> Option<Outcome> {
        let n = self.seconds.len();
        let mut simulation = Simulation {
            random: self,
            clock: 0,
            events: BinaryHeap::new(),
            ready: vec![false; n],
            started: vec![false; n],
            under_way: [const { None }; ACCELERATORS],
            calls_done: [0; ACCELERATORS],
            devices: [[0; 3]; DEVICES.len()],
        };
        for (operator, &device) in self.device_of.iter().enumerate() {
            simulation.devices[device][2] += u64::from(self.bytes[operator]);
        }
        simulation.run();
        let done = simulation.ready.iter().all(|&ready| ready);
        done.then_some(Outcome { value: simulation.clock, devices: simulation.devices })
    }
}

impl Simulation<'_> {
    fn run(&mut self) {
        loop {
            self.start_what_can();
            let Some(Reverse((time, event))) = self.events.pop() else { return };
            self.clock = time;
            match event {
                Event::OperatorDone { operator } => self.ready[operator] = true,
                Event::JobDone { device } => self.next_job(device),
            }
        }
    }

    fn start_what_can(&mut self) {
        let random = self.random;
        for operator in 0..random.seconds.len() {
            let device = random.device_of[operator];
            if device >= ACCELERATORS && !self.started[operator] && self.inputs_are_ready(&[operator]) {
                self.started[operator] = true;
                let seconds = random.seconds(operator);
                self.devices[device][0] += seconds;
                self.events.push(Reverse((self.clock + seconds, Event::OperatorDone { operator })));
            }
        }
        for device in 0..ACCELERATORS {
            let number = self.calls_done[device];
            let Some(call) = random.calls[device].get(number) else { continue };
            if self.under_way[device].is_none() && self.inputs_are_ready(call) {
                self.under_way[device] = Some((number, self.jobs(device, call)));
                self.next_job(device);
            }
        }
    }

    /// Whether all inputs of these operators from other operators are ready.
    fn inputs_are_ready(&self, operators: &[usize]) -> bool {
        self.random.tensors.iter().all(|tensor| {
            operators.contains(&tensor.from)
                || self.ready[tensor.from]
                || !operators.iter().any(|operator| tensor.to.contains(operator))
        })
    }

    fn jobs(&self, device: usize, call: &[usize]) -> VecDeque<Job> {
        let random = self.random;
        let mut jobs = VecDeque::new();
        for tensor in &random.tensors {
            if !call.contains(&tensor.from) && tensor.to.iter().any(|reader| call.contains(reader)) {
                jobs.push_back(Job::Move(Random::transfer(tensor, device)));
            }
        }
        jobs.extend(call.iter().map(|&operator| Job::Compute(random.seconds(operator))));
        for tensor in &random.tensors {
            if call.contains(&tensor.from) && tensor.to.iter().any(|reader| !call.contains(reader)) {
                jobs.push_back(Job::Move(Random::transfer(tensor, device)));
            }
        }
        jobs
    }

    /// Starts the next job of the running call, or ends the call.
    fn next_job(&mut self, device: usize) {
        let (call, jobs) = self.under_way[device].as_mut().expect("a call is under way");
        let Some(job) = jobs.pop_front() else {
            for &operator in &self.random.calls[device][*call] {
                self.ready[operator] = true;
            }
            self.under_way[device] = None;
            self.calls_done[device] += 1;
            return;
        };
        let seconds = match job {
            Job::Compute(seconds) => {
                self.devices[device][0] += seconds;
                seconds
            }
            Job::Move(seconds) => {
                self.devices[device][1] += seconds;
                seconds
            }
        };
        self.events.push(Reverse((self.clock + seconds, Event::JobDone { device })));
    }
}
