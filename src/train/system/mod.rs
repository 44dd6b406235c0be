//! Training of the field's learned systems on many graphs: what GDP calls its batch, and the generalisation of the others.
//!
//! ```text
//! configuration -> problems -> episodes -> state, metrics
//! ```
//!
//! A run keeps everything in one folder: the state to go on from, which is also what `plan --checkpoint` reads, the state
//! that was best on what is held out, and what was measured. Every draw belongs to the number of its episode, so a run that
//! was killed and goes on makes the same parameters as one that was not.

mod config;
mod run;

pub use config::{AdamOptions, Problems, SYSTEM_TRAINING_SCHEMA, SystemRunDocument};
pub use run::{Episodes, Watch, run};
