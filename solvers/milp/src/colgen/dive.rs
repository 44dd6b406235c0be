//! Diving: from a fractional solution straight down to a plan.
//!
//! At a threshold T, a dive relaxes the rest of the problem, places the columns with a share of one and the column with
//! the largest share below one, and continues with the remaining units and devices, for which columns are generated
//! anew. Every placed column fits a device by its exact load, so a dive that places everything has a plan of value T or
//! less, up to constraints that columns ignore.
//!
//! If the rest is excluded, the dive backtracks to the highest depth at which another column may be placed instead, at
//! most three times in total (limited discrepancy search; Harvey and Ginsberg, 1995; Sadykov, Vanderbeck, Pessoa,
//! Tahiri and Uchoa, "Primal heuristics for branch and price: the assets of diving methods", INFORMS Journal on
//! Computing, 2019). The deepest attempt is kept. Each of its remaining units goes to the device of the column with the
//! largest share that contains the unit, and a walk of local search repairs the result.
//!
//! Success is erratic in T, so thresholds vary from dive to dive, and shares are perturbed by a random stream
//! of the dive.

use std::sync::Arc;

use rand::{Rng, RngExt};
use stagewright_core::cluster::DeviceId;
use stagewright_core::contraction::UnitId;
use stagewright_core::ids::Keyed;
use stagewright_core::seed;
use stagewright_core::solver::{Plan, Stop};
use stagewright_search::local::{Polisher, placement};

use super::generation::Pace;
use super::master::LpError;
use super::node::{Ground, Node, Relaxed, Shares, Task, WHOLE};
use super::rules::{Column, Rules};

/// Maximum number of rounds of each form of the relaxation at each depth of a dive.
const ROUNDS: u64 = 25;
/// Number of second choices that a dive may place, and number of depths, counted from the root, at which it may place
/// one.
const SECOND_CHOICES: usize = 3;
const DEEPEST_CHOICE: usize = 3;
/// Maximum relative perturbation of a share.
const NOISE: f64 = 0.1;
/// Steps per unit of the walk that repairs a dive, and maximum number of steps.
const WALK_PER_UNIT: u64 = 1_000;
const LONGEST_WALK: u64 = 100_000;

/// One dive.
#[derive(Debug, Clone, Copy)]
pub struct Dive {
    /// The threshold.
    pub threshold: f64,
    /// Seed and task of the random stream of the dive.
    pub stream: (u64, u64),
}

/// A backtracking point of a dive: the node, and the columns not tried yet.
struct Place {
    node: Node,
    depth: usize,
    others: Vec<Column>,
}

impl Dive {
    /// Dives from the root with initial columns. `None` if neither the dive nor its repair ends in a plan.
    ///
    /// The plan depends on the arguments alone, unless `stop` ends the dive.
    ///
    /// # Errors
    /// If the LP solver fails.
    pub fn run(
        &self,
        ground: &Ground<'_>,
        columns: &Arc<[Column]>,
        polisher: Option<&Polisher<'_>>,
        stop: &Stop,
    ) -> Result<Option<Plan>, LpError> {
        let mut rng = seed::stream(self.stream.0, self.stream.1);
        let mut choices = SECOND_CHOICES;
        let mut furthest: Option<(usize, Vec<Column>)> = None;
        let mut places: Vec<Place> = Vec::new();
        let mut next = Some((Node { rules: Rules::default(), columns: columns.clone() }, 0));
        while let Some((node, depth)) = next.take() {
            let task = Task { threshold: self.threshold, rounds: ROUNDS, pace: Pace::Quick };
            if let Relaxed::Open(shares) = ground.relax(&node, task, stop)? {
                let whole = shares.partition().map(|rest| node.rules.placed.iter().chain(rest));
                if let Some(plan) = whole.and_then(|columns| ground.plan(columns)) {
                    return Ok(Some(plan));
                }
                let sketch = sketch(&node.rules, &shares);
                let reached = node.rules.placed.iter().map(|column| column.units.len()).sum();
                if furthest.as_ref().is_none_or(|&(before, _)| reached > before) {
                    furthest = Some((reached, sketch));
                }
                let (certain, mut others) = candidates(shares.of, &mut rng);
                let columns = shares.columns;
                if !certain.is_empty() || !others.is_empty() {
                    let first = if others.is_empty() { None } else { Some(others.remove(0)) };
                    let mut node = Node { columns, ..node };
                    node.rules.placed.extend(certain);
                    others.truncate(SECOND_CHOICES);
                    next = first.map(|first| (node.with(first), depth + 1));
                    if depth < DEEPEST_CHOICE {
                        places.push(Place { node, depth, others });
                    }
                }
            }
            if stop.reason().is_some() {
                break;
            }
            if next.is_none() && choices > 0 {
                places.retain(|place| !place.others.is_empty());
                next = places.first_mut().map(|place| {
                    choices -= 1;
                    (place.node.with(place.others.remove(0)), place.depth + 1)
                });
            }
        }
        Ok(furthest.and_then(|(_, sketch)| self.mended(ground, &sketch, polisher?, stop)))
    }

