//! What plans teach about one input.
//!
//! Optima are not unique, and devices that are alike have no names. So the best few plans teach together, each in
//! proportion to how close it is to the best, and before that its devices are renamed among those that are alike to
//! agree as far as possible with the plan to improve on: what is taught is where to move things, not what to call it.

use rand::{Rng, RngExt};
use stagewright_core::cluster::DeviceId;
use stagewright_core::placement::Placement;

use crate::features::Input;
use crate::subject::{Subject, ratio};

/// A plan that is this much longer than the best teaches e times less.
const CLOSE: f64 = 0.01;
/// Pairs of units for each unit whose order is taught.
const PAIRS: usize = 4;
/// Half of the pairs are at most so far apart in the topological order.
const NEAR: usize = 16;

/// A plan to learn from.
#[derive(Debug, Clone, PartialEq)]
pub struct Teacher {
    /// Its value in seconds.
    pub value: f64,
    /// The plan. One for makespan has a priority, one for throughput has stages.
    pub placement: Placement,
}

/// What is taught about an input.
#[derive(Debug, Clone, PartialEq)]
pub struct Targets {
    /// By edge: how many of the plans, weighted, have both ends on one device.
    pub together: Vec<f32>,
    /// By edge: how much it counts; they sum to 1.
    pub edge_weight: Vec<f32>,
    /// By unit and device: how many of the plans, weighted, have the unit there.
    pub affinity: Vec<f32>,
    /// By unit: how much it counts; they sum to 1.
    pub unit_weight: Vec<f32>,
    /// Pairs of units, the earlier first.
    pub before: Vec<(u32, u32)>,
    /// The natural logarithm of the best value over the lower bound.
    pub value: f32,
}

/// An input with what is taught about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// What the network reads.
    pub input: Input,
    /// What it should say.
    pub targets: Targets,
}

/// What teachers, at least one and the best first, say about an input of a subject. O(teachers · units · devices + edges).
pub fn example(
    subject: &Subject<'_, '_>,
    input: Input,
    teachers: &[Teacher],
    bound: f64,
    rng: &mut impl Rng,
) -> Example {
    let (units, devices) = (input.units, input.devices);
    let level = subject.level();
    let best = teachers.iter().map(|teacher| teacher.value).fold(f64::INFINITY, f64::min);
    let weights: Vec<f64> =
        teachers.iter().map(|teacher| (-ratio(teacher.value - best, best) / CLOSE).exp()).collect();
    let all: f64 = weights.iter().sum();
    let mut together = vec![0.0f32; input.edges.len()];
    let mut affinity = vec![0.0f32; units * devices];
    for (teacher, weight) in teachers.iter().zip(&weights) {
        let weight = (weight / all) as f32;
        let homes = aligned(subject, &input.home, &unit_homes(subject, &teacher.placement));
        for (together, &(from, to)) in together.iter_mut().zip(&input.edges) {
            *together += if homes[from as usize] == homes[to as usize] { weight } else { 0.0 };
        }
        for (unit, &home) in homes.iter().enumerate() {
            affinity[unit * devices + home as usize] += weight;
        }
    }
    let work: f64 = (0..units).map(|unit| level.mean(unit)).sum();
    let sent: f64 = subject.edges().iter().map(|edge| edge.2).sum();
    // Half by number, half by what it costs.
    let half = |share: f64, whole: f64, count: usize| {
        (0.5 / count as f64 + if whole > 0.0 { 0.5 * share / whole } else { 0.5 / count as f64 }) as f32
    };
    let edge_weight = subject.edges().iter().map(|edge| half(edge.2, sent, input.edges.len())).collect();
    let unit_weight = (0..units).map(|unit| half(level.mean(unit), work, units)).collect();
    let places = places(subject, &teachers[0].placement);
    let before = pairs(&places, &input.order, rng);
    let value = ratio(best, bound).max(1.0).ln() as f32;
    Example { targets: Targets { together, edge_weight, affinity, unit_weight, before, value }, input }
}

/// The device of every unit of a placement.
fn unit_homes(subject: &Subject<'_, '_>, placement: &Placement) -> Vec<u32> {
    let device_of: Vec<DeviceId> =
        subject.scene().graph().operators().map(|op| placement.device_of(op)).collect();
    subject.devices_of(&device_of)
}

