//! Scoring: the seconds of operators and tensors, the load of devices and uplinks, the value.

pub(crate) mod cost;
mod load;
mod sums;
mod uplink;
mod value;

pub(crate) use value::{Score, score};
