//! The search: every combination of degrees by its lower bound, and for each the stages by dynamic programming.
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

use rand::Rng;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use stagewright_core::document::{LinkDocument, Schedule};
use stagewright_core::schedule::{StageTimes, iteration};
use stagewright_core::seed;
use stagewright_core::stop::Stop;
use stagewright_core::tolerance::OPTIMAL_RELATIVE;

use super::model::Model;
use super::pool::{Pool, slower};
use super::table::{Degrees, LayerCosts, Parts, StageCosts, receive, stage};

/// Degrees of a combination, with the tensor-parallel degree of every kind.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Combination {
    pub(crate) degrees: Degrees,
    pub(crate) tensor: Vec<u32>,
    pub(crate) microbatches: u32,
    /// Number of stages that the plan must have, if it is given.
    pub(crate) stages: Option<u32>,
}

impl Combination {
    pub(crate) fn degrees_on(&self, pool: usize) -> Degrees {
        Degrees { tensor: self.tensor[pool], ..self.degrees }
    }

    /// Maximum number of stages on a kind.
    fn most_stages(&self, pool: usize, pools: &[Pool], layers: usize) -> u32 {
        let group = u64::from(self.tensor[pool]) * u64::from(self.degrees.data);
        let most = u64::from(pools[pool].devices) / group;
        most.min(layers as u64).min(self.stages.unwrap_or(u32::MAX).into()) as u32
    }
}

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

/// What all combinations have in common.
pub(crate) struct Space<'m> {
    pub(crate) model: &'m Model,
    pub(crate) pools: &'m [Pool],
    /// Configurations of numbered layers.
    allowed: Vec<usize>,
    /// Number of every interval of layers among those that differ: `[first][end - first - 1]`.
    intervals: Vec<Vec<u32>>,
}

/// Costs of every layer class on every kind.
type Costs = Vec<FxHashMap<usize, LayerCosts>>;

impl<'m> Space<'m> {
    /// O(layers²).
    pub(crate) fn new(model: &'m Model, pools: &'m [Pool], allowed: Vec<usize>) -> Space<'m> {
        // Layers of a stage commute, so an interval is what it has of every class. Its key is a sum of random numbers, one
        // for each class: two intervals share one by chance with a probability of 2⁻¹²⁸.
        let mut known: FxHashMap<u128, u32> = FxHashMap::default();
        let random = |class: usize| {
            let half = |part: u64| u128::from(seed::stream(part, class as u64).next_u64());
            half(0) << 64 | half(1)
        };
        let numbers: Vec<u128> = model.layers.iter().map(|layer| random(layer.class)).collect();
        let interval = |first: usize| -> Vec<u32> {
            let mut key = 0u128;
            let number = |&number: &u128| {
                key = key.wrapping_add(number);
                let next = known.len() as u32;
                *known.entry(key).or_insert(next)
            };
            numbers[first..].iter().map(number).collect()
        };
        let intervals = (0..numbers.len()).map(interval).collect();
        Space { model, pools, allowed, intervals }
    }

    fn costs(&self, combination: &Combination) -> Costs {
        let on = |(at, pool): (usize, &Pool)| {
            let mut costs = FxHashMap::default();
            for layer in &self.model.layers {
                costs.entry(layer.class).or_insert_with(|| {
                    let degrees = combination.degrees_on(at);
                    LayerCosts::new(self.model, layer, at, pool, degrees, &self.allowed)
                });
            }
            costs
        };
        self.pools.iter().enumerate().map(on).collect()
    }

    /// A lower bound on all plans of a combination: the work of all layers, and the slowest stage at its best. Infinite if
    /// the devices are too few or their memory too small for the states.
    pub(crate) fn bound(&self, combination: &Combination) -> f64 {
        let costs = self.costs(combination);
        let most: u32 = (0..self.pools.len())
            .map(|pool| combination.most_stages(pool, self.pools, self.model.layers.len()))
            .sum();
        if most == 0 || combination.stages.is_some_and(|stages| stages > most) {
            return f64::INFINITY;
        }
        let (mut work, mut share, mut state) = (0.0, 0.0f64, 0.0);
        for layer in &self.model.layers {
            let each = || costs.iter().map(|costs| &costs[&layer.class]);
            let fastest = each().map(|one| one.forward + one.configurations[0].backward);
            work += fastest.fold(f64::INFINITY, f64::min);
            let shares = each().map(|one| one.forward / (one.forward + one.configurations[0].backward));
            share = shares.filter(|share| share.is_finite()).fold(share, f64::max);
            state += each().map(|one| one.state).fold(f64::INFINITY, f64::min);
        }
        let capacity = (0..self.pools.len()).map(|pool| {
            let stages = combination.most_stages(pool, self.pools, self.model.layers.len());
            f64::from(stages) * self.pools[pool].capacity.max(0.0)
        });
        if state > capacity.sum() {
            return f64::INFINITY;
        }
        // The stages of a kind have at most as much work as they are times the most of one. Weighted by the work of the whole
        // model on each kind, that bounds layers spread over kinds (a dual of the linear relaxation).
        let whole: Vec<f64> = costs
            .iter()
            .map(|costs| {
                let layers = self.model.layers.iter().map(|layer| &costs[&layer.class]);
                layers.map(|one| one.forward + one.configurations[0].backward).sum()
            })
            .collect();
        let weighted: f64 = self
            .model
            .layers
            .iter()
            .map(|layer| {
                let each = costs.iter().zip(&whole).map(|(costs, whole)| {
                    let one = &costs[&layer.class];
                    (one.forward + one.configurations[0].backward) / whole
                });
                each.fold(f64::INFINITY, f64::min)
            })
            .sum();
        let rate: f64 = (0..self.pools.len())
            .map(|pool| {
                let stages = combination.most_stages(pool, self.pools, self.model.layers.len());
                f64::from(stages) / whole[pool]
            })
            .sum();
        let spread = if weighted.is_finite() && rate.is_finite() { weighted / rate } else { 0.0 };
        // Of p stages that with most work has at least a p-th of it. A microbatch goes through the others as well, while that
        // stage runs no more than the forward passes of its other microbatches in flight.
        let again = f64::from(combination.microbatches - 1);
        let of = |stages: u32| {
            let waits = again - f64::from(stages.min(combination.microbatches) - 1) * share;
            work + waits.max(0.0) * (work / f64::from(stages)).max(spread)
        };
        let stages = combination.stages.map_or(1..=most, |stages| stages..=stages);
        stages.map(of).fold(f64::INFINITY, f64::min)
    }

    /// The best plan of a combination, if it is below the cutoff.
    pub(crate) fn solve(&self, combination: &Combination, cutoff: f64, stop: &Stop) -> Solved {
        let costs = self.costs(combination);
        let mut best = Solved { bound: f64::INFINITY, pipeline: None, is_stopped: false };
        let mut solve = |only: Option<usize>, is_inside: bool, range: RangeInclusive<u32>| {
            let given = combination.stages.map_or(range.clone(), |given| given..=given);
            let mut program = Program {
                space: self,
                combination,
                costs: &costs,
                only,
                is_inside,
                fewest: *range.start().max(given.start()),
                most: *range.end().min(given.end()),
                cutoff: cutoff.min(best.pipeline.as_ref().map_or(f64::INFINITY, |best| best.value)),
                stages: FxHashMap::default(),
            };
            let solved = program.solve(stop);
            best.is_stopped |= solved.is_stopped;
            best.bound = best.bound.min(solved.bound);
            let value =
                |pipeline: &Option<Pipeline>| pipeline.as_ref().map_or(f64::INFINITY, |one| one.value);
            if value(&solved.pipeline) < value(&best.pipeline) {
                best.pipeline = solved.pipeline;
            }
        };
        for (at, pool) in self.pools.iter().enumerate() {
            // Transfers between stages stay in a server if all devices are in one.
            let group = u64::from(combination.tensor[at]) * u64::from(combination.degrees.data);
            let inside = (u64::from(pool.server) / group) as u32;
            if inside > 0 {
                solve(Some(at), true, 1..=inside);
            }
            solve(Some(at), false, inside + 1..=u32::MAX);
        }
        if self.pools.len() > 1 {
            solve(None, false, 2..=u32::MAX);
        }
        best
    }
}

