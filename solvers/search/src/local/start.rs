//! Starting points of the search.
//!
//! Annealing from a random start ends above the best contiguous split on many inputs, so that split comes
//! first: a contiguous split is also a free one. If no contiguous split fits, units are spread along an order
//! by their work, or packed by their bytes alone (best fit decreasing), and units that still overfill a
//! device move on.

use std::sync::Arc;

use rand::{Rng, RngExt};
use stagewright_core::cluster::DeviceId;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::document::Split;
use stagewright_core::ids::{Id, Keyed};
use stagewright_core::objective::Throughput;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::Stop;
use stagewright_core::tolerance;

use super::moves::Lines;
use super::state::{Assignment, DeviceOf};
use super::walk::Walk;
use crate::order;

/// Number of packings tried; all but the first perturb the bytes of every unit.
const PACKINGS: u64 = 64;
/// Maximum relative perturbation of bytes.
const BLUR: f64 = 0.3;

/// The problem restricted to contiguous splits without replicas, whose plans are also plans of the free
/// split, and its units.
pub(super) fn contiguous(problem: &Problem) -> Option<(Problem, Arc<Units>)> {
    let objective = Throughput { split: Split::Contiguous, max_replicas: 1, ..problem.objective().rules() };
    let contiguous = problem.with_objective(objective).ok()?;
    let units = Units::of(&contiguous);
    Some((contiguous, units))
}

/// Linear orders of the units of a free split: the orders of the contiguous split, with the units of the latter
/// expanded.
pub(super) fn lines(units: &Units, contiguous: Option<&(Problem, Arc<Units>)>) -> Lines {
    let mut orders: Vec<Vec<UnitId>> = Vec::new();
    if let Some((problem, coarse)) = contiguous {
        for rule in order::PLAIN {
            let mut seen = Keyed::filled(false, units.len());
            let members = |&unit: &UnitId| coarse.members(unit);
            let order = rule.order(problem, coarse);
            let order = order.iter().flat_map(members).map(|&op| units.unit_of(op));
            let order: Vec<UnitId> =
                order.filter(|&unit| !std::mem::replace(&mut seen[unit], true)).collect();
            if !orders.contains(&order) {
                orders.push(order);
            }
        }
    }
    if orders.is_empty() {
        orders.push(units.ids().collect());
    }
    Lines::new(orders)
}

/// A unit that no device may run, or that fits on none of the devices that may.
pub(super) fn unplaceable(problem: &Problem, units: &Units) -> Option<Unplaceable> {
    units.ids().find_map(|unit| {
        let mut capable = problem.pools().iter().enumerate().filter(|&(pool, _)| units.supported(unit, pool));
        let bytes = units.device_bytes([unit]).total(1);
        if capable.clone().next().is_none() {
            Some(Unplaceable::Unsupported(unit))
        } else if capable.all(|(_, pool)| !tolerance::fits(bytes, pool.memory)) {
            Some(Unplaceable::TooLarge(unit))
        } else {
            None
        }
    })
}

/// Reason why a unit has no device.
#[derive(Debug, Clone, Copy)]
pub(super) enum Unplaceable {
    /// No device that the pins allow supports the unit.
    Unsupported(UnitId),
    /// The unit is larger than the memory of every device that supports it.
    TooLarge(UnitId),
}

/// Feasible starts built without search: units are spread along the first line, or otherwise packed. `None` if neither
/// fits. Every unit must have a device that may run it.
pub(super) fn constructed<'a>(
    problem: &'a Problem,
    units: &'a Units,
    lines: &Lines,
    seed: u64,
    stop: &Stop,
) -> Option<Assignment<'a>> {
    let spread = Assignment::new(problem, units, spread(problem, units, &lines.orders()[0]));
    if let Some(spread) = repaired(spread, lines, stop) {
        return Some(spread);
    }
    for task in 0..PACKINGS {
        if task > 0 && stop.reason().is_some() {
            break;
        }
        let mut rng = seed::stream(seed, task);
        let blur = if task == 0 { 0.0 } else { BLUR };
        if let Some(device_of) = packed(problem, units, blur, &mut rng) {
            // For graphs of version 2, devices may need more than the packed sums.
            let packed = Assignment::new(problem, units, device_of);
            if packed.all_fit() {
                return Some(packed);
            }
            if let Some(packed) = repaired(packed, lines, stop) {
                return Some(packed);
            }
        }
    }
    None
}

