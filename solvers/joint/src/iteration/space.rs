//! The combinations of degrees that are searched, and the data common to them.

use std::ops::Range;
use std::sync::Arc;

use rand::Rng;
use rustc_hash::FxHashMap;
use stagewright_core::document::Schedule;
use stagewright_core::seed;

use super::layer::LayerShard;
use super::model::Model;
use super::pool::Pool;
use super::runtime::{Reach, Runtime, Setting};
use super::table::{Degrees, LayerCosts};

/// Degrees of a combination, with the tensor-parallel degree of every kind.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Combination {
    pub(crate) degrees: Degrees,
    pub(crate) tensor: Vec<u32>,
    pub(crate) microbatches: u32,
    /// Required number of devices of a pipeline, if given.
    pub(crate) stages: Option<u32>,
    pub(crate) schedule: Schedule,
}

impl Combination {
    pub(crate) fn degrees_on(&self, pool: usize) -> Degrees {
        Degrees { tensor: self.tensor[pool], ..self.degrees }
    }

    /// The setting of layers in a pipeline.
    pub(super) fn setting<'r>(&self, runtime: &'r Runtime, reach: Reach) -> Setting<'r> {
        Setting { runtime, reach, microbatches: self.microbatches, is_paired: self.is_paired() }
    }

    /// Whether passes of the two stages of a device run beside each other.
    pub(super) fn is_paired(&self) -> bool {
        self.schedule == Schedule::DualPipeV
    }

    /// Whether a pipeline of some devices can run these microbatches with several stages on each.
    pub(super) fn may_have_chunks(&self, devices: u32) -> bool {
        devices > 1
            && match self.schedule {
                Schedule::Interleaved => self.microbatches.is_multiple_of(devices),
                Schedule::DualPipeV => u64::from(self.microbatches) >= 2 * u64::from(devices),
                _ => false,
            }
    }

    /// Maximum number of stages of a pipeline within a server.
    pub(super) fn most_inside(&self, kind: usize, pool: &Pool) -> u32 {
        (u64::from(pool.server) / self.degrees_on(kind).devices()) as u32
    }

    /// Whether a kind may have stages: not if their states are on hosts, and it states no memory of one.
    pub(super) fn may_use(&self, pool: &Pool) -> bool {
        !self.degrees.offload || pool.ram.is_some()
    }

    /// Maximum number of stages on a kind, with one stage per device, or of stages with devices of two kinds.
    pub(super) fn most_stages(&self, pool: usize, pools: &[Pool], layers: usize) -> u32 {
        if !self.may_use(&pools[pool]) {
            return 0;
        }
        let limit = match pools[pool].parts {
            None => u64::from(pools[pool].devices) / self.degrees_on(pool).devices(),
            Some(_) if !self.may_mix() => 0,
            Some(_) => {
                let [first, second] = self.copies_left(pools, &[0, 0, 0]);
                first.min(second).min((first + second) / u64::from(self.degrees.data))
            }
        };
        limit.min(layers as u64).min(self.stages.unwrap_or(u32::MAX).into()) as u32
    }

    /// Whether copies of a stage may be on two kinds.
    pub(super) fn may_mix(&self) -> bool {
        self.degrees.data > 1 && !self.schedule.has_chunks()
    }

    /// Copies of stages with devices of both kinds for which either kind has devices, beside the stages on it alone;
    /// `stages` has the numbers of stages by pool.
    fn copies_left(&self, pools: &[Pool], stages: &[u32]) -> [u64; 2] {
        [0, 1].map(|kind| {
            let used = u64::from(stages[kind]) * self.degrees_on(kind).devices();
            let of_copy = u64::from(self.tensor[2]) * u64::from(self.degrees.context);
            u64::from(pools[kind].devices).saturating_sub(used) / of_copy
        })
    }

    /// Whether there are devices for these numbers of stages by pool, none of which is too large by itself. Stages with
    /// devices of both kinds have at least one copy on either, and so at most all but one.
    pub(super) fn has_devices(&self, pools: &[Pool], stages: &[u32]) -> bool {
        let Some(mixed) = mixed(pools, stages) else { return true };
        let [first, second] = self.copies_left(pools, stages);
        first.min(second) >= mixed && first + second >= mixed * u64::from(self.degrees.data)
    }

    /// Copies of each stage with devices of two kinds on the first of them, as many as it has devices for.
    pub(super) fn copies_on_first(&self, pools: &[Pool], stages: &[u32]) -> Vec<u32> {
        let Some(mixed) = mixed(pools, stages) else { return Vec::new() };
        let most = u64::from(self.degrees.data - 1);
        let mut left = self.copies_left(pools, stages)[0].min(mixed * most);
        let next = |behind: u64| {
            let here = most.min(left - behind);
            left -= here;
            here as u32
        };
        (0..mixed).rev().map(next).collect()
    }
}

