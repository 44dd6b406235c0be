//! Training runs: from a configuration to a checkpoint, with a folder that survives being killed.
//!
//! ```text
//! configuration -> labels -> examples -> steps -> state, metrics, best checkpoint
//! ```
//!
//! A run keeps everything in one folder: the labels of its instances, the state to resume from, the measurements, and
//! the best checkpoint so far. Random streams are numbered by step, so a run that is killed and resumed makes the same
//! checkpoint as an uninterrupted one.

mod config;
mod elsewhere;
mod error;
mod events;
mod examples;
mod folder;
mod metrics;
mod training;

pub use config::{Data, RunDocument, Stage, TRAINING_SCHEMA};
pub(super) use config::{MAX_HELD_OUT, MAX_LEARNED, SAME_SEED, recipes};
pub use elsewhere::Request;
pub use error::{Result, RunError};
pub use examples::{Lesson, example_of};
pub use folder::Folder;
pub(super) use folder::digest_of;
pub use metrics::Measured;
pub(super) use metrics::{At, Metrics};
pub use training::{Outcome, Watch, run};
