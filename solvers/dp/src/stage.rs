//! One more stage: what is asked of it, what it sums up to, and where it leads.
//!
//! [`walk`](crate::walk) and [`scan`](crate::scan) look for stages in two ways; both cut off by the same [`Limits`]
//! and report through [`Arrivals`].

use stagewright_core::document::Communication;
use stagewright_core::objective::{Objective, synchronisation};
use stagewright_core::problem::Pool;
use stagewright_core::solver::Stop;
use stagewright_core::tolerance;
use stagewright_search::usage::UsageSpace;

use crate::lattice::Lattice;
use crate::table::Alive;
use crate::window::Windows;

/// One recurrence: what a search for stages must know besides the state.
pub(crate) struct Rules<'a> {
    pub(crate) lattice: &'a Lattice,
    pub(crate) objective: &'a Objective,
    pub(crate) pools: &'a [Pool],
    pub(crate) space: &'a UsageSpace,
    pub(crate) windows: &'a Windows,
    /// Loads must be below these, per pass.
    pub(crate) caps: [f64; 2],
    /// The pass whose largest load is minimised.
    pub(crate) pass: usize,
    pub(crate) stop: &'a Stop,
}

/// An ideal to expand, with the entries worth it.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) set: &'a [u64],
    pub(crate) alive: &'a [Alive],
}

/// A superset found: one more stage leads to `set`.
pub(crate) struct Found<'a> {
    pub(crate) set: &'a [u64],
    /// What the stage would lead to: usage, value and the entry before it; at least one.
    pub(crate) arrivals: &'a [Arrival],
    pub(crate) pool: u16,
    pub(crate) replicas: u32,
    /// Whether the set holds every unit.
    pub(crate) full: bool,
}

/// A usage and value with which a superset is reached.
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) usage: u32,
    pub(crate) parent: u32,
    pub(crate) value: f64,
}

/// Sums over a stage on one pool, per pass where they differ.
#[derive(Clone, Copy, Default)]
pub(crate) struct StageSums {
    pub(crate) compute: [f64; 2],
    /// Transfer of the nets that the stage cuts; of those it sends and receives, where that is asked for.
    pub(crate) cut: [f64; 2],
    pub(crate) sent: [f64; 2],
    pub(crate) received: [f64; 2],
    pub(crate) fixed: f64,
    pub(crate) activations: f64,
    pub(crate) parameters: f64,
}

impl StageSums {
    /// Load of a pass on one device, synchronisation left out.
    #[inline]
    fn load(&self, pass: usize, communication: Communication) -> f64 {
        match communication {
            Communication::Serial => self.compute[pass] + self.cut[pass],
            Communication::Overlap => self.compute[pass].max(self.cut[pass]),
            Communication::Duplex => self.compute[pass].max(self.sent[pass]).max(self.received[pass]),
        }
    }
}

/// The ideal that a stage leads to.
#[derive(Clone, Copy)]
pub(crate) struct Ideal<'a> {
    pub(crate) set: &'a [u64],
    pub(crate) weights: &'a [f64],
    /// Least transfer of the nets that cross it, per pass.
    pub(crate) crossing: [f64; 2],
    /// Whether it holds every unit.
    pub(crate) full: bool,
}

/// What every stage from one state on one pool must respect.
pub(crate) struct Limits {
    pub(crate) communication: Communication,
    pub(crate) passes: usize,
    pub(crate) most_replicas: u32,
    /// Weights of the resulting ideal, over all numbers of replicas.
    pub(crate) low: Vec<f64>,
    pub(crate) high: Vec<f64>,
    /// Least compute of the stage per pass, from the windows.
    pub(crate) least_compute: [f64; 2],
    /// Per pass, where no host is left afterwards: the compute must be at least this plus what crosses the ideal.
    pub(crate) least_with_crossing: [f64; 2],
    pub(crate) memory: f64,
    /// Least microbatches in flight over the entries, and whether they differ.
    pub(crate) in_flight: f64,
    memory_by_stage: bool,
}

