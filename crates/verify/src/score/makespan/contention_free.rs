//! Simulation of a step without contention: a loop over events.
//!
//! Transfers never queue, so operators only wait for their device. All sequence numbers come from one
//! counter, since only their order matters.

use std::collections::{BTreeMap, BTreeSet};

use super::step::Step;
use super::story::{Moment, Story, Task, Time};
use crate::constraint::priority::Precedence;

/// Simulates a step. O((operators + pins) log (operators + pins)).
pub(super) fn play(step: &Step, precedence: &Precedence) -> Story {
    let mut lacks = vec![0; step.device_of.len()];
    for &reader in step.transfers.iter().flat_map(|transfer| &transfer.readers) {
        lacks[reader] += 1;
    }
    let mut player = Player {
        step,
        precedence,
        now: Time(0.0),
        numbered: 0,
        ends: BTreeMap::new(),
        lacks,
        devices: (0..step.devices).map(|_| Device::default()).collect(),
        moments: Vec::new(),
    };
    for operator in 0..step.device_of.len() {
        if player.lacks[operator] == 0 {
            player.is_ready(operator);
        }
    }
    while let Some(((moment, _), task)) = player.ends.pop_first() {
        player.now = moment;
        player.end(task);
    }
    Story { moments: player.moments, end: player.now.0 }
}

#[derive(Debug, Default)]
struct Device {
    is_busy: bool,
    /// The ready operators that wait for the device, in order.
    queue: BTreeSet<(usize, usize)>,
}

struct Player<'a> {
    step: &'a Step,
    precedence: &'a Precedence,
    now: Time,
    /// The last sequence number.
    numbered: usize,
    /// Running tasks by end time, ties by the order in which they started.
    ends: BTreeMap<(Time, usize), Task>,
    /// Number of tensors that each operator still waits for.
    lacks: Vec<usize>,
    devices: Vec<Device>,
    moments: Vec<Moment>,
}

impl Player<'_> {
    fn number(&mut self) -> usize {
        self.numbered += 1;
        self.numbered
    }

    /// Starts a task; even a task of zero duration ends in its turn.
    fn start(&mut self, task: Task, seconds: f64) {
        self.moments.push(Moment::Starts(task));
        let end = (Time(self.now.0 + seconds), self.number());
        self.ends.insert(end, task);
    }

    fn end(&mut self, task: Task) {
        self.moments.push(Moment::Ends(task));
        match task {
            Task::Operator(operator) => self.operator_ends(operator),
            Task::Transfer(transfer) => self.arrives(transfer),
        }
    }

    fn operator_ends(&mut self, operator: usize) {
        let step = self.step;
        let device = step.device_of[operator];
        self.devices[device].is_busy = false;
        self.start_next(device);
        for &tensor in &step.makes[operator] {
            for &transfer in &step.made[tensor].transfers {
                self.start(Task::Transfer(transfer), step.transfers[transfer].seconds);
            }
        }
    }

    fn arrives(&mut self, transfer: usize) {
        for &reader in &self.step.transfers[transfer].readers {
            self.lacks[reader] -= 1;
            if self.lacks[reader] == 0 {
                self.is_ready(reader);
            }
        }
    }

    fn is_ready(&mut self, operator: usize) {
        let turn = match self.precedence {
            Precedence::ByTime => self.number(),
            Precedence::ByRank(ranks) => ranks[operator],
        };
        let device = self.step.device_of[operator];
        self.devices[device].queue.insert((turn, operator));
        self.start_next(device);
    }

    fn start_next(&mut self, device: usize) {
        let about = &mut self.devices[device];
        if about.is_busy {
            return;
        }
        if let Some((_, operator)) = about.queue.pop_first() {
            about.is_busy = true;
            self.start(Task::Operator(operator), self.step.seconds[operator]);
        }
    }
}
