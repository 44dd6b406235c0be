//! The memory of a set of units, kept up to date while units join it.
//!
//! Sums are kept as units join. What the set needs beyond sums, in a graph of version 2, is worked out only where the
//! sums neither exclude the set nor accept it, and then once.

use std::cell::Cell;

use crate::contract::Units;
use crate::memory::DeviceBytes;
use crate::tolerance;

/// Sums over a set, to go back to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Held {
    fixed: f64,
    activations: f64,
    declared: f64,
    /// Most that an operator needs while it runs.
    working: f64,
    /// The set needs at most this with one microbatch in flight, and with every other one this much more.
    most: f64,
    most_waiting: f64,
    synchronised: f64,
}

/// The memory of a growing set of units.
#[derive(Debug, Clone)]
pub struct Holdings<'a> {
    units: &'a Units,
    held: Held,
    members: Vec<u32>,
    /// For each shared parameter, how many units of the set read it.
    readers: Vec<u32>,
    exact: Cell<Option<DeviceBytes>>,
}

impl<'a> Holdings<'a> {
    /// An empty set.
    pub fn new(units: &'a Units) -> Self {
        Holdings {
            units,
            held: Held::default(),
            members: Vec::new(),
            readers: vec![0; units.shared().len()],
            exact: Cell::new(None),
        }
    }

    /// Empties the set.
    pub fn clear(&mut self) {
        for unit in self.members.drain(..) {
            for &shared in self.units.shared_of(unit as usize) {
                self.readers[shared as usize] = 0;
            }
        }
        self.held = Held::default();
        self.exact.set(None);
    }

    /// What the set amounts to, for [`Holdings::undo`].
    pub fn mark(&self) -> Held {
        self.held
    }

    /// Adds a unit that is not in the set.
    #[inline]
    pub fn add(&mut self, unit: usize) {
        let units = self.units;
        self.held.fixed += units.fixed_bytes(unit);
        self.held.activations += units.activation_bytes(unit);
        self.held.synchronised += units.parameter_bytes(unit);
        if !units.bytes_are_sums() {
            self.add_beyond_sums(unit);
        }
    }

    /// What is no sum over units. Apart, so that the sums are inlined into the walks of all solvers.
    fn add_beyond_sums(&mut self, unit: usize) {
        let units = self.units;
        self.held.declared += units.declared_bytes(unit);
        self.held.working = self.held.working.max(units.working_bytes(unit));
        self.held.most += units.most_bytes(unit, 1);
        self.held.most_waiting += units.most_bytes(unit, 2) - units.most_bytes(unit, 1);
        for &shared in units.shared_of(unit) {
            let readers = &mut self.readers[shared as usize];
            *readers += 1;
            if *readers == 1 {
                let shared = units.shared()[shared as usize];
                self.held.fixed += shared.bytes;
                self.held.most += shared.bytes;
                self.held.synchronised += shared.synchronised;
            }
        }
        self.members.push(unit as u32);
        self.exact.set(None);
    }

    /// Takes away the unit that was added last, with the mark made before.
    pub fn undo(&mut self, before: Held) {
        self.held = before;
        if let Some(unit) = self.members.pop() {
            for &shared in self.units.shared_of(unit as usize) {
                self.readers[shared as usize] -= 1;
            }
        }
        self.exact.set(None);
    }

    /// Bytes of parameters that replicas synchronise.
    pub fn synchronised_bytes(&self) -> f64 {
        self.held.synchronised
    }

    /// What the set needs.
    pub fn bytes(&self) -> DeviceBytes {
        let exact = || match self.units.bytes_are_sums() {
            true => DeviceBytes {
                fixed: self.held.fixed,
                activations: self.held.activations,
                synchronised: self.held.synchronised,
                ..DeviceBytes::default()
            },
            false => self.units.device_bytes(self.members.iter().map(|&unit| unit as usize)),
        };
        let bytes = self.exact.get().unwrap_or_else(exact);
        self.exact.set(Some(bytes));
        bytes
    }

    /// Whether the sums leave it open that the set fits with some microbatches in flight. Where they do not, no superset
    /// fits; where they do, [`Holdings::fits`] tells.
    #[inline]
    pub fn may_fit(&self, in_flight: u32, memory: f64) -> bool {
        let Held { fixed, activations, declared, working, .. } = self.held;
        let times = f64::from(in_flight);
        if self.units.bytes_are_sums() {
            return tolerance::fits(fixed + times * activations, memory);
        }
        let tensors = activations - declared;
        let least = fixed + times * declared + (times - 1.0) * tensors + tensors.max(working);
        tolerance::fits(least * (1.0 - tolerance::OPTIMAL_RELATIVE), memory)
    }

    /// Whether the set fits with some microbatches in flight. Where it does not, no superset does.
    #[inline]
    pub fn fits(&self, in_flight: u32, memory: f64) -> bool {
        match self.units.bytes_are_sums() {
            true => self.may_fit(in_flight, memory),
            false => self.fits_beyond_sums(in_flight, memory),
        }
    }

    fn fits_beyond_sums(&self, in_flight: u32, memory: f64) -> bool {
        let at_most = self.held.most + f64::from(in_flight - 1) * self.held.most_waiting;
        self.units.always_fits()
            || at_most <= memory
            || (self.may_fit(in_flight, memory) && tolerance::fits(self.bytes().total(in_flight), memory))
    }
}
