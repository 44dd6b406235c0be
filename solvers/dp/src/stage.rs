//! The next stage: its constraints, its sums, and the states it leads to.
//!
//! `walk` and `scan` enumerate stages in two ways; both prune by the same [`Demands`] and report through them.

use std::ops::Range;

use stagewright_core::bits::difference;
use stagewright_core::contraction::Units;
use stagewright_core::document::Communication;
use stagewright_core::memory::DeviceBytes;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Pool;
use stagewright_core::tolerance;
use stagewright_search::usage::UsageSpace;

use crate::allowance::{Allowance, Halt};
use crate::lattice::{Lattice, Position};
use crate::table::{Alive, EntryId};
use crate::uplink::Uplinks;
use crate::window::{Interval, Measures, Windows};

/// Parameters of a recurrence: everything that a search for stages needs besides the state.
pub(crate) struct Rules<'a> {
    pub(crate) lattice: &'a Lattice,
    pub(crate) objective: &'a Objective,
    pub(crate) units: &'a Units,
    pub(crate) pools: &'a [Pool],
    pub(crate) space: &'a UsageSpace,
    pub(crate) windows: &'a Windows<'a>,
    /// Caps per pass, which all loads must stay below.
    pub(crate) caps: [f64; 2],
    /// The pass whose largest load is minimised.
    pub(crate) pass: usize,
    /// Uplinks, if modelled.
    pub(crate) uplinks: Option<&'a Uplinks>,
    pub(crate) allowance: &'a Allowance<'a>,
}

/// An ideal to expand, with the entries worth expanding.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) set: &'a [u64],
    pub(crate) alive: &'a [Alive],
}

/// A superset that one more stage leads to.
pub(crate) struct Found<'a> {
    pub(crate) set: &'a [u64],
    /// Index of `set` in the catalogue, if there is a catalogue.
    pub(crate) listed: Option<u32>,
    /// Usage, value and parent entry of each way to reach `set`; never empty.
    pub(crate) arrivals: &'a [Arrival],
    pub(crate) pool: u16,
    pub(crate) replicas: u32,
    /// Whether the set holds every unit.
    pub(crate) full: bool,
}

/// Usage, parent entry and value with which a superset is reached.
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) usage: u32,
    pub(crate) parent: EntryId,
    pub(crate) value: f64,
}

/// Sums over a stage on one pool, per pass where passes differ.
#[derive(Clone, Copy, Default)]
pub(crate) struct StageSums {
    pub(crate) compute: [f64; 2],
    /// Transfer time of the nets that the stage cuts. Duplex communication splits it into `sent` and `received`.
    pub(crate) cut: [f64; 2],
    pub(crate) sent: [f64; 2],
    pub(crate) received: [f64; 2],
    /// Seconds to synchronise the gradients of shared parameters.
    pub(crate) synchronised: [f64; 2],
    pub(crate) fixed: f64,
    pub(crate) activations: f64,
    pub(crate) parameters: f64,
}

impl StageSums {
    /// Load of a pass on some replicas, without the synchronisation among them.
    #[inline]
    fn load(&self, pass: usize, communication: Communication, replicas: u32) -> f64 {
        let shared = match communication {
            Communication::Serial => self.compute[pass] + self.cut[pass],
            Communication::Overlap => self.compute[pass].max(self.cut[pass]),
            Communication::Duplex => self.compute[pass].max(self.sent[pass]).max(self.received[pass]),
        };
        shared / f64::from(replicas) + self.synchronised[pass]
    }
}

/// The ideal that a stage leads to.
#[derive(Clone, Copy)]
pub(crate) struct Ideal<'a> {
    pub(crate) set: &'a [u64],
    /// The ideal before the stage.
    pub(crate) before: &'a [u64],
    /// Index of the ideal in the catalogue, if there is a catalogue.
    pub(crate) listed: Option<u32>,
    pub(crate) measures: Measures<'a>,
    /// Whether the ideal holds every unit.
    pub(crate) full: bool,
}

