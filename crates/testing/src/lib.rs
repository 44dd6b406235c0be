//! Random problems, oracles and fixtures for the tests of all crates.

pub mod brute_force;
pub mod devices;
pub mod heterogeneous;
pub mod kwok_ahmad;
pub mod learning;
pub mod makespan;
pub mod makespan_optimum;
pub mod random;
pub mod replicated;
pub mod steps;
pub mod task_graphs;
pub mod textbook;
pub mod tight;
pub mod training;
