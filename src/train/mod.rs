//! Training data of a learned placement policy: random problems, and the best placements that solvers find for them.
//!
//! Data flows one way:
//!
//! ```text
//! Recipe -> (family -> graph, cluster) -> Instance -> label -> store
//! ```
//!
//! - [`families`]: graphs, from random structures and from the built-in models.
//! - [`clusters`]: devices for a graph, with links and memory from ample to tight.
//! - [`recipe`]: what to draw from, as a TOML file says it.
//! - [`instance`](mod@instance): the problem of a number under a recipe, the same on every machine.
//! - [`label`](mod@label): a few of the best placements of a problem, with a bound.
//! - [`store`]: labels in a file that a kill cannot spoil.
//! - `run`: training runs, in a build with the feature `policy`.
//! - `finetune`: a network adapted to one problem, likewise.
//! - `system`: training runs of the field's learned systems, likewise.

pub mod clusters;
mod costs;
mod draw;
pub mod families;
#[cfg(feature = "policy")]
pub mod finetune;
pub mod instance;
pub mod label;
mod passes;
pub mod recipe;
#[cfg(feature = "policy")]
pub mod run;
pub mod store;
#[cfg(feature = "policy")]
pub mod system;

pub use instance::{Instance, instance};
pub use label::{Effort, Label, Labelled, label};
pub use recipe::Recipe;
pub use store::fill;
