//! The parts of a plan's time and memory, and the cause of infeasibility if there is no plan.

use std::ops::Range;

use stagewright_core::document::{JointPartsDocument, Schedule};

use super::model::Layer;
use super::pool::Pool;
use super::runtime::Reach;
use super::space::{Combination, Extents, Space};
use super::table::{Configuration, Degrees, InFlight};

/// A stage of a plan.
pub(crate) struct Listed {
    pub(crate) layers: Range<usize>,
    pub(crate) pool: usize,
    pub(crate) in_flight: InFlight,
    /// Configuration of every layer.
    pub(crate) configurations: Vec<usize>,
}

/// Memory that a combination needs on a kind.
struct Shortage<'m> {
    /// Devices of the longest pipeline.
    devices: u32,
    /// Minimum bytes that each of these devices needs.
    needed: f64,
    /// The layer that needs these bytes; `None` if the states need them.
    layer: Option<&'m Layer>,
    /// Minimum bytes of the host's memory for each of these devices.
    host: f64,
}

impl Space<'_> {
    /// Describes the missing memory of the combination that needs the least.
    pub(crate) fn shortage(&self, combinations: &[Combination]) -> String {
        if let Some(pool) = self.pools.iter().find(|pool| pool.capacity == 0.0) {
            return format!(
                "the reserve leaves nothing of the memory of kind {}: give a smaller --memory-reserve or reserve_bytes",
                pool.name
            );
        }
        let mut least: Option<((f64, f64), String)> = None;
        for combination in combinations {
            let costs = self.extents(combination);
            for kind in 0..self.pools.len() {
                let Some(shortage) = self.shortage_on(combination, &costs, kind) else { continue };
                let needed = (shortage.needed, shortage.host);
                if least.as_ref().is_none_or(|least| needed < least.0) {
                    least = Some((needed, self.describe(combination, kind, &shortage)));
                }
            }
        }
        least.map_or_else(|| self.no_pipeline(combinations), |(_, text)| text)
    }

    /// Memory of a combination on a kind, if the kind has enough devices for a pipeline.
    fn shortage_on(&self, combination: &Combination, costs: &Extents, kind: usize) -> Option<Shortage<'_>> {
        let devices = self.most_devices(combination, kind)?;
        // Bytes are the same in one server and in several.
        let costs = costs.of(if devices == 1 { Reach::Device } else { Reach::Server });
        let memory = |layer: &Layer| {
            let costs = &costs[kind][&layer.class];
            let bytes = |configuration: &Configuration| configuration.activations + configuration.workspace;
            let open = costs.configurations.iter().map(bytes).fold(f64::INFINITY, f64::min);
            costs.state + open
        };
        let layers = &self.model.layers;
        let state: f64 = layers.iter().map(|layer| costs[kind][&layer.class].state).sum();
        let largest = layers.iter().max_by(|a, b| memory(a).total_cmp(&memory(b)))?;
        // A device must hold its share of the states, and the largest layer must fit.
        let share = state / f64::from(devices);
        let layer = Some(largest).filter(|layer| share <= memory(layer));
        let on_host = || layers.iter().map(|layer| costs[kind][&layer.class].host);
        let host = on_host().fold(on_host().sum::<f64>() / f64::from(devices), f64::max);
        Some(Shortage { devices, needed: share.max(memory(largest)), layer, host })
    }

    fn describe(&self, combination: &Combination, kind: usize, shortage: &Shortage<'_>) -> String {
        let &Shortage { devices, needed, layer, host } = shortage;
        if needed == f64::INFINITY {
            let name = &self.pools[kind].name;
            return format!(
                "kind {name} states no `ram`, the memory of hosts, for the activations of all layers"
            );
        }
        let pool = &self.pools[kind];
        let gigabytes = |bytes: f64| format!("{:.1} GB", bytes / 1e9);
        let Degrees { microbatch, data, zero, shards, offload, .. } = combination.degrees;
        let room = pool.room();
        // With states on hosts, either memory may lack.
        let is_host_short = needed <= room.device && host > room.host;
        let what = match layer {
            _ if is_host_short => "the states of the optimizer need".to_owned(),
            None => "the states of the model need".to_owned(),
            Some(layer) => format!("the layer {} needs", layer.name),
        };
        let (of_host, has, needed) = match is_host_short {
            true => ("the host's memory for ", room.host, host),
            false => ("", room.device, needed),
        };
        let rest = match needed > has {
            true => "",
            false => "; activations do not fit beside them",
        };
        let context = context_of(combination);
        let groups = shards.map_or_else(String::new, |shards| format!(" in groups of {shards} copies"));
        let states = if offload { ", states on the host" } else { "" };
        format!(
            "{of_host}a device of kind {} has {}; {what} at least {} of each at tp {}, dp {data}{context}, pp {devices}, \
             ZeRO {zero}{groups}{states} and a microbatch of {microbatch}{rest}",
            pool.name,
            gigabytes(has),
            gigabytes(needed),
            combination.tensor[kind],
        )
    }

    /// Explains why no combination has a pipeline on any kind.
    fn no_pipeline(&self, combinations: &[Combination]) -> String {
        if combinations.iter().all(|combination| combination.schedule.has_chunks()) {
            let has = |schedule| combinations.iter().any(|combination| combination.schedule == schedule);
            let (name, microbatches) = match [Schedule::Interleaved, Schedule::DualPipeV].map(has) {
                [true, true] => (
                    "a schedule with several stages per device",
                    "whose number divides that of the microbatches or is at most half of it",
                ),
                [true, false] => ("interleaved 1F1B", "whose number divides that of the microbatches"),
                [false, _] => ("DualPipeV", "whose number is at most half of that of the microbatches"),
            };
            let one_each = combinations.iter().all(|combination| combination.stages == Some(1));
            return match one_each {
                true => format!("{name} needs a pipeline of at least two devices: allow pp"),
                false => {
                    let layers = self.chunks.map_or_else(|| "two".into(), |chunks| chunks.to_string());
                    format!(
                        "{name} needs a pipeline of at least two devices, {microbatches}, and {layers} layers for each"
                    )
                }
            };
        }
        let layers = self.model.layers.len();
        match combinations.iter().filter_map(|combination| combination.stages).min() {
            Some(stages) if stages as usize > layers => {
                format!("pp {stages} needs as many layers, and the model has {layers}")
            }
            stages => self.too_few_devices(combinations, stages.unwrap_or(1)),
        }
    }

    /// Describes the degrees that need the fewest devices, and how many devices they need.
    fn too_few_devices(&self, combinations: &[Combination], stages: u32) -> String {
        let kinds = || self.pools.iter().filter(|pool| pool.parts.is_none());
        let may_use = |pool: &&Pool| combinations.iter().any(|combination| combination.may_use(pool));
        let devices = |pools: &mut dyn Iterator<Item = &Pool>| -> u64 {
            pools.map(|pool| u64::from(pool.devices)).sum()
        };
        let all = devices(&mut kinds());
        let devices = devices(&mut kinds().filter(may_use));
        let which = if devices < all { " whose kinds state `ram`" } else { "" };
        let least = |combination: &Combination| combination.tensor.iter().copied().min().unwrap_or(1);
        let needed = |combination: &Combination| {
            let Degrees { data, context, .. } = combination.degrees;
            let factors = [least(combination), data, context, stages].map(u64::from);
            factors.into_iter().fold(1, u64::saturating_mul)
        };
        match combinations.iter().min_by_key(|combination| needed(combination)) {
            Some(combination) if needed(combination) > devices => format!(
                "tp {}, dp {}{} and pp {stages} need {} devices, and there are {devices}{which}",
                least(combination),
                combination.degrees.data,
                context_of(combination),
                needed(combination)
            ),
            _ => "there are too few devices of each kind for the degrees".into(),
        }
    }

    /// Maximum number of devices of a pipeline on a kind.
    fn most_devices(&self, combination: &Combination, kind: usize) -> Option<u32> {
        let layers = self.model.layers.len();
        let limit = combination.most_stages(kind, self.pools, layers);
        let mut devices = 1..=limit;
        let is_given = |devices: u32| combination.stages.is_none_or(|given| given == devices);
        let is_whole = |devices: u32| {
            !combination.schedule.has_chunks()
                || (combination.may_have_chunks(devices)
                    && self.chunks_of(combination.schedule, devices).next().is_some())
        };
        devices.rfind(|&devices| is_given(devices) && is_whole(devices))
    }

    /// Times and bytes of stages by part.
    pub(crate) fn parts(
        &self,
        combination: &Combination,
        reach: Reach,
        stages: &[Listed],
    ) -> Vec<JointPartsDocument> {
        let costs = self.costs(combination, reach);
        let parts_of = |Listed { layers, pool, in_flight, configurations }: &Listed| {
            let mut sum = JointPartsDocument::default();
            for (layer, &wanted) in self.model.layers[layers.clone()].iter().zip(configurations) {
                let costs = &costs[*pool][&layer.class];
                let parts = &costs.parts;
                sum.compute_s += parts.compute_s;
                sum.tensor_s += parts.tensor_s;
                sum.expert_s += parts.expert_s;
                sum.context_s += parts.context_s;
                sum.zero_s += parts.zero_s;
                sum.host_s += parts.host_s;
                sum.parameter_bytes += parts.parameter_bytes;
                sum.gradient_bytes += parts.gradient_bytes;
                sum.optimizer_bytes += parts.optimizer_bytes;
                if let Some(configuration) =
                    costs.configurations.iter().find(|configuration| configuration.index as usize == wanted)
                {
                    let both_passes = parts.compute_s
                        + parts.tensor_s
                        + parts.expert_s
                        + parts.context_s
                        + parts.zero_s
                        + parts.host_s;
                    sum.recompute_s += costs.forward + configuration.behind() - both_passes;
                    sum.activation_bytes += configuration.held(*in_flight);
                    sum.workspace_bytes = sum.workspace_bytes.max(configuration.workspace);
                }
            }
            sum
        };
        stages.iter().map(parts_of).collect()
    }
}

/// The degree of context parallelism after that of data parallelism, if there is one.
fn context_of(combination: &Combination) -> String {
    match combination.degrees.context {
        1 => String::new(),
        degree => format!(", cp {degree}"),
    }
}
