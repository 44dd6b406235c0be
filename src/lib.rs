//! Stagewright decides where every operator of a neural network runs.

pub mod calls;
pub mod clusters;
pub mod diagnose;
pub mod explain;
pub mod export;
pub mod formats;
pub mod fusion;
#[cfg(feature = "milp")]
mod integer;
#[cfg(not(feature = "milp"))]
#[path = "integer_off.rs"]
mod integer;
pub mod layers;
#[cfg(feature = "policy")]
pub mod learned;
#[cfg(not(feature = "policy"))]
#[path = "learned_off.rs"]
mod learned;
pub mod lock;
pub mod nearest;
pub mod placement;
pub mod portfolio;
pub mod registry;
pub mod report;
pub mod text;
pub mod train;
pub mod workloads;

pub use stagewright_core as core;
