//! A graph neural network that steers the search on graphs too large for the exact methods.
//!
//! Data flows one way:
//!
//! ```text
//! Problem -> subject -> features -> network -> predict -> decode, guide -> solver
//! ```
//!
//! - [`subject`]: units of a problem, what passes between them, and a plan to improve on.
//! - [`features`]: these as figures without scale.
//! - [`network`], [`weights`], [`rows`]: the network, its parameters, and its one sparse operation.
//! - [`predict`]: what the network says, as plain numbers; `decode` and `guide` make candidates and moves of it.
//! - [`solver`]: the floor, the network and the search as one solver.
//! - [`learn`]: examples, losses and steps.
//! - [`checkpoint`]: networks as bytes.
//! - [`systems`]: GDP, Placeto, HSDAG and HDP, the field's learned systems.
//!
//! candle takes as many threads as `RAYON_NUM_THREADS` and `CANDLE_NUM_THREADS` say, whatever pool it is called from. Where
//! the former is not set, it counts the cores anew at every product of matrices, which takes longer than a small product.

pub mod checkpoint;
mod choices;
mod decode;
pub mod features;
mod guide;
pub mod learn;
pub mod network;
pub mod predict;
pub mod rows;
pub mod solver;
pub mod subject;
pub mod systems;
pub mod weights;

pub use solver::{Origin, Parts, Policy};
