//! Windows: which ideals can be part of a split whose loads are all below the caps.
//!
//! Take any weight ω ≥ 0 on the units. A device of pool c whose compute stays below a cap T holds at most the
//! fractional knapsack K_c(T): the most ω that fits into T seconds of that pool. The devices in use therefore hold
//! at most, and those left must be able to hold,
//!
//! ```text
//! ω(V) − Σ_c K_c(left_c · T)   ≤   ω(I)   ≤   Σ_c K_c(used_c · T)
//! ```
//!
//! (a stage on r devices has compute below r · T). The weights are the time on each pool, and the fluid weight
//! min_c λ_c p_c at the best prices, per pass; and bytes, where every device has a limit. Knapsacks are monotone, so
//! a window only widens with its cap and tightens as the cap falls.
//!
//! Under `serial` communication devices that are no hosts also pay for every net that crosses the ideal:
//! with p and x the least over those pools and b(I) the x of the nets that cross I,
//!
//! ```text
//! p(I) + b(I) ≤ used · T          p(V) − p(I) + b(I) ≤ left · T
//! ```
//!
//! the first where no host is in use, the second where none is left: each crossing net is cut by at least one stage
//! on either side of I.

use stagewright_core::document::{Communication, ObjectiveKind};
use stagewright_core::problem::Problem;
use stagewright_search::usage::UsageSpace;

use crate::lattice::Lattice;

/// Relative slack of a window, far above rounding in sums of weights.
const SLACK: f64 = 1e-9;

/// The windows of every usage under some caps.
pub(crate) struct Windows {
    /// Number of weights.
    pub(crate) weights: usize,
    /// `[position][weight]`.
    pub(crate) weight: Vec<f64>,
    /// `[usage][weight]`, least and most.
    low: Vec<f64>,
    high: Vec<f64>,
    /// For each pool and pass the weight that is its time.
    pub(crate) own: Vec<[usize; 2]>,
    /// Crossing windows, under serial communication.
    pub(crate) crossing: Option<Crossing>,
}

/// The windows that count crossing nets, per pass.
pub(crate) struct Crossing {
    /// Weight that holds the least time over pools that pay, per pass.
    pub(crate) weight: [usize; 2],
    /// `[usage][pass]`: most p(I) + b(I); infinite where it does not hold.
    pub(crate) high: Vec<[f64; 2]>,
    /// `[usage][pass]`: least p(I) − b(I); minus infinity where it does not hold.
    pub(crate) low: Vec<[f64; 2]>,
}

/// A weight: its values, and what bounds it on each pool.
struct Weight {
    values: Vec<f64>,
    budget: Budget,
}

#[derive(PartialEq, Clone, Copy)]
enum Budget {
    /// Seconds of a pass.
    Pass(usize),
    /// Bytes.
    Bytes,
}

impl Windows {
    /// Windows for caps per pass. O(usages · weights · pools + weights · pools · n log n).
    pub(crate) fn new(problem: &Problem, lattice: &Lattice, space: &UsageSpace, caps: [f64; 2]) -> Windows {
        let (weights, own, least) = choose_weights(problem, lattice);
        let count = weights.len();
        let mut low = vec![0.0; space.len() * count];
        let mut high = vec![0.0; space.len() * count];
        for (at, weight) in weights.iter().enumerate() {
            let total: f64 = weight.values.iter().sum();
            let slack = SLACK * total;
            let holds: Vec<Vec<f64>> = (0..lattice.pools.len())
                .map(|pool| {
                    let knapsack = Knapsack::new(lattice, weight, pool);
                    let cap = match weight.budget {
                        Budget::Pass(pass) => caps[pass],
                        Budget::Bytes => problem.pools()[pool].memory,
                    };
                    (0..=space.limit(pool)).map(|devices| knapsack.most(f64::from(devices) * cap)).collect()
                })
                .collect();
            for usage in 0..space.len() {
                let used: f64 =
                    (0..holds.len()).map(|pool| holds[pool][space.count(usage, pool) as usize]).sum();
                let left: f64 =
                    (0..holds.len()).map(|pool| holds[pool][space.left(usage, pool) as usize]).sum();
                high[usage * count + at] = used + slack;
                low[usage * count + at] = total - left - slack;
            }
        }
        let crossing = (problem.objective().communication == Communication::Serial)
            .then(|| crossing_windows(lattice, space, &weights, least, caps));
        let mut weight = vec![0.0; lattice.len * count];
        for (at, values) in weights.iter().enumerate() {
            for (position, &value) in values.values.iter().enumerate() {
                weight[position * count + at] = value;
            }
        }
        Windows { weights: count, weight, low, high, own, crossing }
    }

    /// Least weights of an ideal with a usage.
    #[inline]
    pub(crate) fn low(&self, usage: usize) -> &[f64] {
        &self.low[usage * self.weights..(usage + 1) * self.weights]
    }

    /// Most weights of an ideal with a usage.
    #[inline]
    pub(crate) fn high(&self, usage: usize) -> &[f64] {
        &self.high[usage * self.weights..(usage + 1) * self.weights]
    }
}

