//! Simulation of a step with ports: a loop over the instants at which tasks end.

use std::collections::{BTreeMap, BTreeSet};

use super::route::Way;
use super::step::Step;
use super::story::{Moment, Story, Task, Time};
use crate::constraint::priority::Precedence;

/// Simulates a step. O((operators + pins) log (operators + pins)).
pub(super) fn play(step: &Step, precedence: &Precedence) -> Story {
    let mut lacks = vec![0; step.device_of.len()];
    let at_home = step.made.iter().flat_map(|made| &made.readers);
    for &reader in at_home.chain(step.transfers.iter().flat_map(|transfer| &transfer.readers)) {
        lacks[reader] += 1;
    }
    let mut player = Player {
        step,
        precedence,
        now: Time(0.0),
        ends: BTreeMap::new(),
        lacks,
        devices: (0..step.devices).map(|_| Device::default()).collect(),
        to_start: BTreeSet::new(),
        lines: BTreeMap::new(),
        to_move: BTreeSet::new(),
        moments: Vec::new(),
    };
    for operator in 0..step.device_of.len() {
        if player.lacks[operator] == 0 {
            player.queue(operator);
        }
    }
    loop {
        while player.start_operator() || player.start_transfer() {}
        let Some((moment, tasks)) = player.ends.pop_first() else { break };
        player.now = moment;
        for task in tasks {
            player.end(task);
        }
    }
    Story { moments: player.moments, end: player.now.0 }
}

#[derive(Debug, Default)]
struct Device {
    is_busy: bool,
    /// The ready operators, in order.
    queue: BTreeSet<(Time, usize, usize)>,
}

#[derive(Debug, Default)]
struct Line {
    is_taken: bool,
    /// The waiting transfers, by the time of their request.
    waiting: BTreeSet<(Time, usize)>,
}

impl Line {
    fn first(&self) -> Option<usize> {
        self.waiting.first().map(|&(_, transfer)| transfer)
    }
}

struct Player<'a> {
    step: &'a Step,
    precedence: &'a Precedence,
    now: Time,
    /// Running tasks by end time.
    ends: BTreeMap<Time, Vec<Task>>,
    /// Number of tensors that each operator still waits for.
    lacks: Vec<usize>,
    devices: Vec<Device>,
    /// Idle devices with a ready operator.
    to_start: BTreeSet<usize>,
    lines: BTreeMap<Way, Line>,
    /// Transfers that may have become first in all their queues since they were last checked.
    to_move: BTreeSet<usize>,
    moments: Vec<Moment>,
}

impl Player<'_> {
    /// Queues an operator that has become ready.
    fn queue(&mut self, operator: usize) {
        let index = self.step.device_of[operator];
        let turn = match self.precedence {
            Precedence::ByTime => (self.now, operator, operator),
            Precedence::ByRank(ranks) => (Time(0.0), ranks[operator], operator),
        };
        let device = &mut self.devices[index];
        device.queue.insert(turn);
        if !device.is_busy {
            self.to_start.insert(index);
        }
    }

    fn start_operator(&mut self) -> bool {
        let Some(index) = self.to_start.pop_first() else { return false };
        let device = &mut self.devices[index];
        let Some((_, _, operator)) = device.queue.pop_first() else { return false };
        device.is_busy = true;
        self.start(Task::Operator(operator), self.step.seconds[operator]);
        true
    }

    fn start_transfer(&mut self) -> bool {
        while let Some(transfer) = self.to_move.pop_first() {
            let about = &self.step.transfers[transfer];
            let is_first = about.ways.iter().all(|way| {
                self.lines.get(way).is_some_and(|line| !line.is_taken && line.first() == Some(transfer))
            });
            // Otherwise, the transfer is checked again when the port that blocks it becomes idle.
            if is_first {
                for way in &about.ways {
                    let line = self.lines.entry(*way).or_default();
                    line.waiting.pop_first();
                    line.is_taken = true;
                }
                self.start(Task::Transfer(transfer), about.seconds);
                return true;
            }
        }
        false
    }

    /// Starts a task; a task of zero duration ends before anything else starts.
    fn start(&mut self, task: Task, seconds: f64) {
        self.moments.push(Moment::Starts(task));
        let end = Time(self.now.0 + seconds);
        if end == self.now {
            self.end(task);
        } else {
            self.ends.entry(end).or_default().push(task);
        }
    }

    fn end(&mut self, task: Task) {
        self.moments.push(Moment::Ends(task));
        match task {
            Task::Operator(operator) => self.operator_ends(operator),
            Task::Transfer(transfer) => self.transfer_ends(transfer),
        }
    }

    fn operator_ends(&mut self, operator: usize) {
        let step = self.step;
        let index = step.device_of[operator];
        self.devices[index].is_busy = false;
        if !self.devices[index].queue.is_empty() {
            self.to_start.insert(index);
        }
        for &tensor in &step.makes[operator] {
            let made = &step.made[tensor];
            self.arrives(&made.readers);
            for &transfer in &made.transfers {
                for way in &step.transfers[transfer].ways {
                    self.lines.entry(*way).or_default().waiting.insert((self.now, transfer));
                }
                self.to_move.insert(transfer);
            }
        }
    }

    fn transfer_ends(&mut self, transfer: usize) {
        let about = &self.step.transfers[transfer];
        for way in &about.ways {
            let line = self.lines.entry(*way).or_default();
            line.is_taken = false;
            self.to_move.extend(line.first());
        }
        self.arrives(&about.readers);
    }

    /// Records that a tensor has arrived at these readers.
    fn arrives(&mut self, readers: &[usize]) {
        for &reader in readers {
            self.lacks[reader] -= 1;
            if self.lacks[reader] == 0 {
                self.queue(reader);
            }
        }
    }
}
