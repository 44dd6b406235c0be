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

use crate::allowance::Halt;
use crate::catalogue::{Catalogue, CrossingNet};
use crate::lattice::{bits, contains, members};
use crate::stage::{Arrival, Demands, Found, Ideal, Rules, Source, StageSums};
use crate::table::Table;
use crate::window::Measures;

/// Ideals passed over that count as one superset looked at.
const PASSED_OVER: usize = 16;
/// Relative slack of a difference of two sums.
const SLACK: f64 = 1e-10;

/// Work space for scans, one per thread.
pub(crate) struct Scanner<'a> {
    rules: &'a Rules<'a>,
    catalogue: &'a Catalogue,
    /// Ideals reached so far.
    table: &'a Table,
    /// Pins of each net in J.
    pins_before: Vec<u32>,
    /// Nets that cross J.
    crossing: Vec<u32>,
    /// Their least transfer per pass.
    crossing_seconds: [f64; 2],
    /// For each net the last pair in which it crossed both ideals.
    crossed_both: Vec<u64>,
    weights: Vec<f64>,
    unsupported: Vec<u32>,
    arrivals: Vec<Arrival>,
    steps: u64,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(rules: &'a Rules<'a>, catalogue: &'a Catalogue, table: &'a Table) -> Self {
        let lattice = rules.lattice;
        Scanner {
            rules,
            catalogue,
            table,
            pins_before: vec![0; lattice.net_count()],
            crossing: Vec::new(),
            crossing_seconds: [0.0; 2],
            crossed_both: vec![0; lattice.net_count()],
            weights: Vec::new(),
            unsupported: Vec::new(),
            arrivals: Vec::new(),
            steps: 0,
        }
    }

    /// Supersets looked at so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Calls `emit` for every superset of a state that is worth it.
    pub(crate) fn expand(
        &mut self,
        source: Source<'_>,
        mut emit: impl FnMut(Found<'_>) -> Result<(), Halt>,
    ) -> Result<(), Halt> {
        let size = self.prepare(source);
        for pool in 0..self.rules.lattice.pools.len() {
            if let Some(demands) = Demands::new(self.rules, source.alive, pool, &self.weights) {
                self.expand_on(source, size, pool, &demands, &mut emit)?;
            }
        }
        Ok(())
    }

    /// Sums over J; gives the number of its units.
    fn prepare(&mut self, source: Source<'_>) -> u32 {
        let Rules { lattice, windows, .. } = *self.rules;
        self.pins_before.fill(0);
        self.weights.clear();
        self.weights.resize(windows.weights.count, 0.0);
        self.unsupported.clear();
        self.unsupported.resize(lattice.pools.len(), 0);
        let mut size = 0;
        for at in members(source.set) {
            size += 1;
            for &net in lattice.nets_of(at) {
                self.pins_before[net as usize] += 1;
            }
            for (sum, weight) in self.weights.iter_mut().zip(windows.weights.of(at)) {
                *sum += weight;
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
        self.crossing_seconds = [0.0; 2];
        for net in self.crossing.iter().map(|&net| net as usize) {
            self.crossing_seconds[usize::from(lattice.net_pass[net])] += lattice.least_transfer[net];
        }
        size
    }

    fn expand_on(
        &mut self,
        source: Source<'_>,
        size: u32,
        pool: usize,
        demands: &Demands,
        emit: &mut impl FnMut(Found<'_>) -> Result<(), Halt>,
    ) -> Result<(), Halt> {
        let Rules { lattice, windows, caps, .. } = *self.rules;
        let catalogue = self.catalogue;
        let own = windows.weights.own[pool];
        let serial = demands.communication == Communication::Serial && !lattice.pools[pool].host;
        let steps_before = self.steps;
        let ranks = catalogue.within(&demands.weights);
        self.steps += (ranks.len() / PASSED_OVER) as u64;
        for ideal in ranks {
            let weights = catalogue.weights(ideal);
            let crossing = catalogue.crossing_seconds(ideal);
            let compute = own.map(|own| weights[own] * (1.0 - SLACK) - self.weights[own]);
            let at_cap = |pass: usize| {
                // Each net that crosses one of the two ideals alone is cut.
                let (here, before) = (crossing[pass], self.crossing_seconds[pass]);
                let cut = if serial { (here - before).abs() - SLACK * (here + before) } else { 0.0 };
                demands.at_cap(compute[pass] + cut, caps[pass])
            };
            if (0..lattice.passes).any(at_cap) {
                continue;
            }
            let set = catalogue.set(ideal);
            if catalogue.size(ideal) <= size || !holds(set, source.set) {
                continue;
            }
            self.steps += 1;
            if !demands.weights.iter().zip(weights).all(|(interval, &weight)| interval.contains(weight))
                || catalogue.unsupported(ideal, pool) > self.unsupported[pool]
            {
                continue;
            }
            let superset = Ideal {
                set,
                before: source.set,
                listed: Some(ideal as u32),
                measures: Measures { weights, crossing },
                full: catalogue.size(ideal) as usize == lattice.len,
            };
            // With uplinks a value alone does not tell what is better.
            let reached = self.table.find(set, ideal as u64).filter(|_| self.rules.uplinks.is_none());
            let known = |usage| reached.and_then(|reached| self.table.value(reached, usage as usize));
            if !demands.any_improves(self.rules, superset, compute[self.rules.pass], known) {
                continue;
            }
            let mut sums = StageSums::default();
            self.add_cut_nets(&mut sums, set, source.set, catalogue.crossing(ideal), pool);
            if serial {
                let load = |pass: usize| compute[pass] + sums.cut[pass];
                if (0..lattice.passes).any(|pass| demands.at_cap(load(pass), caps[pass]))
                    || !demands.any_improves(self.rules, superset, load(self.rules.pass), known)
                {
                    continue;
                }
            }
            self.add_units(&mut sums, set, source.set, pool);
            if !demands.too_large(sums.fixed, sums.activations) {
                demands.report(self.rules, superset, &sums, &mut self.arrivals, emit)?;
            }
        }
        self.rules.allowance.spend(self.steps - steps_before, 0)
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
        // Steps grow from pair to pair, so they tell them apart.
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
