//! The stages of one combination of degrees, by dynamic programming.
//!
//! A stage with j − 1 stages behind it has j microbatches in flight, at most m, so stages are laid out from the last to
//! the first. Under 1F1B a pipeline takes at least as long as each of its stages needs around it:
//!
//! ```text
//! Σ_{i before s} τ_i + m · τ_s + [R_s − (j_s − 1) · f_s]⁺ + [R_s − (j_s − 1) · b_s]⁺ + update_s,    R_s = Σ_{i behind s} τ_i
//! ```
//!
//! The first microbatch has to go through the stages before s. While it goes through those behind s and back, s can only
//! run the forward passes of its other microbatches in flight, j_s − 1 of them; after its last forward pass, only as many
//! backward passes. If there are at most j_s microbatches the two waits are one. The program takes for R_s the least of all
//! pipelines behind s, so what it minimises is a bound for all plans of the combination; the plan that it finds is timed by
//! the schedule itself.

use std::ops::RangeInclusive;

use rustc_hash::FxHashMap;
use stagewright_core::document::{LinkDocument, Schedule};
use stagewright_core::schedule::{StageTimes, iteration};
use stagewright_core::stop::Stop;

use super::pool::slower;
use super::search::{Combination, Costs, Space};
use super::table::{LayerCosts, StageCosts, receive, stage};

/// A stage of a plan.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Placed {
    /// First layer, and the one after the last.
    pub(crate) first: usize,
    pub(crate) end: usize,
    pub(crate) pool: usize,
    pub(crate) in_flight: u32,
    pub(crate) costs: StageCosts,
    /// Seconds of the forward and backward pass, with transfers.
    pub(crate) forward: f64,
    pub(crate) backward: f64,
}

/// A plan of a combination.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pipeline {
    pub(crate) value: f64,
    pub(crate) stages: Vec<Placed>,
}

/// The outcome for a combination.
pub(crate) struct Solved {
    /// Lower bound; infinite if no plan is below the cutoff.
    pub(crate) bound: f64,
    pub(crate) pipeline: Option<Pipeline>,
    /// Whether the search ended before its end; the bound is none then.
    pub(crate) is_stopped: bool,
}

/// The dynamic program of a combination.
pub(super) struct Program<'s> {
    space: &'s Space<'s>,
    combination: &'s Combination,
    costs: &'s Costs,
    /// The kind of all stages; without one, there are stages on several.
    only: Option<usize>,
    /// Whether all devices are in one server.
    is_inside: bool,
    fewest: u32,
    most: u32,
    cutoff: f64,
    /// Times of stages without transfers, by kind, interval and microbatches in flight; `None` if it does not fit.
    stages: FxHashMap<(usize, u32, u32), Option<[f64; 3]>>,
}

/// An entry: stages from a layer to the end.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Lower bound of the pipeline so far.
    value: f64,
    /// The end of its first stage, and the kind.
    end: u32,
    pool: u32,
}

const NO_ENTRY: Entry = Entry { value: f64::INFINITY, end: 0, pool: 0 };

