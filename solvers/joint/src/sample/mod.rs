//! Minimum time per sample of models whose layers come with configurations, by degrees that differ between stages.

mod lattice;
mod problem;
mod solver;
mod stage;
mod threshold;

pub use problem::{Problem, ProblemError, Terms};
pub use solver::{NAME, PlannedStage, Solution, solve};
