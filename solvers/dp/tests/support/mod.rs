//! Small random problems and two oracles: brute force, and the textbook program over all ideals.

#![allow(dead_code, reason = "each test target uses its own part")]

pub(crate) mod brute_force;
pub(crate) mod random;
pub(crate) mod textbook;
