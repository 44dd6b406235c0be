//! Incremental load of a growing set of units.
//!
//! For a set S on a device, a net is *cut* iff 0 < |pins ∩ S| < |pins|. A cut net is sent if its producer is in S and
//! received otherwise; a cut gradient of a shared parameter is synchronised. Adding a unit changes only the nets that
//! have a pin on it, so a [`StageLoad`] grows a set by one unit in time proportional to the number of the unit's nets,
//! independent of the size of the set.

use crate::contraction::{NetId, UnitId, Units};
use crate::ids::Keyed;
use crate::objective::{Objective, PassSums, Throughput};
use crate::stage_memory::{MemorySums, StageMemory};

/// A compensated sum from which items can also be removed. The rounding error is kept separately (Neumaier,
/// "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen", ZAMM 1974), so removing even a very large
/// item, such as a marker for "never", loses no precision.
#[derive(Debug, Clone, Copy, Default)]
pub struct Compensated {
    sum: f64,
    lost: f64,
}

impl Compensated {
    /// Adds an item, or removes it if it is negative.
    #[inline]
    pub fn add(&mut self, item: f64) {
        let sum = self.sum + item;
        self.lost += match self.sum.abs() >= item.abs() {
            true => (self.sum - sum) + item,
            false => (item - sum) + self.sum,
        };
        self.sum = sum;
    }

    /// The sum.
    #[inline]
    pub fn value(self) -> f64 {
        self.sum + self.lost
    }
}

/// Running sums of one pass.
#[derive(Debug, Clone, Copy, Default)]
struct Growing {
    compute: f64,
    sent: Compensated,
    received: Compensated,
    synchronised: Compensated,
}

/// State of a set before a unit joined it, for [`StageLoad::undo`].
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    sums: [Growing; 2],
    held: MemorySums,
    supported: bool,
}

/// The load of a growing set of units on one pool.
#[derive(Debug, Clone)]
pub struct StageLoad<'a> {
    units: &'a Units,
    rules: Throughput,
    pool: usize,
    inside: Keyed<NetId, u32>,
    touched: Vec<NetId>,
    sums: [Growing; 2],
    memory: StageMemory<'a>,
    supported: bool,
}

impl<'a> StageLoad<'a> {
    /// An empty set on a pool.
    pub fn new(units: &'a Units, objective: &Objective, pool: usize) -> Self {
        StageLoad {
            units,
            rules: objective.rules(),
            pool,
            inside: Keyed::filled(0, units.nets().len()),
            touched: Vec::new(),
            sums: Default::default(),
            memory: StageMemory::new(units),
            supported: true,
        }
    }

    /// Empties the set, in time proportional to the number of nets that it touched.
    pub fn clear(&mut self) {
        for net in self.touched.drain(..) {
            self.inside[net] = 0;
        }
        self.sums = Default::default();
        self.memory.clear();
        self.supported = true;
    }

    /// Returns the current state, for [`StageLoad::undo`].
    pub fn mark(&self) -> Mark {
        Mark { sums: self.sums, held: self.memory.mark(), supported: self.supported }
    }

    /// Removes the unit that was added last; `before` is the mark made before it was added. Restores the earlier state
    /// to the last bit.
    pub fn undo(&mut self, unit: UnitId, before: Mark) {
        for &net in self.units.nets_of(unit) {
            let inside = &mut self.inside[net];
            *inside -= 1;
            if *inside == 0 {
                // Nets were touched in order, and those of this unit last.
                self.touched.pop();
            }
        }
        let Mark { sums, held, supported } = before;
        self.sums = sums;
        self.memory.undo(held);
        self.supported = supported;
    }

    /// Adds a unit that is not in the set.
    pub fn add(&mut self, unit: UnitId) {
        self.supported &= self.units.supported(unit, self.pool);
        for pass in 0..self.units.passes() {
            self.sums[pass].compute += self.units.pass_seconds(unit, self.pool, pass);
        }
        self.memory.add(unit);
        for &net_id in self.units.nets_of(unit) {
            let pins = self.units.pins(net_id).len() as u32;
            let seconds = self.units.transfer(net_id, self.pool);
            let net = self.units.nets()[net_id];
            let sums = &mut self.sums[usize::from(net.pass)];
            self.inside[net_id] += 1;
            let inside = self.inside[net_id];
            if inside == 1 {
                self.touched.push(net_id);
            }
            if net.is_gradient() {
                if inside == 1 {
                    sums.synchronised.add(seconds);
                } else if inside == pins {
                    sums.synchronised.add(-seconds);
                }
            } else if net.producer == unit {
                if inside > 1 {
                    sums.received.add(-seconds);
                }
                if inside < pins {
                    sums.sent.add(seconds);
                }
            } else if inside == 1 {
                sums.received.add(seconds);
            } else if inside == pins {
                // The set contains all pins, the producer's included, so the net is no longer sent.
                sums.sent.add(-seconds);
            }
        }
    }

    /// Whether every unit of the set is supported on the pool.
    pub fn supported(&self) -> bool {
        self.supported
    }

    /// The sums of one pass.
    pub fn sums(&self, pass: usize) -> PassSums {
        let Growing { compute, sent, received, synchronised } = self.sums[pass];
        PassSums {
            compute,
            sent: sent.value(),
            received: received.value(),
            synchronised: synchronised.value(),
        }
    }

    /// The load of one pass of the set on `replicas` replicas, without the synchronisation among them.
    pub fn load(&self, pass: usize, replicas: u32) -> f64 {
        self.rules.load(&self.sums(pass), replicas)
    }

    /// The compute of one pass: a lower bound on the load of every superset on this pool.
    pub fn compute(&self, pass: usize) -> f64 {
        self.sums[pass].compute
    }

    /// The memory of the set.
    pub fn memory(&self) -> &StageMemory<'a> {
        &self.memory
    }

    /// Bytes of parameters that replicas synchronise.
    pub fn parameter_bytes(&self) -> f64 {
        self.memory.synchronised_bytes()
    }
}
