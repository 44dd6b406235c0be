//! Pipelines with several stages per device, its chunks, under interleaved 1F1B and DualPipeV.
//!
//! The stages of a device depend on each other through its memory, and no dynamic program over the layers covers them
//! jointly: plans come from a local search, and bounds from [`closed_form`](super::closed_form) and
//! [`fluid`](super::fluid).

use rustc_hash::FxHashMap;
use stagewright_core::document::Schedule;
use stagewright_core::schedule::{StageTimes, Work, chunked, orders};
use stagewright_core::stop::Stop;

use super::chunks::Chunks;
use super::closed_form;
use super::fluid::{Alike, Fluid};
use super::program::{Pipeline, Placed, Solved};
use super::runtime::Reach;
use super::space::{Combination, Costs, Extents, Space};
use super::table::{Configuration, LayerCosts, StageCosts, receive};

/// Maximum number of passes of a pipeline whose plans are searched; longer pipelines only have a bound.
const MAX_PASSES: u64 = 1 << 21;

/// Rounds of microbatches that the search times: beyond these every round takes as long as the busiest device.
const TIMED_ROUNDS: u32 = 4;

/// Value of the first partition, relative to the best known plan, below which its neighbours are searched.
const PROMISING: f64 = 1.08;

/// A number of devices of a kind, and the number of stages on each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Chunked {
    pool: usize,
    devices: u32,
    chunks: u32,
}

impl Chunked {
    fn stages(&self) -> usize {
        self.devices as usize * self.chunks as usize
    }
}

impl Space<'_> {
    /// All shapes of pipelines of a combination with several stages per device, with their bounds.
    pub(super) fn chunked_shapes(&self, combination: &Combination, costs: &Extents) -> Vec<(f64, Chunked)> {
        let layers = self.model.layers.len();
        let mut found = Vec::new();
        for pool in 0..self.pools.len() {
            let limit = combination.most_stages(pool, self.pools, layers);
            let devices = combination.stages.map_or(2..=limit, |given| given.max(2)..=given.min(limit));
            if devices.is_empty() {
                continue;
            }
            let [between, inside] = [Reach::Servers, Reach::Server]
                .map(|reach| Whole::new(self, combination, costs.of(reach), pool));
            for devices in devices.filter(|&devices| combination.may_have_chunks(devices)) {
                for chunks in self.chunks_of(combination.schedule, devices) {
                    let shape = Chunked { pool, devices, chunks };
                    let whole = if self.is_inside(combination, shape) { &inside } else { &between };
                    let bound = whole.bound(self, combination, shape);
                    found.extend(bound.map(|bound| (bound, shape)));
                }
            }
        }
        found
    }

    /// Numbers of chunks that a device may have in a pipeline of `devices`.
    pub(super) fn chunks_of(&self, schedule: Schedule, devices: u32) -> impl Iterator<Item = u32> + '_ {
        let of_layers = self.model.layers.len() as u32 / devices;
        let limit = if schedule == Schedule::DualPipeV { of_layers.min(2) } else { of_layers };
        let is_given = move |&chunks: &u32| match &self.cut {
            Some(ends) => ends.len() == chunks as usize * devices as usize,
            None => true,
        };
        let allowed = self.chunks.map_or(2..=limit, |given| given.max(2)..=given.min(limit));
        allowed.filter(is_given)
    }

    /// Whether all devices are in one server.
    fn is_inside(&self, combination: &Combination, shape: Chunked) -> bool {
        shape.devices <= combination.most_inside(shape.pool, &self.pools[shape.pool])
    }

    /// A bound on the plans of a shape, at least `bound`, and a plan below the cutoff if the search finds one.
    pub(super) fn solve_chunked(
        &self,
        combination: &Combination,
        costs: &Extents,
        shape: Chunked,
        bound: f64,
        cutoff: f64,
        stop: &Stop,
    ) -> Solved {
        let none = |bound: f64| Solved {
            bound,
            pipeline: None,
            is_stopped: stop.reason().is_some(),
            exceeds_hosts: false,
        };
        let reach = if self.is_inside(combination, shape) { Reach::Server } else { Reach::Servers };
        let Some(search) = Search::new(self, combination, costs.of(reach), shape) else { return none(bound) };
        let bound = search.bound(bound, cutoff);
        if bound >= cutoff {
            return none(bound);
        }
        match &self.cut {
            Some(ends) => search.given(ends, bound, cutoff),
            None => Solved { pipeline: search.solve(cutoff, stop), ..none(bound) },
        }
    }
}

