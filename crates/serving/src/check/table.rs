//! Replay of a certificate by tables: the optimum of one class by dynamic programming (`docs/serving.md`, section "Bound and
//! certificate").
//!
//! For every role, a table has the largest rate within every vector of devices, and of requests in flight if they are limited. It is
//! filled forward, a replica at a time. Only its steps are combined: vectors all of whose smaller ones have a smaller rate.

use std::collections::BTreeMap;

use stagewright_core::document::{ServingGoal, ServingRole};

use super::space::{Space, devices_of};
use super::totals::{exceeds, price};
use crate::fleet::{FleetKind, Problem};

/// The largest number of pairs of vectors.
const PAIRS: f64 = 3e8;

/// The optimum of all plans in maximised form, rounded up; negative infinity if there is no plan for the load. `None` if the question
/// is none that tables answer, or they are too large.
///
/// Takes time proportional to vectors times replicas, and to pairs of vectors.
pub(super) fn bound(problem: &Problem, space: &Space) -> Option<f64> {
    let grid = Grid::new(problem)?;
    let [aggregated, prefill, decode] = [ServingRole::Aggregated, ServingRole::Prefill, ServingRole::Decode]
        .map(|role| {
            let rates = grid.filled(&replicas(problem, space, &grid, role));
            grid.steps(&rates)
        });
    let mut pools = vec![0.0; grid.cells()];
    grid.pairs(&prefill, &decode, |sum, prefill, decode| {
        pools[sum] = f64::max(pools[sum], prefill.min(decode));
    });
    grid.spread(&mut pools);
    let pools = grid.steps(&pools);
    let question = &problem.question;
    let mut best = f64::NEG_INFINITY;
    if question.goal == ServingGoal::Throughput {
        grid.pairs(&aggregated, &pools, |_, own, pooled| best = best.max(own + pooled));
        // Another order of the sum adds as many roundings as there are replicas, which are no more than devices.
        let roundings = f64::EPSILON * (problem.fleet.devices() as f64 + 4.0);
        return Some((best * (1.0 + roundings)).min(question.rate.unwrap_or(f64::INFINITY)));
    }
    let load = question.rate?;
    let costs = grid.costs(problem);
    grid.pairs(&aggregated, &pools, |sum, own, pooled| {
        if !exceeds(load, own + pooled) {
            best = best.max(-costs[sum]);
        }
    });
    // A price is rounded once for every kind.
    let roundings = f64::EPSILON * (problem.fleet.kinds.len() as f64 + 4.0);
    Some(if best.is_finite() { best + roundings * best.abs() } else { best })
}

/// The best rates of replicas of a role that take the same, by what they take.
fn replicas(problem: &Problem, space: &Space, grid: &Grid, role: ServingRole) -> Vec<(Vec<u64>, f64)> {
    let mut found: BTreeMap<Vec<u64>, f64> = BTreeMap::new();
    let is_flying = problem.question.concurrency.is_some();
    for size in space.sizes.iter().filter(|size| size.role == role) {
        let devices: Vec<u64> =
            (0..problem.fleet.kinds.len()).map(|kind| devices_of(&size.groups, kind)).collect();
        for column in &size.columns {
            let mut taken = devices.clone();
            if is_flying {
                // Requests in flight are whole; a conversion of a number beyond all integers saturates.
                taken.push(column.in_flight.ceil() as u64);
            }
            if taken.iter().zip(&grid.limits).all(|(taken, limit)| taken <= limit) {
                let rate = found.entry(taken).or_insert(0.0);
                *rate = rate.max(column.rate);
            }
        }
    }
    found.into_iter().collect()
}

/// All vectors from zero to the limits, numbered so that the last component changes fastest.
struct Grid {
    limits: Vec<u64>,
    /// Components of all vectors, one vector after another.
    components: Vec<u64>,
}

/// A vector, by its number, with a rate.
struct Step {
    cell: usize,
    rate: f64,
}

