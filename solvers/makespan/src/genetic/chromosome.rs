//! Chromosomes and the schedules that they encode.
//!
//! A group of operators goes to the device with the highest affinity among those that can run it. Its operators have
//! the priority
//!
//! ```text
//! r(v) + 2 (k − 1/2)
//! ```
//!
//! where r(v) is the operator's position by upward rank, between 0 for the last and 1 for the first, and k the key of
//! its group. A key of 1/2 keeps the operators at their rank. If every operator is a group of its own, the keys can
//! encode any order of the operators.

use std::ops::Range;

use rand::Rng;
use rand::RngExt;
use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::OpId;
use stagewright_core::ids::{Id, Keyed};

use super::super::instance::Instance;
use super::super::multilevel::{ClusterId, Level, level_of};
use super::super::rank;
use super::super::schedule::Schedule;

/// Affinity of the chosen device, and maximum affinity of the others.
const CHOSEN: f32 = 0.9;
const OTHER: f32 = 0.8;
/// Range of the probability that a key of a mutant differs from the same key of its model.
const FRESH: [f64; 2] = [0.01, 0.3];
/// Range of the maximum change of a mutant's priority.
const WIDTH: [f64; 2] = [0.01, 0.5];

/// The keys of a chromosome.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Keys {
    /// Affinities by group and device.
    affinities: Vec<f32>,
    /// Priorities by group.
    priorities: Keyed<ClusterId, f32>,
}

/// The decoder of keys.
#[derive(Debug)]
pub(super) struct Code<'s, 'p> {
    instance: &'s Instance<'p>,
    level: Level,
    /// Position of every operator by upward rank, from 0 for the last to 1 for the first.
    places: Vec<f32>,
    devices: usize,
}

impl<'s, 'p> Code<'s, 'p> {
    /// A code with at most `max_groups` groups, or as few as coarsening reaches.
    pub(super) fn new(instance: &'s Instance<'p>, max_groups: usize, rng: &mut dyn Rng) -> Code<'s, 'p> {
        let order = rank::falling(instance, &rank::upward(instance));
        let level = level_of(instance, max_groups, rng);
        Code { instance, level, places: places(&order), devices: instance.device_count() }
    }

    /// Number of groups of operators.
    pub(super) fn groups(&self) -> usize {
        self.level.len()
    }

    /// The range of a group in the affinities.
    fn row(&self, group: ClusterId) -> Range<usize> {
        group.index() * self.devices..(group.index() + 1) * self.devices
    }

    fn can(&self, group: ClusterId, device: DeviceId) -> bool {
        let pool = self.instance.problem().pool_of(device);
        self.level.seconds(group, pool).is_finite()
    }

    /// The schedule of a chromosome. O(groups · devices + operators log operators).
    pub(super) fn decode(&self, keys: &Keys) -> Schedule {
        let graph = self.instance.graph();
        let device = |group: ClusterId| {
            let affinities = &keys.affinities[self.row(group)];
            let mut best: Option<(f32, DeviceId)> = None;
            for (device, &affinity) in DeviceId::first(self.devices).zip(affinities) {
                if self.can(group, device) && best.is_none_or(|(strongest, _)| affinity > strongest) {
                    best = Some((affinity, device));
                }
            }
            best.map_or(DeviceId(0), |(_, device)| device)
        };
        let devices: Keyed<ClusterId, DeviceId> = self.level.ids().map(device).collect();
        let group = |op: OpId| self.level.cluster_of(graph.class_of(op));
        let priority = |op: OpId| self.places[op.index()] + 2.0 * keys.priorities[group(op)];
        let mut order: Vec<(f32, OpId)> = graph.topological().iter().map(|&op| (priority(op), op)).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0));
        let order: Vec<OpId> = order.into_iter().map(|(_, op)| op).collect();
        Schedule::by_order(graph.operators().map(|op| devices[group(op)]).collect(), &order)
    }

    /// The chromosome of a schedule: exact if every operator is a group of its own, otherwise from the first possible
    /// device and the mean position of each group.
    pub(super) fn encode(&self, schedule: &Schedule, rng: &mut dyn Rng) -> Keys {
        let graph = self.instance.graph();
        let mut order: Vec<OpId> = graph.topological().to_vec();
        if schedule.ranks.is_empty() {
            order.sort_by(|a, b| self.places[b.index()].total_cmp(&self.places[a.index()]));
        } else {
            order.sort_by_key(|op| schedule.ranks[op.index()]);
        }
        let wanted = places(&order);
        let (mut sums, mut counts) =
            (Keyed::filled(0.0f32, self.groups()), Keyed::filled(0.0f32, self.groups()));
        let mut devices: Keyed<ClusterId, Option<DeviceId>> = Keyed::filled(None, self.groups());
        for op in graph.operators() {
            let group = self.level.cluster_of(graph.class_of(op));
            sums[group] += wanted[op.index()] - self.places[op.index()];
            counts[group] += 1.0;
            let device = schedule.device_of[op.index()];
            if devices[group].is_none() && self.can(group, device) {
                devices[group] = Some(device);
            }
        }
        let mut affinities: Vec<f32> =
            (0..self.groups() * self.devices).map(|_| rng.random_range(0.0..OTHER)).collect();
        for (group, device) in devices.enumerate() {
            if let Some(device) = device {
                affinities[self.row(group)][device.index()] = CHOSEN;
            }
        }
        let priority = |(sum, count): (&f32, &f32)| 0.5 + 0.5 * sum / count.max(1.0);
        Keys { affinities, priorities: sums.iter().zip(&*counts).map(priority).collect() }
    }

    /// Bytes of a chromosome.
    pub(super) fn bytes(&self) -> usize {
        (self.groups() * (self.devices + 1) * size_of::<f32>()).max(1)
    }

    /// A chromosome with some keys of a model and the others random.
    pub(super) fn mutant(&self, model: &Keys, rng: &mut dyn Rng) -> Keys {
        let mut keys = model.clone();
        let fresh = between(FRESH, rng);
        let width = between(WIDTH, rng) as f32;
        for group in self.level.ids() {
            if rng.random_bool(fresh) {
                for affinity in &mut keys.affinities[self.row(group)] {
                    *affinity = rng.random();
                }
            }
            if rng.random_bool(fresh) {
                let key = &mut keys.priorities[group];
                *key = (*key + rng.random_range(-width..width)).clamp(0.0, 1.0);
            }
        }
        keys
    }

    /// A child of two parents. The affinities of a group are inherited together: half of the affinities of each parent
    /// would be meaningless.
    pub(super) fn child(&self, elite: &Keys, other: &Keys, from_elite: f64, rng: &mut dyn Rng) -> Keys {
        let mut keys = elite.clone();
        for group in self.level.ids() {
            if !rng.random_bool(from_elite) {
                let row = self.row(group);
                keys.affinities[row.clone()].copy_from_slice(&other.affinities[row]);
            }
            if !rng.random_bool(from_elite) {
                keys.priorities[group] = other.priorities[group];
            }
        }
        keys
    }
}

/// A log-uniform number from a range.
fn between([least, largest]: [f64; 2], rng: &mut dyn Rng) -> f64 {
    least * (largest / least).powf(rng.random_range(0.0..1.0))
}

/// Position of every operator in an order, from 1 for the first to 0 for the last.
fn places(order: &[OpId]) -> Vec<f32> {
    let last = order.len().saturating_sub(1).max(1) as f32;
    let mut places = vec![0.0; order.len()];
    for (position, op) in order.iter().enumerate() {
        places[op.index()] = 1.0 - position as f32 / last;
    }
    places
}
