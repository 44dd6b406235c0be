//! The search: every combination of degrees has a bound from the work of its layers; those with the lowest bound are
//! solved first, until no other can have a better plan.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use rayon::ThreadPool;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use stagewright_core::document::Schedule;
use stagewright_core::stop::Stop;
use stagewright_core::tolerance::OPTIMAL_RELATIVE;

use super::chunked::Chunked;
use super::closed_form;
use super::model::Layer;
use super::program::{Pipeline, Program, Solved};
use super::runtime::Reach;
use super::space::{Combination, Costs, Extents, Space};
use super::table::{LayerCosts, Room};

/// Pipelines that are searched together.
#[derive(Debug, Clone, PartialEq)]
enum Shape {
    /// Numbers of stages, with one stage per device.
    Stages(RangeInclusive<u32>),
    /// Several stages per device.
    Chunks(Chunked),
}

impl Space<'_> {
    /// Shapes of the pipelines that a combination may have with a bound below the cutoff, in the order of their bounds.
    /// Under 1F1B, one program covers all pipelines, with the minimum of their bounds.
    fn pipelines(&self, combination: &Combination, costs: &Extents, cutoff: f64) -> Vec<(f64, Shape)> {
        let mut shapes = match combination.schedule {
            schedule if schedule.has_chunks() => {
                let all = self.chunked_shapes(combination, costs).into_iter();
                all.map(|(bound, shape)| (bound, Shape::Chunks(shape))).collect()
            }
            _ => {
                let works = [Reach::Device, Reach::Server, Reach::Servers]
                    .map(|reach| WholeModel::new(self, combination, costs.of(reach)));
                let deepest = works.iter().flatten().map(|work| work.most).max().unwrap_or(0);
                let inside = self.pools.iter().enumerate();
                let inside =
                    inside.map(|(kind, pool)| combination.most_inside(kind, pool)).max().unwrap_or(0);
                let depths = combination.stages.map_or(1..=deepest, |stages| stages..=stages);
                let bounds = depths.filter_map(|depth| {
                    let [device, server, servers] = &works;
                    let work = match depth {
                        1 => device,
                        _ if depth <= inside => server,
                        _ => servers,
                    };
                    Some((work.as_ref()?.bound(combination, depth), Shape::Stages(depth..=depth)))
                });
                match combination.schedule {
                    schedule if schedule.is_split() => bounds.collect(),
                    _ => {
                        let least = bounds.map(|(bound, _)| bound).fold(f64::INFINITY, f64::min);
                        let given = combination.stages.map_or(1..=u32::MAX, |stages| stages..=stages);
                        vec![(least, Shape::Stages(given))]
                    }
                }
            }
        };
        shapes.retain(|(bound, _)| *bound < cutoff);
        shapes.sort_by(|a, b| a.0.total_cmp(&b.0));
        shapes
    }

    /// A lower bound on all plans of a combination: the work of all layers, and the minimum time of the slowest stage.
    /// Infinite if the devices are too few or their memory too small for the states.
    pub(crate) fn bound(&self, combination: &Combination) -> f64 {
        let shapes = self.pipelines(combination, &self.extents(combination), f64::INFINITY);
        shapes.first().map_or(f64::INFINITY, |shape| shape.0)
    }

    /// The best plan of a combination, if it is below the cutoff.
    pub(crate) fn solve(&self, combination: &Combination, cutoff: f64, stop: &Stop) -> Solved {
        let costs = self.extents(combination);
        let mut best =
            Solved { bound: f64::INFINITY, pipeline: None, is_stopped: false, exceeds_hosts: false };
        for (bound, shape) in self.pipelines(combination, &costs, cutoff) {
            let known = best.pipeline.as_ref().map_or(cutoff, |best| best.value.min(cutoff));
            if stop.reason().is_some() {
                best.is_stopped = true;
                best.bound = best.bound.min(bound);
                break;
            }
            if bound >= known {
                // All later shapes are excluded as well.
                best.bound = best.bound.min(bound);
                break;
            }
            let solved = match shape {
                Shape::Stages(range) => self.stages(combination, &costs, &range, known, stop),
                Shape::Chunks(shape) => self.solve_chunked(combination, &costs, shape, bound, known, stop),
            };
            best.is_stopped |= solved.is_stopped;
            best.bound = best.bound.min(solved.bound.max(bound));
            if let Some(pipeline) = solved.pipeline.filter(|pipeline| pipeline.value < known) {
                best.pipeline = Some(pipeline);
            }
        }
        best
    }

    /// The best plan with a number of stages within a range and one stage per device.
    fn stages(
        &self,
        combination: &Combination,
        costs: &Extents,
        range: &RangeInclusive<u32>,
        cutoff: f64,
        stop: &Stop,
    ) -> Solved {
        let mut best =
            Solved { bound: f64::INFINITY, pipeline: None, is_stopped: false, exceeds_hosts: false };
        let mut solve = |only: Option<usize>, reach: Reach, within: RangeInclusive<u32>| {
            let fewest = *within.start().max(range.start());
            let last = *within.end().min(range.end());
            if fewest > last {
                return;
            }
            let known = |pipeline: &Option<Pipeline>, cutoff: f64| {
                pipeline.as_ref().map_or(cutoff, |pipeline| pipeline.value)
            };
            let cutoff = known(&best.pipeline, cutoff);
            let program = |cutoff: f64| {
                Program::new(self, combination, costs.of(reach), only, reach, fewest..=last, cutoff)
            };
            let solved = program(cutoff).solve(stop);
            best.is_stopped |= solved.is_stopped;
            best.bound = best.bound.min(solved.bound);
            let left = known(&solved.pipeline, cutoff);
            let found = solved.exceeds_hosts.then(|| program(left).within_hosts().solve(stop).pipeline);
            best.pipeline = found.flatten().or(solved.pipeline).or(best.pipeline.take());
        };
        for (kind, pool) in self.pools.iter().enumerate() {
            // Transfers between stages stay in a server if all devices are in one.
            let inside = combination.most_inside(kind, pool).max(1);
            // Pipelines with the same costs are searched together.
            let first = if Arc::ptr_eq(&costs.device, &costs.server) { 1 } else { 2 };
            if first == 2 {
                solve(Some(kind), Reach::Device, 1..=1);
            }
            solve(Some(kind), Reach::Server, first..=inside);
            solve(Some(kind), Reach::Servers, inside + 1..=u32::MAX);
        }
        if self.pools.len() > 1 {
            solve(None, Reach::Servers, 2..=u32::MAX);
        }
        best
    }
}

