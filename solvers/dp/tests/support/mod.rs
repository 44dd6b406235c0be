//! Random small problems and two oracles: every assignment tried, and the textbook program over all ideals.

#![allow(dead_code, reason = "each test target uses its own part")]

pub(crate) mod brute_force;
pub(crate) mod random;
pub(crate) mod textbook;
