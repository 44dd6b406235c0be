//! Tables over used devices: the optimum for one class on few devices.
//!
//! With A, P and D the best rates of aggregated, prefill and decode replicas within a vector of resources (devices by kind, and
//! requests in flight if a concurrency is given), pools reach Z(w) = max over v ≤ w of min(P(v), D(w − v)), and all replicas together
//! F(n) = max over w ≤ n of A(n − w) + Z(w).

use stagewright_core::document::{ServingGoal, ServingRole};
use stagewright_core::tolerance;
use stagewright_serving::Problem;

use crate::space::Space;

/// The most pairs of vectors that a table tries.
const PAIRS: f64 = 3e8;

/// Relative difference of rates that are the same.
const SAME: f64 = 1e-12;

/// Tables of the best rates.
pub(crate) struct Table<'s> {
    space: &'s Space,
    /// The largest vector.
    limits: Vec<u64>,
    /// Positions of a vector's components in its index.
    strides: Vec<usize>,
    /// Columns of each role with the vectors that they use.
    columns: [Vec<(usize, Vec<u64>)>; 3],
    rates: [Vec<f64>; 3],
    pools: Vec<f64>,
    totals: Vec<f64>,
}

/// Whether tables answer a question, and are small enough.
pub(crate) fn is_for(problem: &Problem) -> bool {
    let question = &problem.question;
    let is_goal = match question.goal {
        ServingGoal::Throughput => true,
        ServingGoal::Devices | ServingGoal::Price => question.rate.is_some(),
        ServingGoal::Cache => false,
    };
    // Where servers have a power of two of devices, enough devices are enough servers.
    let is_packed = |kind: &stagewright_serving::fleet::FleetKind| {
        kind.is_one_server() || kind.device.server.is_power_of_two()
    };
    let pairs: f64 =
        limits(problem).iter().map(|&limit| (limit as f64 + 1.0) * (limit as f64 + 2.0) / 2.0).product();
    // Numbers of replicas that run already are limits that tables do not have.
    let is_plain = question.classes.len() == 1 && question.start.is_none();
    is_plain && is_goal && problem.fleet.kinds.iter().all(is_packed) && pairs <= PAIRS
}

/// Devices by kind, and requests in flight if they are limited.
fn limits(problem: &Problem) -> Vec<u64> {
    let devices = problem.fleet.kinds.iter().map(|kind| kind.count);
    devices.chain(problem.question.concurrency.map(|concurrency| concurrency as u64)).collect()
}

