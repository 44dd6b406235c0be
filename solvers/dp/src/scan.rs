//! From one ideal J, every ideal I ⊃ J whose difference a device can hold, by a scan of the catalogue.
//!
//! Where the lattice is small, most supersets that a walk makes lie in no window; looking at the ideals whose weight
//! is right and asking each whether it holds J takes some nanoseconds an ideal. The nets that the stage S = I \ J
//! cuts all cross I or J, and for those that do, the pins inside I and J tell:
//!
//! ```text
//! crosses I             cut where I holds more of its pins than J
//! crosses J and not I   cut: its pins outside J are all in S
//! ```
//!
//! so the transfer of S takes time proportional to the crossing nets of both. Sums over S are sums over its own units
//! and nets: differences of sums over I and J would carry the rounding of whatever J holds. Such differences are
//! used to turn pairs away only, with a slack above that rounding.

use stagewright_core::document::Communication;
use stagewright_core::tolerance;

use crate::catalogue::{Catalogue, CrossingNet};
use crate::lattice::{bits, contains, members};
use crate::stage::{Arrivals, Found, Ideal, Limits, Rules, Source, StageSums, inside};
use crate::table::Table;

/// Pairs between two looks at the clock.
const PAIRS_BETWEEN_CHECKS: usize = 1 << 16;
/// Relative slack of a difference of two sums.
const SLACK: f64 = 1e-10;