/// The work of a model under a combination, for a bound on its plans.
struct WholeModel {
    /// Minimum seconds of the passes of a microbatch, and the minimum and maximum share of the forward pass in any
    /// layer.
    work: f64,
    share: [f64; 2],
    /// Minimum seconds of all updates.
    update: f64,
    /// Lower bound on the seconds of the slowest stage, if layers are spread over kinds or the cut is given.
    spread: f64,
    /// Maximum number of stages.
    most: u32,
}

impl WholeModel {
    /// Sums up the work under a combination; `None` if the devices are too few or their memory too small for the
    /// states.
    fn new(space: &Space<'_>, combination: &Combination, costs: &Costs) -> Option<WholeModel> {
        let layers = &space.model.layers;
        // Stages on two kinds take devices from both; here, each may have its maximum.
        let most_on = |pool: usize| combination.most_stages(pool, space.pools, layers.len());
        let max_stages: u32 = (0..space.pools.len()).map(most_on).sum();
        if max_stages == 0 || combination.stages.is_some_and(|stages| stages > max_stages) {
            return None;
        }
        let fastest = |layer: &LayerCosts| layer.forward + layer.configurations[0].behind();
        let (mut work, mut update, mut state, mut host) = (0.0, 0.0, 0.0, 0.0);
        let mut share = [1.0f64, 0.0];
        let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
        for layer in layers {
            let each = || costs.iter().map(|costs| &costs[&layer.class]);
            work += least(&mut each().map(fastest));
            update += least(&mut each().map(|layer| layer.update));
            state += least(&mut each().map(|layer| layer.state));
            host += least(&mut each().map(|layer| layer.host));
            for of_layer in
                each().map(|layer| layer.forward / fastest(layer)).filter(|share| share.is_finite())
            {
                share = [share[0].min(of_layer), share[1].max(of_layer)];
            }
        }
        let used = || (0..space.pools.len()).filter(|&pool| most_on(pool) > 0);
        let room = |bytes: fn(Room) -> f64| -> f64 {
            let of_pool = |pool: usize| f64::from(most_on(pool)) * bytes(space.pools[pool].room()).max(0.0);
            used().map(of_pool).sum()
        };
        if state > room(|room| room.device) || (host > 0.0 && host > room(|room| room.host)) {
            return None;
        }
        // The work of the stages on a kind is at most their number times the maximum work of one stage. Weighted by the
        // work of the whole model on each kind, that bounds layers spread over kinds (a dual of the linear relaxation).
        let whole: Vec<f64> = costs
            .iter()
            .map(|costs| layers.iter().map(|layer| fastest(&costs[&layer.class])).sum())
            .collect();
        let weighted = |layer: &Layer| {
            least(&mut costs.iter().zip(&whole).map(|(costs, whole)| fastest(&costs[&layer.class]) / whole))
        };
        let weighted: f64 = layers.iter().map(weighted).sum();
        let rate: f64 = (0..space.pools.len()).map(|pool| f64::from(most_on(pool)) / whole[pool]).sum();
        let spread = if weighted.is_finite() && rate.is_finite() { weighted / rate } else { 0.0 };
        // The work of each given stage, on its fastest kind.
        let stage = |stage: Range<usize>| {
            let work = |costs: &FxHashMap<usize, LayerCosts>| {
                layers[stage.clone()].iter().map(|layer| fastest(&costs[&layer.class])).sum()
            };
            least(&mut costs.iter().map(work))
        };
        let spread = space.ranges().map(stage).fold(spread, f64::max);
        Some(WholeModel { work, share, update, spread, most: max_stages })
    }