impl Ideal<'_> {
    /// Memory that the stage needs.
    fn stage_bytes(&self, rules: &Rules<'_>) -> DeviceBytes {
        let units =
            difference(self.set, self.before).map(|index| rules.lattice.unit_at[Position::new(index)]);
        rules.units.device_bytes(units)
    }
}

/// Extension of an entry by a stage on some number of devices.
struct Move {
    entry: EntryId,
    value: f64,
    /// Usage after the stage.
    usage: u32,
    /// Microbatches in flight on the stage.
    in_flight: u32,
}

/// Constraints on the stages from one state on one pool, and the states they lead to.
pub(crate) struct Demands {
    pool: usize,
    pub(crate) communication: Communication,
    pub(crate) passes: usize,
    most_replicas: u32,
    /// Moves by ascending number of replicas.
    moves: Vec<Move>,
    /// Range of the moves with each number of replicas.
    by_replicas: Vec<(u32, Range<usize>)>,
    /// Windows of the usage after each move, `width` per move.
    intervals: Vec<Interval>,
    width: usize,
    /// Hull of each weight's windows over all moves.
    pub(crate) weights: Vec<Interval>,
    /// Lower bound on the compute of the stage per pass, from the windows.
    pub(crate) least_compute: [f64; 2],
    /// Per pass, if no host is left after the stage: lower bound on the stage's compute minus the transfer time of the
    /// nets that cross the ideal.
    pub(crate) least_with_crossing: [f64; 2],
    pub(crate) memory: f64,
    /// Minimum number of microbatches in flight over the moves.
    pub(crate) in_flight: f64,
}

impl Demands {
    /// Constraints on the stages on a pool after a state of the given weights. `None` if the pool has no device
    /// left.
    pub(crate) fn new(rules: &Rules<'_>, alive: &[Alive], pool: usize, weights: &[f64]) -> Option<Demands> {
        let Rules { objective, pools, space, windows, lattice, .. } = *rules;
        let max_replicas = |alive: &Alive| space.most_replicas(alive.usage, pool);
        let most_replicas = alive.iter().map(max_replicas).max().filter(|&limit| limit > 0)?;
        let (mut moves, mut by_replicas, mut intervals) = (Vec::new(), Vec::new(), Vec::new());
        for replicas in 1..=most_replicas {
            let from = moves.len();
            for state in alive.iter().filter(|state| max_replicas(state) >= replicas) {
                let usage = space.after(state.usage, pool, replicas);
                windows.extend(usage, &mut intervals);
                let in_flight = objective.in_flight(space.stages(state.usage) + 1);
                moves.push(Move { entry: state.entry, value: state.value, usage: usage as u32, in_flight });
            }
            by_replicas.push((replicas, from..moves.len()));
        }
        let width = windows.len();
        let hull = |weight: usize| {
            let nothing = Interval { low: f64::INFINITY, high: f64::NEG_INFINITY };
            intervals.chunks_exact(width).fold(nothing, |hull, row| hull.hull(row[weight]))
        };
        let mut least_compute = [0.0; 2];
        let mut least_with_crossing = [f64::NEG_INFINITY; 2];
        for pass in 0..lattice.passes {
            let own = windows.weights.own[pool][pass];
            least_compute[pass] = hull(own).low - weights[own];
            // The time on this pool is at least the minimum over the pools that pay for communication.
            if !pools[pool].host {
                let crossing = hull(windows.weights.count + pass);
                least_with_crossing[pass] = crossing.low - weights[windows.weights.least[pass]];
            }
        }
        Some(Demands {
            pool,
            communication: objective.rules().communication,
            passes: lattice.passes,
            most_replicas,
            weights: (0..windows.weights.count).map(hull).collect(),
            least_compute,
            least_with_crossing,
            memory: pools[pool].memory,
            in_flight: moves.iter().map(|way| f64::from(way.in_flight)).fold(f64::INFINITY, f64::min),
            moves,
            by_replicas,
            intervals,
            width,
        })
    }

