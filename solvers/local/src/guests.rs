//! Projections on a device that does not have their layer: the prices at which devices take them.
//!
//! Such a projection is a guest. Let a device of kind d ask λ_d seconds for a byte of its guests, and RAM ρ for a byte of
//! anything, less ρ for each byte that it has. If layers pay for what they send away, and devices earn for whatever guests
//! would fit into what they leave free, then no plan takes fewer seconds than the least sum in which the bytes that are sent
//! and taken need not be the same (Lagrangian relaxation: Geoffrion, "Lagrangean relaxation for integer programming", 1974).
//! The least sum is over ranges of slots one by one, so that the same search finds it.

use std::rc::Rc;

use crate::model::Model;
use crate::unit::Unit;

/// The most bytes of projections that fit into a room.
pub(crate) struct Rooms {
    /// By units of the room.
    most: Vec<usize>,
    unit: Unit,
    /// Bytes of all projections.
    total: u64,
}

/// Prices of guests.
#[derive(Clone)]
pub(crate) struct Guests {
    /// Seconds a byte on each kind of device.
    pub(crate) rates: Vec<f64>,
    /// Seconds a byte in RAM.
    pub(crate) ram: f64,
    pub(crate) rooms: Rc<Rooms>,
}

impl Rooms {
    /// The sums of the sizes of projections that fit into `memory` bytes, in time O(units · sizes).
    pub(crate) fn new(model: &Model<'_>, unit: Unit, memory: u64) -> Rooms {
        let groups = || model.blocks.iter().flat_map(|block| &block.groups);
        let total = groups().map(|group| group.bytes).fold(0, u64::saturating_add);
        let mut sizes: Vec<usize> = groups().map(|group| unit.of(group.bytes)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let units = if unit.is_exact { unit.of(total.min(memory)) } else { 0 };
        let mut most = vec![0; units + 1];
        for room in 1..=units {
            let fitting = sizes.iter().take_while(|&&size| size <= room);
            most[room] = fitting.map(|size| size + most[room - size]).max().unwrap_or(0);
        }
        Rooms { most, unit, total }
    }
}

impl Guests {
    /// Seconds that a kind of device earns for as many free units.
    pub(crate) fn earned(&self, kind: usize, free: usize) -> f64 {
        let most = &self.rooms.most;
        self.rates[kind] * most[free.min(most.len() - 1)] as f64 * self.rooms.unit.bytes as f64
    }

    /// Seconds that a kind of device earns for free bytes if projections can be divided.
    pub(crate) fn earned_by_parts(&self, kind: usize, free: f64) -> f64 {
        self.rates[kind] * free.min(self.rooms.total as f64)
    }
}