    /// A lower bound on all plans with a number of stages.
    fn bound(&self, combination: &Combination, stages: u32) -> f64 {
        let WholeModel { work, share: [least_share, most_share], update, spread, .. } = *self;
        let (m, p) = (combination.microbatches, f64::from(stages));
        // Of p stages, the one with the most work has at least 1 / p of all work.
        let slowest = (work / p).max(spread);
        let passes = match combination.schedule {
            Schedule::ZeroBubbleTwice => {
                return closed_form::zero_bubble_twice(work, slowest, update, stages, m);
            }
            Schedule::ZeroBubble => {
                closed_form::zero_bubble(work, least_share, stages, m).max(f64::from(m) * slowest)
            }
            _ => closed_form::one_f_one_b(work, slowest, most_share, stages, m),
        };
        passes + update / p
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

/// Gap at which a plan under 1F1B is good enough to start from, if 1F1B is not requested.
const HINT_GAP: f64 = 0.05;

/// The search for an initial plan under 1F1B takes at most the remaining time divided by this.
const HINT_SHARE: u32 = 4;

/// Solves the combinations. Reports the value of the best plan and the bound so far.
///
/// Combinations under 1F1B are fast to solve, also for several kinds of devices. The degrees and the number of stages
/// of the best plan are tried first under the other schedules, whose searches need a good plan to exclude the rest.
pub(crate) fn search(
    space: &Space<'_>,
    combinations: Vec<Combination>,
    gap: f64,
    pool: &ThreadPool,
    stop: &Stop,
    mut report: impl FnMut(f64, f64),
) -> Found {
    if space.cut.is_some() {
        // Every combination is fast to solve.
        return rounds(space, combinations, None, gap, pool, stop, report);
    }
    let is_plain = |combination: &Combination| combination.schedule == Schedule::OneFOneB;
    let (plain, others): (Vec<Combination>, Vec<Combination>) = combinations.into_iter().partition(is_plain);
    let Some(first_other) = others.first().map(|combination| combination.schedule) else {
        return rounds(space, plain, None, gap, pool, stop, report);
    };
    let is_asked = !plain.is_empty();
    let plain = match is_asked {
        true => plain,
        false => {
            let alike = others.iter().filter(|combination| combination.schedule == first_other);
            alike
                .map(|combination| Combination { schedule: Schedule::OneFOneB, ..combination.clone() })
                .collect()
        }
    };
    let (enough, of_plain) = match is_asked {
        true => (gap, stop.clone()),
        false => (gap.max(HINT_GAP), stop.within(stop.remaining().map(|left| left / HINT_SHARE))),
    };
    let plain = rounds(space, plain, None, enough, pool, &of_plain, |value, _| {
        if is_asked {
            report(value, f64::NEG_INFINITY);
        }
    });
    let mut best = plain.best.clone().filter(|_| is_asked);
    if let Some((combination, pipeline)) = plain.best {
        for schedule in
            [Schedule::Interleaved, Schedule::ZeroBubble, Schedule::ZeroBubbleTwice, Schedule::DualPipeV]
        {
            if others.iter().any(|combination| combination.schedule == schedule) {
                let stages = Some(pipeline.stages.len() as u32);
                let hinted = Combination { schedule, stages, ..combination.clone() };
                let cutoff = value_of(&best);
                let solved = pool.install(|| space.solve(&hinted, cutoff, stop));
                let better = solved.pipeline.filter(|pipeline| is_better(pipeline.value, &best));
                best = better.map(|pipeline| (hinted, pipeline)).or(best);
            }
        }
    }
    let bound = if is_asked { plain.bound } else { f64::INFINITY };
    let found = rounds(space, others, best, gap, pool, stop, |value, other| report(value, other.min(bound)));
    Found {
        bound: found.bound.min(bound),
        is_stopped: found.is_stopped || (is_asked && plain.is_stopped),
        best: found.best,
    }
}

/// Value of the best plan, infinite without one.
fn value_of(best: &Option<(Combination, Pipeline)>) -> f64 {
    best.as_ref().map_or(f64::INFINITY, |best| best.1.value)
}

/// Whether a plan is better by more than rounding: plans under several schedules may take the same time.
fn is_better(value: f64, best: &Option<(Combination, Pipeline)>) -> bool {
    value < value_of(best) * (1.0 - OPTIMAL_RELATIVE)
}

/// Solves the combinations, those with the lowest bound first, until no other can have a better plan than the best known
/// one. Every batch reports the value of the best plan and the bound so far.
fn rounds(
    space: &Space<'_>,
    combinations: Vec<Combination>,
    mut best: Option<(Combination, Pipeline)>,
    gap: f64,
    pool: &ThreadPool,
    stop: &Stop,
    mut report: impl FnMut(f64, f64),
) -> Found {
    // Once stopped, the bound is zero.
    let bound =
        |combination: &Combination| if stop.reason().is_some() { 0.0 } else { space.bound(combination) };
    let bounds: Vec<f64> = pool.install(|| combinations.par_iter().map(bound).collect());
    let mut open: Vec<(f64, Combination)> = bounds.into_iter().zip(combinations).collect();
    open.retain(|(bound, _)| bound.is_finite());
    open.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Lowest bound of the solved combinations.
    let mut solved_bound = f64::INFINITY;
    let (mut next, mut is_stopped) = (0, false);
    while next < open.len() {
        let value = value_of(&best);
        let bound = solved_bound.min(open[next].0);
        let is_enough = value.is_finite() && value - bound <= gap * value;
        if open[next].0 >= value * (1.0 - OPTIMAL_RELATIVE) || is_enough {
            break;
        }
        if stop.reason().is_some() {
            is_stopped = true;
            break;
        }
        let batch = &open[next..(next + BATCH).min(open.len())];
        let solve = |(least, combination): &(f64, Combination)| match *least < value {
            true => Some(space.solve(combination, value, stop)),
            false => None,
        };
        let solved: Vec<Option<Solved>> = pool.install(|| batch.par_iter().map(solve).collect());
        for ((least, combination), solved) in batch.iter().zip(solved) {
            let Some(Solved { bound, pipeline, is_stopped: stopped, .. }) = solved else {
                solved_bound = solved_bound.min(*least);
                continue;
            };
            solved_bound = solved_bound.min(if stopped { *least } else { bound.max(*least) });
            is_stopped |= stopped;
            if let Some(pipeline) = pipeline.filter(|pipeline| is_better(pipeline.value, &best)) {
                best = Some((combination.clone(), pipeline));
            }
        }
        next += BATCH;
        let value = value_of(&best);
        report(value, solved_bound.min(open.get(next).map_or(f64::INFINITY, |next| next.0)).min(value));
    }
    let left = open.get(next).map_or(f64::INFINITY, |next| next.0);
    Found { best, bound: solved_bound.min(left), is_stopped }
}
