//! Weights of the units, and the maximum of each that fits into a budget of seconds or bytes.
//!
//! `window` bounds the weight of an ideal from both sides. Any weights ω ≥ 0 are valid; these are the most
//! informative: the time on each pool; the fluid weight min_c λ_c p_c at optimal prices; the minimum time over
//! the pools that pay for communication; each of them per pass; and bytes, if every device has a memory limit.

use stagewright_core::bound::{Bound, Fluid};
use stagewright_core::certificate::Certificate;
use stagewright_core::document::ObjectiveKind;
use stagewright_core::ids::Keyed;
use stagewright_core::problem::Problem;

use crate::lattice::{Lattice, Position};

/// Device resource that limits a weight.
#[derive(PartialEq, Clone, Copy)]
pub(crate) enum Resource {
    /// Seconds of a pass.
    Pass(usize),
    /// Bytes.
    Memory,
}

/// All weights of a lattice.
pub(crate) struct Weights {
    /// Number of weights.
    pub(crate) count: usize,
    /// `[position][weight]`.
    values: Vec<f64>,
    /// `[pool][pass]`: index of the weight that is the time on that pool.
    pub(crate) own: Vec<[usize; 2]>,
    /// `[pass]`: index of the weight that is the minimum time over the pools that pay for communication.
    pub(crate) least: [usize; 2],
    totals: Vec<f64>,
    resources: Vec<Resource>,
    /// `[weight][pool]`: maximum weight within a budget of the pool.
    knapsacks: Vec<Vec<Knapsack>>,
}

impl Weights {
    /// Computes the weights of a lattice in O(weights · pools · n log n), plus the fluid bound.
    pub(crate) fn new(problem: &Problem, lattice: &Lattice) -> Weights {
        let mut chosen = Chosen { weights: Vec::new() };
        let positions = lattice.positions();
        let least_over = |position: Position, pass: usize, wanted: &dyn Fn(usize) -> bool| {
            let times = (0..lattice.pools.len())
                .filter(|&pool| wanted(pool) && lattice.pools[pool].supported[position])
                .map(|pool| lattice.pools[pool].seconds[pass][position]);
            let least = times.fold(f64::INFINITY, f64::min);
            if least.is_finite() { least } else { 0.0 }
        };
        let mut own = vec![[0; 2]; lattice.pools.len()];
        let mut least = [0; 2];
        for pass in 0..lattice.passes {
            for (pool, own) in own.iter_mut().enumerate() {
                let costs = &lattice.pools[pool];
                let values = positions.clone().map(|position| match costs.supported[position] {
                    true => costs.seconds[pass][position],
                    // Unsupported on this pool: any weight is valid, and its minimum time elsewhere is the
                    // most informative.
                    false => least_over(position, pass, &|_| true),
                });
                own[pass] = chosen.add(values.collect(), Resource::Pass(pass));
            }
            let values = positions
                .clone()
                .map(|position| least_over(position, pass, &|pool| !lattice.pools[pool].host));
            least[pass] = chosen.add(values.collect(), Resource::Pass(pass));
        }
        if let Some(prices) = fluid_prices(problem) {
            for pass in 0..lattice.passes {
                let values = fluid_weight(problem, lattice, &prices, pass);
                if values.iter().all(|value| value.is_finite()) {
                    chosen.add(values, Resource::Pass(pass));
                }
            }
        }
        if problem.pools().iter().all(|pool| pool.memory.is_finite()) {
            let in_flight = f64::from(problem.objective().in_flight(1));
            let bytes = |position: Position| {
                lattice.fixed_bytes[position] + in_flight * lattice.activation_bytes[position]
            };
            chosen.add(positions.map(bytes).collect(), Resource::Memory);
        }
        chosen.finish(lattice, own, least)
    }

    /// The weights of a position.
    #[inline]
    pub(crate) fn of(&self, position: Position) -> &[f64] {
        &self.values[position.index() * self.count..(position.index() + 1) * self.count]
    }

    /// Total weight of all units.
    pub(crate) fn total(&self, weight: usize) -> f64 {
        self.totals[weight]
    }

    /// Resource that limits a weight.
    pub(crate) fn resource(&self, weight: usize) -> Resource {
        self.resources[weight]
    }

