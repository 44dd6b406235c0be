//! Training runs: from a configuration to a checkpoint, through a folder that a kill cannot spoil.
//!
//! ```text
//! configuration -> labels -> examples -> steps -> state, metrics, best checkpoint
//! ```
//!
//! A run keeps everything in one folder: the labels of its instances, the state to go on from, what was measured, and
//! the best checkpoint so far. Every draw belongs to the number of its step, so a run that was killed and goes on makes the
//! same checkpoint as one that was not.

mod config;
mod error;
mod examples;
mod expert;
mod folder;
mod metrics;
mod stage;

pub use config::{Data, RunDocument, Stage, TRAINING_SCHEMA};
pub(super) use config::{MOST_HELD_OUT, MOST_LEARNED};
pub use error::RunError;
pub use examples::{Lesson, example_of};
pub use folder::Folder;
pub use metrics::Measured;
pub(super) use metrics::{At, Metrics};
pub use stage::{Outcome, Watch, run};