impl<'s> Program<'s> {
    /// A program for a number of stages within a range; without a kind (`only`), for stages on several.
    pub(super) fn new(
        space: &'s Space<'s>,
        combination: &'s Combination,
        costs: &'s Costs,
        only: Option<usize>,
        is_inside: bool,
        stages: RangeInclusive<u32>,
        cutoff: f64,
    ) -> Program<'s> {
        Program {
            space,
            combination,
            costs,
            only,
            is_inside,
            fewest: *stages.start(),
            most: *stages.end(),
            cutoff,
            stages: FxHashMap::default(),
        }
    }

    fn link(&self, pool: usize) -> LinkDocument {
        let pool = &self.space.pools[pool];
        if self.is_inside { pool.link } else { pool.network }
    }

    /// Forward, backward and update seconds of layers as one stage, without transfers.
    fn times(&mut self, pool: usize, first: usize, end: usize, in_flight: u32) -> Option<[f64; 3]> {
        let key = (pool, self.space.intervals[first][end - first - 1], in_flight);
        if let Some(&known) = self.stages.get(&key) {
            return known;
        }
        let found = self.stage(pool, first, end, in_flight);
        let times = found.map(|stage| [stage.forward, stage.least_backward, stage.update]);
        self.stages.insert(key, times);
        times
    }

    fn stage(&self, pool: usize, first: usize, end: usize, in_flight: u32) -> Option<StageCosts> {
        let layers = &self.space.model.layers[first..end];
        let layers: Vec<&LayerCosts> = layers.iter().map(|layer| &self.costs[pool][&layer.class]).collect();
        stage(&layers, self.space.pools[pool].capacity, in_flight)
    }

    /// The best plan below the cutoff, and a bound on all of them.
    pub(super) fn solve(mut self, stop: &Stop) -> Solved {
        let layers = self.space.model.layers.len();
        let m = self.combination.microbatches;
        let pools = self.space.pools.len();
        let most: Vec<u32> = (0..pools)
            .map(|pool| match self.only {
                Some(only) if only != pool => 0,
                _ => self.combination.most_stages(pool, self.space.pools, layers).min(self.most),
            })
            .collect();
        let receives: Vec<[Vec<f64>; 2]> = (0..pools)
            .map(|pool| {
                let (link, degrees) = (self.link(pool), self.combination.degrees_on(pool));
                [0, 1].map(|pass| {
                    (0..=layers).map(|layer| receive(self.space.model, layer, pass, link, degrees)).collect()
                })
            })
            .collect();
        let total = |counts: &[u32]| counts.iter().sum::<u32>();
        let Some(counts) = counts(&most, self.most.min(layers as u32)) else {
            return Solved { bound: f64::INFINITY, pipeline: None, is_stopped: true };
        };
        let mut tables: FxHashMap<Vec<u32>, (Vec<Entry>, Vec<f64>)> = FxHashMap::default();
        let (mut bound, mut best, mut is_stopped) = (f64::INFINITY, None, false);
        for counts in counts {
            if stop.reason().is_some() {
                is_stopped = true;
                break;
            }
            let depth = total(&counts);
            let in_flight = depth.min(m);
            let mut entries = vec![NO_ENTRY; layers + 1];
            // Least time of a microbatch through the stages.
            let mut through = vec![f64::INFINITY; layers + 1];
            for pool in (0..pools).filter(|&pool| counts[pool] > 0) {
                let mut before = counts.clone();
                before[pool] -= 1;
                let behind = tables.get(&before);
                if depth > 1 && behind.is_none() {
                    continue;
                }
                for first in (0..layers).rev() {
                    if stop.reason().is_some() {
                        is_stopped = true;
                        break;
                    }
                    // Only the last stage ends at the last layer.
                    let ends = if depth == 1 { layers..layers + 1 } else { first + 1..layers };
                    for end in ends {
                        let (next, rest) = match behind {
                            None => (0.0, 0.0),
                            Some((entries, through)) => (entries[end].value, through[end]),
                        };
                        let Some([forward, backward, update]) = self.times(pool, first, end, in_flight)
                        else {
                            // More layers need more memory.
                            break;
                        };
                        if f64::from(m) * (forward + backward) + update > self.cutoff {
                            break;
                        }
                        let forward = forward + receives[pool][0][first];
                        let backward = backward + if depth > 1 { receives[pool][1][end] } else { 0.0 };
                        let own = f64::from(m) * (forward + backward) + update;
                        if own > self.cutoff || next == f64::INFINITY {
                            continue;
                        }
                        let waiting = f64::from(depth.min(m) - 1);
                        let mut waits = (rest - waiting * forward).max(0.0);
                        if m > depth {
                            waits += (rest - waiting * backward).max(0.0);
                        }
                        let value = (own + waits).max(forward + backward + next);
                        through[first] = through[first].min(forward + backward + rest);
                        if value < entries[first].value && value <= self.cutoff {
                            entries[first] = Entry { value, end: end as u32, pool: pool as u32 };
                        }
                    }
                }
            }
            let value = entries[0].value;
            let is_any = entries.iter().any(|entry| entry.value.is_finite());
            if is_any {
                tables.insert(counts.clone(), (entries, through));
            }
            let is_mixed = counts.iter().filter(|&&count| count > 0).count() > 1;
            if depth >= self.fewest && value < self.cutoff && is_mixed == self.only.is_none() {
                bound = f64::min(bound, value);
                let pipeline = self.rebuild(&tables, &counts);
                if let Some(pipeline) = pipeline.filter(|pipeline| pipeline.value < self.cutoff) {
                    self.cutoff = pipeline.value;
                    best = Some(pipeline);
                }
            }
        }
        Solved { bound, pipeline: best, is_stopped }
    }

    /// The plan behind an entry, timed by its schedule.
    fn rebuild(
        &self,
        tables: &FxHashMap<Vec<u32>, (Vec<Entry>, Vec<f64>)>,
        counts: &[u32],
    ) -> Option<Pipeline> {
        let mut counts = counts.to_vec();
        let mut ranges = Vec::new();
        let mut first = 0;
        while counts.iter().any(|&count| count > 0) {
            let entry = tables.get(&counts)?.0[first];
            ranges.push((first, entry.end as usize, entry.pool as usize));
            counts[entry.pool as usize] -= 1;
            first = entry.end as usize;
        }
        self.timed(&ranges)
    }

    /// Times stages given by their layers and kinds.
    fn timed(&self, ranges: &[(usize, usize, usize)]) -> Option<Pipeline> {
        let m = self.combination.microbatches;
        let depth = ranges.len() as u32;
        let mut stages = Vec::with_capacity(ranges.len());
        for (at, &(first, end, pool)) in ranges.iter().enumerate() {
            let in_flight = (depth - at as u32).min(m);
            let costs = self.stage(pool, first, end, in_flight)?;
            let degrees = self.combination.degrees_on(pool);
            let link = |other: Option<&(usize, usize, usize)>| match other {
                Some(&(_, _, other)) if other != pool => slower(self.link(pool), self.link(other)),
                _ => self.link(pool),
            };
            let before = link(at.checked_sub(1).map(|at| &ranges[at]));
            let from = receive(self.space.model, first, 0, before, degrees);
            let back = match ranges.get(at + 1) {
                Some(next) => receive(self.space.model, end, 1, link(Some(next)), degrees),
                None => 0.0,
            };
            let (forward, backward) = (costs.forward + from, costs.backward + back);
            stages.push(Placed { first, end, pool, in_flight, costs, forward, backward });
        }
        let time =
            |stage: &Placed| StageTimes { forward: stage.forward, backward: stage.backward, weight: 0.0 };
        let times: Vec<StageTimes> = stages.iter().map(time).collect();
        let after = stages.iter().map(|stage| stage.costs.update).fold(0.0, f64::max);
        Some(Pipeline { value: iteration(Schedule::OneFOneB, &times, m) + after, stages })
    }
}

/// Maximum number of vectors of counts of a combination.
const MAX_COUNTS: usize = 1 << 17;

/// Numbers of stages by kind, up to `most` of each and `all` together, the fewest first. `None` if there are too many.
fn counts(most: &[u32], all: u32) -> Option<Vec<Vec<u32>>> {
    let mut counts: Vec<Vec<u32>> = vec![vec![]];
    for &most in most {
        let mut next = Vec::new();
        for counts in counts {
            let left = all - counts.iter().sum::<u32>();
            for count in 0..=most.min(left) {
                next.push(counts.iter().copied().chain([count]).collect());
            }
            if next.len() > MAX_COUNTS {
                return None;
            }
        }
        counts = next;
    }
    counts.retain(|counts| counts.iter().any(|&count| count > 0));
    counts.sort_by_key(|counts| counts.iter().sum::<u32>());
    Some(counts)
}
