//! The energetic bound: work that must fit between heads and tails.

use super::Reach;
use super::capacity::{Capacity, Columns};
use super::thresholds::Thresholds;
use crate::bound::{Bound, LowerBound};
use crate::document::ObjectiveKind;
use crate::problem::Problem;
use crate::stop::Stop;
use crate::tolerance::round_down;

/// Alternations between choosing prices for the best set and choosing the best set for the prices.
const ROUNDS: usize = 2;

/// The work of operators that are far from both ends of the step must fit into the time between, over all devices. For
/// any set S of operators, and prices λ_k ≥ 0 of a second on a device of pool k, T is at least the value at which
///
/// ```text
/// Σ_k λ_k Σ_i max(0, T − h_k(i) − q_k(i))  =  Σ_u min_k λ_k p_uk
/// ```
///
/// with u over the parts of colocation classes in S, i over the devices of pool k, and h_k(i), q_k(i) the
/// i-th smallest head and tail of S on that pool.
///
/// *Proof.* A device of pool k that runs operators of S runs one of them first and one of them last, so it works on S
/// at most from the head of the first to the tail of the last. Different devices have different first operators, so r
/// devices of a pool work on S for at most Σ_{i ≤ r} (T − h_k(i) − q_k(i)) seconds in total. Omitting negative terms
/// and adding those of devices that run nothing of S only raises that. Every class part u takes λ_k p_uk of the priced
/// seconds for the pool k that runs it.
///
/// If S contains everything that its operators read, the first operator of S on a device reads only from other devices,
/// since an input on its own device would precede it. Its head is thus the head of an operator with all inputs on other
/// devices. The same holds for the tails of the last operators if S contains all readers.
///
/// S = {v : head ≥ h and tail ≥ q}, where heads and tails are minima over pools. The thresholds are found on a grid and
/// then improved one by one; the prices are those of the fluid bound, for all operators and for the best sets
/// ([`divided`]). Valid for the makespan, any priority. O(pools · operators log operators) after [`Reach`] and the
/// prices.
///
/// Sets by heads and tails are those of Carlier, "Scheduling jobs with release dates and tails on identical
/// machines to minimize the makespan" (EJOR 1987), as are the smallest heads and tails.
///
/// [`divided`]: crate::bound::divided
#[derive(Debug, Clone, Copy)]
pub struct Energetic;

impl Bound for Energetic {
    fn name(&self) -> &'static str {
        "energetic"
    }

    fn applies(&self, problem: &Problem) -> bool {
        problem.objective().kind() == ObjectiveKind::Makespan
    }

    fn compute(&self, problem: &Problem) -> Option<LowerBound> {
        self.before(problem, &Stop::never())
    }

    fn before(&self, problem: &Problem, stop: &Stop) -> Option<LowerBound> {
        let reach = Reach::before(problem, stop)?;
        let value = energy(&reach, &Columns::new(&reach), stop)?;
        Some(LowerBound { value: round_down(value), source: self.name(), certificate: None })
    }
}

/// The bound for the operators of `reach`, before rounding, on the length of the step or of a part of it. Returns the
/// best value known when `stop` applies; `None` if there is nothing to run.
pub(super) fn energy(reach: &Reach<'_>, columns: &Columns, stop: &Stop) -> Option<f64> {
    let capacity = Capacity::new(reach, columns);
    let thresholds = Thresholds::new(reach);
    let everything = [0.0; 2];
    let mut prices = capacity.prices(everything, stop)?;
    let mut value = capacity.value(everything, &prices);
    for _ in 0..ROUNDS {
        let mut best = everything;
        let mut largest = 0.0;
        for thresholds in thresholds.candidates(&capacity.least(&prices)) {
            if stop.reason().is_some() {
                return Some(value.max(largest));
            }
            let found = capacity.value(thresholds, &prices);
            if found > largest {
                (largest, best) = (found, thresholds);
            }
        }
        value = f64::max(value, largest);
        if capacity.has_one_price() || best == everything {
            break;
        }
        prices = capacity.prices(best, stop)?;
        value = value.max(capacity.value(best, &prices));
    }
    Some(value)
}

/// The energetic bound on the step for the operators of `reach`, at given prices of a second on a device of each site,
/// where Σ devices · price = 1.
pub fn energy_at(reach: &Reach<'_>, prices: &[f64]) -> f64 {
    let columns = Columns::new(reach);
    let capacity = Capacity::new(reach, &columns);
    let thresholds = Thresholds::new(reach);
    let candidates = thresholds.candidates(&capacity.least(prices));
    candidates.into_iter().map(|thresholds| capacity.value(thresholds, prices)).fold(0.0, f64::max)
}
