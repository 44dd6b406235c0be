//! Heuristics and bounds against brute force.

mod bounds;
mod latency_bounds;
mod local;
mod memory_bound;
