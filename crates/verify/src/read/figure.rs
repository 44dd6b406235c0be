//! Range checks: a cost is finite and not negative, a rate is finite and positive.

use crate::error::CheckError;

/// Checks that an amount is finite and not negative.
pub(crate) fn amount(value: f64, what: impl FnOnce() -> String) -> Result<(), CheckError> {
    require(value.is_finite() && value >= 0.0, value, what, "finite and not negative")
}

/// Checks that a rate, which is a divisor, is finite and positive.
pub(crate) fn rate(value: f64, what: impl FnOnce() -> String) -> Result<(), CheckError> {
    require(value.is_finite() && value > 0.0, value, what, "finite and positive")
}

/// Checks that a fraction is more than zero and at most one.
pub(super) fn share(value: f64, what: impl FnOnce() -> String) -> Result<(), CheckError> {
    require(value > 0.0 && value <= 1.0, value, what, "more than 0 and at most 1")
}

fn require(
    holds: bool,
    value: f64,
    what: impl FnOnce() -> String,
    range: &'static str,
) -> Result<(), CheckError> {
    if holds { Ok(()) } else { Err(CheckError::Figure { what: what(), value, range }) }
}
