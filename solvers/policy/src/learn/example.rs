//! Training targets for one input.
//!
//! Optima are not unique, and identical devices are interchangeable. So the best few plans teach together, weighted by
//! how close they are to the best. Before that, the devices of each plan are permuted among identical ones to agree as
//! far as possible with the plan to improve on: the target is where to move units, not how to name devices.

use rand::{Rng, RngExt};
use stagewright_core::cluster::DeviceId;
use stagewright_core::ids::Keyed;
use stagewright_core::placement::Placement;
use stagewright_makespan::ClusterId;

use crate::features::Input;
use crate::subject::{Subject, ratio};

/// Relative excess over the best value at which a plan's weight falls by a factor of e.
const CLOSE: f64 = 0.01;
/// Pairs per unit whose order is taught.
const PAIRS: usize = 4;
/// Largest distance in the topological order of a nearby pair; half of the pairs are nearby.
const NEAR: usize = 16;

/// A plan to learn from.
#[derive(Debug, Clone, PartialEq)]
pub struct Teacher {
    /// Value of the plan in seconds.
    pub value: f64,
    /// The plan, with a priority for makespan or stages for throughput.
    pub placement: Placement,
}

/// Training targets of an input.
#[derive(Debug, Clone, PartialEq)]
pub struct Targets {
    /// By edge: weighted share of the plans with both ends on one device.
    pub together: Vec<f32>,
    /// By edge: weight in the loss; the weights sum to 1.
    pub edge_weight: Vec<f32>,
    /// By unit and device: weighted share of the plans that place the unit on the device.
    pub affinity: Vec<f32>,
    /// By unit: weight in the loss; the weights sum to 1.
    pub unit_weight: Vec<f32>,
    /// Pairs of units whose order is taught, the earlier unit first.
    pub before: Vec<(ClusterId, ClusterId)>,
    /// The natural logarithm of the best value over the lower bound.
    pub value: f32,
}

/// An input with its targets.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// Input of the network.
    pub input: Input,
    /// Targets of the network's output.
    pub targets: Targets,
}

/// Builds the example of an input from its teachers, of which there is at least one, the best first.
/// O(teachers · units · devices + edges).
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
            *together += if homes[from] == homes[to] { weight } else { 0.0 };
        }
        for (unit, &home) in homes.iter().enumerate() {
            affinity[unit * devices + home.index()] += weight;
        }
    }
    let work: f64 = level.ids().map(|unit| level.mean(unit)).sum();
    let sent: f64 = subject.edges().iter().map(|edge| edge.2).sum();
    // Half of the weight is uniform, half is proportional to cost.
    let half = |share: f64, whole: f64, count: usize| {
        (0.5 / count as f64 + if whole > 0.0 { 0.5 * share / whole } else { 0.5 / count as f64 }) as f32
    };
    let edge_weight = subject.edges().iter().map(|edge| half(edge.2, sent, input.edges.len())).collect();
    let unit_weight = level.ids().map(|unit| half(level.mean(unit), work, units)).collect();
    let places = places(subject, &teachers[0].placement);
    let before = pairs(&places, &input.order, rng);
    let value = ratio(best, bound).max(1.0).ln() as f32;
    Example { targets: Targets { together, edge_weight, affinity, unit_weight, before, value }, input }
}

/// The device of every unit of a placement.
fn unit_homes(subject: &Subject<'_, '_>, placement: &Placement) -> Keyed<ClusterId, DeviceId> {
    let device_of: Vec<DeviceId> =
        subject.instance().graph().operators().map(|op| placement.device_of(op)).collect();
    subject.devices_of(&device_of)
}

/// Permutes devices within their pools so that as much work as possible keeps its device: a greedy matching by
/// decreasing agreement, then pairwise exchanges while they help.
fn aligned(subject: &Subject<'_, '_>, was: &[DeviceId], is: &[DeviceId]) -> Keyed<ClusterId, DeviceId> {
    let instance = subject.instance();
    let problem = instance.problem();
    let devices = instance.device_count();
    // If each pair of devices has its own link, no two devices are interchangeable.
    if problem.cluster().document().matrix.is_some() {
        return is.to_vec().into();
    }
    let mut agreement = vec![0.0f64; devices * devices];
    for (unit, (&was, &is)) in subject.level().ids().zip(was.iter().zip(is)) {
        agreement[is.index() * devices + was.index()] += subject.level().mean(unit) + f64::MIN_POSITIVE;
    }
    let pool = |device: usize| problem.pool_of(DeviceId::new(device));
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
    is.iter().map(|&device| DeviceId::new(name[device.index()])).collect()
}

/// Position of every unit in a plan: the mean rank of its operators, or its stage. If a unit has forward operators,
/// only these count: backward operators run in reverse order, so counting them would place every unit in the middle.
fn places(subject: &Subject<'_, '_>, placement: &Placement) -> Keyed<ClusterId, f64> {
    let graph = subject.instance().graph();
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
        has_forward[unit_of(op).index()] = true;
    }
    for op in graph.operators().filter(|&op| graph.is_forward(op) || !has_forward[unit_of(op).index()]) {
        sum[unit_of(op).index()] += of_operator[op.index()];
        count[unit_of(op).index()] += 1.0;
    }
    sum.iter().zip(&count).map(|(&sum, &count)| ratio(sum, count)).collect()
}

/// Random pairs of units at different positions, the earlier unit first; half of the pairs are nearby.
fn pairs(
    places: &Keyed<ClusterId, f64>,
    order: &[ClusterId],
    rng: &mut impl Rng,
) -> Vec<(ClusterId, ClusterId)> {
    let mut pairs = Vec::new();
    if order.len() < 2 {
        return pairs;
    }
    for (position, &unit) in order.iter().enumerate() {
        for number in 0..PAIRS {
            let other = match number % 2 {
                0 => rng.random_range(0..order.len()),
                _ => rng.random_range(position.saturating_sub(NEAR)..(position + NEAR + 1).min(order.len())),
            };
            let other = order[other];
            let [a, b] = [unit, other].map(|unit| places[unit]);
            if a < b {
                pairs.push((unit, other));
            } else if b < a {
                pairs.push((other, unit));
            }
        }
    }
    pairs
}