/// Sums over all layers on a kind.
struct Whole {
    state: f64,
    /// Bytes of the hosts' memory.
    host: f64,
    /// Minimum seconds for a microbatch, of all layers and of the longest layer.
    work: f64,
    longest: f64,
    /// Minimum seconds of each given stage.
    stages: Vec<f64>,
    update: f64,
    /// Minimum seconds of the transfers over a boundary, between servers and within one.
    crossing: [f64; 2],
}

impl Whole {
    fn new(space: &Space<'_>, combination: &Combination, costs: &Costs, pool: usize) -> Whole {
        let layers = || space.model.layers.iter().map(|layer| &costs[pool][&layer.class]);
        let seconds = |layer: &LayerCosts| layer.forward + layer.configurations[0].behind();
        let degrees = combination.degrees_on(pool);
        let [inside, between] = space.pools[pool].stage_links(space.runtime);
        let links = [between, inside];
        Whole {
            state: layers().map(|layer| layer.state).sum(),
            host: layers().map(|layer| layer.host).sum(),
            work: layers().map(seconds).sum(),
            longest: layers().map(seconds).fold(0.0, f64::max),
            stages: space
                .ranges()
                .map(|stage| layers().skip(stage.start).take(stage.len()).map(seconds).sum())
                .collect(),
            update: layers().map(|layer| layer.update).sum(),
            crossing: links.map(|link| {
                let passes = |layer: usize| -> f64 {
                    [0, 1]
                        .iter()
                        .map(|&pass| receive(space.model, space.runtime, layer, pass, link, degrees))
                        .sum()
                };
                (1..space.model.layers.len()).map(passes).fold(f64::INFINITY, f64::min)
            }),
        }
    }

    /// A lower bound on all plans of a shape; `None` if its devices, or their hosts, cannot hold the states of the
    /// model.
    fn bound(&self, space: &Space<'_>, combination: &Combination, shape: Chunked) -> Option<f64> {
        let Chunked { pool, devices, chunks } = shape;
        let room = space.pools[pool].room();
        let holds = |bytes: f64, room: f64| bytes == 0.0 || bytes <= f64::from(devices) * room;
        if !holds(self.state, room.device) || !holds(self.host, room.host) {
            return None;
        }
        let Combination { schedule, microbatches: m, .. } = *combination;
        // Under DualPipeV, the two stages in the middle are on the last device.
        let crossed = shape.stages() - if schedule == Schedule::DualPipeV { 2 } else { 1 };
        let transfers = crossed as f64 * self.crossing[usize::from(space.is_inside(combination, shape))];
        let work = self.work + transfers;
        let load = |device: usize| {
            schedule
                .stages_of(device, devices as usize, self.stages.len())
                .map(|stage| self.stages[stage])
                .sum()
        };
        let longest = (0..devices as usize).map(load).fold(self.longest, f64::max);
        let passes = match schedule {
            Schedule::DualPipeV => closed_form::dualpipe_v(work, longest, devices, m),
            _ => closed_form::interleaved(work, chunks, devices, m).max(f64::from(m) * longest),
        };
        Some(passes + self.update / f64::from(devices))
    }
}

