//! Seconds of kernels that nobody measured, by small networks that were trained on published measurements.
//!
//! ```text
//! Shape, Processor -> features -> Network -> cycles -> guards -> seconds, with the spread of an ensemble
//! ```
//!
//! - [`processor`]: figures of a device that kernels depend on, and which devices are alike.
//! - [`shape`]: kernels by their sizes, and the group whose networks predict them.
//! - [`features`](mod@features): features of a kernel on a processor.
//! - [`network`]: one network; its arithmetic is the same, bit by bit, on every machine.
//! - [`ensemble`]: the networks of a group, with the embeddings of the classes that they were trained on.
//! - [`downhill`]: fits of a few numbers, as calibration makes them.
//! - [`checkpoint`]: ensembles as a file, and the one that is shipped.
//! - [`estimate`]: seconds of a kernel on a device of the catalogue, where the networks were found to be better.

pub mod checkpoint;
pub mod downhill;
pub mod ensemble;
pub mod estimate;
pub mod features;
pub mod network;
pub mod processor;
pub mod shape;

pub use ensemble::{Ensemble, Prediction};
pub use estimate::{Basis, Estimate, Estimator};
pub use processor::Processor;
pub use shape::{Group, Rowwise, Shape};
