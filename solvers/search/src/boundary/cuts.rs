//! A lower bound on the bottleneck of contiguous splits that counts communication between stages.

use rayon::prelude::*;
use stagewright_core::bound::LowerBound;
use stagewright_core::contraction::{NetId, UnitId};
use stagewright_core::document::{Communication, ObjectiveKind, Split};
use stagewright_core::ids::Keyed;
use stagewright_core::problem::Problem;
use stagewright_core::solver::Stop;
use stagewright_core::tolerance::round_down;

use super::Boundaries;
use super::region::{HIGHEST_PRICE, Region, Side};

/// Number of evaluations of all boundaries. More raise the bound further, with diminishing returns.
const ROUNDS: u32 = 48;
/// Step size of the shares in the first evaluation, and its decay: the step size is halved after three times `SETTLING`
/// evaluations.
const STEP: f64 = 1.0;
const SETTLING: f64 = 10.0;
/// Change of the price of weight per step, for each fraction of the window's width by which a boundary misses the
/// window. Larger changes make the cuts oscillate between the ends of their windows.
const PRICE_STEP: f64 = 0.001;
/// Minimum width of a window in the rule of [`PRICE_STEP`], relative to the threshold.
const LEAST_WIDTH: f64 = 0.1;
/// Tolerance for a sum of weights, relative to the total, so that rounding fixes no unit to a side.
const ROUNDING: f64 = 1e-9;
/// Fraction of the memory limit for shares and networks; bytes per net and boundary, and bytes per unit or net in the
/// network of a thread.
const MEMORY_SHARE: f64 = 0.25;
const BYTES_PER_SHARE: f64 = 10.0;
const BYTES_PER_NODE: f64 = 400.0;

/// The bound of minimum cuts at the stage boundaries.
///
/// Let K be the number of devices (or of units if there are fewer), w_v the minimum time of unit v on any kind, W their
/// sum and x_t the minimum time of net t. A contiguous split of value at most T is a chain of ideals ∅ = I_0 ⊆ … ⊆ I_K;
/// the stages are their differences, some perhaps empty. For shares θ_tj ≥ 0 with Σ_j θ_tj ≤ 1 let m_j ≥ 0 be a lower
/// bound on Σ {θ_tj x_t : t has pins on both sides of I_j}. Then
///
/// ```text
/// T ≥ (W + 2 Σ_j m_j) / K
/// ```
///
/// *Proof.* The loads sum to at least W plus x_t for every net and every stage that cuts it. A net that crosses any
/// boundary is cut by at least two stages, so it pays at least 2 x_t ≥ 2 Σ_j θ_tj x_t over the boundaries that it
/// crosses. ∎
///
/// *Windows.* Stages 1 to j hold at most jT and the others at most (K − j)T, so w(I_j) ≤ U_j = jT − Σ_{i≤j} m_i and
/// w(I_j) ≥ L_j = W − (K − j)T + Σ_{i≥j} m_i: a net that crosses boundary i ≤ j has a pin in a stage up to j and pays
/// there at least once, and likewise from the end. So a unit whose ancestors weigh more than U_j is outside I_j, and
/// one whose descendants weigh more than W − L_j is inside. Over the remaining ideals and for any price λ, m_j is the
/// minimum of Σ θ_tj x_t [t crosses I] + λ · (weight by which I misses L_j or U_j): a minimum cut. All m_j hold for
/// plans of value at most T, so the bound is the minimum of T and the right-hand side above.
///
/// *Shares* are updated by multiplicative weights: a net paid for by the cut of a boundary gets a larger share there.
/// *Prices* follow the weight by which a cut misses its window. Each evaluation alone gives a valid bound.
///
/// Valid for contiguous throughput with serial communication and no replicas; memory, uplinks, and the two passes of
/// `separate` training only add to the value. O(rounds · boundaries · minimum cut).
#[derive(Debug)]
pub struct BoundaryCuts<'a> {
    boundaries: &'a Boundaries<'a>,
    /// Seconds of each net, capped at the value: plans that cut a more expensive net are worse.
    seconds: Vec<f64>,
    stages: usize,
    /// Value of the plan to improve on.
    value: f64,
    bound: f64,
    rounds: u32,
    threshold: f64,
    windows: Vec<Window>,
    /// Whether a net can cross a boundary: `[boundary][net]`.
    possible: Vec<Vec<bool>>,
    /// Logarithms of the shares, up to a constant per net.
    scores: Vec<Vec<f64>>,
    prices: Vec<f64>,
}

/// Lower and upper limit of the weight before a boundary.
type Window = (f64, f64);