/// The local search of a shape.
struct Search<'s> {
    space: &'s Space<'s>,
    combination: &'s Combination,
    shape: Chunked,
    layers: Vec<&'s LayerCosts>,
    /// Seconds to receive the tensors that cross the boundary before each layer, by pass.
    receives: [Vec<f64>; 2],
    /// For every device, the undominated vectors of the numbers of microbatches in flight on its chunks.
    in_flight: Vec<Vec<Vec<f64>>>,
}

impl<'s> Search<'s> {
    /// The local search of a shape; `None` if the schedule has no valid order.
    fn new(
        space: &'s Space<'s>,
        combination: &'s Combination,
        costs: &'s Costs,
        shape: Chunked,
    ) -> Option<Search<'s>> {
        let Chunked { pool, devices, .. } = shape;
        let layers = space.model.layers.iter().map(|layer| &costs[pool][&layer.class]).collect();
        let [inside, between] = space.pools[pool].stage_links(space.runtime);
        let link = if space.is_inside(combination, shape) { inside } else { between };
        let degrees = combination.degrees_on(pool);
        let count = space.model.layers.len();
        let receives = [0, 1].map(|pass| {
            (0..=count).map(|layer| receive(space.model, space.runtime, layer, pass, link, degrees)).collect()
        });
        // All counts occur within three rounds of microbatches.
        let timed = combination.microbatches.min(3 * devices);
        let orders = orders(combination.schedule, devices, shape.stages(), timed).ok()?;
        let in_flight = orders.iter().map(|order| {
            let mut counts = vec![0.0; shape.chunks as usize];
            let mut largest: Vec<Vec<f64>> = Vec::new();
            for task in order {
                let count = &mut counts[(task.stage / devices) as usize];
                match task.work {
                    Work::Forward => {
                        *count += 1.0;
                        keep_most(&mut largest, &counts);
                    }
                    Work::Backward => *count -= 1.0,
                    // Up to the last forward pass, weight gradients follow the backward pass.
                    Work::Weight => {}
                }
            }
            largest
        });
        Some(Search { space, combination, shape, layers, receives, in_flight: in_flight.collect() })
    }

    /// The bound, or a higher one from the memory of the devices; at least the cutoff if no plan is below the cutoff.
    fn bound(&self, bound: f64, cutoff: f64) -> f64 {
        let mut layers: Vec<Alike> = Vec::new();
        let mut position: FxHashMap<usize, usize> = FxHashMap::default();
        for (layer, &costs) in self.space.model.layers.iter().zip(&self.layers) {
            let next = layers.len();
            let group = *position.entry(layer.class).or_insert(next);
            if group == next {
                layers.push(Alike { count: 0.0, is_numbered: layer.is_numbered, costs });
            }
            layers[group].count += 1.0;
        }
        // At the time when the minimum over the chunks is largest, every chunk keeps at least that many microbatches.
        let fewest = |counts: &Vec<f64>| counts.iter().copied().fold(f64::INFINITY, f64::min);
        let mut devices: Vec<(f64, f64)> = Vec::new();
        for in_flight in &self.in_flight {
            let kept = in_flight.iter().map(fewest).fold(0.0, f64::max);
            match devices.iter_mut().find(|known| known.0 == kept) {
                Some(known) => known.1 += 1.0,
                None => devices.push((kept, 1.0)),
            }
        }
        let update: f64 =
            self.layers.iter().map(|layer| layer.update).sum::<f64>() / f64::from(self.shape.devices);
        let capacity = self.space.pools[self.shape.pool].capacity;
        let m = f64::from(self.combination.microbatches);
        let work: f64 =
            self.layers.iter().map(|layer| layer.forward + layer.configurations[0].behind()).sum();
        let least = work / f64::from(self.shape.devices);
        if capacity <= 0.0 {
            return bound;
        }
        let fluid = Fluid { layers, devices, capacity };
        if fluid.is_too_short(f64::INFINITY) {
            return f64::INFINITY;
        }
        // Without a plan, a limit many times as long replaces the cutoff.
        let enough = if cutoff.is_finite() { (cutoff - update) / m } else { 64.0 * least };
        if least >= enough {
            return bound;
        }
        bound.max(m * fluid.least_seconds(least, enough) + update)
    }

    /// The plan of a given cut, if it is below the cutoff, and a bound on all configurations, at least `bound`.
    fn given(&self, ends: &[usize], bound: f64, cutoff: f64) -> Solved {
        let none = |bound: f64| Solved { bound, pipeline: None, is_stopped: false, exceeds_hosts: false };
        let Some(stages) = self.stages(ends) else {
            return none(if self.may_fit(ends) { bound } else { f64::INFINITY });
        };
        if self.is_too_long() {
            return none(bound);
        }
        let value = |stages: &[Placed]| self.time(stages, self.combination.microbatches) + self.after(stages);
        let fastest: Vec<Placed> =
            stages.iter().enumerate().map(|(index, stage)| self.fastest(index, stage)).collect();
        let bound = bound.max(value(&fastest));
        let pipeline = Pipeline { value: value(&stages), chunks: self.shape.chunks, stages };
        Solved { pipeline: Some(pipeline).filter(|pipeline| pipeline.value < cutoff), ..none(bound) }
    }

    /// A stage whose passes each take as long as in their fastest configurations, which may differ and may not fit.
    fn fastest(&self, index: usize, stage: &Placed) -> Placed {
        let least = |figure: fn(&Configuration) -> f64| -> f64 {
            let of_layer =
                |layer: &&LayerCosts| layer.configurations.iter().map(figure).fold(f64::INFINITY, f64::min);
            self.layers[stage.first..stage.end].iter().map(of_layer).sum()
        };
        Placed {
            backward: least(|configuration| configuration.backward) + self.received(1, index + 1, stage.end),
            weight: least(|configuration| configuration.weight),
            ..stage.clone()
        }
    }

    /// Seconds to receive the tensors of a pass that cross the boundary before a stage, which begins with layer `first`.
    fn received(&self, pass: usize, stage: usize, first: usize) -> f64 {
        let device = |stage| self.combination.schedule.device(stage, self.shape.devices as usize);
        let is_crossed = (1..self.shape.stages()).contains(&stage) && device(stage - 1) != device(stage);
        if is_crossed { self.receives[pass][first] } else { 0.0 }
    }

    /// The stages of a device.
    fn stages_of(&self, device: usize) -> impl Iterator<Item = usize> + Clone + use<> {
        let devices = self.shape.devices as usize;
        self.combination.schedule.stages_of(device, devices, self.shape.stages())
    }

    /// Whether the pipeline has too many passes to time its plans.
    fn is_too_long(&self) -> bool {
        let each = if self.combination.schedule.is_split() { 3 } else { 2 };
        each * self.shape.stages() as u64 * u64::from(self.combination.microbatches) > MAX_PASSES
    }

    /// A plan below the cutoff, if the search finds one: chunks of balanced work, improved by moving layers from the busiest
    /// device to others.
    fn solve(&self, cutoff: f64, stop: &Stop) -> Option<Pipeline> {
        if self.is_too_long() {
            return None;
        }
        let mut ends = self.balanced();
        let mut best = self.stages(&ends).map(|stages| (self.estimate(&stages), stages));
        let is_promising = |best: &Option<(f64, Vec<Placed>)>| {
            best.as_ref().is_none_or(|(value, _)| *value < PROMISING * cutoff)
        };
        let mut is_better = is_promising(&best);
        while is_better && stop.reason().is_none() {
            is_better = false;
            let mut next = None;
            for moved in self.neighbours(&ends, best.as_ref().map(|best| &best.1)) {
                if stop.reason().is_some() {
                    break;
                }
                let Some(stages) = self.stages(&moved) else { continue };
                let value = self.estimate(&stages);
                if best.as_ref().is_none_or(|(known, _)| value < known * (1.0 - 1e-9)) {
                    best = Some((value, stages));
                    next = Some(moved);
                }
            }
            if let Some(moved) = next {
                ends = moved;
                is_better = is_promising(&best);
            }
        }
        let (_, stages) = best?;
        let value = self.time(&stages, self.combination.microbatches) + self.after(&stages);
        Some(Pipeline { value, chunks: self.shape.chunks, stages }).filter(|pipeline| pipeline.value < cutoff)
    }

    /// Ends of chunks whose work is as even as whole layers allow.
    fn balanced(&self) -> Vec<usize> {
        let seconds = |layer: &&LayerCosts| layer.forward + layer.configurations[0].behind();
        let total: f64 = self.layers.iter().map(seconds).sum();
        let stages = self.shape.stages();
        let (mut ends, mut end, mut done) = (Vec::with_capacity(stages), 0, 0.0);
        for stage in 1..=stages {
            let wanted = total * stage as f64 / stages as f64;
            // Every other stage needs a layer too.
            let last = self.layers.len() - (stages - stage);
            let first = end;
            while end < last {
                let next = seconds(&self.layers[end]);
                if end > first && stage < stages && done + next / 2.0 > wanted {
                    break;
                }
                done += next;
                end += 1;
            }
            ends.push(end);
        }
        ends
    }

    /// Partitions with one layer moved from a chunk of the busiest device to another chunk, shifting the chunks in
    /// between. If the stages do not fit, partitions with a layer moved from any chunk to an adjacent one.
    fn neighbours(&self, ends: &[usize], stages: Option<&Vec<Placed>>) -> Vec<Vec<usize>> {
        let count = ends.len();
        let devices = self.shape.devices as usize;
        let size = |stage: usize| ends[stage] - if stage == 0 { 0 } else { ends[stage - 1] };
        let busiest = stages.map(|stages| {
            let load = |device: usize| -> f64 {
                self.stages_of(device).map(|stage| stages[stage].times().total()).sum()
            };
            (0..devices).max_by(|&a, &b| load(a).total_cmp(&load(b))).unwrap_or(0)
        });
        let mut found = Vec::new();
        for from in (0..count).filter(|&from| size(from) > 1) {
            if busiest.is_some_and(|busiest| self.combination.schedule.device(from, devices) != busiest) {
                continue;
            }
            for to in (0..count).filter(|&to| to != from) {
                if busiest.is_none() && from.abs_diff(to) > 1 {
                    continue;
                }
                let mut moved = ends.to_vec();
                match from < to {
                    true => moved[from..to].iter_mut().for_each(|end| *end -= 1),
                    false => moved[to..from].iter_mut().for_each(|end| *end += 1),
                }
                found.push(moved);
            }
        }
        found
    }

    /// The layers of every stage of a device.
    fn ranges(&self, ends: &[usize], device: usize) -> Vec<(usize, usize)> {
        let first = |stage: usize| if stage == 0 { 0 } else { ends[stage - 1] };
        self.stages_of(device).map(|stage| (first(stage), ends[stage])).collect()
    }

    fn chunks(&self, ends: &[usize], device: usize) -> Chunks<'_> {
        let room = self.space.pools[self.shape.pool].room();
        Chunks::new(
            &self.layers,
            &self.ranges(ends, device),
            &self.in_flight[device],
            room,
            self.combination.is_paired(),
        )
    }

    /// Whether the stages of a partition may fit, if activations take nothing of the memory of hosts.
    fn may_fit(&self, ends: &[usize]) -> bool {
        (0..self.shape.devices as usize).all(|device| self.chunks(ends, device).may_fit())
    }

    /// The stages of a partition, with configurations that fit; `None` if none are found.
    fn stages(&self, ends: &[usize]) -> Option<Vec<Placed>> {
        let devices = self.shape.devices as usize;
        let mut stages: Vec<Option<Placed>> = vec![None; ends.len()];
        for device in 0..devices {
            let chunks = self.chunks(ends, device);
            let chosen = chunks.choose()?;
            let [memory, _] = chunks.used(&chosen);
            let mut left = chosen.into_iter();
            for (stage, layers) in self.stages_of(device).zip(self.ranges(ends, device)) {
                let configurations: Vec<usize> = left.by_ref().take(layers.1 - layers.0).collect();
                stages[stage] = Some(self.placed(device, stage, layers, &configurations, memory));
            }
        }
        stages.into_iter().collect()
    }

    fn placed(
        &self,
        device: usize,
        stage: usize,
        (first, end): (usize, usize),
        chosen: &[usize],
        memory: f64,
    ) -> Placed {
        let chunk = stage / self.shape.devices as usize;
        let layers = &self.layers[first..end];
        let picked = || layers.iter().zip(chosen).map(|(layer, &choice)| layer.configurations[choice]);
        let backward: f64 = picked().map(|configuration| configuration.backward).sum();
        let weight: f64 = picked().map(|configuration| configuration.weight).sum();
        let in_flight = self.in_flight[device].iter().map(|counts| counts[chunk]).fold(0.0, f64::max);
        let costs = StageCosts {
            forward: layers.iter().map(|layer| layer.forward).sum(),
            backward,
            weight,
            least_behind: backward + weight,
            update: layers.iter().map(|layer| layer.update).sum(),
            state: layers.iter().map(|layer| layer.state).sum(),
            host: layers.iter().map(|layer| layer.host).sum::<f64>()
                + in_flight * picked().map(|configuration| configuration.host).sum::<f64>(),
            activations: in_flight * picked().map(|configuration| configuration.activations).sum::<f64>(),
            memory,
            configurations: picked().map(|configuration| configuration.index).collect(),
        };
        Placed {
            first,
            end,
            pool: self.shape.pool,
            in_flight: in_flight as u32,
            forward: costs.forward + self.received(0, stage, first),
            backward: costs.backward + self.received(1, stage + 1, end),
            weight,
            costs,
        }
    }

    /// Seconds of an iteration of some microbatches, until the last pass ends.
    fn time(&self, stages: &[Placed], microbatches: u32) -> f64 {
        let times: Vec<StageTimes> = stages.iter().map(Placed::times).collect();
        let schedule = self.combination.schedule;
        chunked(schedule, &times, self.shape.devices, microbatches).unwrap_or(f64::INFINITY)
    }

    /// The longest time that a device takes after its last microbatch.
    fn after(&self, stages: &[Placed]) -> f64 {
        self.longest(stages, |stage| stage.costs.update)
    }

    /// The value of a plan with these stages, estimated from the time of some rounds of microbatches.
    fn estimate(&self, stages: &[Placed]) -> f64 {
        let m = self.combination.microbatches;
        let timed = m.min(TIMED_ROUNDS * self.shape.devices);
        let each = self.longest(stages, |stage| stage.times().total());
        self.time(stages, timed) + f64::from(m - timed) * each + self.after(stages)
    }

    /// Maximum over the devices of the sum of a figure over their stages.
    fn longest(&self, stages: &[Placed], figure: impl Fn(&Placed) -> f64) -> f64 {
        let sum = |device: usize| self.stages_of(device).map(|stage| figure(&stages[stage])).sum::<f64>();
        (0..self.shape.devices as usize).map(sum).fold(0.0, f64::max)
    }
}

/// Adds a vector of counts to the undominated ones.
fn keep_most(largest: &mut Vec<Vec<f64>>, counts: &[f64]) {
    let is_below = |left: &[f64], right: &[f64]| left.iter().zip(right).all(|(left, right)| left <= right);
    if !largest.iter().any(|other| is_below(counts, other)) {
        largest.retain(|other| !is_below(other, counts));
        largest.push(counts.to_vec());
    }
}