/// The weights, without repetition; for each pool and pass the index of its own time; and the least-time weights.
fn choose_weights(problem: &Problem, lattice: &Lattice) -> (Vec<Weight>, Vec<[usize; 2]>, [usize; 2]) {
    let mut weights: Vec<Weight> = Vec::new();
    let mut add = |values: Vec<f64>, budget: Budget| match weights
        .iter()
        .position(|weight| weight.budget == budget && weight.values == values)
    {
        Some(at) => at,
        None => {
            weights.push(Weight { values, budget });
            weights.len() - 1
        }
    };
    let positions = 0..lattice.len;
    let least_over = |position: usize, pass: usize, wanted: &dyn Fn(usize) -> bool| {
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
            let values = positions
                .clone()
                .map(|at| match costs.supported[at] {
                    true => costs.seconds[pass][at],
                    // Never on this pool: any weight is valid, and its least time elsewhere says most.
                    false => least_over(at, pass, &|_| true),
                })
                .collect();
            own[pass] = add(values, Budget::Pass(pass));
        }
        let values = positions.clone().map(|at| least_over(at, pass, &|pool| !lattice.pools[pool].host));
        least[pass] = add(values.collect(), Budget::Pass(pass));
        if let Some(values) = fluid_weight(problem, lattice, pass) {
            add(values, Budget::Pass(pass));
        }
    }
    if problem.pools().iter().all(|pool| pool.memory.is_finite()) {
        let bytes = |at: usize| {
            lattice.fixed_bytes[at]
                + f64::from(problem.objective().in_flight(1)) * lattice.activation_bytes[at]
        };
        add(positions.map(bytes).collect(), Budget::Bytes);
    }
    (weights, own, least)
}

/// min_c λ_c p_c at the prices of the fluid bound, where several pools make it differ from a pool's own time.
fn fluid_weight(problem: &Problem, lattice: &Lattice, pass: usize) -> Option<Vec<f64>> {
    use stagewright_core::bound::{Bound, Fluid};
    use stagewright_core::certificate::Certificate;
    if lattice.pools.len() < 2 || problem.objective().kind != ObjectiveKind::Throughput {
        return None;
    }
    let Some(Certificate::Fluid { prices }) = Fluid.compute(problem)?.certificate else { return None };
    let price = |pool: usize| prices[problem.pools()[pool].kind];
    // The scale means nothing; a weight near the others in size keeps the slack relative.
    let scale = 1.0 / prices.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let weight = |at: usize| {
        (0..lattice.pools.len())
            .filter(|&pool| lattice.pools[pool].supported[at])
            .map(|pool| scale * price(pool) * lattice.pools[pool].seconds[pass][at])
            .fold(f64::INFINITY, f64::min)
    };
    let values: Vec<f64> = (0..lattice.len).map(weight).collect();
    values.iter().all(|value| value.is_finite()).then_some(values)
}

fn crossing_windows(
    lattice: &Lattice,
    space: &UsageSpace,
    weights: &[Weight],
    least: [usize; 2],
    caps: [f64; 2],
) -> Crossing {
    let hosts = |count: &dyn Fn(usize) -> u32| -> u32 {
        (0..lattice.pools.len()).filter(|&pool| lattice.pools[pool].host).map(count).sum()
    };
    let devices =
        |count: &dyn Fn(usize) -> u32| -> f64 { (0..lattice.pools.len()).map(count).map(f64::from).sum() };
    let mut high = vec![[f64::INFINITY; 2]; space.len()];
    let mut low = vec![[f64::NEG_INFINITY; 2]; space.len()];
    for usage in 0..space.len() {
        let used = |pool: usize| space.count(usage, pool);
        let left = |pool: usize| space.left(usage, pool);
        for pass in 0..lattice.passes {
            let total: f64 = weights[least[pass]].values.iter().sum();
            if hosts(&used) == 0 {
                high[usage][pass] = devices(&used) * caps[pass] * (1.0 + SLACK);
            }
            if hosts(&left) == 0 {
                low[usage][pass] = total * (1.0 - SLACK) - devices(&left) * caps[pass] * (1.0 + SLACK);
            }
        }
    }
    Crossing { weight: least, high, low }
}

/// The most weight that fits into a budget of one pool's seconds or bytes, units divided at will.
struct Knapsack {
    /// Cumulative (cost, weight) by falling weight per cost.
    steps: Vec<(f64, f64)>,
}

impl Knapsack {
    fn new(lattice: &Lattice, weight: &Weight, pool: usize) -> Knapsack {
        let costs = &lattice.pools[pool];
        let mut items: Vec<(f64, f64)> = (0..lattice.len)
            .filter(|&at| costs.supported[at] && weight.values[at] > 0.0)
            .map(|at| match weight.budget {
                Budget::Pass(pass) => (costs.seconds[pass][at], weight.values[at]),
                Budget::Bytes => (weight.values[at], weight.values[at]),
            })
            .collect();
        // By weight per cost, what is free first; division by zero is the infinity that is meant.
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
