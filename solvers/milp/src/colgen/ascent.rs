//! Lower bound by bisection of thresholds.
//!
//! Thresholds between the bound and the value of the incumbent are bisected. An excluded threshold is a bound. If
//! fractions of columns cover everything at a threshold, prices can exclude neither that threshold nor any above it. A
//! threshold that is not decided within its rounds is deferred, with more rounds. When no threshold is left between the
//! bound and the covered thresholds, the bound is the strongest that the linear relaxation gives.

use stagewright_core::solver::Stop;

use super::generation::{Generation, Prices, Verdict};
use super::master::LpError;

/// Values below this are too close to the smallest doubles for relative tolerances; no bound is claimed for them.
const LEAST_VALUE: f64 = 1e-280;
/// Relative distance at which the bisection ends.
const PRECISION: f64 = 2e-5;
/// Relative distance between the incumbent and the last threshold, which is tried when everything else below the
/// incumbent is excluded: less than the tolerance of optimality, but more than rounding.
pub const JUST_BELOW: f64 = 5e-10;
/// Initial number of rounds per threshold, and its growth factor while some thresholds are undecided.
const ROUNDS: u64 = 50;
const GROWTH: u64 = 4;
/// Maximum number of rounds per threshold, which ends a search without a time limit.
const MAX_ROUNDS: u64 = 50 << 8;

/// The prices that exclude a threshold, if the initial number of rounds finds them.
///
/// # Errors
/// If the LP solver fails.
pub fn exclude(
    generation: &mut Generation<'_>,
    threshold: f64,
    stop: &Stop,
) -> Result<Option<Prices>, LpError> {
    if threshold < LEAST_VALUE {
        return Ok(None);
    }
    match generation.decide(threshold, ROUNDS, stop)? {
        Verdict::Excluded(prices) => Ok(Some(prices)),
        Verdict::Covered | Verdict::Spent | Verdict::Stalled => Ok(None),
    }
}

/// Raises the bound `low` towards `high`, the value of a plan; reports every better bound to `tell`, with the prices
/// that prove it.
///
/// # Returns
/// `true` if every threshold was decided: the bound is then the strongest that the linear relaxation gives.
///
/// # Errors
/// If the LP solver fails; the bounds reported so far hold.
pub fn raise(
    generation: &mut Generation<'_>,
    [mut low, high]: [f64; 2],
    enough: impl Fn(f64) -> bool,
    stop: &Stop,
    mut tell: impl FnMut(f64, Prices),
) -> Result<bool, LpError> {
    if high < LEAST_VALUE {
        return Ok(false);
    }
    let mut covered = high;
    let mut rounds = ROUNDS;
    while rounds <= MAX_ROUNDS {
        let mut ceiling = covered;
        let mut undecided = false;
        while ceiling - low > PRECISION * high || (ceiling == high && low < high * (1.0 - JUST_BELOW)) {
            if stop.reason().is_some() || enough(low) {
                return Ok(false);
            }
            let last = ceiling == high && ceiling - low <= PRECISION * high;
            let threshold = if last { high * (1.0 - JUST_BELOW) } else { 0.5 * (low + ceiling) };
            match generation.decide(threshold, rounds, stop)? {
                Verdict::Excluded(prices) => {
                    // The threshold is not rounded down: pricing admits loads that exceed it by more than rounding.
                    low = threshold;
                    tell(low, prices);
                }
                Verdict::Covered => (covered, ceiling) = (threshold, threshold),
                Verdict::Spent => (ceiling, undecided) = (threshold, true),
                // More rounds would not help.
                Verdict::Stalled => (covered, ceiling) = (threshold, threshold),
            }
        }
        if !undecided {
            return Ok(true);
        }
        rounds *= GROWTH;
    }
    Ok(false)
}
