//! The parts of a given plan, and its price, whatever its degrees and cuts.

use rustc_hash::FxHashMap;
use stagewright_core::document::{
    CONFIGURATIONS, JointExecutionDocument, JointPartsDocument, JointPlanDocument, JointStageDocument,
    RuntimeDocument,
};
use stagewright_core::schedule::{StageTimes, Work, chunked, orders, updated};

use super::explain::Listed;
use super::layer::LayerShard;
use super::pool::{Pool, slower};
use super::runtime::{Reach, Runtime};
use super::solver::Problem;
use super::space::{Combination, Space};
use super::table::{Degrees, InFlight, LayerCosts, receive};

/// Seconds of an iteration of a plan, and the memory of its fullest device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Seconds of an iteration.
    pub seconds: f64,
    /// Bytes in use on the device with the least memory left, without its reserve.
    pub memory_bytes: f64,
    /// Bytes that a plan may use on that device.
    pub usable_bytes: f64,
    /// Bytes in use of the host's memory, for the device whose host has the least left for it; 0 if hosts have none.
    pub host_bytes: f64,
    /// Bytes of its host's memory that a plan may use for that device; infinite if unlimited.
    pub usable_host_bytes: f64,
}

impl Price {
    /// Whether the plan fits into the memory of devices and hosts.
    pub fn fits(&self) -> bool {
        self.memory_bytes <= self.usable_bytes && self.host_bytes <= self.usable_host_bytes
    }
}

/// A plan in the terms of the search.
struct Given {
    combination: Combination,
    /// Number of devices of a pipeline.
    devices: u32,
    stages: Vec<Listed>,
}

impl Given {
    /// The sums of the stages of a device.
    fn sums_on<'s>(&self, device: usize, sums: &'s [Sums]) -> impl Iterator<Item = &'s Sums> + use<'s> {
        let stages = self.combination.schedule.stages_of(device, self.devices as usize, sums.len());
        stages.map(|stage| &sums[stage])
    }
}

/// Whether a stage is on a pool.
fn is_on(stage: &JointStageDocument, pool: &Pool) -> bool {
    let JointStageDocument { kind, mixed, data, .. } = stage;
    match &pool.parts {
        None => Some(&pool.name) == kind.as_ref() && mixed.is_empty(),
        Some(parts) => {
            let has = |part: &Pool| mixed.get(&part.name).is_some_and(|&copies| (1..*data).contains(&copies));
            let copies = mixed.values().fold(0u32, |sum, &copies| sum.saturating_add(copies));
            kind.is_none() && mixed.len() == 2 && parts.iter().all(has) && copies == *data
        }
    }
}

/// Sums over the layers of a stage.
#[derive(Default)]
struct Sums {
    times: StageTimes,
    update: f64,
    state: f64,
    /// Bytes of the host's memory.
    host: f64,
    /// Bytes of a microbatch that are kept until the backward pass, and until separate weight gradients.
    activations: [f64; 2],
    /// Bytes of a microbatch that the host keeps until the backward pass.
    host_activations: f64,
    workspace: f64,
}

impl Sums {
    /// Adds a layer with one configuration.
    fn add(&mut self, layer: &LayerCosts) {
        let configuration = &layer.configurations[0];
        self.times.forward += layer.forward;
        self.times.backward += configuration.backward;
        self.times.weight += configuration.weight;
        self.update += layer.update;
        self.state += layer.state;
        self.host += layer.host;
        self.activations[usize::from(configuration.is_apart)] += configuration.activations;
        self.host_activations += configuration.host;
        self.workspace = self.workspace.max(configuration.workspace);
    }
}

