//! Least time of an iteration of a training graph.

mod collective;
mod error;
mod model;
mod network;
mod pool;
mod search;
mod sharding;
mod solver;
mod table;

pub use error::ModelError;
pub use solver::{NAME, PlannedLayer, PlannedStage, Problem, Request, Solution, solve};
pub use table::Parts;
