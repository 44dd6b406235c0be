//! One sample through offloaded calls: bounds for its latency.

pub mod bound;
