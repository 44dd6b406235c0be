//! Minimum time of an iteration of a training graph.

mod chunked;
mod chunks;
mod closed_form;
mod collective;
mod cut;
mod degrees;
mod error;
mod explain;
mod fluid;
mod given;
mod layer;
mod model;
mod network;
mod pool;
mod program;
mod runtime;
mod search;
mod sharding;
mod solver;
mod space;
mod table;

pub use error::{CutFault, ModelError};
pub use given::Price;
pub use solver::{NAME, Problem, Request, Solution, solve};