impl Problem {
    /// The problem under another runtime, with other shares of the peak for the products on every kind, in the order
    /// of the cluster, if any are given; `None` if attentions run in other kernels, for which the problem must be read
    /// again.
    pub fn with_runtime(&self, runtime: &RuntimeDocument, training_efficiency: &[f64]) -> Option<Problem> {
        let mut problem = self.clone();
        problem.runtime = Runtime::new(Some(runtime));
        if problem.runtime.fused_attention != self.runtime.fused_attention || self.runtime.is_ideal {
            return None;
        }
        for (pool, &efficiency) in problem.pools.iter_mut().zip(training_efficiency) {
            pool.efficiency[0] = efficiency;
        }
        if let [first, second, mixed] = &mut problem.pools[..]
            && mixed.parts.is_some()
        {
            *mixed = Pool::mixed(first, second);
        }
        Some(problem)
    }

    /// The price of a plan, which may have any degrees, cuts and configurations: seconds and bytes as the checker
    /// derives them. `None` if it is not a plan for this model and cluster, or if its schedule has no order.
    /// O(layers · operators of a layer + stages · microbatches).
    pub fn price(&self, plan: &JointPlanDocument) -> Option<Price> {
        let given = self.read_plan(plan)?;
        let mut sums = self.sums(&given);
        self.add_transfers(&given, &mut sums);
        let times: Vec<StageTimes> = sums.iter().map(|sum| sum.times).collect();
        let (devices, m) = (given.devices, given.combination.microbatches);
        let mut updates = vec![0.0; devices as usize];
        for (stage, sum) in sums.iter().enumerate() {
            updates[given.combination.schedule.device(stage, devices as usize)] += sum.update;
        }
        let iteration = match given.combination.schedule {
            schedule if schedule.has_chunks() => {
                chunked(schedule, &times, devices, m).ok()? + updates.into_iter().fold(0.0, f64::max)
            }
            schedule => updated(schedule, &times, &updates, m),
        };
        let (memory_bytes, usable_bytes) = self.memory(&given, &sums)?;
        let (host_bytes, usable_host_bytes) = self.host_memory(&given, &sums)?;
        let seconds = iteration + self.runtime.iteration_s;
        Some(Price { seconds, memory_bytes, usable_bytes, host_bytes, usable_host_bytes })
    }

    /// Times of a microbatch and bytes of a device by part, for every stage of a plan. `None` if the plan is not a plan
    /// for this model and cluster.
    pub fn parts(&self, plan: &JointPlanDocument) -> Option<Vec<JointPartsDocument>> {
        let given = self.read_plan(plan)?;
        let allowed = (0..CONFIGURATIONS.len()).collect();
        let space = Space::new(&self.model, &self.pools, &self.runtime, allowed);
        let mut parts = space.parts(&given.combination, self.reach(&given), &given.stages);
        for (parts, stage) in parts.iter_mut().zip(&plan.stages) {
            let JointPartsDocument {
                compute_s,
                recompute_s,
                tensor_s,
                expert_s,
                context_s,
                zero_s,
                host_s,
                ..
            } = *parts;
            let known = compute_s + recompute_s + tensor_s + expert_s + context_s + zero_s + host_s;
            parts.transfer_s = (stage.seconds - known).max(0.0);
        }
        Some(parts)
    }

    /// Seconds of every stage after its last microbatch: of collectives over copies, and of updates. `None` if the plan is
    /// not a plan for this model and cluster.
    pub fn after_passes(&self, plan: &JointPlanDocument) -> Option<Vec<(f64, f64)>> {
        let given = self.read_plan(plan)?;
        let updates = Problem { runtime: self.runtime.without_copies(), ..self.clone() }.sums(&given);
        let both = self.sums(&given).into_iter().zip(updates);
        Some(both.map(|(both, update)| (both.update - update.update, update.update)).collect())
    }

