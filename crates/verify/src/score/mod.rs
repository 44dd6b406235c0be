//! Scoring: the loads of devices and uplinks, and the value: largest
//! load, iteration time under a schedule, latency or makespan.

mod iteration;
mod latency;
mod load;
mod makespan;
mod sums;
mod uplink;
mod value;
pub(crate) mod weights;
pub(crate) mod worst;

pub(crate) use latency::latency;
pub(crate) use makespan::makespan;
pub(crate) use value::{Score, score};