/// The dynamic program of a combination.
struct Program<'s> {
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

impl Program<'_> {
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

    fn solve(&mut self, stop: &Stop) -> Solved {
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
                let behind = behind.cloned();
                for first in (0..layers).rev() {
                    if stop.reason().is_some() {
                        is_stopped = true;
                        break;
                    }
                    // Only the last stage ends at the last layer.
                    let ends = if depth == 1 { layers..layers + 1 } else { first + 1..layers };
                    for end in ends {
                        let (next, rest) = match &behind {
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

/// The best plan of all combinations.
pub(crate) struct Found {
    pub(crate) best: Option<(Combination, Pipeline)>,
    pub(crate) bound: f64,
    pub(crate) is_stopped: bool,
}

/// Combinations that are solved side by side.
const BATCH: usize = 8;

/// Solves the combinations, those with the least bound first, until no other can have a better plan.
pub(crate) fn search(
    space: &Space<'_>,
    combinations: Vec<Combination>,
    gap: f64,
    stop: &Stop,
    mut report: impl FnMut(f64, f64),
) -> Found {
    let bounds: Vec<f64> = combinations.par_iter().map(|combination| space.bound(combination)).collect();
    let mut open: Vec<(f64, Combination)> = bounds.into_iter().zip(combinations).collect();
    open.retain(|(bound, _)| bound.is_finite());
    open.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut best: Option<(Combination, Pipeline)> = None;
    // Least bound of the combinations that were solved.
    let mut solved_bound = f64::INFINITY;
    let (mut at, mut is_stopped) = (0, false);
    while at < open.len() {
        let value = best.as_ref().map_or(f64::INFINITY, |best| best.1.value);
        let bound = solved_bound.min(open[at].0);
        let is_enough = value.is_finite() && value - bound <= gap * value;
        if open[at].0 >= value * (1.0 - OPTIMAL_RELATIVE) || is_enough {
            break;
        }
        if stop.reason().is_some() {
            is_stopped = true;
            break;
        }
        let batch = &open[at..(at + BATCH).min(open.len())];
        let solve = |(of, combination): &(f64, Combination)| match *of < value {
            true => Some(space.solve(combination, value, stop)),
            false => None,
        };
        let solved: Vec<Option<Solved>> = batch.par_iter().map(solve).collect();
        for ((of, combination), solved) in batch.iter().zip(solved) {
            let Some(Solved { bound, pipeline, is_stopped: stopped }) = solved else {
                solved_bound = solved_bound.min(*of);
                continue;
            };
            solved_bound = solved_bound.min(if stopped { *of } else { bound.max(*of) });
            is_stopped |= stopped;
            if let Some(pipeline) = pipeline {
                let value = best.as_ref().map_or(f64::INFINITY, |best| best.1.value);
                if pipeline.value < value {
                    best = Some((combination.clone(), pipeline));
                }
            }
        }
        at += BATCH;
        let value = best.as_ref().map_or(f64::INFINITY, |best| best.1.value);
        report(value, solved_bound.min(open.get(at).map_or(f64::INFINITY, |next| next.0)).min(value));
    }
    let left = open.get(at).map_or(f64::INFINITY, |next| next.0);
    Found { best, bound: solved_bound.min(left), is_stopped }
}

impl Space<'_> {
    /// What is missing for the least memory of all combinations.
    pub(crate) fn shortage(&self, combinations: &[Combination]) -> String {
        let gigabytes = |bytes: f64| format!("{:.1} GB", bytes / 1e9);
        let mut least: Option<(f64, String)> = None;
        for combination in combinations {
            let costs = self.costs(combination);
            for (at, pool) in self.pools.iter().enumerate() {
                let stages = combination.most_stages(at, self.pools, self.model.layers.len());
                if stages == 0 || combination.stages.is_some_and(|given| given > stages) {
                    continue;
                }
                let memory = |layer: &super::model::Layer| {
                    let costs = &costs[at][&layer.class];
                    let of = |one: &super::table::Configuration| one.activations + one.workspace;
                    let open = costs.configurations.iter().map(of).fold(f64::INFINITY, f64::min);
                    costs.state + open
                };
                let layers = &self.model.layers;
                let state: f64 = layers.iter().map(|layer| costs[at][&layer.class].state).sum();
                let largest = layers.iter().max_by(|a, b| memory(a).total_cmp(&memory(b)));
                let Some(largest) = largest else { continue };
                // A device has its share of the states, and room for the largest layer.
                let share = state / f64::from(stages);
                let needed = share.max(memory(largest));
                if least.as_ref().is_none_or(|least| needed < least.0) {
                    let Degrees { microbatch, data, zero, .. } = combination.degrees;
                    let what = match share > memory(largest) {
                        true => "the states of the model need".to_owned(),
                        false => format!("the layer {} needs", largest.name),
                    };
                    let text = format!(
                        "a device of kind {} has {}; {what} at least {} of each at tp {}, dp {data}, {stages} stages, \
                         ZeRO {zero} and a microbatch of {microbatch}",
                        pool.name,
                        gigabytes(pool.capacity),
                        gigabytes(needed),
                        combination.tensor[at],
                    );
                    least = Some((needed, text));
                }
            }
        }
        least.map_or_else(|| "there are too few devices for the degrees".into(), |least| least.1)
    }
}

impl Space<'_> {
    /// Times and bytes of stages by part. A stage is its layers, its kind and the configuration of every layer.
    pub(crate) fn parts(
        &self,
        combination: &Combination,
        stages: &[(std::ops::Range<usize>, usize, Vec<usize>)],
    ) -> Vec<Parts> {
        let costs = self.costs(combination);
        let depth = stages.len() as u32;
        let of =
            |(at, (layers, pool, configurations)): (usize, &(std::ops::Range<usize>, usize, Vec<usize>))| {
                let in_flight = f64::from((depth - at as u32).min(combination.microbatches));
                let mut sum = Parts::default();
                for (layer, &wanted) in self.model.layers[layers.clone()].iter().zip(configurations) {
                    let costs = &costs[*pool][&layer.class];
                    let parts = &costs.parts;
                    sum.compute_s += parts.compute_s;
                    sum.tensor_s += parts.tensor_s;
                    sum.expert_s += parts.expert_s;
                    sum.zero_s += parts.zero_s;
                    sum.parameter_bytes += parts.parameter_bytes;
                    sum.gradient_bytes += parts.gradient_bytes;
                    sum.optimizer_bytes += parts.optimizer_bytes;
                    if let Some(one) = costs.configurations.iter().find(|one| one.index as usize == wanted) {
                        let both_passes = parts.compute_s + parts.tensor_s + parts.expert_s + parts.zero_s;
                        sum.recompute_s += costs.forward + one.backward - both_passes;
                        sum.activation_bytes += one.activations * in_flight;
                        sum.workspace_bytes = sum.workspace_bytes.max(one.workspace);
                    }
                }
                sum
            };
        stages.iter().enumerate().map(of).collect()
    }
}
