//! The search: every combination of degrees has a bound from the work of its layers, and those with the least bound are
//! solved first, until no other can have a better plan.

use std::ops::RangeInclusive;

use rand::Rng;
use rayon::ThreadPool;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use stagewright_core::seed;
use stagewright_core::stop::Stop;
use stagewright_core::tolerance::OPTIMAL_RELATIVE;

use super::model::Model;
use super::pool::Pool;
use super::program::{Pipeline, Program, Solved};
use super::table::{Degrees, LayerCosts};

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
    pub(super) fn most_stages(&self, pool: usize, pools: &[Pool], layers: usize) -> u32 {
        let group = u64::from(self.tensor[pool]) * u64::from(self.degrees.data);
        let most = u64::from(pools[pool].devices) / group;
        most.min(layers as u64).min(self.stages.unwrap_or(u32::MAX).into()) as u32
    }
}

/// What all combinations have in common.
pub(crate) struct Space<'m> {
    pub(crate) model: &'m Model,
    pub(crate) pools: &'m [Pool],
    /// Configurations of numbered layers.
    allowed: Vec<usize>,
    /// Number of every interval of layers among those that differ: `[first][end - first - 1]`.
    pub(super) intervals: Vec<Vec<u32>>,
}

/// Costs of every layer class on every kind.
pub(super) type Costs = Vec<FxHashMap<usize, LayerCosts>>;

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

    pub(super) fn costs(&self, combination: &Combination) -> Costs {
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
            let fewest = *range.start().max(given.start());
            let most = *range.end().min(given.end());
            let cutoff = cutoff.min(best.pipeline.as_ref().map_or(f64::INFINITY, |best| best.value));
            let program = Program::new(self, combination, &costs, only, is_inside, fewest..=most, cutoff);
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

/// The best plan of all combinations.
pub(crate) struct Found {
    pub(crate) best: Option<(Combination, Pipeline)>,
    pub(crate) bound: f64,
    pub(crate) is_stopped: bool,
}

/// Combinations that are solved side by side.
const BATCH: usize = 8;

/// Solves the combinations, those with the least bound first, until no other can have a better plan. Every batch reports the
/// value of the best plan and the bound so far.
pub(crate) fn search(
    space: &Space<'_>,
    combinations: Vec<Combination>,
    gap: f64,
    pool: &ThreadPool,
    stop: &Stop,
    mut report: impl FnMut(f64, f64),
) -> Found {
    let bound = || combinations.par_iter().map(|combination| space.bound(combination)).collect();
    let bounds: Vec<f64> = pool.install(bound);
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
        let solved: Vec<Option<Solved>> = pool.install(|| batch.par_iter().map(solve).collect());
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