impl Grid {
    /// The vectors of a question; `None` if tables do not answer it.
    fn new(problem: &Problem) -> Option<Grid> {
        let question = &problem.question;
        let is_answered = match question.goal {
            ServingGoal::Throughput => true,
            ServingGoal::Devices | ServingGoal::Price => question.rate.is_some(),
            ServingGoal::Cache => false,
        };
        // Elsewhere devices may be enough, and servers too few.
        let is_packed = |kind: &FleetKind| kind.is_one_server() || kind.device.server.is_power_of_two();
        // Tables have no numbers of replicas that run already.
        let is_plain = question.classes.len() == 1 && question.start.is_none();
        let is_for = is_answered && is_plain && problem.fleet.kinds.iter().all(is_packed);
        if !is_for {
            return None;
        }
        let mut limits: Vec<u64> = problem.fleet.kinds.iter().map(|kind| kind.count).collect();
        limits.extend(question.concurrency.map(|load| load.floor() as u64));
        let choices = |limit: &u64| (*limit as f64 + 1.0) * (*limit as f64 + 2.0) / 2.0;
        if limits.iter().map(choices).product::<f64>() > PAIRS {
            return None;
        }
        let mut components = vec![0; limits.len()];
        let mut vector = components.clone();
        while let Some(last) = (0..limits.len()).rev().find(|&axis| vector[axis] < limits[axis]) {
            vector[last] += 1;
            vector[last + 1..].fill(0);
            components.extend_from_slice(&vector);
        }
        Some(Grid { limits, components })
    }

    /// Number of vectors.
    fn cells(&self) -> usize {
        self.components.len() / self.limits.len()
    }

    fn vector(&self, cell: usize) -> &[u64] {
        &self.components[cell * self.limits.len()..][..self.limits.len()]
    }

    /// The number of a vector within the limits. Numbers of sums are sums of numbers.
    fn number(&self, vector: &[u64]) -> usize {
        let digits = vector.iter().zip(&self.limits);
        digits.fold(0, |number, (&digit, &limit)| number * (limit as usize + 1) + digit as usize)
    }

    /// Rest of the limits beside a vector within them.
    fn room(&self, vector: &[u64]) -> Vec<u64> {
        self.limits.iter().zip(vector).map(|(limit, taken)| limit - taken).collect()
    }

    /// Whether a vector is within another.
    fn fits(&self, cell: usize, room: &[u64]) -> bool {
        self.vector(cell).iter().zip(room).all(|(component, room)| component <= room)
    }

    /// Differences of numbers from a vector to the next along every axis.
    fn units(&self) -> Vec<usize> {
        let mut units = vec![1; self.limits.len()];
        for axis in (1..self.limits.len()).rev() {
            units[axis - 1] = units[axis] * (self.limits[axis] as usize + 1);
        }
        units
    }

    /// The largest sums of rates within every vector: all numbers of the first replica, then of the next beside them, and so on.
    fn filled(&self, replicas: &[(Vec<u64>, f64)]) -> Vec<f64> {
        let mut rates = vec![0.0; self.cells()];
        for (taken, rate) in replicas {
            let (offset, room) = (self.number(taken), self.room(taken));
            for cell in (0..=self.number(&room)).filter(|&cell| self.fits(cell, &room)) {
                rates[cell + offset] = f64::max(rates[cell + offset], rates[cell] + rate);
            }
        }
        rates
    }

    /// Raises every value to those of smaller vectors, an axis at a time.
    fn spread(&self, values: &mut [f64]) {
        for (axis, unit) in self.units().into_iter().enumerate() {
            for cell in 0..values.len() {
                if self.vector(cell)[axis] > 0 {
                    values[cell] = values[cell].max(values[cell - unit]);
                }
            }
        }
    }

    /// Vectors with a larger value than all smaller ones, in increasing order of numbers; zero is the first.
    fn steps(&self, values: &[f64]) -> Vec<Step> {
        let units = self.units();
        let is_step = |&cell: &usize| {
            let mut smaller = units.iter().zip(self.vector(cell)).filter(|(_, component)| **component > 0);
            smaller.all(|(unit, _)| values[cell - unit] < values[cell])
        };
        (0..values.len()).filter(is_step).map(|cell| Step { cell, rate: values[cell] }).collect()
    }

    /// Calls with the number of the sum and both rates for every two steps whose sum is within the limits.
    fn pairs(&self, left: &[Step], right: &[Step], mut call: impl FnMut(usize, f64, f64)) {
        for first in left {
            let room = self.room(self.vector(first.cell));
            // What fits has no larger number than the room.
            let last = self.number(&room);
            for second in right.iter().take_while(|second| second.cell <= last) {
                if self.fits(second.cell, &room) {
                    call(first.cell + second.cell, first.rate, second.rate);
                }
            }
        }
    }

    /// Devices of every vector, or their price.
    fn costs(&self, problem: &Problem) -> Vec<f64> {
        let by_price = problem.question.goal == ServingGoal::Price;
        let weight = |kind: usize| if by_price { price(problem, kind) } else { 1.0 };
        let weights: Vec<f64> = (0..problem.fleet.kinds.len()).map(weight).collect();
        let cost = |cell: usize| -> f64 {
            self.vector(cell).iter().zip(&weights).map(|(&devices, weight)| devices as f64 * weight).sum()
        };
        (0..self.cells()).map(cost).collect()
    }
}
