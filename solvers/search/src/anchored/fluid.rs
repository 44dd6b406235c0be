//! The fluid bound, with the communication that work cannot avoid.

use stagewright_core::bound::{Bound, Column, LowerBound, divided, proved_by};
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::ids::Keyed;
use stagewright_core::problem::Problem;
use stagewright_core::solver::Stop;
use stagewright_core::tolerance::{OPTIMAL_RELATIVE, round_down};

use super::around::Around;
use super::unit::largest;
use super::{AnchoredEffort, serial_throughput};

/// Number of prices of work tried for each unit.
const PRICES: usize = 6;
/// Ratio of the trial threshold to the current bound, and maximum number of such steps.
const STRIDE: f64 = 1.5;
const STRIDES: usize = 4;
/// Number of halvings of the threshold interval.
const HALVINGS: usize = 40;
/// Maximum number of share vectors tried for the largest threshold; a few suffice.
const ROUNDS: usize = 20;

/// The anchored fluid bound. Let a placement have value at most T. For a unit u on a pool c, M = R_c T with R_c the
/// maximum number of replicas of a stage, and a price 0 ≤ λ < 1, let a be at most the minimum of
///
/// ```text
/// x(C) + λ w(C)          x: transfers of the nets that C cuts, w: its seconds
/// ```
///
/// over the sets C that contain u. If a > M, u is not on c. Otherwise u pays for communication at least
///
/// ```text
/// s_uc = max(0, (a − λM) / (M − a))
/// ```
///
/// seconds per second of its own time, and T is at least the fluid bound of the times p_uc (1 + s_uc).
///
/// *Proof.* The units of a stage fall into components C that no net joins, and its load before division among replicas,
/// at most M, is the sum of w(C) + x(C) over them. For u in C, a ≤ x(C) + λ w(C) ≤ w(C) + x(C) ≤ M. So a (w(C) + x(C))
/// ≤ M (x(C) + λ w(C)), which is w(C) (a − λM) ≤ x(C) (M − a), or s_uc w(C) ≤ x(C) where a < M. Hence Σ_{u∈C} p_uc (1 +
/// s_uc) ≤ w(C) + x(C), and over all stages on c the sum is at most T times its devices, which is all that the proof of
/// the fluid bound requires of the times. ∎
///
/// So a threshold T below the fluid bound of these times admits no placement and is itself a lower bound. For fixed
/// shares of the columns, the bound falls as T grows; the largest T below the bound is found by bisection, which is
/// cheap. Then the best shares at that T are computed, and so on until no shares exclude T (Newton's method for the
/// largest root, after Dinkelbach 1967). The minimum cuts are those of [`Anchored`](super::Anchored) with a price on
/// work. As there, the sets C may be restricted to units within a path of weight M from u; the price is bisected for
/// the set that just fills a stage. A host pays for no communication. If the work limit leaves a unit out, its s stays
/// zero.
///
/// Valid for throughput with serial communication and every split rule: memory, uplinks and synchronisation only add to
/// the value. At most 24 · units · pools minimum cuts, within the effort.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnchoredFluid {
    /// Work limits.
    pub effort: AnchoredEffort,
}

impl Bound for AnchoredFluid {
    fn name(&self) -> &'static str {
        "anchored-fluid"
    }

    fn applies(&self, problem: &Problem) -> bool {
        serial_throughput(problem)
    }

    fn compute(&self, problem: &Problem) -> Option<LowerBound> {
        self.before(problem, &Stop::new(None, Default::default()))
    }

    fn before(&self, problem: &Problem, stop: &Stop) -> Option<LowerBound> {
        let units = Units::of(problem);
        let mut around = Around::new(problem, &units, self.effort, stop);
        let mut bound = largest(&mut around)?;
        if !around.is_late() {
            bound = bound.max(Surcharges::none(&around).fluid(&around, f64::INFINITY)?);
        }
        for _ in 0..STRIDES {
            if around.is_late() {
                break;
            }
            let limit = STRIDE * bound;
            let surcharges = Surcharges::new(&mut around, limit);
            if !surcharges.exclude(&around, limit) {
                bound = surcharges.largest_excluded(&around, [bound, limit]);
                break;
            }
            bound = limit;
        }
        let bound = problem.objective().repetitions() * bound;
        Some(LowerBound { value: round_down(bound), source: self.name(), certificate: None })
    }
}

/// Pairs (λ, a) for every column and unit.
struct Surcharges {
    cuts: Vec<Keyed<UnitId, Vec<[f64; 2]>>>,
}

impl Surcharges {
    fn none(around: &Around<'_>) -> Surcharges {
        Surcharges { cuts: vec![Keyed::filled(Vec::new(), around.units.len()); around.columns.len()] }
    }

    /// Surcharges for thresholds up to `limit`.
    fn new(around: &mut Around<'_>, limit: f64) -> Surcharges {
        let mut surcharges = Surcharges::none(around);
        for column in (0..around.columns.len())
            .filter(|&column| limit > 0.0 && !around.columns[column].host)
            .collect::<Vec<_>>()
        {
            // Take the longest units first, because they add the most to the bound.
            let mut order: Vec<(f64, UnitId)> =
                around.units.ids().map(|unit| (around.time(unit, column), unit)).collect();
            order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            for (_, unit) in order.into_iter().take_while(|&(time, _)| time > 0.0) {
                if around.is_spent() {
                    break;
                }
                surcharges.cuts[column][unit] =
                    cuts(around, unit, column, limit * around.columns[column].replicas);
            }
        }
        surcharges
    }