/// Result of an evaluation at one boundary.
struct Boundary {
    /// m_j.
    seconds: f64,
    /// w(I_j) of the minimum cut.
    weight: f64,
    /// Nets that cross the boundary.
    crossing: Vec<usize>,
}

/// Reason why there is no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoCuts {
    /// The bound is not valid for the objective, or there are no boundaries.
    DoesNotApply,
    /// The memory limit is too low.
    Memory,
}

impl<'a> BoundaryCuts<'a> {
    /// Stable name of the bound.
    pub const NAME: &'static str = "boundary-cuts";

    /// Prepares the bound on plans that are better than a plan of the given value. `memory` is in bytes.
    ///
    /// # Errors
    /// [`NoCuts`] if the bound does not apply or exceeds its share of the memory limit.
    pub fn new(
        problem: &Problem,
        boundaries: &'a Boundaries<'a>,
        value: f64,
        memory: Option<u64>,
        threads: usize,
    ) -> Result<BoundaryCuts<'a>, NoCuts> {
        let objective = problem.objective();
        let applies = objective.kind() == ObjectiveKind::Throughput
            && objective.rules().split == Split::Contiguous
            && objective.rules().communication == Communication::Serial
            && objective.rules().max_replicas == 1;
        let devices: usize = problem.pools().iter().map(|pool| pool.devices.len()).sum();
        let (units, nets) = (boundaries.units.len(), boundaries.nets.len());
        let stages = devices.min(units);
        if !applies || stages < 2 || !value.is_finite() {
            return Err(NoCuts::DoesNotApply);
        }
        let bytes = BYTES_PER_SHARE * (stages * nets) as f64
            + BYTES_PER_NODE * (threads.min(stages) * (units + nets)) as f64;
        if memory.is_some_and(|memory| bytes > MEMORY_SHARE * memory as f64) {
            return Err(NoCuts::Memory);
        }
        let seconds = boundaries.nets.seconds.iter().map(|&seconds| seconds.min(value)).collect();
        let mut cuts = BoundaryCuts {
            boundaries,
            seconds,
            stages,
            value,
            bound: boundaries.total / stages as f64,
            rounds: 0,
            threshold: 0.0,
            windows: Vec::new(),
            possible: Vec::new(),
            scores: vec![vec![0.0; nets]; stages - 1],
            prices: vec![0.0; stages - 1],
        };
        cuts.raise_threshold();
        Ok(cuts)
    }

    /// The bound so far; `None` before the first evaluation.
    pub fn bound(&self) -> Option<LowerBound> {
        let bound = LowerBound { value: round_down(self.bound), source: Self::NAME, certificate: None };
        (self.rounds > 0).then_some(bound)
    }

    /// Evaluates all boundaries once, on the current rayon pool. Returns whether another round may help.
    pub fn round(&mut self, stop: &Stop) -> bool {
        if self.rounds == ROUNDS || self.bound >= self.value {
            return false;
        }
        if self.bound >= self.threshold {
            // The narrowed windows hold only up to the old threshold.
            self.raise_threshold();
        }
        let shares = self.shares();
        let evaluate =
            |index: usize| self.boundary(&shares[index], self.windows[index], self.prices[index], stop);
        let Some(found) = (0..self.stages - 1).into_par_iter().map(evaluate).collect::<Option<Vec<_>>>()
        else {
            return false;
        };
        let sent: f64 = found.iter().map(|boundary| boundary.seconds).sum();
        let proved = (self.boundaries.total + 2.0 * sent) / self.stages as f64;
        self.bound = self.bound.max(proved.min(self.threshold));
        let step = STEP / (1.0 + f64::from(self.rounds) / SETTLING).sqrt();
        for (index, boundary) in found.iter().enumerate() {
            for &net in &boundary.crossing {
                self.scores[index][net] += step;
            }
            let (lower, upper) = self.windows[index];
            let missing = missing_weight(boundary.weight, self.windows[index], self.prices[index]);
            let width = (upper - lower).max(0.0) + LEAST_WIDTH * self.threshold;
            let price = self.prices[index] + PRICE_STEP * step * missing / width;
            self.prices[index] = price.clamp(-HIGHEST_PRICE, HIGHEST_PRICE);
        }
        self.narrow(&found);
        self.rounds += 1;
        true
    }

    /// Sets a threshold between the bound and the value, and the windows for it, without any communication.
    fn raise_threshold(&mut self) {
        self.threshold = 0.5 * (self.bound + self.value);
        self.windows = self.wide_windows();
        let units = self.boundaries.units;
        let can_cross = |net: NetId, window: Window| {
            let pins = units.pins(net);
            pins.iter().any(|&pin| self.side(pin, window) != Side::Outside)
                && pins.iter().any(|&pin| self.side(pin, window) != Side::Inside)
        };
        let nets = &self.boundaries.nets.representative;
        let row = |&window| nets.iter().map(|&net| can_cross(net, window)).collect();
        self.possible = self.windows.iter().map(row).collect();
    }

    fn wide_windows(&self) -> Vec<Window> {
        let window = |before: usize| {
            let after = (self.stages - before) as f64 * self.threshold;
            (self.boundaries.total - after, before as f64 * self.threshold)
        };
        (1..self.stages).map(window).collect()
    }

    /// Narrows the windows by the communication found before and after each boundary.
    fn narrow(&mut self, found: &[Boundary]) {
        let wide = self.wide_windows();
        let mut before = 0.0;
        for (index, boundary) in found.iter().enumerate() {
            before += boundary.seconds;
            self.windows[index].1 = self.windows[index].1.min(wide[index].1 - before);
        }
        let mut after = 0.0;
        for (index, boundary) in found.iter().enumerate().rev() {
            after += boundary.seconds;
            self.windows[index].0 = self.windows[index].0.max(wide[index].0 + after);
        }
    }

    fn side(&self, unit: UnitId, (lower, upper): Window) -> Side {
        let Boundaries { reach, total, .. } = self.boundaries;
        let rounding = ROUNDING * total;
        if reach.ancestors[unit] > upper + rounding {
            Side::Outside
        } else if reach.descendants[unit] > total - lower + rounding {
            Side::Inside
        } else {
            Side::Free
        }
    }

    /// Seconds of every net at every boundary: shares proportional to the exponentials of the scores.
    fn shares(&self) -> Vec<Vec<f64>> {
        let boundaries = self.stages - 1;
        let mut shares = vec![vec![0.0; self.seconds.len()]; boundaries];
        for (net, &seconds) in self.seconds.iter().enumerate() {
            let possible = || (0..boundaries).filter(|&boundary| self.possible[boundary][net]);
            let largest =
                possible().map(|boundary| self.scores[boundary][net]).fold(f64::NEG_INFINITY, f64::max);
            let part = |boundary: usize| (self.scores[boundary][net] - largest).exp();
            let all: f64 = possible().map(part).sum();
            // Rounding lifts the sum of the shares above one by less than the bound is rounded down.
            possible().for_each(|boundary| shares[boundary][net] = seconds * part(boundary) / all);
        }
        shares
    }

    /// Minimises the cost of the crossing nets plus the price of missing the window. `None` if stopped.
    fn boundary(&self, shares: &[f64], window: Window, price: f64, stop: &Stop) -> Option<Boundary> {
        if stop.reason().is_some() {
            return None;
        }
        let Boundaries { units, weight, total, nets, .. } = self.boundaries;
        let sides: Keyed<UnitId, Side> = units.ids().map(|unit| self.side(unit, window)).collect();
        let of_side = |side: Side| -> f64 {
            let on_side = sides.iter().zip(weight.iter()).filter(|&(&own_side, _)| own_side == side);
            on_side.map(|(_, weight)| weight).sum()
        };
        let (inside, free) = (of_side(Side::Inside), of_side(Side::Free));
        let scale = total + self.seconds.iter().sum::<f64>();
        let mut region = Region::new(units, |unit| sides[unit], scale);
        region.charge(weight, price);
        for (&net, &share) in nets.representative.iter().zip(shares) {
            region.add_net(units.pins(net), share);
        }
        let division = region.divide(stop)?;
        // price · (L − w(I)), where the units are charged for the weight left outside; or |price| · (w(I) − U).
        let constant = if price > 0.0 { window.0 - inside - free } else { inside - window.1 };
        let crosses = |boundary: &usize| {
            let pins = units.pins(nets.representative[*boundary]);
            pins.iter().any(|&pin| division.is_inside(pin) != division.is_inside(pins[0]))
        };
        let is_inside = |unit: &UnitId| division.is_inside(*unit);
        Some(Boundary {
            seconds: (division.seconds + price.abs() * constant).max(0.0),
            weight: units.ids().filter(is_inside).map(|unit| weight[unit]).sum(),
            crossing: (0..shares.len()).filter(|&boundary| shares[boundary] > 0.0).filter(crosses).collect(),
        })
    }
}

/// Supergradient of m_j in the price of weight; its sign says which end of the window is missed.
fn missing_weight(weight: f64, (lower, upper): Window, price: f64) -> f64 {
    if weight < lower || price > 0.0 {
        lower - weight
    } else if weight > upper || price < 0.0 {
        upper - weight
    } else {
        0.0
    }
}
