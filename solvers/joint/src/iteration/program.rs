//! The stages of one combination of degrees, by dynamic programming.
//!
//! A stage with j − 1 stages after it has j microbatches in flight, at most m, so stages are laid out from the last to
//! the first. Under 1F1B a pipeline takes at least as long as each of its stages needs around it:
//!
//! ```text
//! Σ_{i before s} τ_i + m · τ_s + [R_s − (j_s − 1) · f_s]⁺ + [R_s − (j_s − 1) · b_s]⁺ + update_s,    R_s = Σ_{i behind s} τ_i
//! ```
//!
//! The first microbatch has to go through the stages before s. While it passes through those after s and back, s can only
//! run the forward passes of its other microbatches in flight, j_s − 1 of them; after its last forward pass, only as many
//! backward passes. If there are at most j_s microbatches, the two waits coincide. For R_s the program takes the minimum
//! over all pipelines after s, so the minimised value is a bound for all plans of the combination; the plan that it finds
//! is timed by the schedule itself.
//!
//! Under zero-bubble (ZB-H1), every stage keeps p microbatches for their weight gradients, so the program has a fixed
//! number p of stages. Nothing waits for the last weight gradients, so earlier stages add only forward passes to the
//! time until they end, and τ includes the weight gradients: this is the bound of the *work*. The last microbatch goes
//! back through all earlier stages, though, and when it leaves s, all weight gradients of s but those of m − s − 1
//! microbatches may be left to run: this is the bound of the *chain*,
//!
//! ```text
//! Σ_{i before s} (f_i + b_i) + m · τ_s − min(m, s + 1) · w_s + waits,    and w of the first stage at the end
//! ```
//!
//! where s is the number of stages before. Both bounds are minimised side by side, independently.
//!
//! Under zero-bubble-2p (ZB-H2), every stage keeps 2 p − 1 microbatches for their weight gradients, and j_s is 2 k − 1
//! with k stages from s to the last. An iteration is the longest time of a stage from its first to its last pass, and its
//! update. In the bound of the *work*, earlier stages therefore add nothing. From the end of its first forward to the
//! start of its first backward pass R_s = Σ (f_i + b_i) seconds go by behind s, in which it runs at most j_s − 1 other
//! forward passes; and as many from the end of its last forward to the start of its last backward pass, in which it runs
//! at most j_s − 1 backward passes and as many weight gradients. So the value is at least
//!
//! ```text
//! max_s (m · τ_s + [R_s − (j_s − 1) · f_s]⁺ + [R_s − (j_s − 1) · (b_s + w_s)]⁺ + update_s)
//! ```
//!
//! without the second wait if m ≤ j_s. No more than min(j_s, m) − 1 other passes are subtracted, so the expression grows
//! with f_s, with b_s + w_s and with R_s, and the least of each gives a bound: recomputation only makes b_s and b_s + w_s
//! larger. The bound of the chain is that of the first stage, which begins first: its last backward pass follows those of
//! all other stages. min(m, 2 s + 1) weight gradients may be left when the last microbatch leaves s, and only the update of
//! the first stage follows.
//!
//! Stages with devices of two kinds count as those of a kind of their own, which has costs of layers, memory and a link
//! as any other. Only the numbers of stages depend on each other: numbers without enough devices are left out, and
//! fewer stages never need more.

use std::ops::{Range, RangeInclusive};

use rustc_hash::FxHashMap;
use stagewright_core::document::{LinkDocument, Schedule};
use stagewright_core::schedule::{StageTimes, updated};
use stagewright_core::stop::Stop;

use super::pool::slower;
use super::runtime::Reach;
use super::space::{Combination, Costs, Space};
use super::table::{Configuration, InFlight, LayerCosts, StageCosts, kept, receive, stage};

/// A stage of a plan.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Placed {
    /// First layer, and the one after the last.
    pub(crate) first: usize,
    pub(crate) end: usize,
    pub(crate) pool: usize,
    pub(crate) in_flight: u32,
    pub(crate) costs: StageCosts,
    /// Seconds of the forward and backward pass, with transfers, and of separate weight gradients.
    pub(crate) forward: f64,
    pub(crate) backward: f64,
    pub(crate) weight: f64,
}

impl Placed {
    pub(crate) fn times(&self) -> StageTimes {
        StageTimes { forward: self.forward, backward: self.backward, weight: self.weight }
    }
}

/// A plan of a combination.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pipeline {
    pub(crate) value: f64,
    /// Number of stages per device.
    pub(crate) chunks: u32,
    pub(crate) stages: Vec<Placed>,
}

