//! The rows of the program, and the bound that prices of them give (`docs/serving.md`, sections "The program" and "Bound and
//! certificate").

use stagewright_core::document::{ServingGoal, ServingRole};

use super::moves;
use super::space::{Size, Space, devices_of};
use super::totals::price;
use crate::fleet::{FleetKind, Problem};

/// Roundings of a term of a sum before it is added.
const ROUNDINGS: f64 = 8.0;

/// Sparse coefficients: rows and values.
type Coefficients = Vec<(usize, f64)>;

/// A size as the program has it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Variable {
    /// Devices and servers.
    fixed: Coefficients,
    /// Factors on the requests a second of a replica.
    by_rate: Coefficients,
    /// Factors on the requests in flight.
    by_flight: Coefficients,
    /// Objective of a replica, and of a token in its caches.
    goal: (f64, f64),
    /// Price of a byte of weights that a replica loads.
    byte: f64,
    /// Largest rate of a replica.
    rate: f64,
}

/// The program in maximised form.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Program<'s> {
    pub(super) space: &'s Space,
    /// Right-hand sides.
    pub(super) right: Vec<f64>,
    pub(super) variables: Vec<Variable>,
    /// Coefficients and objectives of R and of every z.
    pub(super) flows: Vec<(Coefficients, f64)>,
}

/// Rows of a class: its share of R, prefill, and decode.
const ROWS_OF_CLASS: usize = 3;

impl<'s> Program<'s> {
    /// The program of a problem with its space.
    pub(super) fn new(problem: &Problem, space: &'s Space) -> Program<'s> {
        let question = &problem.question;
        let kinds = &problem.fleet.kinds;
        let mut right: Vec<f64> = kinds.iter().map(|kind| kind.count as f64).collect();
        let mut servers = Vec::new();
        for (kind, own) in kinds.iter().enumerate().filter(|(_, kind)| !kind.is_one_server()) {
            for power in powers(own) {
                servers.push((kind, power));
                right.push(room(own, power) as f64);
            }
        }
        let is_throughput = question.goal == ServingGoal::Throughput;
        let mut row = |value: f64| {
            right.push(value);
            right.len() - 1
        };
        let flight = question.concurrency.filter(|_| is_throughput).map(&mut row);
        let classes: Vec<usize> =
            question.classes.iter().map(|_| [0.0; ROWS_OF_CLASS].map(&mut row)[0]).collect();
        let load = question.rate.map(|rate| row(if is_throughput { rate } else { -rate }));
        let full = question.concurrency.filter(|_| !is_throughput).map(|load| (row(0.0), row(-load)));

        let variables = space.sizes.iter().map(|size| {
            let mut fixed: Coefficients =
                (0..kinds.len()).map(|kind| (kind, devices_of(&size.groups, kind) as f64)).collect();
            let slots = servers.iter().map(|&(kind, power)| slots(&kinds[kind], kind, size, power) as f64);
            fixed.extend((kinds.len()..).zip(slots));
            fixed.retain(|(_, value)| *value != 0.0);
            let class = classes[size.class];
            let mut by_rate = match size.role {
                ServingRole::Aggregated => vec![(class, -1.0)],
                ServingRole::Prefill => vec![(class + 1, -1.0)],
                ServingRole::Decode => vec![(class + 2, -1.0)],
            };
            let mut by_flight: Coefficients = flight.iter().map(|&row| (row, 1.0)).collect();
            if let Some((fed, served)) = full {
                by_rate.extend((size.role == ServingRole::Decode).then_some((fed, 1.0)));
                by_flight.extend((size.role != ServingRole::Prefill).then_some((served, -1.0)));
            }
            let goal = match question.goal {
                ServingGoal::Throughput => (0.0, 0.0),
                ServingGoal::Devices => (-(size.devices() as f64), 0.0),
                ServingGoal::Price => {
                    let own = |kind: usize| devices_of(&size.groups, kind) as f64 * price(problem, kind);
                    (-(0..kinds.len()).map(own).sum::<f64>(), 0.0)
                }
                ServingGoal::Cache => (0.0, 1.0),
            };
            let rate = size.columns.iter().map(|column| column.rate).fold(0.0, f64::max);
            Variable { fixed, by_rate, by_flight, goal, byte: moves::byte_price(problem), rate }
        });
        let variables = variables.collect();

        let mut requests: Coefficients =
            classes.iter().zip(&question.classes).map(|(&row, class)| (row, class.share)).collect();
        requests.extend(load.map(|row| (row, if is_throughput { 1.0 } else { -1.0 })));
        let mut flows = vec![(requests, if is_throughput { 1.0 } else { 0.0 })];
        for &class in &classes {
            let mut pools = vec![(class, -1.0), (class + 1, 1.0), (class + 2, 1.0)];
            pools.extend(full.map(|(fed, _)| (fed, -1.0)));
            flows.push((pools, 0.0));
        }
        Program { space, right, variables, flows }
    }

    /// Numbers of replicas that the devices allow, by sizes.
    pub(super) fn ranges(&self) -> Vec<(u64, u64)> {
        self.space.sizes.iter().map(|size| (0, size.most)).collect()
    }

    /// Largest value that R and each z may have, in requests a second.
    pub(super) fn largest_rate(&self, ranges: &[(u64, u64)]) -> f64 {
        let mut sum = Sum::default();
        for (variable, range) in self.variables.iter().zip(ranges) {
            sum.add(range.1 as f64 * variable.rate);
        }
        sum.upper()
    }

    /// Bound on the objective of all numbers of replicas within ranges, none of which is empty, rounded up. Prices are finite, at least
    /// 0, and as many as rows. Takes time proportional to columns and to coefficients of sizes.
    pub(super) fn bound(&self, prices: &[f64], ranges: &[(u64, u64)]) -> f64 {
        let mut sum = Sum::default();
        for (price, right) in prices.iter().zip(&self.right) {
            sum.add(price * right);
        }
        for ((variable, size), range) in self.variables.iter().zip(&self.space.sizes).zip(ranges) {
            let worth = variable.worth(size, prices);
            // More is better if a replica is worth something.
            let number = if worth > 0.0 { range.1 } else { range.0 };
            sum.add(if number == 0 { 0.0 } else { number as f64 * worth });
        }
        let largest = self.largest_rate(ranges);
        for (coefficients, goal) in &self.flows {
            let mut worth = Sum::default();
            worth.add(*goal);
            for &(row, value) in coefficients {
                worth.add(-prices[row] * value);
            }
            sum.add(if largest > 0.0 { largest * worth.upper().max(0.0) } else { 0.0 });
        }
        sum.upper()
    }
}

impl Variable {
    /// The objective beyond prices of the best replica of a size, rounded up.
    fn worth(&self, size: &Size, prices: &[f64]) -> f64 {
        let cost = |coefficients: &Coefficients| {
            let mut cost = Sum::default();
            for &(row, value) in coefficients {
                cost.add(-prices[row] * value);
            }
            cost
        };
        let (mut fixed, rate, flight) = (cost(&self.fixed), cost(&self.by_rate), cost(&self.by_flight));
        fixed.add(self.goal.0);
        let worth = size.columns.iter().map(|column| {
            let mut sum = fixed.plus(rate.times(column.rate)).plus(flight.times(column.in_flight));
            sum.add(self.goal.1 * column.tokens as f64);
            sum.add(-self.byte * column.moved);
            sum.upper()
        });
        worth.fold(f64::NEG_INFINITY, f64::max)
    }
}

/// A sum, with what bounds its error.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    value: f64,
    /// Sum of absolute values.
    size: f64,
    /// Number of terms other than 0.
    terms: f64,
}

