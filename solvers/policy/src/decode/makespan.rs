//! Schedules decoded from a prediction, as changes to the schedule that the network has read.
//!
//! A unit that stays where most of its work is keeps the devices of all its operators, so a prediction that changes
//! nothing is as good as the schedule that was read, however the operators are divided into units. Units that belong
//! together are merged into groups, and each group goes to the device with the highest mean affinity of its units,
//! weighted by their work. At a positive temperature both are sampled: an edge is kept with the probability that the
//! grouping head assigns to it, and the group's affinities get Gumbel noise (perturb and maximise: Papandreou and
//! Yuille, ICCV 2011).

use petgraph::unionfind::UnionFind;
use rand::{Rng, RngExt};
use rayon::prelude::*;
use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::OpId;
use stagewright_core::ids::Keyed;
use stagewright_core::seed;
use stagewright_core::solver::Stop;
use stagewright_makespan::schedule::{Best, Evaluator, Schedule, is_better};
use stagewright_makespan::{ClusterId, assigned, rank};

use super::gumbel;
use crate::predict::Prediction;
use crate::subject::{Base, Subject};

/// Smaller probabilities are raised to this before their logarithm is taken.
const LEAST: f64 = 1e-9;
/// Largest work of a group, as a share of the mean work per device.
const MAX_OF_DEVICE: f64 = 0.5;

/// The device of every unit, chosen for groups or for single units: the most likely device, or a sample if
/// `temperature` is positive.
pub(crate) fn homes(
    subject: &Subject<'_, '_>,
    prediction: &Prediction,
    is_grouped: bool,
    temperature: f64,
    rng: &mut impl Rng,
) -> Vec<DeviceId> {
    let (level, units, devices) = (&subject.level, subject.unit_count(), subject.instance.device_count());
    let group_of = match is_grouped {
        true => groups(subject, prediction, temperature, rng),
        false => (0..units).collect(),
    };
    let mut logits = vec![0.0f64; units * devices];
    let mut work = vec![0.0f64; units];
    for (unit, &group) in level.ids().zip(&group_of) {
        let seconds = level.mean(unit) + f64::MIN_POSITIVE;
        work[group] += seconds;
        for (device, share) in prediction.devices_of(unit.index(), devices).iter().enumerate() {
            let capable = subject.can_run(unit, DeviceId::new(device));
            logits[group * devices + device] +=
                if capable { seconds * share.max(LEAST).ln() } else { f64::NEG_INFINITY };
        }
    }
    let mut home_of_group = vec![None; units];
    level
        .ids()
        .zip(&group_of)
        .map(|(unit, &group)| {
            let home = *home_of_group[group].get_or_insert_with(|| {
                let row = &logits[group * devices..(group + 1) * devices];
                let noisy = |logit: &f64| {
                    logit / work[group] + if temperature > 0.0 { temperature * gumbel(rng) } else { 0.0 }
                };
                largest(row.iter().map(noisy))
            });
            let home = DeviceId::new(home);
            match subject.can_run(unit, home) {
                true => home,
                // No device can run the whole group: each unit goes where it can run.
                false => DeviceId::new(largest(
                    prediction.devices_of(unit.index(), devices).iter().enumerate().map(
                        |(device, &share)| match subject.can_run(unit, DeviceId::new(device)) {
                            true => share,
                            false => f64::NEG_INFINITY,
                        },
                    ),
                )),
            }
        })
        .collect()
}

/// The index of the largest value; ties go to the first.
fn largest(values: impl Iterator<Item = f64>) -> usize {
    let mut best = (0, f64::NEG_INFINITY);
    for (index, value) in values.enumerate() {
        if value > best.1 {
            best = (index, value);
        }
    }
    best.0
}

/// The group of every unit, named by one of its units. Edges are merged in order of decreasing probability, unless the
/// merged group would exceed its share of a device's work.
fn groups(
    subject: &Subject<'_, '_>,
    prediction: &Prediction,
    temperature: f64,
    rng: &mut impl Rng,
) -> Vec<usize> {
    let (level, units) = (&subject.level, subject.unit_count());
    let all: f64 = level.ids().map(|unit| level.mean(unit)).sum();
    let limit = MAX_OF_DEVICE * all / subject.instance.device_count().max(1) as f64;
    let mut holds = |likely: f64| match temperature > 0.0 {
        true => rng.random_bool(likely),
        false => likely > 0.5,
    };
    let mut held: Vec<usize> =
        (0..subject.edges.len()).filter(|&edge| holds(prediction.together[edge])).collect();
    held.sort_by(|&a, &b| prediction.together[b].total_cmp(&prediction.together[a]));
    let mut sets = UnionFind::new(units);
    let mut work: Vec<f64> = level.ids().map(|unit| level.mean(unit)).collect();
    for edge in held {
        let (from, to, _) = subject.edges[edge];
        let [a, b] = [from, to].map(|unit| sets.find_mut(unit.index()));
        if a != b && work[a] + work[b] <= limit {
            sets.union(a, b);
            work[sets.find_mut(a)] = work[a] + work[b];
        }
    }
    (0..units).map(|unit| sets.find_mut(unit)).collect()
}

