//! Kinds of columns: sets that one device of a pool, or a stage replicated on several, can hold.
//!
//! For every kind, the load of a set S is at least each of a few *resources*: sums over the units of S and the nets
//! that S cuts. A set is a column of the kind at threshold T iff every resource is within its limit:
//!
//! | communication | first resource, at most T | second resource, at most T |
//! | --- | --- | --- |
//! | serial | compute + cut nets | |
//! | overlap | compute | cut nets |
//! | duplex | compute | half of the cut nets: the larger of sent and received is at least that |
//!
//! If the units do not all fit into the memory of one device and there is no second resource yet, the bytes become the
//! second resource. All other constraints are left out, which admits more sets and so keeps every bound valid; a column
//! enters a plan only after full evaluation. With `separate` training the passes are added up: the largest forward plus
//! the largest backward load is at least the sum of both loads on any one device. Group uplinks are left out.
//!
//! With r replicas, the load is divided by r and increased by the synchronisation of the parameters, which is a sum
//! over units, so every r is a kind of its own that takes r devices of the pool. Gradients of shared parameters count
//! as cut nets, so they are divided by r as well, which admits more sets. From [`EXACT_REPLICAS`] on, a kind stands for
//! a range a ≤ r < 2a: it divides by the largest r, synchronises as for a, and takes a devices, which admits every set
//! that some r of the range admits.

use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::document::Communication;
use stagewright_core::ids::Keyed;
use stagewright_core::problem::Problem;
use stagewright_core::tolerance::MEMORY_RELATIVE;

/// Number of replicas below which every number of replicas has its own kind.
pub const EXACT_REPLICAS: u32 = 8;

/// The limit of a resource.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// The threshold on the value.
    Threshold,
    /// A fixed capacity.
    Capacity(f64),
}

impl Limit {
    /// The limit at a threshold.
    pub fn at(self, threshold: f64) -> f64 {
        match self {
            Limit::Threshold => threshold,
            Limit::Capacity(capacity) => capacity,
        }
    }
}

/// A sum over a set's units and cut nets.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// Contribution of each unit.
    pub units: Keyed<UnitId, f64>,
    /// Factor on the transfer time of each cut net over the pool's link.
    pub cut: f64,
    /// Limit of the sum.
    pub limit: Limit,
}

/// A kind of column.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    /// The pool.
    pub pool: usize,
    /// Minimum number of devices that a column takes.
    pub replicas: u32,
    /// Whether a column may hold each unit.
    pub allowed: Keyed<UnitId, bool>,
    /// The resource by which pricing orders its labels.
    pub first: Resource,
    /// Second resource, if any.
    pub second: Option<Resource>,
}

/// Kinds of a problem by pool, then by ascending replicas. O(kinds · units).
pub fn kinds(problem: &Problem, units: &Units) -> Vec<Kind> {
    let objective = problem.objective();
    let mut kinds = Vec::new();
    for (pool, spec) in problem.pools().iter().enumerate() {
        let bytes: Keyed<UnitId, f64> = units.ids().map(|unit| units.bytes(unit, 1)).collect();
        let memory_binds = bytes.iter().sum::<f64>() > spec.memory;
        let max_replicas = objective.rules().max_replicas.min(spec.count());
        let mut next = 1;
        while next <= max_replicas {
            let replicas = next;
            let largest =
                if replicas < EXACT_REPLICAS { replicas } else { max_replicas.min(2 * replicas - 1) };
            next = largest + 1;
            let share = 1.0 / f64::from(largest);
            let synchronised: Keyed<UnitId, f64> =
                units.ids().map(|unit| spec.synchronisation(units.parameter_bytes(unit), replicas)).collect();
            let allowed = units.ids().map(|unit| units.supported(unit, pool)).collect();
            let compute = |unit| units.seconds(unit, pool).unwrap_or(0.0) * share + synchronised[unit];
            let serial = objective.rules().communication == Communication::Serial;
            let first = Resource {
                units: units.ids().map(compute).collect(),
                cut: if serial { share } else { 0.0 },
                limit: Limit::Threshold,
            };
            let cut_alone = |cut: f64| Resource { units: synchronised.clone(), cut, limit: Limit::Threshold };
            let second = match objective.rules().communication {
                Communication::Overlap if !spec.host => Some(cut_alone(share)),
                Communication::Duplex if !spec.host => Some(cut_alone(0.5 * share)),
                _ if memory_binds => Some(Resource {
                    units: bytes.clone(),
                    cut: 0.0,
                    limit: Limit::Capacity(spec.memory * (1.0 + MEMORY_RELATIVE)),
                }),
                _ => None,
            };
            kinds.push(Kind { pool, replicas, allowed, first, second });
        }
    }
    kinds
}
