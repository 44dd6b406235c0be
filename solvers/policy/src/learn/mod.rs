//! Learning: what good plans teach, what a network loses against them, and the steps that make it lose less.
//!
//! Everything here works on problems and plans in memory; where they come from, and where checkpoints go, is the
//! business of whoever trains.

mod adam;
mod corrupt;
mod descent;
mod example;
mod loss;
mod reinforce;
mod trainer;

pub use adam::AdamConfig;
pub use corrupt::{Start, base_schedule};
pub use descent::Descent;
pub(crate) use descent::Parts;
pub use example::{Example, Targets, Teacher, example};
pub use loss::{Losses, imitation};
pub use reinforce::{Episode, Reinforce, proximal};
pub(crate) use reinforce::{LEAST_DEVIATION, clipped_gain, relative};
pub use trainer::{STATE_SCHEMA, State, TrainError, Trainer};
