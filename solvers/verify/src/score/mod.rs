//! Scoring: the seconds of operators and tensors, the load of devices and uplinks, the value, the
//! latency or the makespan.

pub(crate) mod cost;
mod latency;
mod load;
mod makespan;
mod sums;
mod uplink;
mod value;

pub(crate) use latency::latency;
pub(crate) use makespan::makespan;
pub(crate) use value::{Score, score};