impl Limits {
    /// The limits of stages on a pool that come after a state of the given weights.
    pub(crate) fn new(rules: &Rules<'_>, alive: &[Alive], pool: usize, weights: &[f64]) -> Limits {
        let Rules { objective, pools, space, windows, lattice, .. } = *rules;
        let mut low = vec![f64::INFINITY; windows.weights];
        let mut high = vec![f64::NEG_INFINITY; windows.weights];
        let mut crossing_low = [f64::INFINITY; 2];
        let mut most_replicas = 0;
        let mut in_flight = u32::MAX;
        for usage in alive.iter().map(|alive| alive.usage) {
            let most = space.most_replicas(usage, pool);
            most_replicas = most_replicas.max(most);
            if most > 0 {
                in_flight = in_flight.min(objective.in_flight(space.stages(usage) + 1));
            }
            for replicas in 1..=most {
                let after = space.after(usage, pool, replicas);
                for at in 0..windows.weights {
                    low[at] = low[at].min(windows.low(after)[at]);
                    high[at] = high[at].max(windows.high(after)[at]);
                }
                for (pass, least) in crossing_low.iter_mut().enumerate().take(lattice.passes) {
                    let bound =
                        windows.crossing.as_ref().map_or(f64::NEG_INFINITY, |all| all.low[after][pass]);
                    *least = least.min(bound);
                }
            }
        }
        let mut least_compute = [0.0; 2];
        let mut least_with_crossing = [f64::NEG_INFINITY; 2];
        for pass in 0..lattice.passes {
            let own = windows.own[pool][pass];
            least_compute[pass] = low[own] - weights[own];
            // Time on this pool is at least the least time over the pools that pay.
            if let Some(crossing) = windows.crossing.as_ref().filter(|_| !pools[pool].host) {
                least_with_crossing[pass] = crossing_low[pass] - weights[crossing.weight[pass]];
            }
        }
        Limits {
            communication: objective.communication,
            passes: lattice.passes,
            most_replicas,
            low,
            high,
            least_compute,
            least_with_crossing,
            memory: pools[pool].memory,
            in_flight: f64::from(in_flight),
            memory_by_stage: objective.memory_depends_on_stage(),
        }
    }

    /// Whether a load on one device is at or above a cap even when shared among the most replicas.
    #[inline]
    pub(crate) fn at_cap(&self, load: f64, cap: f64) -> bool {
        load * (1.0 - tolerance::OPTIMAL_RELATIVE) >= cap * f64::from(self.most_replicas)
    }
}

/// Turns stages into arrivals. Keeps the list of arrivals from call to call.
#[derive(Default)]
pub(crate) struct Arrivals {
    list: Vec<Arrival>,
}

impl Arrivals {
    /// Emits what a stage leads to, for every number of replicas that keeps it below the caps.
    #[inline]
    pub(crate) fn report(
        &mut self,
        rules: &Rules<'_>,
        source: Source<'_>,
        pool: usize,
        limits: &Limits,
        sums: &StageSums,
        ideal: Ideal<'_>,
        emit: &mut impl FnMut(Found<'_>),
    ) {
        let Rules { objective, windows, caps, pools, lattice, space, pass, .. } = *rules;
        for replicas in 1..=limits.most_replicas {
            let mut loads = [0.0; 2];
            for (pass, load) in loads.iter_mut().enumerate().take(lattice.passes) {
                *load = sums.load(pass, limits.communication) / f64::from(replicas);
            }
            loads[lattice.passes - 1] += synchronisation(sums.parameters, replicas, pools[pool].bandwidth);
            if (0..lattice.passes).any(|pass| loads[pass] >= caps[pass]) {
                continue;
            }
            self.list.clear();
            for alive in source.alive.iter().filter(|alive| space.left(alive.usage, pool) >= replicas) {
                if limits.memory_by_stage {
                    let in_flight = f64::from(objective.in_flight(space.stages(alive.usage) + 1));
                    if !tolerance::fits(sums.fixed + in_flight * sums.activations, limits.memory) {
                        continue;
                    }
                }
                let usage = space.after(alive.usage, pool, replicas);
                if ideal.full || inside(windows, usage, ideal, lattice.passes) {
                    let value = alive.value.max(loads[pass]);
                    self.list.push(Arrival { usage: usage as u32, parent: alive.entry, value });
                }
            }
            if !self.list.is_empty() {
                let Ideal { set, full, .. } = ideal;
                emit(Found { set, arrivals: &self.list, pool: pool as u16, replicas, full });
            }
        }
    }
}

/// Whether an ideal lies in the windows of a usage.
pub(crate) fn inside(windows: &Windows, usage: usize, ideal: Ideal<'_>, passes: usize) -> bool {
    let (low, high, weights) = (windows.low(usage), windows.high(usage), ideal.weights);
    let weighted = (0..weights.len()).all(|at| low[at] <= weights[at] && weights[at] <= high[at]);
    weighted
        && windows.crossing.as_ref().is_none_or(|crossing| {
            (0..passes).all(|pass| {
                let (weight, open) = (weights[crossing.weight[pass]], ideal.crossing[pass]);
                weight + open <= crossing.high[usage][pass] && weight - open >= crossing.low[usage][pass]
            })
        })
}
