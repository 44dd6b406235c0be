//! Plans of replicas that serve a language model on the devices of a cluster.
//!
//! [`Space`] has all replicas that meet the limits of a [`Problem`](stagewright_serving::Problem), with what each offers. Counts of
//! replicas are an integer program, which [`solve`] solves on HiGHS; a tree of linear programs then bounds the goal of every plan.
//! `docs/serving.md` has the space, the rows of the program, and the certificate.

mod document;
#[cfg(feature = "highs")]
mod linear;
#[cfg(feature = "highs")]
mod program;
mod solution;
#[cfg(feature = "highs")]
mod solver;
mod space;
#[cfg(feature = "highs")]
mod table;
#[cfg(feature = "highs")]
mod tree;

pub use document::planned;
pub use solution::{Chosen, NAME, Plan, Solution};
#[cfg(feature = "highs")]
pub use solver::{solve, solve_over};
pub use space::{Column, Shape, Size, Space};
