//! Joint plans: stages, the degrees of tensor and data parallelism of each, and a configuration for every layer.

mod choice;
mod lattice;
mod problem;
mod solver;
mod stage;
mod threshold;

pub use problem::{Problem, ProblemError, Terms};
pub use solver::{NAME, PlannedStage, Solution, solve};
