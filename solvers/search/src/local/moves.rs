//! The neighbourhood: the moves that one step of a walk may make.
//!
//! A single unit is rarely a good move: to cut a boundary elsewhere, everything between the old and the new
//! place has to move. So besides single units and exchanges of two there are *runs*, which are contiguous in
//! a linear order with few open nets, and *pieces*, which grow along nets from a unit. A run taken from the
//! end of a device's stretch shifts the boundary; a run from its middle is a move that no contiguous split
//! allows.

use rand::{Rng, RngExt};
use stagewright_core::cluster::DeviceId;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::ids::Keyed;

use super::state::Assignment;

/// Maximum number of pins of the nets that pieces follow: wider nets do not indicate which units belong
/// together.
const WIDEST_NET: usize = 64;

/// Length that runs may have even if a device's share of the units is smaller.
const LONGEST_AT_LEAST: usize = 8;

/// A unit and its target device.
pub(super) type Shift = (UnitId, DeviceId);

/// The linear orders that runs follow.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    orders: Vec<Vec<UnitId>>,
    /// Place of each unit in each order.
    places: Vec<Keyed<UnitId, usize>>,
}

impl Lines {
    /// Lines from permutations of the units, at least one.
    pub(super) fn new(orders: Vec<Vec<UnitId>>) -> Lines {
        let places = orders.iter().map(|order| {
            let mut place = Keyed::filled(0, order.len());
            order.iter().enumerate().for_each(|(position, &unit)| place[unit] = position);
            place
        });
        Lines { places: places.collect(), orders }
    }

    /// The orders.
    pub(super) fn orders(&self) -> &[Vec<UnitId>] {
        &self.orders
    }
}

/// Generator of random moves.
pub(super) struct Neighbourhood<'a> {
    units: &'a Units,
    lines: &'a Lines,
    /// The current move.
    shifts: Vec<Shift>,
    /// Round in which each unit was last added to a piece.
    taken: Keyed<UnitId, u32>,
    round: u32,
}

impl<'a> Neighbourhood<'a> {
    pub(super) fn new(units: &'a Units, lines: &'a Lines) -> Neighbourhood<'a> {
        Neighbourhood { units, lines, shifts: Vec::new(), taken: Keyed::filled(0, units.len()), round: 0 }
    }

    /// Draws a move: each unit goes to a device other than its own on which it may run. Empty if the drawn
    /// move changes nothing. Requires at least one unit and two devices.
    pub(super) fn draw(&mut self, assignment: &Assignment<'_>, rng: &mut impl Rng) -> &[Shift] {
        self.shifts.clear();
        let unit = UnitId::new(rng.random_range(0..self.units.len()));
        let to = self.target(assignment, unit, rng);
        if to != assignment.device_of(unit) {
            match rng.random_range(0..16) {
                0..8 => self.push(assignment, unit, to),
                8..10 => {
                    self.push(assignment, unit, to);
                    self.give_back(assignment, (unit, to), 1, rng);
                }
                10..12 => {
                    let length = self.length(assignment, rng);
                    self.run(assignment, (unit, to), length, rng);
                }
                12 => {
                    let length = self.length(assignment, rng);
                    self.stretch(assignment, (unit, to), length, rng);
                }
                13 => {
                    let length = self.length(assignment, rng);
                    self.piece(assignment, (unit, to), length, rng);
                }
                _ => {
                    let length = self.length(assignment, rng);
                    self.run(assignment, (unit, to), length, rng);
                    self.give_back(assignment, (unit, to), length, rng);
                }
            }
        }
        &self.shifts
    }

    /// A target device: mostly the device of a neighbour.
    fn target(&self, assignment: &Assignment<'_>, unit: UnitId, rng: &mut impl Rng) -> DeviceId {
        let nets = self.units.nets_of(unit);
        if nets.is_empty() || rng.random_range(0..8) == 0 {
            return DeviceId::new(rng.random_range(0..assignment.devices()));
        }
        let pins = self.units.pins(nets[rng.random_range(0..nets.len())]);
        assignment.device_of(pins[rng.random_range(0..pins.len())])
    }

    /// A log-uniform length from 1 to a device's share of the units.
    fn length(&self, assignment: &Assignment<'_>, rng: &mut impl Rng) -> usize {
        let longest = (self.units.len() / assignment.devices()).max(LONGEST_AT_LEAST) as f64;
        longest.powf(rng.random_range(0.0..1.0)).round() as usize
    }

    fn push(&mut self, assignment: &Assignment<'_>, unit: UnitId, to: DeviceId) {
        if assignment.allowed(unit, to) {
            self.shifts.push((unit, to));
        }
    }

    /// A run: units that are contiguous in an order and on one device.
    fn run(&mut self, assignment: &Assignment<'_>, (unit, to): Shift, length: usize, rng: &mut impl Rng) {
        let line = rng.random_range(0..self.lines.orders.len());
        let place = self.lines.places[line][unit];
        let order = &self.lines.orders[line];
        let from = assignment.device_of(unit);
        let stays = |unit: &&UnitId| assignment.device_of(**unit) == from;
        let movable = |unit: &&UnitId| assignment.allowed(**unit, to);
        let shift = |&unit: &UnitId| (unit, to);
        if rng.random_bool(0.5) {
            let run = order[place..].iter().take_while(stays).take(length);
            self.shifts.extend(run.filter(movable).map(shift));
        } else {
            let run = order[..=place].iter().rev().take_while(stays).take(length);
            self.shifts.extend(run.filter(movable).map(shift));
        }
    }

    /// A stretch: units that are contiguous in an order, on any device.
    fn stretch(&mut self, assignment: &Assignment<'_>, (unit, to): Shift, length: usize, rng: &mut impl Rng) {
        let line = rng.random_range(0..self.lines.orders.len());
        let place = self.lines.places[line][unit];
        let order = &self.lines.orders[line];
        for &unit in order[place..].iter().take(length) {
            if assignment.device_of(unit) != to && assignment.allowed(unit, to) {
                self.shifts.push((unit, to));
            }
        }
    }

    /// A piece: units on one device that nets connect to the first unit.
    fn piece(&mut self, assignment: &Assignment<'_>, (unit, to): Shift, length: usize, rng: &mut impl Rng) {
        let from = assignment.device_of(unit);
        if self.round == u32::MAX {
            self.taken.fill(0);
            self.round = 0;
        }
        self.round += 1;
        self.taken[unit] = self.round;
        let units = self.units;
        let mut fringe = vec![unit];
        let mut size = 0;
        while size < length && !fringe.is_empty() {
            let next = fringe.swap_remove(rng.random_range(0..fringe.len()));
            size += 1;
            self.push(assignment, next, to);
            for &net in units.nets_of(next) {
                let pins = units.pins(net);
                if pins.len() > WIDEST_NET {
                    continue;
                }
                for &pin in pins {
                    if self.taken[pin] != self.round && assignment.device_of(pin) == from {
                        self.taken[pin] = self.round;
                        fringe.push(pin);
                    }
                }
            }
        }
    }

    /// Moves a run from the target device back to the device that the unit came from.
    fn give_back(
        &mut self,
        assignment: &Assignment<'_>,
        (unit, to): Shift,
        length: usize,
        rng: &mut impl Rng,
    ) {
        const TRIES: usize = 8;
        let from = assignment.device_of(unit);
        for _ in 0..TRIES {
            let other = UnitId::new(rng.random_range(0..self.units.len()));
            if assignment.device_of(other) == to {
                return self.run(assignment, (other, from), length, rng);
            }
        }
    }
}
