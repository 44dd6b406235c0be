//! A graph neural network that steers the search on graphs too large for the exact methods.
//!
//! Data flows one way:
//!
//! ```text
//! Problem -> subject -> features -> network -> predict -> decode, guide -> solver
//! ```
//!
//! - [`subject`]: the units of a problem, the transfers between them, and a plan to improve on.
//! - [`features`]: scale-free features of a subject and its plan.
//! - [`network`], [`weights`], [`rows`]: the network, its parameters, and its one sparse operation.
//! - [`predict`]: the network's output as plain numbers; `decode` and `guide` turn it into candidates and moves.
//! - [`solver`]: the floor, the network and the search as one solver.
//! - [`learn`]: examples, losses and optimiser steps.
//! - [`checkpoint`]: serialised networks.
//!
//! The environment variables `RAYON_NUM_THREADS` and `CANDLE_NUM_THREADS` set the number of candle's threads,
//! regardless of the pool that calls it. If `RAYON_NUM_THREADS` is unset, candle counts the cores again for every
//! matrix product, which takes longer than a small product.

pub mod checkpoint;
pub mod code;
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
