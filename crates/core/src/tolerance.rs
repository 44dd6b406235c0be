//! All numerical tolerances of the project.
//!
//! Sums of thousands of doubles taken in different orders differ by about 10⁻¹³ in relative terms. The tolerances are
//! far above that, and far below anything that a profile can measure.

/// Relative difference up to which two values of one plan, summed in different orders, count as equal.
pub const VALUE_RELATIVE: f64 = 1e-9;

/// Relative gap at which a plan counts as optimal. Searches prune candidates that cannot improve on the incumbent by
/// more than this, so the bound from an exhausted search is the incumbent lowered by this tolerance.
pub const OPTIMAL_RELATIVE: f64 = 1e-9;

/// Relative excess over a memory capacity that counts as rounding, not as a violation.
pub const MEMORY_RELATIVE: f64 = 1e-9;

/// Maximum sum of the costs or bytes of a whole problem. Solvers double such sums and multiply them by prices and by
/// counts of devices; the results stay finite, and so do their ratios to [`SMALLEST_SECONDS`]. No cluster computes for
/// 10²⁰⁰ seconds.
pub const LARGEST_SUM: f64 = 1e200;

/// Shortest time above zero in a problem, in seconds. Rates are reciprocals of times, multiplied by samples and tokens,
/// and speed-ups are ratios of times, so both stay finite. No real operation is shorter than 10⁻¹⁰⁰ seconds.
pub const SMALLEST_SECONDS: f64 = 1e-100;

/// `bound` lowered by the tolerance for summation order and pruning, so that it remains a valid bound.
pub fn round_down(bound: f64) -> f64 {
    if bound.is_infinite() { bound } else { bound - bound.abs() * OPTIMAL_RELATIVE }
}

/// Whether `bytes` fit into `capacity` up to rounding.
pub fn fits(bytes: f64, capacity: f64) -> bool {
    bytes <= capacity * (1.0 + MEMORY_RELATIVE)
}

/// Whether two values of the same quantity agree up to rounding; a non-finite value agrees with nothing.
pub fn same(a: f64, b: f64) -> bool {
    a.is_finite() && b.is_finite() && (a - b).abs() <= VALUE_RELATIVE * a.abs().max(b.abs())
}

/// (value − bound) / value, or zero if the difference is within twice [`OPTIMAL_RELATIVE`] or the value is
/// zero.
pub fn gap(value: f64, bound: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    let gap = (value - bound) / value;
    if gap <= 2.0 * OPTIMAL_RELATIVE { 0.0 } else { gap }
}
