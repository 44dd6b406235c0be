//! Strategy problems against exhaustion, and their plans against the checker.

mod agreement;
mod random;
