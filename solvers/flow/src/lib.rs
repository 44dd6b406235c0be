//! Layers on unequal nodes that serve a model together.
//!
//! Nodes of different speeds, or in different places, may hold ranges of consecutive layers. Tokens flow from node to node
//! through all layers, and [`solve`] chooses the ranges at which most tokens flow (Mei et al., "Helix: Serving Large
//! Language Models over Heterogeneous GPUs and Network via Max-Flow", ASPLOS 2025), with an upper bound from prices of nodes.
//!
//! ```
//! use stagewright_core::document::LayerFlowDocument;
//! use stagewright_core::solver::{Context, Limits, Silent};
//! use stagewright_flow::{Problem, Request, solve};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let document: LayerFlowDocument = serde_json::from_str(
//!     r#"{"layers": 3, "nodes": [{"throughput": [40, 20]}, {"throughput": [10]}, {"throughput": [15]}],
//!         "links": [["source", 0, 100], [0, 1, 100], [0, 2, 100], [1, "sink", 100], [2, "sink", 100]]}"#,
//! )?;
//! let problem = Problem::new(&document)?;
//! let mut observer = Silent;
//! let mut context = Context::new(Limits::default(), &mut observer);
//! let solution = solve(&problem, &Request::default(), &mut context)?;
//! // The first node holds two layers, and the others the last one.
//! assert_eq!(solution.plan.map(|plan| plan.flow), Some(20.0));
//! # Ok(())
//! # }
//! ```

#![cfg_attr(not(feature = "highs"), allow(dead_code, reason = "the solver reads these"))]

#[cfg(feature = "highs")]
mod blocks;
#[cfg(feature = "highs")]
mod bound;
#[cfg(feature = "highs")]
mod chain;
#[cfg(feature = "highs")]
mod cover;
#[cfg(feature = "highs")]
mod prices;
mod problem;
mod routing;
#[cfg(feature = "highs")]
mod search;
mod solution;
#[cfg(feature = "highs")]
mod solver;

pub use problem::{LARGEST, Problem, ProblemError};
pub use routing::{Ranges, Routing, route};
pub use solution::{Bound, NAME, Plan, Request, Solution};
#[cfg(feature = "highs")]
pub use solver::solve;
