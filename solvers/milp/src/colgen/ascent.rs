//! From thresholds to a bound.
//!
//! Thresholds between the bound and the value of the incumbent are bisected. One that is excluded is a bound. One
//! that fractions of columns cover cannot be excluded by prices, nor any above it. One that neither side decides
//! within its rounds is left for later, with more rounds. When nothing is left between the bound and what is covered,
//! the linear relaxation has said what it can.

use stagewright_core::solver::Stop;

use super::generation::{Generation, Prices, Verdict};
use super::master::LpError;

/// Values below this are too near to the least doubles for relative tolerances; nothing is claimed for them.
const LEAST_VALUE: f64 = 1e-280;
/// Relative distance at which the bisection ends.
const PRECISION: f64 = 2e-5;
/// Relative distance below the incumbent at which a threshold is asked for when everything else below it is
/// excluded: less than the tolerance of optimality, more than rounding.
pub const JUST_BELOW: f64 = 5e-10;
/// Rounds for each threshold at first, and their growth when some were not decided.
const ROUNDS: u64 = 50;
const GROWTH: u64 = 4;
/// Most rounds for one threshold: the end of a search without a time limit.
const MOST_ROUNDS: u64 = 50 << 8;

/// Raises the bound `low` towards `high`, the value of a plan; tells every better bound, with the
/// prices that show it.
///
/// # Returns
/// Whether every threshold was decided: the bound is then what the linear relaxation says.
///
/// # Errors
/// Where the LP solver fails; the bounds told so far hold.
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
    while rounds <= MOST_ROUNDS {
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
                    // No lowering: pricing admits loads above the threshold by more than rounding.
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
