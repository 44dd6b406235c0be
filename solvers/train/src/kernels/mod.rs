//! Training of learned costs: from measured kernels to the networks of `stagewright-learned`.
//!
//! ```text
//! tables, kernels -> Sample -> Examples (scaled features, classes) -> Net -> Ensemble -> checkpoint
//! ```
//!
//! The networks are trained on candle, on the processor or on an NVIDIA GPU, with the optimiser of the policy. Random
//! streams are numbered by epoch and step, so a run that is killed and resumed makes the same networks as an
//! uninterrupted one on the same machine.

pub mod examples;
mod net;
mod run;
pub mod samples;

pub use run::{KernelSettings, Progress, train};
pub use samples::Sample;
