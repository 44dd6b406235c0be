//! A graph neural network that steers the search on graphs too large for the exact methods.

pub mod checkpoint;
mod decode;
pub mod features;
mod guide;
pub mod learn;
pub mod network;
pub mod predict;
pub mod rows;
pub mod solver;
pub mod subject;
pub mod weights;

pub use solver::{Origin, Parts, Policy};
