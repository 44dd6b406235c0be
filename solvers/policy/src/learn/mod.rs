//! Training: examples from good plans, losses, and optimiser steps.
//!
//! Everything here works on problems and plans in memory. The caller provides them and stores the checkpoints.

mod adam;
mod corrupt;
mod descent;
mod error;
mod example;
mod loss;
mod trainer;

pub use adam::AdamConfig;
pub use corrupt::{Start, base_schedule};
pub use descent::{Descent, Parts};
pub use error::TrainError;
pub use example::{Example, Targets, Teacher, example};
pub use loss::{Losses, column, imitation};
pub use trainer::{STATE_SCHEMA, Trainer, TrainerState};