    /// Number of moves.
    pub(crate) fn moves(&self) -> usize {
        self.moves.len()
    }

    /// Whether a load on one device reaches a cap even if divided among the maximum number of replicas.
    #[inline]
    pub(crate) fn at_cap(&self, load: f64, cap: f64) -> bool {
        load * (1.0 - tolerance::OPTIMAL_RELATIVE) >= cap * f64::from(self.most_replicas)
    }

    /// Whether a stage of these bytes, and every larger one, exceeds the memory under every move.
    #[inline]
    pub(crate) fn too_large(&self, fixed: f64, activations: f64) -> bool {
        !tolerance::fits(fixed + self.in_flight * activations, self.memory)
    }

    /// Whether some move satisfies its windows and, with a load of at least `load` on one device, improves on the
    /// known value.
    #[inline]
    pub(crate) fn any_improves(
        &self,
        rules: &Rules<'_>,
        ideal: Ideal<'_>,
        load: f64,
        mut known: impl FnMut(u32) -> Option<f64>,
    ) -> bool {
        let least = load * (1.0 - tolerance::OPTIMAL_RELATIVE) / f64::from(self.most_replicas);
        let rows = self.intervals.chunks_exact(self.width);
        self.moves.iter().zip(rows).any(|(way, row)| {
            known(way.usage).is_none_or(|known| way.value.max(least) < known)
                && rules.windows.hold(row, ideal.measures)
        })
    }

    /// Emits the states that a stage leads to, for every number of replicas that keeps it below the caps.
    #[inline]
    pub(crate) fn report(
        &self,
        rules: &Rules<'_>,
        ideal: Ideal<'_>,
        sums: &StageSums,
        arrivals: &mut Vec<Arrival>,
        emit: &mut impl FnMut(Found<'_>) -> Result<(), Halt>,
    ) -> Result<(), Halt> {
        let declared = DeviceBytes {
            fixed: sums.fixed,
            activations: sums.activations,
            synchronised: sums.parameters,
            ..DeviceBytes::default()
        };
        // For graphs of version 2 the sums are only bounds; the stage's bytes are computed once its load is below the
        // caps.
        let mut bytes = rules.units.bytes_are_sums().then_some(declared);
        for (replicas, moves) in &self.by_replicas {
            let mut loads = [0.0; 2];
            for (pass, load) in loads.iter_mut().enumerate().take(self.passes) {
                *load = sums.load(pass, self.communication, *replicas);
            }
            let pool = &rules.pools[self.pool];
            let at_cap = |loads: &[f64; 2], synchronised: f64| {
                let of_replicas = pool.synchronisation(synchronised, *replicas);
                let last = self.passes - 1;
                (0..last).any(|pass| loads[pass] >= rules.caps[pass])
                    || loads[last] + of_replicas >= rules.caps[last]
            };
            if at_cap(&loads, sums.parameters) {
                continue;
            }
            let bytes = bytes.get_or_insert_with(|| ideal.stage_bytes(rules));
            if at_cap(&loads, bytes.synchronised) {
                continue;
            }
            loads[self.passes - 1] += pool.synchronisation(bytes.synchronised, *replicas);
            arrivals.clear();
            for (way, index) in self.moves[moves.clone()].iter().zip(moves.clone()) {
                let row = &self.intervals[index * self.width..(index + 1) * self.width];
                if tolerance::fits(bytes.total(way.in_flight), self.memory)
                    && rules.windows.hold(row, ideal.measures)
                {
                    let value = way.value.max(loads[rules.pass]);
                    arrivals.push(Arrival { usage: way.usage, parent: way.entry, value });
                }
            }
            if !arrivals.is_empty() {
                let Ideal { set, listed, full, .. } = ideal;
                emit(Found { set, listed, arrivals, pool: self.pool as u16, replicas: *replicas, full })?;
            }
        }
        Ok(())
    }
}