impl<'s> Table<'s> {
    /// Fills the tables. Takes O(vectors · replicas) and O(pairs of vectors).
    pub(crate) fn new(problem: &Problem, space: &'s Space) -> Table<'s> {
        let limits = limits(problem);
        let mut strides = Vec::with_capacity(limits.len());
        let mut total = 1;
        for &limit in &limits {
            strides.push(total);
            total *= limit as usize + 1;
        }
        let mut columns: [Vec<(usize, Vec<u64>)>; 3] = Default::default();
        for (index, column) in space.columns.iter().enumerate() {
            let size = &space.sizes[column.size];
            let mut used = size.devices.clone();
            used.extend(problem.question.concurrency.map(|_| column.offer.in_flight as u64));
            columns[role(size.key.role)].push((index, used));
        }
        let mut table = Table {
            space,
            limits,
            strides,
            columns,
            rates: Default::default(),
            pools: Vec::new(),
            totals: Vec::new(),
        };
        table.rates = [0, 1, 2].map(|role| table.best(role, total));
        let has_pools = !table.columns[1].is_empty() && !table.columns[2].is_empty();
        table.pools = match has_pools {
            true => table.joined(&table.rates[1], &table.rates[2], f64::min),
            false => vec![0.0; total],
        };
        table.totals = table.joined(&table.rates[0], &table.pools, |left, right| left + right);
        table
    }

    /// Rates of the best replicas of a role by vector.
    fn best(&self, role: usize, total: usize) -> Vec<f64> {
        let mut rates = vec![0.0_f64; total];
        for index in 1..total {
            let vector = self.vector(index);
            let mut best = 0.0_f64;
            for (component, &stride) in self.strides.iter().enumerate() {
                if vector[component] > 0 {
                    best = best.max(rates[index - stride]);
                }
            }
            for (column, used) in &self.columns[role] {
                if let Some(rest) = self.rest(&vector, index, used) {
                    best = best.max(rates[rest] + self.space.columns[*column].offer.rate);
                }
            }
            rates[index] = best;
        }
        rates
    }

    /// The best of two tables side by side, by vector.
    fn joined(&self, left: &[f64], right: &[f64], join: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        (0..left.len()).map(|index| self.split(index, left, right, &join).0).collect()
    }

    /// The best division of a vector between two tables: the value, and the part of the first.
    fn split(
        &self,
        index: usize,
        left: &[f64],
        right: &[f64],
        join: impl Fn(f64, f64) -> f64,
    ) -> (f64, usize) {
        let vector = self.vector(index);
        let mut part = vec![0; vector.len()];
        let mut first = 0;
        let mut best = (f64::NEG_INFINITY, 0);
        loop {
            let value = join(left[first], right[index - first]);
            if value > best.0 {
                best = (value, first);
            }
            // The next vector that is at most the whole, as an odometer.
            let mut component = 0;
            loop {
                if component == vector.len() {
                    return best;
                }
                if part[component] < vector[component] {
                    part[component] += 1;
                    first += self.strides[component];
                    break;
                }
                first -= part[component] as usize * self.strides[component];
                part[component] = 0;
                component += 1;
            }
        }
    }

    /// Numbers of replicas by column of the best plan, with its goal; `None` if the load is more than all devices serve.
    pub(crate) fn plan(&self, problem: &Problem) -> Option<Vec<u64>> {
        let question = &problem.question;
        let full = self.totals.len() - 1;
        let index = match (question.goal, question.rate) {
            (ServingGoal::Throughput, None) => full,
            (goal, rate) => {
                let needed = rate.unwrap_or(0.0);
                let is_limit = goal == ServingGoal::Throughput;
                // A load is served up to rounding.
                let needed = match is_limit {
                    true => needed.min(self.totals[full]),
                    false => needed * (1.0 - tolerance::VALUE_RELATIVE),
                };
                let enough = (0..=full).filter(|&index| self.totals[index] >= needed);
                enough.min_by(|&left, &right| {
                    self.cost(problem, left).total_cmp(&self.cost(problem, right)).then(left.cmp(&right))
                })?
            }
        };
        let mut counts = vec![0; self.space.columns.len()];
        let (_, aggregated) = self.split(index, &self.rates[0], &self.pools, |left, right| left + right);
        self.collect(0, aggregated, &mut counts);
        let pools = index - aggregated;
        if self.pools[pools] > 0.0 {
            let (_, prefill) = self.split(pools, &self.rates[1], &self.rates[2], f64::min);
            self.collect(1, prefill, &mut counts);
            self.collect(2, pools - prefill, &mut counts);
        }
        Some(counts)
    }

    /// Devices of a vector, or their price.
    fn cost(&self, problem: &Problem, index: usize) -> f64 {
        let vector = self.vector(index);
        let kinds = problem.fleet.kinds.iter().zip(&vector);
        let price = |name: &str| match problem.question.goal {
            ServingGoal::Price => problem.question.prices.get(name).copied().unwrap_or(0.0),
            _ => 1.0,
        };
        kinds.map(|(kind, &used)| used as f64 * price(&kind.name)).sum()
    }

    /// Adds the replicas of a role that reach the best rate of a vector.
    fn collect(&self, role: usize, mut index: usize, counts: &mut [u64]) {
        let rates = &self.rates[role];
        while rates[index] > 0.0 {
            let vector = self.vector(index);
            let smaller = self
                .strides
                .iter()
                .enumerate()
                .filter(|&(component, _)| vector[component] > 0)
                .map(|(_, stride)| index - stride)
                .find(|&smaller| rates[smaller] >= rates[index]);
            if let Some(smaller) = smaller {
                index = smaller;
                continue;
            }
            let last = self.columns[role].iter().find_map(|(column, used)| {
                let rest = self.rest(&vector, index, used)?;
                let rate = rates[rest] + self.space.columns[*column].offer.rate;
                (rate >= rates[index] * (1.0 - SAME)).then_some((*column, rest))
            });
            let Some((column, rest)) = last else { return };
            counts[column] += 1;
            index = rest;
        }
    }

    fn vector(&self, index: usize) -> Vec<u64> {
        let component = |(&stride, &limit): (&usize, &u64)| (index / stride) as u64 % (limit + 1);
        self.strides.iter().zip(&self.limits).map(component).collect()
    }

    /// Index of what a replica leaves of a vector; `None` if it needs more.
    fn rest(&self, vector: &[u64], index: usize, used: &[u64]) -> Option<usize> {
        let fits = vector.iter().zip(used).all(|(&has, &needs)| needs <= has);
        fits.then(|| {
            index
                - used.iter().zip(&self.strides).map(|(&used, &stride)| used as usize * stride).sum::<usize>()
        })
    }
}

fn role(role: ServingRole) -> usize {
    match role {
        ServingRole::Aggregated => 0,
        ServingRole::Prefill => 1,
        ServingRole::Decode => 2,
    }
}
