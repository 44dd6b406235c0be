//! Simulation of a step without contention: a loop over events.
//!
//! Transfers never queue, so operators only wait for their device. Events are numbered in the order in which they are
//! scheduled, including those scheduled for the current time, and one map holds the pending events by time and number.

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
        to_come: BTreeMap::new(),
        lacks,
        devices: (0..step.devices).map(|_| Device::default()).collect(),
        moments: Vec::new(),
    };
    for operator in 0..step.device_of.len() {
        if player.lacks[operator] == 0 {
            player.plan(0.0, Event::Asks(operator));
        }
    }
    while let Some(((moment, _), event)) = player.to_come.pop_first() {
        player.now = moment;
        player.happens(event);
    }
    Story { moments: player.moments, end: player.now.0 }
}

/// A scheduled event.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// A task ends.
    Ends(Task),
    /// The outputs of an operator are sent.
    Sends(usize),
    /// A transfer delivers its tensor to its readers.
    Arrives(usize),
    /// An operator with all its inputs requests its device.
    Asks(usize),
    /// A device takes the next operator of its queue, if it is idle.
    TakesNext(usize),
    /// An operator that has acquired its device starts.
    Starts(usize),
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
    /// Number of the event that was scheduled last.
    numbered: usize,
    /// Events by time, ties by number.
    to_come: BTreeMap<(Time, usize), Event>,
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

    /// Schedules an event after some seconds, after all events already scheduled for that time.
    fn plan(&mut self, seconds: f64, event: Event) {
        let turn = (Time(self.now.0 + seconds), self.number());
        self.to_come.insert(turn, event);
    }

    fn starts(&mut self, task: Task, seconds: f64) {
        self.moments.push(Moment::Starts(task));
        self.plan(seconds, Event::Ends(task));
    }

    fn happens(&mut self, event: Event) {
        let step = self.step;
        match event {
            Event::Ends(task) => {
                self.moments.push(Moment::Ends(task));
                match task {
                    Task::Operator(operator) => {
                        let device = step.device_of[operator];
                        self.devices[device].is_busy = false;
                        self.plan(0.0, Event::TakesNext(device));
                        self.plan(0.0, Event::Sends(operator));
                    }
                    Task::Transfer(transfer) => self.plan(0.0, Event::Arrives(transfer)),
                }
            }
            Event::Sends(operator) => {
                for &transfer in step.makes[operator].iter().flat_map(|&tensor| &step.made[tensor].transfers)
                {
                    self.starts(Task::Transfer(transfer), step.transfers[transfer].seconds);
                }
            }
            Event::Arrives(transfer) => {
                for &reader in &step.transfers[transfer].readers {
                    self.lacks[reader] -= 1;
                    if self.lacks[reader] == 0 {
                        self.plan(0.0, Event::Asks(reader));
                    }
                }
            }
            Event::Asks(operator) => {
                let turn = match self.precedence {
                    Precedence::ByTime => self.number(),
                    Precedence::ByRank(ranks) => ranks[operator],
                };
                let device = step.device_of[operator];
                self.devices[device].queue.insert((turn, operator));
                self.take_next(device);
            }
            Event::TakesNext(device) => self.take_next(device),
            Event::Starts(operator) => self.starts(Task::Operator(operator), step.seconds[operator]),
        }
    }

    /// Gives an idle device to the first operator of its queue.
    fn take_next(&mut self, device: usize) {
        let about = &mut self.devices[device];
        if about.is_busy {
            return;
        }
        if let Some((_, operator)) = about.queue.pop_first() {
            about.is_busy = true;
            self.plan(0.0, Event::Starts(operator));
        }
    }
}