impl Sum {
    fn add(&mut self, term: f64) {
        if term != 0.0 {
            self.value += term;
            self.size += term.abs();
            self.terms += 1.0;
        }
    }

    fn times(self, factor: f64) -> Sum {
        Sum { value: self.value * factor, size: self.size * factor.abs(), terms: self.terms }
    }

    fn plus(self, other: Sum) -> Sum {
        Sum { value: self.value + other.value, size: self.size + other.size, terms: self.terms + other.terms }
    }

    /// The sum with what rounding may have taken from it; infinite if it is no number.
    fn upper(self) -> f64 {
        let upper = self.value + f64::EPSILON * (self.terms + ROUNDINGS) * self.size;
        if upper.is_nan() { f64::INFINITY } else { upper }
    }
}

/// Devices of groups that rows of servers count: powers of two below a server, and a server.
pub(super) fn powers(kind: &FleetKind) -> Vec<u64> {
    let server = kind.device.server;
    let below = (1..u64::BITS).map(|exponent| 1_u64 << exponent).take_while(|&power| power < server);
    below.chain([server]).collect()
}

/// Groups of `power` devices that the servers of a kind have room for.
pub(super) fn room(kind: &FleetKind, power: u64) -> u64 {
    let server = kind.device.server;
    let partial = if power == server { 0 } else { kind.count % server / power };
    (kind.count / server).saturating_mul(server / power).saturating_add(partial)
}

/// Groups of `power` devices for which the groups of a size take the room.
pub(super) fn slots(own: &FleetKind, kind: usize, size: &Size, power: u64) -> u64 {
    let server = own.device.server;
    let groups = size.groups.iter().filter(|group| group.0 as usize == kind && group.1 >= power);
    groups.fold(0, |sum, &(_, devices, number)| {
        let each = match devices >= server {
            true => devices.div_ceil(server).saturating_mul(server / power),
            false => devices / power,
        };
        sum.saturating_add(each.saturating_mul(number))
    })
}
