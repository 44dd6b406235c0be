//! Joint plans: stages, degrees of parallelism, and a configuration for every layer.
//!
//! [`iteration`] plans training graphs for the time of an iteration, with the same degrees in all stages of a kind of
//! devices. [`sample`] plans models whose layers come with configurations, as in Piper files, for the time per sample
//! of the slowest stage. `docs/joint.md` describes both cost models.

mod choice;
pub mod code;
pub mod iteration;
pub mod sample;
