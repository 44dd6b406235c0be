//! Plans of replicas that serve a language model on the devices of a cluster.
//!
//! [`Space`] has all replicas that meet the limits of a [`Problem`](stagewright_serving::Problem), with what each offers. Counts of
//! replicas are an integer program, which [`solve`] solves on HiGHS; a tree of linear programs then bounds the goal of every plan.
//! `docs/serving.md` has the space, the rows of the program, and the certificate.

mod column;
mod document;
#[cfg(feature = "highs")]
mod exchange;
mod kept;
#[cfg(feature = "highs")]
mod linear;
mod pricing;
#[cfg(feature = "highs")]
mod program;
#[cfg(feature = "highs")]
mod proof;
#[cfg(feature = "highs")]
mod rows;
#[cfg(feature = "highs")]
pub mod rules;
mod shape;
mod solution;
#[cfg(feature = "highs")]
mod solver;
mod space;
#[cfg(feature = "highs")]
mod table;
#[cfg(feature = "highs")]
mod tree;

pub use column::Column;
pub use document::planned;
pub use shape::Shape;
pub use solution::{Chosen, NAME, Plan, Solution};
#[cfg(feature = "highs")]
pub use solver::{solve, solve_over};
pub use space::{Size, Space};