/// Number of stages with devices of two kinds; `None` if there are none.
fn mixed(pools: &[Pool], stages: &[u32]) -> Option<u64> {
    let (pool, &count) = pools.last().zip(stages.last())?;
    (pool.parts.is_some() && count > 0).then(|| count.into())
}

/// Data common to all combinations.
pub(crate) struct Space<'m> {
    pub(crate) model: &'m Model,
    pub(crate) pools: &'m [Pool],
    pub(crate) runtime: &'m Runtime,
    /// Configurations that numbered layers may have.
    pub(super) allowed: Vec<usize>,
    /// Number of chunks of a device under a schedule with several, if given.
    pub(super) chunks: Option<u32>,
    /// The layer after the last of each stage, if given.
    pub(super) cut: Option<Vec<usize>>,
    /// Index of every interval of layers among the distinct ones: `[first][end - first - 1]`.
    pub(super) intervals: Vec<Vec<u32>>,
}

/// Costs of every layer class on every kind.
pub(super) type Costs = Vec<FxHashMap<usize, LayerCosts>>;

/// Costs by the extent of the pipeline.
#[derive(Clone)]
pub(super) struct Extents {
    pub(super) device: Arc<Costs>,
    pub(super) server: Arc<Costs>,
    pub(super) servers: Arc<Costs>,
}

impl Extents {
    pub(super) fn of(&self, reach: Reach) -> &Costs {
        match reach {
            Reach::Device => &self.device,
            Reach::Server => &self.server,
            Reach::Servers => &self.servers,
        }
    }
}

impl<'m> Space<'m> {
    /// Numbers the intervals of the layers. O(layers²).
    pub(crate) fn new(
        model: &'m Model,
        pools: &'m [Pool],
        runtime: &'m Runtime,
        allowed: Vec<usize>,
    ) -> Space<'m> {
        // The layers of a stage commute, so an interval is determined by its number of layers of every class. The key
        // of an interval is a sum of random numbers, one for each class: two different intervals share a key with a
        // probability of 2⁻¹²⁸.
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
        Space { model, pools, runtime, allowed, chunks: None, cut: None, intervals }
    }

    /// Layers of every stage of the given cut; empty without one.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let ends = self.cut.iter().flatten().copied();
        let firsts = std::iter::once(0).chain(ends.clone());
        firsts.zip(ends).map(|(first, end)| first..end)
    }

    /// Costs for every extent of the pipeline; equal ones are shared.
    pub(super) fn extents(&self, combination: &Combination) -> Extents {
        let device = Arc::new(self.costs(combination, Reach::Device));
        let is_alike = !self.runtime.gathers_once(Reach::Server, combination.degrees.zero);
        let server = if is_alike { device.clone() } else { Arc::new(self.costs(combination, Reach::Server)) };
        let servers = match self.runtime.pipeline_host_s {
            0.0 => server.clone(),
            _ => Arc::new(self.costs(combination, Reach::Servers)),
        };
        Extents { device, server, servers }
    }

    pub(super) fn costs(&self, combination: &Combination, reach: Reach) -> Costs {
        let setting = combination.setting(self.runtime, reach);
        let is_split = combination.schedule.is_split();
        let on = |(kind, pool): (usize, &Pool)| {
            let mut costs = FxHashMap::default();
            for layer in &self.model.layers {
                costs.entry(layer.class).or_insert_with(|| {
                    let degrees = combination.degrees_on(kind);
                    LayerShard::new(self.model.samples, layer, kind, pool, degrees, setting)
                        .costs(&self.allowed, is_split)
                });
            }
            costs
        };
        self.pools.iter().enumerate().map(on).collect()
    }
}
