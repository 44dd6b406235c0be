//! Incremental memory of a growing set of units.
//!
//! Sums are updated as units join. In a graph of version 2 the memory is not a sum; its exact value is computed only if
//! the sums can neither reject nor accept the set, and is then cached.

use std::cell::Cell;

use crate::contraction::{SharedId, UnitId, Units};
use crate::ids::Keyed;
use crate::memory::DeviceBytes;
use crate::tolerance;

/// Sums over a set, which also serve as the mark that [`StageMemory::undo`] restores.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemorySums {
    fixed: f64,
    activations: f64,
    declared: f64,
    /// Maximum bytes that an operator needs while it runs.
    working: f64,
    /// Upper bound on the bytes with one microbatch in flight; every further microbatch adds at most `most_waiting`.
    most: f64,
    most_waiting: f64,
    synchronised: f64,
}

/// The memory of a growing set of units.
#[derive(Debug, Clone)]
pub struct StageMemory<'a> {
    units: &'a Units,
    held: MemorySums,
    members: Vec<UnitId>,
    /// Number of units in the set that read each shared parameter.
    readers: Keyed<SharedId, u32>,
    exact: Cell<Option<DeviceBytes>>,
}

impl<'a> StageMemory<'a> {
    /// Creates an empty set.
    pub fn new(units: &'a Units) -> Self {
        StageMemory {
            units,
            held: MemorySums::default(),
            members: Vec::new(),
            readers: Keyed::filled(0, units.shared().len()),
            exact: Cell::new(None),
        }
    }

    /// Empties the set.
    pub fn clear(&mut self) {
        for unit in self.members.drain(..) {
            for &shared in self.units.shared_of(unit) {
                self.readers[shared] = 0;
            }
        }
        self.held = MemorySums::default();
        self.exact.set(None);
    }

    /// Returns the current sums, for [`StageMemory::undo`].
    pub fn mark(&self) -> MemorySums {
        self.held
    }

    /// Adds a unit that is not in the set.
    #[inline]
    pub fn add(&mut self, unit: UnitId) {
        let units = self.units;
        self.held.fixed += units.fixed_bytes(unit);
        self.held.activations += units.activation_bytes(unit);
        self.held.synchronised += units.parameter_bytes(unit);
        if !units.bytes_are_sums() {
            self.add_beyond_sums(unit);
        }
    }

    /// Adds the terms beyond plain sums. A function of its own, so that the sums are inlined into the search loops of
    /// all solvers.
    fn add_beyond_sums(&mut self, unit: UnitId) {
        let units = self.units;
        self.held.declared += units.declared_bytes(unit);
        self.held.working = self.held.working.max(units.working_bytes(unit));
        self.held.most += units.most_bytes(unit, 1);
        self.held.most_waiting += units.most_bytes(unit, 2) - units.most_bytes(unit, 1);
        for &shared in units.shared_of(unit) {
            let readers = &mut self.readers[shared];
            *readers += 1;
            if *readers == 1 {
                let shared = units.shared()[shared];
                self.held.fixed += shared.bytes;
                self.held.most += shared.bytes;
                self.held.synchronised += shared.synchronised;
            }
        }
        self.members.push(unit);
        self.exact.set(None);
    }

    /// Removes the unit that was added last; `before` is the mark made before it was added.
    pub fn undo(&mut self, before: MemorySums) {
        self.held = before;
        if let Some(unit) = self.members.pop() {
            for &shared in self.units.shared_of(unit) {
                self.readers[shared] -= 1;
            }
        }
        self.exact.set(None);
    }

    /// Bytes of parameters that replicas synchronise.
    pub fn synchronised_bytes(&self) -> f64 {
        self.held.synchronised
    }

    /// Memory of the set.
    pub fn bytes(&self) -> DeviceBytes {
        if self.units.bytes_are_sums() {
            let MemorySums { fixed, activations, synchronised, .. } = self.held;
            return DeviceBytes { fixed, activations, synchronised, ..DeviceBytes::default() };
        }
        let exact = || self.units.device_bytes(self.members.iter().copied());
        let bytes = self.exact.get().unwrap_or_else(exact);
        self.exact.set(Some(bytes));
        bytes
    }

    /// Whether the sums allow the set to fit with `in_flight` microbatches in flight. If not, no superset fits either;
    /// if so, [`StageMemory::fits`] decides.
    #[inline]
    pub fn may_fit(&self, in_flight: u32, memory: f64) -> bool {
        let MemorySums { fixed, activations, declared, working, .. } = self.held;
        let times = f64::from(in_flight);
        if self.units.bytes_are_sums() {
            return tolerance::fits(fixed + times * activations, memory);
        }
        let tensors = activations - declared;
        let least = fixed + times * declared + (times - 1.0) * tensors + tensors.max(working);
        tolerance::fits(least * (1.0 - tolerance::OPTIMAL_RELATIVE), memory)
    }

    /// Whether the set fits with `in_flight` microbatches in flight. If not, no superset fits either.
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