/// Work space for scans, one per thread.
pub(crate) struct Scanner<'a> {
    rules: &'a Rules<'a>,
    catalogue: &'a Catalogue,
    /// Pins of each net in J.
    pins_before: Vec<u32>,
    /// Nets that cross J.
    crossing: Vec<u32>,
    /// For each net the last pair in which it crossed both ideals.
    crossed_both: Vec<u64>,
    weights: Vec<f64>,
    unsupported: Vec<u32>,
    arrivals: Arrivals,
    /// Ideals reached so far.
    table: &'a Table,
    /// Least transfer of the nets that cross J, per pass.
    open: [f64; 2],
    steps: u64,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(rules: &'a Rules<'a>, catalogue: &'a Catalogue, table: &'a Table) -> Self {
        let lattice = rules.lattice;
        Scanner {
            rules,
            catalogue,
            pins_before: vec![0; lattice.net_count()],
            crossing: Vec::new(),
            crossed_both: vec![0; lattice.net_count()],
            weights: Vec::new(),
            unsupported: Vec::new(),
            arrivals: Arrivals::default(),
            table,
            open: [0.0; 2],
            steps: 0,
        }
    }

    /// Supersets looked at so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Calls `emit` for every superset of a state. False where the solve has to stop.
    pub(crate) fn expand(&mut self, source: Source<'_>, mut emit: impl FnMut(Found<'_>)) -> bool {
        let size = self.prepare(source);
        (0..self.rules.lattice.pools.len()).all(|pool| {
            let has_left = |usage| self.rules.space.left(usage, pool) > 0;
            !source.alive.iter().any(|alive| has_left(alive.usage))
                || self.expand_on(source, size, pool, &mut emit)
        })
    }

    /// Sums over J; gives the number of its units.
    fn prepare(&mut self, source: Source<'_>) -> u32 {
        let Rules { lattice, windows, .. } = *self.rules;
        let count = windows.weights;
        self.pins_before.fill(0);
        self.weights.clear();
        self.weights.resize(count, 0.0);
        self.unsupported.clear();
        self.unsupported.resize(lattice.pools.len(), 0);
        let mut size = 0;
        for at in members(source.set) {
            size += 1;
            for &net in lattice.nets_of(at) {
                self.pins_before[net as usize] += 1;
            }
            for weight in 0..count {
                self.weights[weight] += windows.weight[at * count + weight];
            }
            for (unsupported, costs) in self.unsupported.iter_mut().zip(&lattice.pools) {
                *unsupported += u32::from(!costs.supported[at]);
            }
        }
        self.crossing.clear();
        let crosses = |net: &u32| {
            let inside = self.pins_before[*net as usize];
            inside > 0 && (inside as usize) < lattice.pins(*net as usize).len()
        };
        self.crossing.extend((0..lattice.net_count() as u32).filter(crosses));
        self.open = [0.0; 2];
        for net in self.crossing.iter().map(|&net| net as usize) {
            self.open[usize::from(lattice.net_pass[net])] += lattice.least_transfer[net];
        }
        size
    }

    fn expand_on(
        &mut self,
        source: Source<'_>,
        size: u32,
        pool: usize,
        emit: &mut impl FnMut(Found<'_>),
    ) -> bool {
        let Rules { lattice, windows, caps, .. } = *self.rules;
        let catalogue = self.catalogue;
        let limits = Limits::new(self.rules, source.alive, pool, &self.weights);
        let own = &windows.own[pool];
        let serial = limits.communication == Communication::Serial && !lattice.pools[pool].host;
        for ideal in catalogue.between(&limits.low, &limits.high) {
            if ideal.is_multiple_of(PAIRS_BETWEEN_CHECKS) && self.rules.stop.reason().is_some() {
                return false;
            }
            let set = catalogue.set(ideal);
            if catalogue.size(ideal) <= size || !holds(set, source.set) {
                continue;
            }
            self.steps += 1;
            let weights = catalogue.weights(ideal);
            let fits_windows = (0..windows.weights)
                .all(|at| limits.low[at] <= weights[at] && weights[at] <= limits.high[at]);
            if !fits_windows || catalogue.unsupported(ideal, pool) > self.unsupported[pool] {
                continue;
            }
            let mut least = [0.0; 2];
            for pass in 0..lattice.passes {
                least[pass] = weights[own[pass]] * (1.0 - SLACK) - self.weights[own[pass]];
            }
            if serial {
                let open = catalogue.crossing_seconds(ideal);
                for pass in 0..lattice.passes {
                    least[pass] += (open[pass] - self.open[pass]).abs();
                }
            }
            if (0..lattice.passes).any(|pass| limits.at_cap(least[pass], caps[pass])) {
                continue;
            }
            let full = catalogue.size(ideal) as usize == lattice.len;
            let superset = Ideal { set, weights, crossing: catalogue.crossing_seconds(ideal), full };
            if !self.is_worth(source, pool, &limits, superset, catalogue.hash(ideal)) {
                continue;
            }
            let mut sums = StageSums::default();
            self.add_cut_nets(&mut sums, set, source.set, catalogue.crossing(ideal), pool);
            if serial
                && (0..lattice.passes).any(|pass| limits.at_cap(least[pass] + sums.cut[pass], caps[pass]))
            {
                continue;
            }
            self.add_units(&mut sums, set, source.set, pool);
            if !tolerance::fits(sums.fixed + limits.in_flight * sums.activations, limits.memory) {
                continue;
            }
            self.arrivals.report(self.rules, source, pool, &limits, &sums, superset, emit);
        }
        true
    }

    /// Whether a stage that leads to an ideal can improve on what the table holds, whatever its load.
    fn is_worth(
        &self,
        source: Source<'_>,
        pool: usize,
        limits: &Limits,
        ideal: Ideal<'_>,
        hash: u64,
    ) -> bool {
        let Rules { lattice, windows, space, .. } = *self.rules;
        let mut known: Option<Option<u32>> = None;
        source.alive.iter().any(|alive| {
            (1..=limits.most_replicas.min(space.left(alive.usage, pool))).any(|replicas| {
                let usage = space.after(alive.usage, pool, replicas);
                ideal.full
                    || inside(windows, usage, ideal, lattice.passes) && {
                        let known = *known.get_or_insert_with(|| self.table.find(ideal.set, hash));
                        let value = known.and_then(|known| self.table.value(known, usage));
                        value.is_none_or(|value| alive.value < value)
                    }
            })
        })
    }

    /// Adds the nets that the stage between J and `set` cuts.
    #[inline]
    fn add_cut_nets(
        &mut self,
        sums: &mut StageSums,
        set: &[u64],
        before: &[u64],
        crossing: &[CrossingNet],
        pool: usize,
    ) {
        let lattice = self.rules.lattice;
        let transfer = &lattice.pools[pool].transfer;
        let duplex = self.rules.objective.communication == Communication::Duplex;
        let mut add = |net: usize| {
            let pass = usize::from(lattice.net_pass[net]);
            sums.cut[pass] += transfer[net];
            if duplex {
                let producer = lattice.producer[net] as usize;
                match contains(set, producer) && !contains(before, producer) {
                    true => sums.sent[pass] += transfer[net],
                    false => sums.received[pass] += transfer[net],
                }
            }
        };
        // Steps never repeat, so they tell the pairs apart.
        let pair = self.steps;
        for &CrossingNet { net, inside } in crossing {
            let net = net as usize;
            let inside_before = self.pins_before[net];
            if inside_before > 0 {
                self.crossed_both[net] = pair;
            }
            if inside > inside_before {
                add(net);
            }
        }
        for &net in &self.crossing {
            if self.crossed_both[net as usize] != pair {
                add(net as usize);
            }
        }
    }

    /// Adds the units of the stage between J and `set`.
    #[inline]
    fn add_units(&self, sums: &mut StageSums, set: &[u64], before: &[u64], pool: usize) {
        let lattice = self.rules.lattice;
        let seconds = &lattice.pools[pool].seconds;
        for unit in difference(set, before) {
            for (compute, seconds) in sums.compute.iter_mut().zip(seconds).take(lattice.passes) {
                *compute += seconds[unit];
            }
            sums.fixed += lattice.fixed_bytes[unit];
            sums.activations += lattice.activation_bytes[unit];
            sums.parameters += lattice.parameter_bytes[unit];
        }
    }
}

/// Whether a set holds all of another.
#[inline]
fn holds(set: &[u64], other: &[u64]) -> bool {
    set.iter().zip(other).all(|(set, other)| other & !set == 0)
}

/// The members of a set that are not in another.
#[inline]
fn difference<'a>(set: &'a [u64], other: &'a [u64]) -> impl Iterator<Item = usize> + 'a {
    set.iter().zip(other).enumerate().flat_map(|(word, (set, other))| bits(set & !other, word))
}
