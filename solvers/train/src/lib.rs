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
//! - [`recipe`]: the distribution of problems, as a TOML file.
//! - [`instance`](mod@instance): the numbered problems of a recipe, the same on every machine.
//! - [`label`](mod@label): a few of the best placements of a problem, with a bound.
//! - [`store`]: a file of labels that survives being killed.
//! - `run`: training runs, in builds with the feature `policy`.
//! - `finetune`: a network adapted to one problem, likewise.
//! - `system`: training runs of the learned systems of the literature, likewise.
//! - `kernels`: networks that predict the seconds of kernels, likewise.

pub mod clusters;
pub mod code;
mod costs;
mod draw;
pub mod families;
#[cfg(feature = "policy")]
pub mod finetune;
pub mod instance;
#[cfg(feature = "policy")]
pub mod kernels;
pub mod label;
pub mod lock;
mod passes;
pub mod recipe;
#[cfg(feature = "policy")]
pub mod run;
mod shape;
pub mod store;
#[cfg(feature = "policy")]
pub mod system;

pub use instance::{Instance, instance};
pub use label::{Label, LabelEffort, Labelled, label};
pub use recipe::Recipe;
pub use store::fill;
