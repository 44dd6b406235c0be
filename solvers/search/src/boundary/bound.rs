//! A lower bound on the bottleneck of contiguous splits that counts what stages send each other.

use rayon::prelude::*;
use stagewright_core::bound::LowerBound;
use stagewright_core::contract::Units;
use stagewright_core::document::{Communication, ObjectiveKind, Split};
use stagewright_core::problem::Problem;
use stagewright_core::solver::Stop;
use stagewright_core::tolerance::round_down;

use super::reach::Reach;
use crate::flow::{MergedNets, Network, SINK, SOURCE, UNCUTTABLE, add_ordered_net};

/// Evaluations of all boundaries. More raise the bound further, by less and less.
const ROUNDS: usize = 48;
/// How much an evaluation moves the shares, and after how many it moves them half as far.
const STEP: f64 = 1.0;
const SETTLING: f64 = 10.0;
/// What a step adds to the price of weight, over the part of its window by which a boundary misses it. Prices that move
/// faster throw the cuts from one end of their windows to the other.
const PRICE_STEP: f64 = 0.001;
/// Units and nets times devices beyond which the tables of shares would not pay for themselves.
const LARGEST: usize = 1 << 27;

/// The bound of minimum cuts at the stage boundaries.
///
/// Let K be the number of devices, w_v the least time of unit v on any kind, W their sum and x_t the least time of
/// net t. A contiguous split of value at most T is a chain of ideals ∅ = I_0 ⊆ … ⊆ I_K, the stages their
/// differences, some perhaps empty. For shares θ_tj ≥ 0 with Σ_j θ_tj ≤ 1 let m_j be a lower bound on
/// Σ {θ_tj x_t : t has pins on both sides of I_j}. Then
///
/// ```text
/// T ≥ (W + 2 Σ_j m_j) / K
/// ```
///
/// *Proof.* The loads sum to at least W plus x_t for every net and every stage that it is cut by; a net that crosses
/// any boundary is cut by at least two stages, so it pays at least 2 x_t ≥ 2 Σ_j θ_tj x_t over the boundaries that
/// it crosses. ∎
///
/// *Windows.* The stages up to j hold at most jT, and so do, counted from the end, those after it: w(I_j) ≤ U_j = jT − Σ_{i≤j} m_i
/// and w(I_j) ≥ L_j = W − (K − j)T + Σ_{i≥j} m_i, for a net that crosses boundary i ≤ j has a pin in a stage up to j and
/// pays there at least once, and likewise from the end. So a unit whose ancestors weigh more than U_j is
/// outside I_j, one whose descendants weigh more than W − L_j is inside, and m_j is the least of
/// Σ θ_tj x_t [t crosses I] + λ · (weight by which I misses L_j or U_j) over the ideals that remain, for any price λ:
/// a minimum cut. All m_j hold for plans of value at most T, so the bound is the smaller of T and what follows from it.
///
/// *Shares and prices* are raised by multiplicative weights: a net that the cut of a boundary pays for gets a larger
/// share there. Each evaluation gives a valid bound by itself.
///
/// Valid for contiguous throughput with serial communication and no replicas; memory, uplinks, and the two passes of
/// `separate` training only add to the value. O(rounds · boundaries · minimum cut).
#[derive(Debug)]
pub struct BoundaryCuts<'a> {
    units: &'a Units,
    weight: Vec<f64>,
    nets: MergedNets,
    reach: Reach,
    total: f64,
    devices: usize,
    /// Seconds of one unit of capacity.
    quantum: f64,
}

/// What an evaluation found at one boundary.
struct Boundary {
    /// m_j.
    seconds: f64,
    /// w(I_j) of the minimum cut.
    weight: f64,
    /// Nets that cross it.
    crossing: Vec<usize>,
}

/// Lower and upper end of the weight on the source's side of each boundary.
type Window = (f64, f64);

/// The bound below a known value, as far as `stop` lets it be raised; none where it says nothing or does not apply.
/// Runs on the current rayon pool.
pub fn boundary_cuts(problem: &Problem, units: &Units, value: f64, stop: &Stop) -> Option<LowerBound> {
    let cuts = BoundaryCuts::new(problem, units)?;
    let bound = round_down(cuts.below(value, stop));
    (bound > 0.0).then_some(LowerBound { value: bound, source: BoundaryCuts::NAME, certificate: None })
}

