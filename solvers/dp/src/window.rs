//! Windows: necessary conditions for an ideal to be part of a split whose loads are all below the caps.
//!
//! Take any weight ω ≥ 0 on the units. A device of pool c whose compute stays below a cap T holds at most the
//! fractional knapsack K_c(T): the maximum ω that fits into T seconds of that pool. The devices in use hold the
//! ideal I, and the devices left must be able to hold the rest, so
//!
//! ```text
//! ω(V) − Σ_c K_c(left_c · T)   ≤   ω(I)   ≤   Σ_c K_c(used_c · T)
//! ```
//!
//! (a stage on r devices has compute below r · T; for bytes, the memory of each device takes the place of T).
//! Knapsacks are monotone, so a window widens with its cap and tightens as the cap falls.
//!
//! Under `serial` communication, devices other than hosts also pay for every net that crosses the ideal. With p and
//! x the least compute and transfer times over those pools, and b(I) the sum of x over the nets that cross I,
//!
//! ```text
//! p(I) + b(I) ≤ used · T          p(V) − p(I) + b(I) ≤ left · T
//! ```
//!
//! the first if no host is in use, the second if no host is left: each crossing net is cut by at least one stage on
//! either side of I.

use stagewright_core::document::Communication;
use stagewright_core::problem::Problem;
use stagewright_search::usage::UsageSpace;

use crate::weight::{Resource, Weights};

/// Relative slack of a window, far above the rounding error of sums of weights.
const SLACK: f64 = 1e-9;
/// Maximum number of intervals that are precomputed for all usages.
const MAX_KNOWN: usize = 1 << 18;

/// Quantities of an ideal that windows bound: its weights, and the transfer time of the nets that cross it.
#[derive(Clone, Copy)]
pub(crate) struct Measures<'a> {
    pub(crate) weights: &'a [f64],
    /// Sum of the minimum transfer times of the nets that cross the ideal, per pass.
    pub(crate) crossing: [f64; 2],
}

/// A closed interval.
#[derive(Clone, Copy)]
pub(crate) struct Interval {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Interval {
    /// Smallest interval that contains both intervals.
    pub(crate) fn hull(self, other: Interval) -> Interval {
        Interval { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    #[inline]
    pub(crate) fn contains(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// Windows for given caps.
pub(crate) struct Windows<'a> {
    pub(crate) weights: &'a Weights,
    space: &'a UsageSpace,
    caps: [f64; 2],
    passes: usize,
    /// `[pool]`: whether the pool is a host.
    host: Vec<bool>,
    /// Whether crossing nets add to the load.
    serial: bool,
    /// `[weight][pool][devices]`: maximum weight that this number of devices of the pool can hold.
    holds: Vec<Vec<Vec<f64>>>,
    /// Precomputed intervals of all usages; empty if there are too many.
    known: Vec<Interval>,
}

impl<'a> Windows<'a> {
    /// Windows for caps per pass. O(weights · (devices · log n + usages · pools)), where usages count only up to a
    /// limit.
    pub(crate) fn new(
        problem: &Problem,
        weights: &'a Weights,
        space: &'a UsageSpace,
        caps: [f64; 2],
    ) -> Windows<'a> {
        let pools = problem.pools();
        let hold = |weight: usize, pool: usize| {
            let each = match weights.resource(weight) {
                Resource::Pass(pass) => caps[pass],
                Resource::Memory => pools[pool].memory,
            };
            let limit = |devices: u32| weights.most(weight, pool, f64::from(devices) * each);
            (0..=space.limit(pool)).map(limit).collect()
        };
        let mut windows = Windows {
            weights,
            space,
            caps,
            passes: problem.objective().passes(),
            host: pools.iter().map(|pool| pool.host).collect(),
            serial: problem.objective().rules().communication == Communication::Serial,
            holds: (0..weights.count)
                .map(|weight| (0..pools.len()).map(|pool| hold(weight, pool)).collect())
                .collect(),
            known: Vec::new(),
        };
        if space.len() * windows.len() <= MAX_KNOWN {
            let mut known = Vec::with_capacity(space.len() * windows.len());
            (0..space.len()).for_each(|usage| windows.derive(usage, &mut known));
            windows.known = known;
        }
        windows
    }

    /// Number of intervals per usage: one for each weight, then one with crossing nets for each pass.
    pub(crate) fn len(&self) -> usize {
        self.weights.count + self.passes
    }

    /// Appends the intervals of a usage. O(weights · pools).
    pub(crate) fn extend(&self, usage: usize, intervals: &mut Vec<Interval>) {
        match self.known.get(usage * self.len()..(usage + 1) * self.len()) {
            Some(known) => intervals.extend_from_slice(known),
            None => self.derive(usage, intervals),
        }
    }

    fn derive(&self, usage: usize, intervals: &mut Vec<Interval>) {
        let space = self.space;
        for (weight, holds) in self.holds.iter().enumerate() {
            let total = self.weights.total(weight);
            let slack = SLACK * total;
            let sum = |count: &dyn Fn(usize) -> u32| -> f64 {
                holds.iter().enumerate().map(|(pool, holds)| holds[count(pool) as usize]).sum()
            };
            let used = sum(&|pool| space.count(usage, pool));
            let left = sum(&|pool| space.left(usage, pool));
            intervals.push(Interval { low: total - left - slack, high: used + slack });
        }
        for pass in 0..self.passes {
            intervals.push(self.with_crossing(usage, pass));
        }
    }

    /// Lower bound on p(I) − b(I) and upper bound on p(I) + b(I); infinite where the inequality does not apply.
    fn with_crossing(&self, usage: usize, pass: usize) -> Interval {
        // Number of devices; `None` if a host is among them.
        let devices = |count: &dyn Fn(usize) -> u32| {
            let pools = || self.host.iter().enumerate().map(|(pool, &host)| (host, count(pool)));
            let hosted = pools().any(|(host, count)| host && count > 0);
            (self.serial && !hosted).then(|| pools().map(|(_, count)| f64::from(count)).sum::<f64>())
        };
        let limit = |devices: f64| devices * self.caps[pass] * (1.0 + SLACK);
        let total = self.weights.total(self.weights.least[pass]) * (1.0 - SLACK);
        Interval {
            low: devices(&|pool| self.space.left(usage, pool))
                .map_or(f64::NEG_INFINITY, |left| total - limit(left)),
            high: devices(&|pool| self.space.count(usage, pool)).map_or(f64::INFINITY, limit),
        }
    }

    /// Whether an ideal satisfies the intervals of a usage.
    #[inline]
    pub(crate) fn hold(&self, intervals: &[Interval], measures: Measures<'_>) -> bool {
        let (weighted, crossed) = intervals.split_at(self.weights.count);
        weighted.iter().zip(measures.weights).all(|(interval, &weight)| interval.contains(weight))
            && crossed.iter().enumerate().all(|(pass, interval)| {
                let (weight, open) = (measures.weights[self.weights.least[pass]], measures.crossing[pass]);
                weight + open <= interval.high && weight - open >= interval.low
            })
    }
}
