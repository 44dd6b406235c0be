//! One walk of simulated annealing (Kirkpatrick, Gelatt and Vecchi, Science 1983).
//!
//! A move that raises the energy by Δ is accepted with probability exp(−Δ / T); T falls geometrically. The
//! energy is in units of the value at the start of the walk, so at T = 0.01 a loss of one percent is accepted
//! with probability 1/e. Memory is a hard constraint: no move may overfill a device.

use rand::{Rng, RngExt};
use stagewright_core::solver::Stop;

use super::moves::{Lines, Neighbourhood, Shift};
use super::state::{Assignment, DeviceOf};
use super::walk::Walk;

/// Steps at one temperature.
const AT_ONE_TEMPERATURE: u64 = 256;
/// Steps between clock checks: few, because a step may have to compute the memory of a device.
const BETWEEN_CHECKS: u64 = 16;
/// Number of units from which every step checks the clock.
const MANY_UNITS: usize = 2048;
/// Factor below which a value is an improvement rather than rounding.
const BETTER: f64 = 1.0 - 1e-12;

/// Length and temperatures of a walk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cooling {
    /// Number of moves to try.
    pub(super) steps: u64,
    /// Temperature at the start.
    pub(super) hot: f64,
    /// Temperature at the end.
    pub(super) cold: f64,
    /// Value at which the walk ends.
    pub(super) target: f64,
}

/// Result of a walk.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// Best value.
    pub(super) value: f64,
    /// The device of every unit.
    pub(super) device_of: DeviceOf,
    /// Number of moves tried.
    pub(super) steps: u64,
}

/// Walks from a feasible assignment; the result is never worse.
pub(super) fn anneal(
    start: Assignment<'_>,
    lines: &Lines,
    cooling: Cooling,
    rng: &mut impl Rng,
    stop: &Stop,
) -> Found {
    let mut best = Found { value: start.value(), device_of: start.assigned().clone(), steps: 0 };
    if start.devices() < 2 || start.units().is_empty() {
        return best;
    }
    let mut neighbourhood = Neighbourhood::new(start.units(), lines);
    let mut walk = Walk::new(start);
    let mut energy = walk.energy();
    let mut temperature = cooling.hot;
    let falls = (cooling.steps / AT_ONE_TEMPERATURE).max(1);
    let factor = (cooling.cold / cooling.hot).powf(1.0 / falls as f64);
    let mut undo: Vec<Shift> = Vec::new();
    let between_checks = if walk.assignment().units().len() < MANY_UNITS { BETWEEN_CHECKS } else { 1 };
    while best.steps < cooling.steps && best.value > cooling.target {
        if best.steps.is_multiple_of(between_checks) && stop.reason().is_some() {
            break;
        }
        if best.steps.is_multiple_of(AT_ONE_TEMPERATURE) {
            temperature *= factor;
        }
        best.steps += 1;
        let shifts = neighbourhood.draw(walk.assignment(), rng);
        // Δ may be at most −T ln u, with u uniform.
        let limit = energy - temperature * (1.0 - rng.random_range(0.0..1.0f64)).ln();
        let Some(after) = make(&mut walk, shifts, limit, &mut undo) else { continue };
        energy = after;
        let value = walk.assignment().value();
        if value < best.value * BETTER {
            best.value = value;
            best.device_of.copy_from_slice(walk.assignment().assigned());
        }
    }
    best
}

/// Makes a move if the devices have room and the energy is at most `limit` after it, and returns this energy. `undo` is a
/// workspace.
fn make(walk: &mut Walk<'_>, shifts: &[Shift], limit: f64, undo: &mut Vec<Shift>) -> Option<f64> {
    match *shifts {
        [] => None,
        [(unit, to)] => {
            if !walk.assignment().has_room(unit, to) {
                return None;
            }
            let after = walk.energy_after(unit, to);
            if after > limit {
                return None;
            }
            walk.shift(shifts.iter().copied());
            Some(after)
        }
        _ => {
            undo.clear();
            let back = |&(unit, _): &Shift| (unit, walk.assignment().device_of(unit));
            undo.extend(shifts.iter().map(back));
            walk.shift(shifts.iter().copied());
            let after = walk.energy();
            let mut last = None;
            let mut fit =
                || shifts.iter().all(|&(_, to)| last.replace(to) == Some(to) || walk.assignment().fits(to));
            if after > limit || !fit() {
                walk.shift(undo.iter().copied());
                return None;
            }
            Some(after)
        }
    }
}
