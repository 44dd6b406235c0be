//! Strategy problems compared with exhaustive enumeration, and their plans with the checker.

mod agreement;
mod random;