/// The outcome for a combination.
pub(crate) struct Solved {
    /// Lower bound; infinite if no plan is below the cutoff.
    pub(crate) bound: f64,
    pub(crate) pipeline: Option<Pipeline>,
    /// Whether the search was stopped early; `bound` is then meaningless.
    pub(crate) is_stopped: bool,
    /// Whether plans were left out whose activations exceed the memory of hosts, which the bound ignores.
    pub(crate) exceeds_hosts: bool,
}

/// The dynamic program of a combination.
pub(super) struct Program<'s> {
    space: &'s Space<'s>,
    combination: &'s Combination,
    costs: &'s Costs,
    /// The kind of all stages; `None` if stages are on several kinds.
    only: Option<usize>,
    reach: Reach,
    fewest: u32,
    most: u32,
    cutoff: f64,
    /// Whether stages count whose activations exceed the memory of hosts: so they do for a bound.
    may_exceed_hosts: bool,
    exceeds_hosts: bool,
    /// Times of stages without transfers, by kind, interval and number of stages from this one to the last; `None` if
    /// the stage does not fit.
    stages: FxHashMap<(usize, u32, u32), Option<Times>>,
}

/// Times of a stage without transfers: each the minimum over all choices of configurations, except the last.
#[derive(Debug, Clone, Copy)]
struct Times {
    forward: f64,
    /// Backward pass and weight gradients.
    behind: f64,
    update: f64,
    /// Backward pass alone.
    backward: f64,
    /// Separate weight gradients: the maximum over all choices of configurations.
    weight: f64,
}

/// A table entry: stages from a layer to the end.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Lower bound of the pipeline so far.
    value: f64,
    /// The end of the first stage, and the kind of its devices.
    end: u32,
    pool: u32,
}

const NO_ENTRY: Entry = Entry { value: f64::INFINITY, end: 0, pool: 0 };

impl Entry {
    fn improve(&mut self, value: f64, end: usize, pool: usize) {
        if value < self.value {
            *self = Entry { value, end: end as u32, pool: pool as u32 };
        }
    }
}

/// The entries for given numbers of stages on every kind, by first layer.
struct Table {
    /// Entries by the bound of the work and, with weight gradients apart, by that of the chain.
    entries: [Vec<Entry>; 2],
    /// Minimum time of the forward and backward pass of a microbatch through the stages.
    through: Vec<f64>,
}

impl Table {
    fn new(layers: usize) -> Table {
        Table {
            entries: [vec![NO_ENTRY; layers + 1], vec![NO_ENTRY; layers + 1]],
            through: vec![f64::INFINITY; layers + 1],
        }
    }

    fn has_entries(&self) -> bool {
        self.entries.iter().flatten().any(|entry| entry.value.is_finite())
    }
}

/// Index of the entries of each bound.
const WORK: usize = 0;
const CHAIN: usize = 1;

