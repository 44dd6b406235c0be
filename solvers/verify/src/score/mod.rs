//! Scoring: the seconds of operators and tensors, the load of devices and uplinks, the value: largest load,
//! iteration under a schedule, latency or makespan.

pub(crate) mod cost;
mod iteration;
mod latency;
mod load;
mod makespan;
mod sums;
mod uplink;
mod value;
mod weights;

pub(crate) use latency::latency;
pub(crate) use makespan::makespan;
pub(crate) use value::{Score, score};