impl<'a> BoundaryCuts<'a> {
    /// Its stable name.
    pub const NAME: &'static str = "boundary-cuts";

    /// Prepares the bound; none where it does not apply, where no communication is to be counted, or where some unit
    /// can run nowhere.
    pub fn new(problem: &Problem, units: &'a Units) -> Option<BoundaryCuts<'a>> {
        let objective = problem.objective();
        let applies = objective.kind == ObjectiveKind::Throughput
            && objective.split == Split::Contiguous
            && objective.communication == Communication::Serial
            && objective.max_replicas == 1;
        let devices: usize = problem.pools().iter().map(|pool| pool.devices.len()).sum();
        let size = (units.len() + units.nets().len()).saturating_mul(devices);
        if !applies || devices < 2 || size > LARGEST {
            return None;
        }
        let least =
            |unit| (0..units.pools()).filter_map(|pool| units.seconds(unit, pool)).min_by(f64::total_cmp);
        let weight: Vec<f64> = (0..units.len()).map(least).collect::<Option<_>>()?;
        let mut nets = MergedNets::new(units);
        if nets.len() == 0 {
            return None;
        }
        let total: f64 = weight.iter().sum();
        // Profiles mark what must not be cut by absurd times, which would leave no precision for the others.
        nets.seconds.iter_mut().for_each(|seconds| *seconds = seconds.min(total));
        let scale = total + nets.seconds.iter().sum::<f64>();
        let reach = Reach::new(units, &weight);
        Some(BoundaryCuts {
            units,
            weight,
            nets,
            reach,
            total,
            devices,
            quantum: scale / (1u64 << 40) as f64,
        })
    }

    /// The bound on plans of value at most `value`, not yet rounded down.
    fn below(&self, value: f64, stop: &Stop) -> f64 {
        let boundaries = self.devices - 1;
        let count = self.devices as f64;
        let mut bound = self.total / count;
        let mut scores = vec![vec![0.0f64; self.nets.len()]; boundaries];
        let mut prices = vec![0.0; boundaries];
        let mut threshold = 0.5 * (bound + value);
        let mut windows = self.windows(threshold);
        let mut possible = self.possible(&windows);
        for round in 0..ROUNDS {
            if stop.reason().is_some() || bound >= value {
                break;
            }
            if bound >= threshold {
                // What the windows were narrowed by holds up to the threshold alone.
                threshold = 0.5 * (bound + value);
                windows = self.windows(threshold);
                possible = self.possible(&windows);
            }
            let found: Vec<Boundary> = (0..boundaries)
                .into_par_iter()
                .map(|at| self.boundary(&self.shares(&scores, &possible, at), windows[at], prices[at]))
                .collect();
            let sent: f64 = found.iter().map(|boundary| boundary.seconds).sum();
            bound = bound.max(threshold.min((self.total + 2.0 * sent) / count));
            let step = STEP / (1.0 + round as f64 / SETTLING).sqrt();
            for (at, boundary) in found.iter().enumerate() {
                for &net in &boundary.crossing {
                    scores[at][net] += step;
                }
                let (lower, upper) = windows[at];
                let missing = missing_weight(boundary.weight, windows[at], prices[at]);
                prices[at] += PRICE_STEP * step * missing / (upper - lower + 0.1 * threshold);
            }
            self.narrow(&mut windows, &found, threshold);
        }
        bound
    }

    /// The windows at a threshold, before any communication is known.
    fn windows(&self, threshold: f64) -> Vec<Window> {
        let window = |stages: usize| {
            let after = (self.devices - stages) as f64 * threshold;
            (self.total - after, stages as f64 * threshold)
        };
        (1..self.devices).map(window).collect()
    }

    /// Narrows the windows by the communication found before and after each boundary.
    fn narrow(&self, windows: &mut [Window], found: &[Boundary], threshold: f64) {
        let wide = self.windows(threshold);
        let mut before = 0.0;
        for (at, boundary) in found.iter().enumerate() {
            before += boundary.seconds;
            windows[at].1 = windows[at].1.min(wide[at].1 - before);
        }
        let mut after = 0.0;
        for (at, boundary) in found.iter().enumerate().rev() {
            after += boundary.seconds;
            windows[at].0 = windows[at].0.max(wide[at].0 + after);
        }
    }

    fn is_outside(&self, unit: usize, window: Window) -> bool {
        self.reach.ancestors[unit] > window.1 + 1e-9 * self.total
    }

    fn is_inside(&self, unit: usize, window: Window) -> bool {
        self.reach.descendants[unit] > self.total - window.0 + 1e-9 * self.total
    }

    /// Whether a net can cross each boundary.
    fn possible(&self, windows: &[Window]) -> Vec<Vec<bool>> {
        let can_cross = |net: usize, window: Window| {
            let pins = self.units.pins(net);
            pins.iter().any(|&pin| !self.is_outside(pin as usize, window))
                && pins.iter().any(|&pin| !self.is_inside(pin as usize, window))
        };
        let row = |&window| self.nets.representative.iter().map(|&net| can_cross(net, window)).collect();
        windows.iter().map(row).collect()
    }

    /// The capacities of the nets at a boundary: shares in proportion to the exponentials of the scores.
    fn shares(&self, scores: &[Vec<f64>], possible: &[Vec<bool>], at: usize) -> Vec<i64> {
        let capacity = |net: usize| {
            let others = (0..scores.len()).filter(|&other| possible[other][net]);
            let parts: f64 = others.map(|other| (scores[other][net] - scores[at][net]).exp()).sum();
            // Rounding cannot lift the shares of a net above one by more than the bound is rounded down.
            if possible[at][net] { (self.nets.seconds[net] / parts / self.quantum) as i64 } else { 0 }
        };
        (0..self.nets.len()).map(capacity).collect()
    }

    /// The least of what the nets that cross cost and of the price of missing the window.
    fn boundary(&self, capacities: &[i64], window: Window, price: f64) -> Boundary {
        let units = self.units;
        let mut network = Network::new();
        let mut free = 0.0;
        let mut inside = 0.0;
        let mut node_of = Vec::with_capacity(units.len());
        for unit in 0..units.len() {
            node_of.push(if self.is_outside(unit, window) {
                SINK
            } else if self.is_inside(unit, window) {
                inside += self.weight[unit];
                SOURCE
            } else {
                free += self.weight[unit];
                network.node()
            });
        }
        for unit in 0..units.len() {
            let node = node_of[unit];
            if node <= SINK {
                continue;
            }
            for &before in units.predecessors(unit) {
                let before = node_of[before as usize];
                if before > SINK {
                    network.arc(node, before, UNCUTTABLE, 0);
                }
            }
            let charge = (price.abs() * self.weight[unit] / self.quantum) as i64;
            if price > 0.0 {
                network.arc(SOURCE, node, charge, 0);
            } else if price < 0.0 {
                network.arc(node, SINK, charge, 0);
            }
        }
        // price · (L − w(I)), of which the arcs charge what free units leave outside; or |price| · (w(I) − U).
        let constant = if price > 0.0 { window.0 - inside - free } else { inside - window.1 };
        for (net, &capacity) in capacities.iter().enumerate() {
            let pins = units.pins(self.nets.representative[net]);
            add_ordered_net(&mut network, units, pins, |pin| node_of[pin as usize], capacity);
        }
        let cut = network.minimum_cut();
        let is_in = |unit: usize| cut.source_side[node_of[unit] as usize];
        let crosses = |net: usize| {
            let pins = units.pins(self.nets.representative[net]);
            let within = pins.iter().filter(|&&pin| is_in(pin as usize)).count();
            within > 0 && within < pins.len()
        };
        Boundary {
            seconds: cut.value as f64 * self.quantum + price.abs() * constant,
            weight: (0..units.len()).filter(|&unit| is_in(unit)).map(|unit| self.weight[unit]).sum(),
            crossing: (0..capacities.len()).filter(|&net| capacities[net] > 0 && crosses(net)).collect(),
        }
    }
}

/// By how much the price of weight should change: the supergradient of m_j, whose sign says which end of the window is
/// missed.
fn missing_weight(weight: f64, (lower, upper): Window, price: f64) -> f64 {
    if weight < lower || price > 0.0 {
        lower - weight
    } else if weight > upper || price < 0.0 {
        upper - weight
    } else {
        0.0
    }
}