/// Walks along an order and from device to device, giving each about the same work; hosts come last.
fn spread(problem: &Problem, units: &Units, order: &[UnitId]) -> DeviceOf {
    let pools = problem.pools();
    let mut devices: Vec<_> = problem.cluster().devices().collect();
    devices.sort_by_key(|&device| pools[problem.pool_of(device)].host);
    let accelerators = devices.iter().filter(|&&device| !pools[problem.pool_of(device)].host).count().max(1);
    let least = |unit: UnitId| {
        let seconds = (0..pools.len()).filter_map(|pool| units.seconds(unit, pool));
        seconds.fold(f64::INFINITY, f64::min)
    };
    let share: f64 = units.ids().map(least).sum::<f64>() / accelerators as f64;
    let mut device_of = Keyed::filled(DeviceId(0), units.len());
    let (mut next, mut work) = (0, 0.0);
    for &unit in order {
        if work >= share && next + 1 < accelerators {
            (next, work) = (next + 1, 0.0);
        }
        let capable = |device: &&_| units.supported(unit, problem.pool_of(**device));
        let device = devices[next..].iter().chain(&devices[..next]).find(capable).copied();
        device_of[unit] = device.unwrap_or(DeviceId(0));
        work += least(unit);
    }
    device_of
}

/// Moves units off overfull devices, each to the device where it raises the energy least. `None` if that does
/// not suffice.
pub(super) fn repaired<'a>(start: Assignment<'a>, lines: &Lines, stop: &Stop) -> Option<Assignment<'a>> {
    if !start.supported() {
        return None;
    }
    let devices = DeviceId::first(start.devices());
    // Only overfull devices are checked again, since a check may cost as much as reading the graph, and no other device
    // becomes overfull.
    let mut overfull: Keyed<DeviceId, bool> = devices.clone().map(|device| !start.fits(device)).collect();
    if !overfull.contains(&true) {
        return Some(start);
    }
    let mut walk = Walk::new(start);
    // Take the last units of a stretch first, so that the rest of the stretch stays whole.
    for &unit in lines.orders()[0].iter().rev() {
        let assignment = walk.assignment();
        let from = assignment.device_of(unit);
        if !overfull[from] || assignment.units().takes_no_memory(unit) {
            continue;
        }
        if stop.reason().is_some() {
            return None;
        }
        let is_open = |_: &DeviceId| stop.reason().is_none();
        let targets = devices.clone().take_while(is_open);
        let targets =
            targets.filter(|&to| to != from && assignment.allowed(unit, to) && assignment.has_room(unit, to));
        let best = targets.map(|to| (walk.energy_after(unit, to), to)).min_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((_, to)) = best {
            walk.shift(std::iter::once((unit, to)));
            overfull[from] = !walk.assignment().fits(from);
        }
    }
    (!overfull.contains(&true)).then(|| walk.assignment().clone())
}

/// Best fit decreasing: takes the largest unit first, and puts each on the device with the least room left after it.
fn packed(problem: &Problem, units: &Units, blur: f64, rng: &mut impl Rng) -> Option<DeviceOf> {
    let size = |unit: UnitId| units.bytes(unit, 1);
    let mut order: Vec<(f64, UnitId)> =
        units.ids().map(|unit| (size(unit) * (1.0 + blur * rng.random_range(-1.0..=1.0)), unit)).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut bytes = Keyed::filled(0.0, problem.cluster().device_count());
    let mut device_of = Keyed::filled(DeviceId(0), units.len());
    for (_, unit) in order {
        let room = problem.cluster().devices().filter_map(|device| {
            let pool = problem.pool_of(device);
            let memory = problem.pools()[pool].memory;
            let after = bytes[device] + size(unit);
            let fits = units.supported(unit, pool) && tolerance::fits(after, memory);
            fits.then_some((memory - after, device))
        });
        let (_, device) = room.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))?;
        bytes[device] += size(unit);
        device_of[unit] = device;
    }
    Some(device_of)
}