/// Devices renamed among those of their pool so that as much work as possible is where it was: pairs are taken by falling
/// agreement, then exchanged as long as that helps.
fn aligned(subject: &Subject<'_, '_>, was: &[u32], is: &[u32]) -> Vec<u32> {
    let scene = subject.scene();
    let problem = scene.problem();
    let devices = scene.device_count();
    // In a cluster that gives each pair of devices a link of its own, no two are alike.
    if problem.cluster().document().matrix.is_some() {
        return is.to_vec();
    }
    let mut agreement = vec![0.0f64; devices * devices];
    for (unit, (&was, &is)) in was.iter().zip(is).enumerate() {
        agreement[is as usize * devices + was as usize] += subject.level().mean(unit) + f64::MIN_POSITIVE;
    }
    let pool = |device: usize| problem.pool_of(DeviceId(device as u32));
    let mut pairs: Vec<(usize, usize)> = (0..devices)
        .flat_map(|from| (0..devices).map(move |to| (from, to)))
        .filter(|&(from, to)| pool(from) == pool(to))
        .collect();
    pairs.sort_by(|&(a, b), &(c, d)| agreement[c * devices + d].total_cmp(&agreement[a * devices + b]));
    let mut name = vec![usize::MAX; devices];
    let mut is_taken = vec![false; devices];
    for (from, to) in pairs {
        if name[from] == usize::MAX && !is_taken[to] {
            (name[from], is_taken[to]) = (to, true);
        }
    }
    let least = 1e-9 * agreement.iter().sum::<f64>();
    let gain = |name: &[usize], a: usize, b: usize| {
        agreement[a * devices + name[b]] + agreement[b * devices + name[a]]
            - agreement[a * devices + name[a]]
            - agreement[b * devices + name[b]]
    };
    let mut is_better = true;
    while is_better {
        is_better = false;
        for a in 0..devices {
            for b in a + 1..devices {
                if pool(a) == pool(b) && gain(&name, a, b) > least {
                    name.swap(a, b);
                    is_better = true;
                }
            }
        }
    }
    is.iter().map(|&device| name[device as usize] as u32).collect()
}

/// Where every unit stands in a plan: the mean rank of its operators, or its stage. Of a unit with forward operators
/// these alone count: with its backward ones, which run in the reverse order, every unit would stand in the middle.
fn places(subject: &Subject<'_, '_>, placement: &Placement) -> Vec<f64> {
    let graph = subject.scene().graph();
    let mut of_operator = vec![0.0; graph.operator_count()];
    if placement.priority().len() == of_operator.len() {
        for (rank, op) in placement.priority().iter().enumerate() {
            of_operator[op.index()] = rank as f64;
        }
    } else {
        for (stage, device) in placement.stages().iter().enumerate() {
            for op in graph.operators().filter(|&op| placement.device_of(op) == *device) {
                of_operator[op.index()] = stage as f64;
            }
        }
    }
    let level = subject.level();
    let (mut sum, mut count) = (vec![0.0; level.len()], vec![0.0f64; level.len()]);
    let unit_of = |op| level.cluster_of(graph.class_of(op));
    let mut has_forward = vec![false; level.len()];
    for op in graph.operators().filter(|&op| graph.is_forward(op)) {
        has_forward[unit_of(op)] = true;
    }
    for op in graph.operators().filter(|&op| graph.is_forward(op) || !has_forward[unit_of(op)]) {
        sum[unit_of(op)] += of_operator[op.index()];
        count[unit_of(op)] += 1.0;
    }
    sum.iter().zip(&count).map(|(&sum, &count)| ratio(sum, count)).collect()
}

/// Random pairs of units at different places, the earlier first; half of them near each other.
fn pairs(places: &[f64], order: &[u32], rng: &mut impl Rng) -> Vec<(u32, u32)> {
    let mut pairs = Vec::new();
    if order.len() < 2 {
        return pairs;
    }
    for (at, &unit) in order.iter().enumerate() {
        for number in 0..PAIRS {
            let other = match number % 2 {
                0 => rng.random_range(0..order.len()),
                _ => rng.random_range(at.saturating_sub(NEAR)..(at + NEAR + 1).min(order.len())),
            };
            let other = order[other];
            let [a, b] = [unit, other].map(|unit| places[unit as usize]);
            if a < b {
                pairs.push((unit, other));
            } else if b < a {
                pairs.push((other, unit));
            }
        }
    }
    pairs
}
