//! The rules without contention, as a queue of numbered events.
//!
//! Every consequence of an event is a separate event, at the same time and with the next number.

use std::collections::BTreeMap;

use super::reference::State;

#[derive(Debug, Clone, Copy)]
enum Event {
    Asks(usize),
    Starts(usize),
    Ends(usize),
    Frees(u32),
    Sends(usize),
    Arrives(usize),
    IsThere(usize),
}

/// Events by time and number. Times are not negative, so the order of their bits is the order of the times.
#[derive(Default)]
struct Events {
    numbered: usize,
    to_come: BTreeMap<(u64, usize), Event>,
}

impl Events {
    fn schedule(&mut self, time: f64, event: Event) {
        self.numbered += 1;
        self.to_come.insert((time.to_bits(), self.numbered), event);
    }
}

/// The queue of a device. The next operator is the one that requested the device first, or under a priority the one of
/// the lowest rank.
#[derive(Clone, Default)]
struct Device {
    is_busy: bool,
    queue: Vec<usize>,
}

impl Device {
    fn next(&mut self, state: &State<'_>) -> Option<usize> {
        if self.is_busy || self.queue.is_empty() {
            return None;
        }
        let rank = |index: &usize| {
            let op = self.queue[*index];
            if state.step.has_priority { (state.step.operators[op].rank, op) } else { (0, 0) }
        };
        let index = (0..self.queue.len()).min_by_key(rank)?;
        self.is_busy = true;
        Some(self.queue.remove(index))
    }
}

pub(super) fn run(state: &mut State<'_>) {
    let step = state.step;
    let mut events = Events::default();
    let mut devices = vec![Device::default(); step.devices as usize];
    let readers: Vec<Vec<u32>> = state
        .transfers
        .iter()
        .map(|(tensor, transfer)| match transfer.copies.as_slice() {
            [] => tensor.at_home.clone(),
            copies => copies.iter().flat_map(|(_, readers)| readers.clone()).collect(),
        })
        .collect();
    let mut lacks = vec![0; step.operators.len()];
    readers.iter().flatten().for_each(|&op| lacks[op as usize] += 1);
    for (op, _) in lacks.iter().enumerate().filter(|(_, lacks)| **lacks == 0) {
        events.schedule(0.0, Event::Asks(op));
    }
    while let Some(((time, _), event)) = events.to_come.pop_first() {
        let now = f64::from_bits(time);
        state.now = now;
        match event {
            Event::Asks(op) => {
                let device = &mut devices[step.operators[op].device as usize];
                device.queue.push(op);
                if let Some(next) = device.next(state) {
                    events.schedule(now, Event::Starts(next));
                }
            }
            Event::Frees(device) => {
                if let Some(next) = devices[device as usize].next(state) {
                    events.schedule(now, Event::Starts(next));
                }
            }
            Event::Starts(op) => {
                state.operators[op] = Some(state.ran(step.operators[op].seconds, 0.0));
                state.look_at_memory();
                events.schedule(now + step.operators[op].seconds, Event::Ends(op));
            }
            Event::Ends(op) => {
                state.operators[op].as_mut().expect("it has started").has_ended = true;
                let device = step.operators[op].device;
                devices[device as usize].is_busy = false;
                events.schedule(now, Event::Frees(device));
                events.schedule(now, Event::Sends(op));
            }
            Event::Sends(op) => {
                for index in 0..state.transfers.len() {
                    let (tensor, transfer) = state.transfers[index];
                    if tensor.producer as usize == op {
                        state.moves[index] = Some(state.ran(transfer.seconds, 0.0));
                        state.look_at_memory();
                        events.schedule(now + transfer.seconds, Event::Arrives(index));
                    }
                }
            }
            Event::Arrives(index) => {
                state.moves[index].as_mut().expect("it has started").has_ended = true;
                events.schedule(now, Event::IsThere(index));
            }
            Event::IsThere(index) => {
                for &op in &readers[index] {
                    lacks[op as usize] -= 1;
                    if lacks[op as usize] == 0 {
                        events.schedule(now, Event::Asks(op as usize));
                    }
                }
            }
        }
    }
}