    /// Maximum of a weight that fits into a budget of one pool's seconds or bytes.
    pub(crate) fn most(&self, weight: usize, pool: usize, budget: f64) -> f64 {
        self.knapsacks[weight][pool].most(budget)
    }
}

/// Distinct weights.
struct Chosen {
    weights: Vec<(Keyed<Position, f64>, Resource)>,
}

impl Chosen {
    /// Returns the index of a weight, adding it if new.
    fn add(&mut self, values: Keyed<Position, f64>, resource: Resource) -> usize {
        let same =
            |(other, budget): &(Keyed<Position, f64>, Resource)| *budget == resource && *other == values;
        self.weights.iter().position(same).unwrap_or_else(|| {
            self.weights.push((values, resource));
            self.weights.len() - 1
        })
    }

    fn finish(self, lattice: &Lattice, own: Vec<[usize; 2]>, least: [usize; 2]) -> Weights {
        let Chosen { weights } = self;
        let knapsacks = |(values, resource): &(Keyed<Position, f64>, Resource)| {
            (0..lattice.pools.len()).map(|pool| Knapsack::new(lattice, values, *resource, pool)).collect()
        };
        Weights {
            count: weights.len(),
            values: lattice
                .positions()
                .flat_map(|position| weights.iter().map(move |(values, _)| values[position]))
                .collect(),
            own,
            least,
            totals: weights.iter().map(|(values, _)| values.iter().sum()).collect(),
            resources: weights.iter().map(|&(_, resource)| resource).collect(),
            knapsacks: weights.iter().map(knapsacks).collect(),
        }
    }
}

/// Optimal fluid prices of the kinds, for throughput on several pools.
fn fluid_prices(problem: &Problem) -> Option<Vec<f64>> {
    if problem.pools().len() < 2 || problem.objective().kind() != ObjectiveKind::Throughput {
        return None;
    }
    match Fluid.compute(problem)?.certificate {
        Some(Certificate::Fluid { prices, .. }) => Some(prices),
        _ => None,
    }
}

/// min_c λ_c p_c at given prices.
fn fluid_weight(problem: &Problem, lattice: &Lattice, prices: &[f64], pass: usize) -> Keyed<Position, f64> {
    let price = |pool: usize| prices[problem.pools()[pool].kind];
    // The scale is arbitrary; values of the same magnitude as the other weights keep the slack relative.
    let scale = 1.0 / prices.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let weight = |position: Position| {
        (0..lattice.pools.len())
            .filter(|&pool| lattice.pools[pool].supported[position])
            .map(|pool| scale * price(pool) * lattice.pools[pool].seconds[pass][position])
            .fold(f64::INFINITY, f64::min)
    };
    lattice.positions().map(weight).collect()
}

/// Fractional knapsack: the maximum weight that fits into a budget of one pool's seconds or bytes.
struct Knapsack {
    /// Cumulative (cost, weight) by descending weight per cost.
    steps: Vec<(f64, f64)>,
}

impl Knapsack {
    fn new(lattice: &Lattice, values: &Keyed<Position, f64>, resource: Resource, pool: usize) -> Knapsack {
        let costs = &lattice.pools[pool];
        let mut items: Vec<(f64, f64)> = lattice
            .positions()
            .filter(|&position| costs.supported[position] && values[position] > 0.0)
            .map(|position| match resource {
                Resource::Pass(pass) => (costs.seconds[pass][position], values[position]),
                Resource::Memory => (values[position], values[position]),
            })
            .collect();
        // By descending weight per cost, free items first: dividing by a cost of zero gives the intended
        // infinity.
        items.sort_by(|a, b| (b.1 / b.0).total_cmp(&(a.1 / a.0)));
        let mut steps = vec![(0.0, 0.0)];
        let mut sum = (0.0, 0.0);
        for (cost, value) in items {
            sum = (sum.0 + cost, sum.1 + value);
            steps.push(sum);
        }
        Knapsack { steps }
    }

    fn most(&self, budget: f64) -> f64 {
        let after = self.steps.partition_point(|&(cost, _)| cost <= budget);
        let (cost, weight) = self.steps[after.saturating_sub(1)];
        match self.steps.get(after) {
            None => weight,
            Some(&(next_cost, next_weight)) => {
                weight + (next_weight - weight) * (budget - cost) / (next_cost - cost)
            }
        }
    }
}