    /// The sums of every stage, without transfers.
    fn sums(&self, given: &Given) -> Vec<Sums> {
        let schedule = given.combination.schedule;
        let setting = given.combination.setting(&self.runtime, self.reach(given));
        let mut known: FxHashMap<(usize, usize, usize), LayerCosts> = FxHashMap::default();
        let of_stage = |Listed { layers, pool, configurations, .. }: &Listed| {
            let (kind, of_kind) = (*pool, &self.pools[*pool]);
            let mut sum = Sums::default();
            for (layer, &index) in self.model.layers[layers.clone()].iter().zip(configurations) {
                let costs = known.entry((kind, layer.class, index)).or_insert_with(|| {
                    let degrees = given.combination.degrees_on(kind);
                    let shard = LayerShard::new(self.model.samples, layer, kind, of_kind, degrees, setting);
                    shard.costs(&[index], schedule.is_split())
                });
                sum.add(costs);
            }
            sum
        };
        given.stages.iter().map(of_stage).collect()
    }

    fn read_plan(&self, plan: &JointPlanDocument) -> Option<Given> {
        let JointExecutionDocument {
            microbatch,
            microbatches,
            data,
            context,
            exchange,
            expert,
            zero,
            shards,
            offload,
            schedule,
            chunks,
        } = plan.execution.clone()?;
        let copies = data.checked_mul(context)?;
        let is_divided = |by: u32| by > 0 && copies.is_multiple_of(by);
        let may_shard = zero > 0 && expert == 1;
        if microbatch == 0
            || microbatches == 0
            || copies == 0
            || !is_divided(expert)
            || exchange.is_some() != (context > 1)
            || !shards.is_none_or(|shards| may_shard && is_divided(shards))
        {
            return None;
        }
        let chunks = if schedule.has_chunks() { chunks } else { 1 };
        let count = u32::try_from(plan.stages.len()).ok().filter(|&count| count > 0)?;
        let devices = count.checked_div(chunks).filter(|devices| devices * chunks == count)?;
        let mut tensor = vec![1; self.pools.len()];
        let mut stages = Vec::with_capacity(plan.stages.len());
        let mut first = 0;
        for (stage, position) in plan.stages.iter().zip(0..) {
            let pool = self.pools.iter().position(|pool| is_on(stage, pool))?;
            tensor[pool] = Some(stage.tensor).filter(|&degree| degree > 0)?;
            let layers = self.model.layers.get(first..first + stage.layers.len())?;
            let named = layers.iter().zip(&stage.layers);
            let configurations = named.map(|(layer, listed)| {
                let index = CONFIGURATIONS.iter().position(|&name| name == listed.configuration);
                index.filter(|_| layer.name == listed.layer)
            });
            let configurations: Vec<usize> = configurations.collect::<Option<_>>()?;
            let in_flight = match schedule {
                schedule if schedule.has_chunks() => {
                    let held = stage.in_flight.into();
                    InFlight { whole: held, apart: held }
                }
                _ => InFlight::new(schedule, position, count, microbatches),
            };
            let layers = first..first + stage.layers.len();
            first = layers.end;
            stages.push(Listed { layers, pool, in_flight, configurations });
        }
        let degrees =
            Degrees { microbatch, data, context, exchange, expert, zero, shards, offload, tensor: 1 };
        let combination = Combination { degrees, tensor, microbatches, stages: None, schedule };
        let may_be = |stage: &Listed| {
            let pool = &self.pools[stage.pool];
            combination.may_use(pool) && (pool.parts.is_none() || combination.may_mix())
        };
        if !stages.iter().all(may_be) {
            return None;
        }
        Some(Given { combination, devices, stages })
    }

    fn reach(&self, given: &Given) -> Reach {
        let kind = given.stages[0].pool;
        let inside = given.combination.most_inside(kind, &self.pools[kind]);
        match given.devices {
            1 => Reach::Device,
            devices if devices <= inside && given.stages.iter().all(|stage| stage.pool == kind) => {
                Reach::Server
            }
            _ => Reach::Servers,
        }
    }