    /// Repairs a sketch of a plan by local search. `None` if the repair fails.
    fn mended(
        &self,
        ground: &Ground<'_>,
        sketch: &[Column],
        polisher: &Polisher<'_>,
        stop: &Stop,
    ) -> Option<Plan> {
        let device_of = completed(ground, sketch)?;
        let start = placement(ground.problem, ground.units, &device_of);
        let steps = LONGEST_WALK.min(WALK_PER_UNIT * ground.units.len() as u64);
        polisher.polish(&start, self.stream, steps, stop)
    }
}

impl Node {
    /// The node with one more column placed.
    fn with(&self, column: Column) -> Node {
        let mut node = self.clone();
        node.rules.placed.push(column);
        node
    }
}

/// Columns with a share of one, and the others by descending perturbed share; ties keep their order.
fn candidates(shares: Vec<(Column, f64)>, rng: &mut impl Rng) -> (Vec<Column>, Vec<Column>) {
    let (certain, others): (Vec<_>, Vec<_>) = shares.into_iter().partition(|&(_, share)| share > 1.0 - WHOLE);
    let perturbed = |(column, share)| (column, share * (1.0 + rng.random_range(0.0..NOISE)));
    let mut others: Vec<(Column, f64)> = others.into_iter().map(perturbed).collect();
    others.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let columns = |shares: Vec<(Column, f64)>| shares.into_iter().map(|(column, _)| column).collect();
    (columns(certain), columns(others))
}

/// Placed columns, then the columns with shares in descending order of share; a unit in several columns belongs to the
/// earliest.
fn sketch(rules: &Rules, shares: &Shares) -> Vec<Column> {
    let mut rest: Vec<&(Column, f64)> = shares.of.iter().collect();
    rest.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    rules.placed.iter().chain(rest.into_iter().map(|(column, _)| column)).cloned().collect()
}

/// Completes a sketch to a device for every unit: columns get devices while devices are left, and each remaining unit
/// goes to the device with the least work. `None` if a unit cannot run anywhere.
fn completed(ground: &Ground<'_>, sketch: &[Column]) -> Option<Keyed<UnitId, DeviceId>> {
    let (pools, kinds) = (ground.problem.pools(), &ground.preparation.kinds);
    let mut used = vec![0usize; pools.len()];
    let mut device_of: Keyed<UnitId, Option<DeviceId>> = Keyed::filled(None, ground.units.len());
    let mut work = Keyed::filled(0.0, ground.problem.cluster().device_count());
    let seconds = |unit, pool| ground.units.seconds(unit, pool);
    for column in sketch {
        let pool = kinds[column.kind].pool;
        let Some(&device) = pools[pool].devices.get(used[pool]) else { continue };
        used[pool] += 1;
        for &unit in column.units.iter() {
            if device_of[unit].is_none() {
                device_of[unit] = Some(device);
                work[device] += seconds(unit, pool)?;
            }
        }
    }
    let mut left: Vec<UnitId> = device_of.ids().filter(|&unit| device_of[unit].is_none()).collect();
    let largest = |unit| (0..pools.len()).filter_map(|pool| seconds(unit, pool)).fold(0.0, f64::max);
    left.sort_by(|&a, &b| largest(b).total_cmp(&largest(a)));
    for unit in left {
        let places = pools.iter().enumerate().flat_map(|(pool, spec)| {
            let seconds = seconds(unit, pool);
            spec.devices.iter().filter_map(move |&device| Some((device, seconds?)))
        });
        let (device, seconds) = places.min_by(|&(a, x), &(b, y)| (work[a] + x).total_cmp(&(work[b] + y)))?;
        work[device] += seconds;
        device_of[unit] = Some(device);
    }
    device_of.iter().copied().collect()
}
