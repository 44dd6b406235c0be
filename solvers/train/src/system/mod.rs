//! Training of the learned systems on many graphs: batch training in GDP's terms, generalisation in the others'.
//!
//! ```text
//! configuration -> problems -> episodes -> state, metrics
//! ```
//!
//! A run keeps everything in one folder: the state to resume from, which `plan --checkpoint` can also read, the state
//! that was best on the held-out set, and the measurements. Random streams are numbered by episode, so a run that is
//! killed and resumed makes the same parameters as an uninterrupted one.

mod config;
mod run;

pub use config::{AdamOptions, Problems, SYSTEM_TRAINING_SCHEMA, SystemRunDocument};
pub use run::{Episodes, Watch, run};