    /// The times with surcharges at a threshold.
    fn columns(&self, around: &Around<'_>, threshold: f64) -> Vec<Column> {
        (0..around.columns.len())
            .map(|column| {
                let limit = threshold * around.columns[column].replicas;
                let time = |unit: UnitId| {
                    let own = around.units.seconds(unit, around.columns[column].pool)?;
                    Some(own * (1.0 + surcharge(&self.cuts[column][unit], limit)?))
                };
                let seconds = around.units.ids().map(time).collect();
                Column { devices: around.columns[column].devices, seconds }
            })
            .collect()
    }

    /// The fluid bound of the times with surcharges at a threshold; `None` if some unit has no possible column.
    fn fluid(&self, around: &Around<'_>, threshold: f64) -> Option<f64> {
        divided(&self.columns(around, threshold)).map(|(value, _)| value)
    }

    /// Whether the surcharges prove that no placement has a value of at most `threshold`.
    fn exclude(&self, around: &Around<'_>, threshold: f64) -> bool {
        excludes(self.fluid(around, threshold), threshold)
    }

    /// The largest excluded threshold, or the lower end if no threshold is excluded. The upper end is not excluded.
    fn largest_excluded(&self, around: &Around<'_>, [low, high]: [f64; 2]) -> f64 {
        let mut low = self.largest_possible_nowhere(around, [low, high]);
        for _ in 0..ROUNDS {
            if around.is_late() {
                break;
            }
            // If some unit has no possible column, there are no shares and the search is over.
            let Some((value, shares)) = divided(&self.columns(around, low)) else { break };
            if !excludes(Some(value), low) {
                break;
            }
            let before = low;
            let proved =
                |threshold| excludes(proved_by(&self.columns(around, threshold), &shares), threshold);
            low = last(proved, [low, high], around);
            if low <= before * (1.0 + OPTIMAL_RELATIVE) {
                break;
            }
        }
        low
    }

    /// The largest threshold at which some unit has no possible column, or the lower end if there is none.
    fn largest_possible_nowhere(&self, around: &Around<'_>, ends: [f64; 2]) -> f64 {
        let nowhere = |threshold: f64| {
            let is_out = |unit: UnitId, column: usize| {
                let limit = threshold * around.columns[column].replicas;
                around.units.seconds(unit, around.columns[column].pool).is_none()
                    || surcharge(&self.cuts[column][unit], limit).is_none()
            };
            around.units.ids().any(|unit| (0..around.columns.len()).all(|column| is_out(unit, column)))
        };
        last(nowhere, ends, around)
    }
}

/// Whether a fluid bound excludes a threshold; `None` (some unit has no possible column) excludes it too.
fn excludes(fluid: Option<f64>, threshold: f64) -> bool {
    fluid.is_none_or(|fluid| fluid > threshold * (1.0 + OPTIMAL_RELATIVE))
}

/// The largest threshold at which a monotone condition still holds, by bisection; the lower end if it holds nowhere
/// above.
fn last(holds: impl Fn(f64) -> bool, [mut low, mut high]: [f64; 2], around: &Around<'_>) -> f64 {
    for _ in 0..HALVINGS {
        if around.is_late() {
            break;
        }
        let middle = 0.5 * (low + high);
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

/// The surcharge s_uc for M = `limit`; `None` if the unit cannot be on the column.
fn surcharge(cuts: &[[f64; 2]], limit: f64) -> Option<f64> {
    let mut surcharge = 0.0f64;
    for &[price, least] in cuts {
        if least > limit * (1.0 + OPTIMAL_RELATIVE) {
            return None;
        }
        if price < 1.0 && least < limit {
            surcharge = surcharge.max((least - price * limit) / (limit - least));
        }
    }
    Some(surcharge)
}

/// Pairs (λ, a) of a unit, from a bisection for the price at which the cheapest set has the load M = `limit`.
fn cuts(around: &mut Around<'_>, unit: UnitId, column: usize, limit: f64) -> Vec<[f64; 2]> {
    let near = around.neighbourhood(unit, column, limit);
    let mut found = Vec::with_capacity(PRICES);
    let (mut low, mut high, mut price) = (0.0, 1.0, 1.0);
    while found.len() < PRICES {
        // A ceiling of twice the limit is enough to see that a set does not fit.
        let cut = around.cut(&near, column, price, 2.0 * limit);
        found.push([price, cut.value]);
        if cut.value > limit * (1.0 + OPTIMAL_RELATIVE) {
            break;
        }
        let seconds: f64 = cut.set.iter().map(|&member| around.time(member, column)).sum();
        if cut.value + (1.0 - price) * seconds > limit {
            low = price
        } else {
            high = price
        }
        price = 0.5 * (low + high);
    }
    found
}