    /// Adds the transfers between stages to the passes that wait for them.
    fn add_transfers(&self, given: &Given, sums: &mut [Sums]) {
        let is_inside = self.reach(given) != Reach::Servers;
        let link = |stage: &Listed| {
            let [inside, between] = self.pools[stage.pool].stage_links(&self.runtime);
            if is_inside { inside } else { between }
        };
        let device = |stage| given.combination.schedule.device(stage, given.devices as usize);
        let is_crossed = |&boundary: &usize| device(boundary - 1) != device(boundary);
        for boundary in (1..given.stages.len()).filter(is_crossed) {
            let [before, after] = [boundary - 1, boundary].map(|stage| &given.stages[stage]);
            let shared = slower(link(before), link(after));
            let seconds = |pass: usize, pool: usize| {
                let degrees = given.combination.degrees_on(pool);
                receive(&self.model, &self.runtime, after.layers.start, pass, shared, degrees)
            };
            sums[boundary].times.forward += seconds(0, after.pool);
            sums[boundary - 1].times.backward += seconds(1, before.pool);
        }
    }

    /// Bytes in use on the device with the least left, and those that it has.
    fn memory(&self, given: &Given, sums: &[Sums]) -> Option<(f64, f64)> {
        let devices = given.devices as usize;
        let kept = self.held(given, sums, |sum| sum.activations)?;
        let used = (0..devices).map(|device| {
            let own = || given.sums_on(device, sums);
            let state: f64 = own().map(|sum| sum.state).sum();
            let workspaces = own().map(|sum| sum.workspace);
            let workspace = match given.combination.is_paired() {
                true => workspaces.sum(),
                false => workspaces.fold(0.0, f64::max),
            };
            (state + kept[device] + workspace, self.pools[given.stages[device].pool].capacity)
        });
        used.min_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)))
    }

    /// Bytes in use of the host's memory for the device with the least left, and those that it may use.
    fn host_memory(&self, given: &Given, sums: &[Sums]) -> Option<(f64, f64)> {
        let is_on_host = |sum: &Sums| sum.host > 0.0 || sum.host_activations > 0.0;
        if !sums.iter().any(is_on_host) {
            return Some((0.0, f64::INFINITY));
        }
        let devices = given.devices as usize;
        let kept = self.held(given, sums, |sum| [sum.host_activations, 0.0])?;
        let used = (0..devices).map(|device| {
            let states: f64 = given.sums_on(device, sums).map(|sum| sum.host).sum();
            (states + kept[device], self.pools[given.stages[device].pool].room().host)
        });
        used.min_by(|a: &(f64, f64), b| (a.1 - a.0).total_cmp(&(b.1 - b.0)))
    }

    /// The most bytes of the microbatches in flight on every device: of those that a microbatch keeps until the backward
    /// pass, and until separate weight gradients.
    fn held(
        &self,
        given: &Given,
        sums: &[Sums],
        of_microbatch: impl Fn(&Sums) -> [f64; 2],
    ) -> Option<Vec<f64>> {
        let schedule = given.combination.schedule;
        if !schedule.has_chunks() {
            let held = |(stage, sum): (&Listed, &Sums)| {
                let (InFlight { whole, apart }, [until_backward, until_weight]) =
                    (stage.in_flight, of_microbatch(sum));
                whole * until_backward + apart * until_weight
            };
            return Some(given.stages.iter().zip(sums).map(held).collect());
        }
        // All counts occur within three rounds of microbatches.
        let timed = given.combination.microbatches.min(3 * given.devices);
        let orders = orders(schedule, given.devices, sums.len(), timed).ok()?;
        let peaks = orders.iter().map(|order| {
            let (mut kept, mut peak) = (0.0, 0.0f64);
            for task in order {
                let bytes: f64 = of_microbatch(&sums[task.stage as usize]).iter().sum();
                // Under DualPipeV weight gradients follow the backward passes up to the last forward pass.
                kept += match task.work {
                    Work::Forward => bytes,
                    Work::Backward => -bytes,
                    Work::Weight => 0.0,
                };
                peak = peak.max(kept);
            }
            peak
        });
        Some(peaks.collect())
    }
}
