//! Scoring: the seconds of operators and tensors, the load of devices and uplinks, the value or the latency.

pub(crate) mod cost;
mod latency;
mod load;
mod sums;
mod uplink;
mod value;

pub(crate) use latency::latency;
pub(crate) use value::{Score, score};
