//! Devices in order, cuts between them, and what each keeps: a shortest path over slots and devices that are used.
//!
//! A label is a prefix of a plan: its seconds, and the bytes that it takes in RAM. Labels go forward by ranges of slots, and
//! are dropped if another with the same end and devices is better in both, or if the relaxation of the rest is no faster than
//! the best plan.

use rustc_hash::FxHashMap;
use stagewright_core::solver::Stop;

use crate::chain::{Edge, Start, edges};
use crate::devices::Used;
use crate::prices::Prices;
use crate::relaxation::Relaxation;
use crate::unit::Unit;

/// A range of slots on a device, with its choices.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stage {
    pub(crate) start: Start,
    pub(crate) edge: Edge,
}

/// A plan of a scenario.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    pub(crate) seconds: f64,
    pub(crate) host_slots: usize,
    pub(crate) stages: Vec<Stage>,
}

/// A prefix of a plan.
#[derive(Debug, Clone, Copy)]
struct Label {
    seconds: f64,
    /// Bytes in RAM.
    ram: u64,
    last: Option<(Stage, [usize; 3])>,
}

/// A search of one scenario.
pub(crate) struct Search<'a> {
    pub(crate) prices: &'a Prices<'a>,
    pub(crate) used: &'a Used,
    pub(crate) relaxation: &'a Relaxation,
    pub(crate) unit: Unit,
    /// Bytes of RAM.
    pub(crate) memory: u64,
    pub(crate) stop: &'a Stop,
    /// Widths that buffers may be limited to.
    widths: Vec<u64>,
    known: FxHashMap<Start, Vec<Edge>>,
    /// Whether RAM may decide, so that choices which leave less to the host are kept.
    is_ram_scarce: bool,
    /// Seconds that devices earn which are not used, by the set of those that are.
    earned: Vec<f64>,
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        prices: &'a Prices<'a>,
        used: &'a Used,
        relaxation: &'a Relaxation,
        unit: Unit,
        memory: u64,
        stop: &'a Stop,
    ) -> Search<'a> {
        let all = prices.choices.iter().flatten().flatten();
        let mut widths: Vec<u64> = all.map(|choice| choice.width).collect();
        widths.sort_unstable();
        widths.dedup();
        let upper_bound =
            prices.ram(prices.model.slots() - 1).saturating_add(prices.movable(0..prices.model.slots()));
        // With prices of guests, RAM has one as well.
        let memory = if prices.guests.is_some() { u64::MAX } else { memory };
        let is_ram_scarce = upper_bound > memory;
        let idle = prices.earned_idle(Some(unit));
        Search {
            earned: (0..used.states()).map(|state| used.sum_of_unused(state, &idle)).collect(),
            prices,
            used,
            relaxation,
            unit,
            memory,
            stop,
            widths,
            known: FxHashMap::default(),
            is_ram_scarce,
        }
    }

    /// The fastest plan below `limit` seconds; `None` if there is none, or if the search was stopped. With `only`, plans are
    /// restricted to these ranges.
    pub(crate) fn run(&mut self, limit: f64, only: Option<&[(usize, usize, usize)]>) -> Option<Path> {
        let slots = self.prices.model.slots();
        let mut labels: Vec<Vec<Vec<Label>>> = vec![vec![Vec::new(); slots + 1]; self.used.states()];
        let mut limit = limit;
        let last_host_slot = self.prices.host_slots.min(slots - 1);
        for (host_slots, labels) in labels[0].iter_mut().enumerate().take(last_host_slot + 1) {
            let ram = if self.prices.guests.is_some() { 0 } else { self.prices.ram(host_slots) };
            let label = Label { seconds: self.prices.before(host_slots), ram, last: None };
            if label.ram <= self.memory {
                labels.push(label);
            }
        }
        self.add_idle(&mut labels, only);
        for state in 0..self.used.states() {
            for slot in 0..slots {
                if labels[state][slot].is_empty() {
                    continue;
                }
                if self.stop.reason().is_some() {
                    return self.best(&labels);
                }
                self.extend(&mut labels, state, slot, &mut limit, only);
            }
        }
        self.best(&labels)
    }

    /// Adds labels with a first device that has no slots, which is no change to the next.
    fn add_idle(&self, labels: &mut [Vec<Vec<Label>>], only: Option<&[(usize, usize, usize)]>) {
        let kind = self.prices.scenario.first;
        let Some(after) = self.used.with(0, kind) else { return };
        for slot in 0..labels[0].len() - 1 {
            let Some(room) = self.prices.idle_room(slot) else { continue };
            if only.is_some_and(|only| !only.contains(&(kind, slot, slot))) {
                continue;
            }
            let seconds = -self.prices.hop - self.prices.earned(kind, room, Some(self.unit));
            let stage = Stage {
                start: Start { kind, slot, is_first: true, width: 0 },
                edge: Edge { end: slot, seconds, units: 0, moved: 0 },
            };
            for parent in 0..labels[0][slot].len() {
                let before = labels[0][slot][parent];
                let label = Label {
                    seconds: before.seconds + seconds,
                    ram: before.ram,
                    last: Some((stage, [0, slot, parent])),
                };
                add(&mut labels[after][slot], label);
            }
        }
    }

    /// Continues the labels of a slot by every range that begins there.
    fn extend(
        &mut self,
        labels: &mut [Vec<Vec<Label>>],
        state: usize,
        slot: usize,
        limit: &mut f64,
        only: Option<&[(usize, usize, usize)]>,
    ) {
        let is_first = state == 0;
        let slots = self.prices.model.slots();
        for kind in 0..self.prices.kinds.len() {
            let Some(after) = self.used.with(state, kind) else { continue };
            if is_first && kind != self.prices.scenario.first {
                continue;
            }
            let hop = if is_first { 0.0 } else { self.prices.hop };
            let parents = labels[state][slot].clone();
            let fastest = parents.iter().map(|label| label.seconds).fold(f64::INFINITY, f64::min);
            let is_open = |end: usize| {
                let is_allowed = only.is_none_or(|only| only.contains(&(kind, slot, end)));
                let rest =
                    self.relaxation.range(kind, slot..end, is_first) + self.relaxation.rest(after, end);
                is_allowed && fastest + hop + rest < *limit
            };
            let open: Vec<bool> = (slot + 1..=slots).map(is_open).collect();
            if !open.contains(&true) {
                continue;
            }
            for index in 0..self.widths.len() {
                let start = Start { kind, slot, is_first, width: self.widths[index] };
                let edges = self.edges(start);
                for edge in edges.iter().filter(|edge| open[edge.end - slot - 1]) {
                    for (parent, label) in parents.iter().enumerate() {
                        let earned = if edge.end == slots { self.earned[after] } else { 0.0 };
                        let next = Label {
                            seconds: label.seconds + hop + edge.seconds - earned,
                            ram: label.ram.saturating_add(edge.moved),
                            last: Some((Stage { start, edge: *edge }, [state, slot, parent])),
                        };
                        let rest =
                            if edge.end == slots { 0.0 } else { self.relaxation.rest(after, edge.end) };
                        let bound = next.seconds + rest;
                        if next.ram > self.memory || bound >= *limit {
                            continue;
                        }
                        if edge.end == slots {
                            *limit = next.seconds;
                        }
                        add(&mut labels[after][edge.end], next);
                    }
                }
            }
        }
    }

    fn edges(&mut self, start: Start) -> Vec<Edge> {
        if let Some(known) = self.known.get(&start) {
            return known.clone();
        }
        let found = edges(self.prices, self.unit, start, self.is_ram_scarce);
        self.known.insert(start, found.clone());
        found
    }

    /// The fastest whole plan.
    fn best(&self, labels: &[Vec<Vec<Label>>]) -> Option<Path> {
        let slots = self.prices.model.slots();
        let whole = labels.iter().flat_map(|states| &states[slots]);
        let mut label = whole.min_by(|a, b| a.seconds.total_cmp(&b.seconds))?;
        let seconds = label.seconds;
        let mut stages = Vec::new();
        while let Some((stage, [state, slot, parent])) = label.last {
            stages.push(stage);
            label = &labels[state][slot][parent];
        }
        stages.reverse();
        Some(Path { seconds, host_slots: stages.first()?.start.slot, stages })
    }
}

/// Adds a label unless another is as good in both respects.
fn add(labels: &mut Vec<Label>, label: Label) {
    if labels.iter().any(|other| other.seconds <= label.seconds && other.ram <= label.ram) {
        return;
    }
    labels.push(label);
}