impl<'s> Program<'s> {
    /// A program for numbers of stages within a range: all on the kind `only` or, if that is `None`, on several kinds.
    pub(super) fn new(
        space: &'s Space<'s>,
        combination: &'s Combination,
        costs: &'s Costs,
        only: Option<usize>,
        reach: Reach,
        stages: RangeInclusive<u32>,
        cutoff: f64,
    ) -> Program<'s> {
        Program {
            space,
            combination,
            costs,
            only,
            reach,
            fewest: *stages.start(),
            most: *stages.end(),
            cutoff,
            may_exceed_hosts: true,
            exceeds_hosts: false,
            stages: FxHashMap::default(),
        }
    }

    /// The program without stages whose activations exceed the memory of hosts. Its bound is none.
    pub(super) fn within_hosts(self) -> Program<'s> {
        Program { may_exceed_hosts: false, ..self }
    }

    fn link(&self, pool: usize) -> LinkDocument {
        let [inside, between] = self.space.pools[pool].stage_links(self.space.runtime);
        if self.reach == Reach::Servers { between } else { inside }
    }

    /// Times of a stage with these layers, with `from` stages from it to the last.
    fn times(&mut self, pool: usize, first: usize, end: usize, from: u32) -> Option<Times> {
        let key = (pool, self.space.intervals[first][end - first - 1], from);
        if let Some(&known) = self.stages.get(&key) {
            return known;
        }
        let fastest = |figure: fn(&Configuration) -> f64| -> f64 {
            self.layers(pool, first, end).map(|layer| figure(&layer.configurations[0])).sum()
        };
        let times = self.stage(pool, first, end, from).map(|stage| Times {
            forward: stage.forward,
            behind: stage.least_behind,
            update: stage.update,
            backward: if self.is_split() {
                fastest(|configuration| configuration.backward)
            } else {
                stage.least_behind
            },
            weight: if self.is_split() { fastest(|configuration| configuration.weight) } else { 0.0 },
        });
        self.stages.insert(key, times);
        times
    }

    fn layers(&self, pool: usize, first: usize, end: usize) -> impl Iterator<Item = &'s LayerCosts> {
        let costs = self.costs;
        self.space.model.layers[first..end].iter().map(move |layer| &costs[pool][&layer.class])
    }

    fn stage(&self, pool: usize, first: usize, end: usize, from: u32) -> Option<StageCosts> {
        let layers: Vec<&LayerCosts> = self.layers(pool, first, end).collect();
        let room = self.space.pools[pool].room();
        let stage = stage(&layers, room, self.in_flight(from))?;
        Some(stage).filter(|stage| self.may_exceed_hosts || stage.host <= room.host)
    }

    /// Microbatches in flight on a stage with `from` stages from it to the last.
    fn in_flight(&self, from: u32) -> InFlight {
        let depth = if self.is_split() { self.most } else { from };
        InFlight::new(self.combination.schedule, depth - from, depth, self.combination.microbatches)
    }

    fn is_split(&self) -> bool {
        self.combination.schedule.is_split()
    }

    /// Layers of the stage with `from` stages from it to the last, if the cut is given.
    fn given(&self, from: u32) -> Option<Range<usize>> {
        let ends = self.space.cut.as_ref()?;
        self.space.ranges().nth(ends.len().saturating_sub(from as usize))
    }

    /// Maximum number of stages on a kind.
    fn most_stages(&self, pool: usize) -> u32 {
        if self.only.is_some_and(|only| only != pool) {
            return 0;
        }
        let layers = self.space.model.layers.len();
        self.combination.most_stages(pool, self.space.pools, layers).min(self.most)
    }

    /// Times to receive the tensors that cross the boundary before each layer on a kind, by pass.
    fn receives(&self, pool: usize) -> [Vec<f64>; 2] {
        let (link, degrees) = (self.link(pool), self.combination.degrees_on(pool));
        let Space { model, runtime, .. } = *self.space;
        let layers = 0..=model.layers.len();
        [0, 1].map(|pass| {
            layers.clone().map(|layer| receive(model, runtime, layer, pass, link, degrees)).collect()
        })
    }

    /// The best plan below the cutoff, and a bound on all plans.
    pub(super) fn solve(mut self, stop: &Stop) -> Solved {
        let layers = self.space.model.layers.len();
        let pools = self.space.pools.len();
        let mut limits: Vec<u32> = (0..pools).map(|pool| self.most_stages(pool)).collect();
        let receives: Vec<[Vec<f64>; 2]> = (0..pools).map(|pool| self.receives(pool)).collect();
        let has_devices = |counts: &[u32]| self.combination.has_devices(self.space.pools, counts);
        let all = self.most.min(layers as u32);
        let listed = counts(&limits, all, has_devices);
        let mut is_stopped = listed.is_none();
        let listed = listed.or_else(|| {
            // Without stages on two kinds, the others may be few enough.
            let last = self.space.pools.iter().rposition(|pool| pool.parts.is_some())?;
            limits[last] = 0;
            counts(&limits, all, has_devices)
        });
        let mut tables: FxHashMap<Vec<u32>, Table> = FxHashMap::default();
        let (mut bound, mut best) = (f64::INFINITY, None);
        for counts in listed.unwrap_or_default() {
            if stop.reason().is_some() {
                is_stopped = true;
                break;
            }
            let depth = counts.iter().sum::<u32>();
            let mut table = Table::new(layers);
            for pool in (0..pools).filter(|&pool| counts[pool] > 0) {
                let mut before = counts.clone();
                before[pool] -= 1;
                let behind = tables.get(&before);
                if depth > 1 && behind.is_none() {
                    continue;
                }
                is_stopped |= !self.extend(&mut table, behind, depth, pool, &receives[pool], stop);
            }
            let bounds: &[usize] = if self.is_split() { &[WORK, CHAIN] } else { &[WORK] };
            let value = bounds.iter().map(|&by| table.entries[by][0].value).fold(0.0, f64::max);
            if table.has_entries() {
                tables.insert(counts.clone(), table);
            }
            let is_of_several = counts.iter().filter(|&&count| count > 0).count() > 1;
            if depth >= self.fewest && value < self.cutoff && is_of_several == self.only.is_none() {
                let pipelines = bounds.iter().filter_map(|&by| self.rebuild(&tables, &counts, by));
                let pipelines: Vec<Pipeline> = pipelines.collect();
                let lower = pipelines.iter().map(|pipeline| self.least(pipeline)).fold(value, f64::max);
                bound = bound.min(lower);
                for pipeline in pipelines {
                    if pipeline.value < self.cutoff {
                        self.cutoff = pipeline.value;
                        best = Some(pipeline);
                    }
                }
            }
        }
        Solved { bound, pipeline: best, is_stopped, exceeds_hosts: self.exceeds_hosts }
    }

    /// Adds to a table the pipelines that start with a stage on a kind and continue with those of the table of later
    /// stages. Returns false if stopped.
    fn extend(
        &mut self,
        table: &mut Table,
        behind: Option<&Table>,
        depth: u32,
        pool: usize,
        [receive_forward, receive_backward]: &[Vec<f64>; 2],
        stop: &Stop,
    ) -> bool {
        let layers = self.space.model.layers.len();
        let Combination { microbatches: m, schedule, .. } = *self.combination;
        let is_split = self.is_split();
        // Microbatches whose weight gradients may run after the last backward pass.
        let late = if is_split { f64::from(kept(schedule, self.most - depth + 1).min(m)) } else { 0.0 };
        let is_first = !is_split || depth == self.most;
        let m = f64::from(m);
        let given = self.given(depth);
        for first in given.as_ref().map_or(0..layers, |given| given.start..given.start + 1).rev() {
            if stop.reason().is_some() {
                return false;
            }
            // Only the last stage ends at the last layer.
            let ends = match &given {
                Some(given) => given.end..given.end + 1,
                None if depth == 1 => layers..layers + 1,
                None => first + 1..layers,
            };
            for end in ends {
                let (next, rest) = match behind {
                    None => ([0.0, 0.0], 0.0),
                    Some(behind) => ([0, 1].map(|by| behind.entries[by][end].value), behind.through[end]),
                };
                let Some(times) = self.times(pool, first, end, depth) else {
                    // More layers need more memory.
                    break;
                };
                if m * (times.forward + times.behind) - late * times.weight + times.update > self.cutoff {
                    break;
                }
                let forward = times.forward + receive_forward[first];
                let received = if depth > 1 { receive_backward[end] } else { 0.0 };
                let (behind, backward) = (times.behind + received, times.backward + received);
                if rest == f64::INFINITY || next[WORK].min(next[CHAIN]) == f64::INFINITY {
                    continue;
                }
                let own = m * (forward + behind) + self.waits(depth, forward, behind, rest) + times.update;
                if own - late * times.weight > self.cutoff {
                    continue;
                }
                table.through[first] = table.through[first].min(forward + backward + rest);
                // Seconds by which the passes of this stage delay the end of later ones.
                let before = match schedule {
                    Schedule::ZeroBubbleTwice => 0.0,
                    Schedule::ZeroBubble => forward,
                    _ => forward + behind,
                };
                let value = own.max(before + next[WORK]);
                if value <= self.cutoff {
                    table.entries[WORK][first].improve(value, end, pool);
                }
                if is_split {
                    // The first stage ends with weight gradients of the microbatch, if it does not recompute.
                    let last = if is_first { behind } else { backward };
                    // Under zero-bubble-2p only the update of the first stage follows.
                    let after = if schedule == Schedule::ZeroBubbleTwice { times.update } else { 0.0 };
                    let chain = (own - late * times.weight - after).max(forward + last + next[CHAIN])
                        + if is_first { after } else { 0.0 };
                    if chain <= self.cutoff {
                        table.entries[CHAIN][first].improve(chain, end, pool);
                    }
                }
            }
        }
        true
    }

    /// Minimum seconds for which the first of `depth` stages waits, if those after it take `rest` seconds for a
    /// microbatch.
    fn waits(&self, depth: u32, forward: f64, behind: f64, rest: f64) -> f64 {
        let (m, kept) = (self.combination.microbatches, kept(self.combination.schedule, depth));
        let in_flight = f64::from(kept.min(m) - 1);
        let before_backward = (rest - in_flight * forward).max(0.0);
        match m > kept {
            true => before_backward + (rest - in_flight * behind).max(0.0),
            false => before_backward,
        }
    }

    /// A lower bound on all configurations of a plan, if no other plan has its stages and kinds; otherwise 0.
    fn least(&self, pipeline: &Pipeline) -> f64 {
        if self.space.cut.is_none() || self.only.is_none() {
            return 0.0;
        }
        // No schedule takes less if a pass takes longer.
        let times = |stage: &Placed| {
            let StageCosts { backward, least_behind, .. } = stage.costs;
            if !self.is_split() {
                return StageTimes { backward: stage.backward - (backward - least_behind), ..stage.times() };
            }
            let least = |figure: fn(&Configuration) -> f64| -> f64 {
                let layers = self.layers(stage.pool, stage.first, stage.end);
                let of_layer = |layer: &LayerCosts| {
                    layer.configurations.iter().map(figure).fold(f64::INFINITY, f64::min)
                };
                layers.map(of_layer).sum()
            };
            let saved = backward - least(|configuration| configuration.backward);
            StageTimes {
                backward: stage.backward - saved,
                weight: least(|configuration| configuration.weight),
                ..stage.times()
            }
        };
        let times: Vec<StageTimes> = pipeline.stages.iter().map(times).collect();
        self.seconds(&times, &pipeline.stages)
    }

    /// Seconds of an iteration whose stages have these times.
    fn seconds(&self, times: &[StageTimes], stages: &[Placed]) -> f64 {
        let updates: Vec<f64> = stages.iter().map(|stage| stage.costs.update).collect();
        updated(self.combination.schedule, times, &updates, self.combination.microbatches)
    }

    /// Rebuilds the plan of an entry from the entries of the bound `by`, and times it by its schedule.
    fn rebuild(
        &mut self,
        tables: &FxHashMap<Vec<u32>, Table>,
        counts: &[u32],
        by: usize,
    ) -> Option<Pipeline> {
        let mut counts = counts.to_vec();
        let mut ranges = Vec::new();
        let mut first = 0;
        while counts.iter().any(|&count| count > 0) {
            let entry =
                tables.get(&counts)?.entries[by].get(first).filter(|entry| entry.value.is_finite())?;
            *counts.get_mut(entry.pool as usize).filter(|count| **count > 0)? -= 1;
            ranges.push((first, entry.end as usize, entry.pool as usize));
            first = entry.end as usize;
        }
        self.timed(&ranges)
    }

    /// Times a plan whose stages are given by their layers and kinds; `None` if it exceeds the memory of a host.
    fn timed(&mut self, ranges: &[(usize, usize, usize)]) -> Option<Pipeline> {
        let m = self.combination.microbatches;
        let depth = ranges.len() as u32;
        let mut stages = Vec::with_capacity(ranges.len());
        for (stage, &(first, end, pool)) in ranges.iter().enumerate() {
            let from = depth - stage as u32;
            let costs = self.stage(pool, first, end, from)?;
            if costs.host > self.space.pools[pool].room().host {
                self.exceeds_hosts = true;
                return None;
            }
            let degrees = self.combination.degrees_on(pool);
            let link = |other: Option<&(usize, usize, usize)>| match other {
                Some(&(_, _, other)) if other != pool => slower(self.link(pool), self.link(other)),
                _ => self.link(pool),
            };
            let before = link(stage.checked_sub(1).map(|previous| &ranges[previous]));
            let Space { model, runtime, .. } = *self.space;
            let received = receive(model, runtime, first, 0, before, degrees);
            let back = match ranges.get(stage + 1) {
                Some(next) => receive(model, runtime, end, 1, link(Some(next)), degrees),
                None => 0.0,
            };
            let (forward, backward, weight) = (costs.forward + received, costs.backward + back, costs.weight);
            let in_flight = if self.is_split() { depth } else { from };
            let in_flight = kept(self.combination.schedule, in_flight).min(m);
            stages.push(Placed { first, end, pool, in_flight, costs, forward, backward, weight });
        }
        let times: Vec<StageTimes> = stages.iter().map(Placed::times).collect();
        Some(Pipeline { value: self.seconds(&times, &stages), chunks: 1, stages })
    }
}

/// Maximum number of vectors of counts of a combination.
const MAX_COUNTS: usize = 1 << 17;

/// Numbers of stages by kind, up to `limit` of each and `all` in total, for which there are devices, fewest first.
/// `None` if there are too many.
fn counts(limits: &[u32], all: u32, has_devices: impl Fn(&[u32]) -> bool) -> Option<Vec<Vec<u32>>> {
    let mut counts: Vec<Vec<u32>> = vec![vec![]];
    for (kind, &limit) in limits.iter().enumerate() {
        let is_last = kind + 1 == limits.len();
        let mut next = Vec::new();
        for counts in counts {
            let left = all - counts.iter().sum::<u32>();
            for count in 0..=limit.min(left) {
                let more: Vec<u32> = counts.iter().copied().chain([count]).collect();
                if !is_last || has_devices(&more) {
                    next.push(more);
                }
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