/// The operators by the priority of their units and, within a unit, by decreasing upward rank. The backward operators
/// of units that also have forward operators come last, in reverse order.
pub(crate) fn order(subject: &Subject<'_, '_>, prediction: &Prediction) -> Vec<OpId> {
    let (instance, level) = (subject.instance, &subject.level);
    let graph = instance.graph();
    let mut order = rank::falling(instance, &rank::upward(instance));
    let unit_of = |op: OpId| level.cluster_of(graph.class_of(op));
    let mut has_forward = Keyed::filled(false, level.len());
    for op in graph.operators().filter(|&op| graph.is_forward(op)) {
        has_forward[unit_of(op)] = true;
    }
    let last = prediction.priority.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let priority = |op: &OpId| {
        let own = prediction.priority[unit_of(*op).index()];
        if !graph.is_forward(*op) && has_forward[unit_of(*op)] { 2.0 * last - own } else { own }
    };
    order.sort_by(|a, b| priority(a).total_cmp(&priority(b)));
    order
}

/// Temperatures of the draws of a batch.
const TEMPERATURES: [f64; 4] = [0.0, 0.25, 0.5, 1.0];

/// The devices of the operators after units have moved from `base` to `homes`.
fn moved(
    subject: &Subject<'_, '_>,
    base: &Base,
    device_of: &[DeviceId],
    homes: &Keyed<ClusterId, DeviceId>,
) -> Vec<DeviceId> {
    let graph = subject.instance.graph();
    let home = |(op, &device): (OpId, &DeviceId)| {
        let unit = subject.level.cluster_of(graph.class_of(op));
        if homes[unit] == base.home[unit] { device } else { homes[unit] }
    };
    graph.operators().zip(device_of).map(home).collect()
}

/// The best schedule of `count` draws from the network's prediction for the schedule `from`. Each draw is simulated
/// under the priorities that its devices imply, under those of the network and under those of `from`. Draws are scored
/// in parallel; their random streams depend on their number, not on the thread.
pub(crate) fn best_of_draws<'s, 'p>(
    subject: &Subject<'s, 'p>,
    (base, from): (&Base, &Schedule),
    prediction: &Prediction,
    evaluators: &mut [Evaluator<'s, 'p>],
    count: usize,
    (seed, task): (u64, u64),
    stop: &Stop,
) -> Option<Best> {
    let instance = subject.instance;
    let by_network = order(subject, prediction);
    let draw = |evaluator: &mut Evaluator<'s, 'p>, number: usize| -> Option<Best> {
        if number > 0 && stop.reason().is_some() {
            return None;
        }
        let mut rng = seed::stream(seed, task + number as u64);
        // The first two draws are the most likely assignments, ungrouped and grouped.
        let temperature = if number < 2 { 0.0 } else { TEMPERATURES[1 + (number / 2) % 3] };
        let homes = homes(subject, prediction, number % 2 == 1, temperature, &mut rng);
        let device_of = moved(subject, base, &from.device_of, &homes.into());
        let implied = assigned::order(instance, &device_of);
        let best = Best::better_of(None, evaluator, Schedule::by_order(device_of.clone(), &implied));
        let best = Best::better_of(
            best,
            evaluator,
            Schedule { device_of: device_of.clone(), ranks: from.ranks.clone() },
        );
        Best::better_of(best, evaluator, Schedule::by_order(device_of, &by_network))
    };
    let walks = evaluators.len().max(1);
    let share = |(first, evaluator): (usize, &mut Evaluator<'s, 'p>)| {
        let mut best: Option<(usize, Best)> = None;
        for number in (first..count).step_by(walks) {
            if let Some(found) = draw(evaluator, number)
                && best.as_ref().is_none_or(|(_, best)| is_better(found.score, best.score))
            {
                best = Some((number, found));
            }
        }
        best
    };
    let mut found: Vec<(usize, Best)> = evaluators.par_iter_mut().enumerate().filter_map(share).collect();
    // Ties go to the first draw, whichever thread made it.
    found.sort_by_key(|(number, _)| *number);
    let better = |a: Best, b: Best| if is_better(b.score, a.score) { b } else { a };
    found.into_iter().map(|(_, best)| best).reduce(better)
}

#[cfg(test)]
mod tests {
    use stagewright_core::document::ObjectiveKind;
    use stagewright_testing::random::{self, Size};

    use super::*;

    #[test]
    fn a_prediction_that_moves_nothing_keeps_every_operator_where_it_is() {
        let mut spread = 0;
        for number in 0..20 {
            let problem = random::problem(number, Size { operators: 30, devices: 3, groups: true });
            let problem = problem.with_objective(ObjectiveKind::Makespan).expect("a valid objective");
            let instance = stagewright_makespan::instance::Instance::new(&problem);
            if instance.impossible().is_some() {
                continue;
            }
            let subject = Subject::new(&instance, 4, false);
            let graph = instance.graph();
            let of_class = |op: OpId| instance.homes(graph.class(graph.class_of(op))[0]);
            // The classes of a unit are spread over several devices.
            let device = |op: OpId| {
                let homes = of_class(op);
                homes[graph.class_of(op).index() % homes.len()]
            };
            let from = Schedule::without_priority(graph.operators().map(device).collect());
            let base = Base::new(&subject, &mut Evaluator::new(&instance), &from);
            assert_eq!(moved(&subject, &base, &from.device_of, &base.home), from.device_of);
            let unit_of = |op: OpId| subject.level.cluster_of(graph.class_of(op));
            spread +=
                graph.operators().filter(|&op| from.device_of[op.index()] != base.home[unit_of(op)]).count();
            // A unit that moves takes all its operators along.
            let mut homes = base.home.clone();
            let first = subject.level.ids().next().expect("a unit");
            homes[first] = DeviceId((base.home[first].0 + 1) % 3);
            let after = moved(&subject, &base, &from.device_of, &homes);
            for op in graph.operators() {
                let expected = if unit_of(op) == first { homes[first] } else { from.device_of[op.index()] };
                assert_eq!(after[op.index()], expected);
            }
        }
        assert!(spread > 20, "{spread} operators are away from their unit");
    }
}
