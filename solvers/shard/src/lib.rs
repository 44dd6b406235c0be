//! Strategies of operators under a memory limit.
//!
//! A compiler that shards a model chooses a strategy for every operator: how its tensors are laid out over the devices.
//! A strategy costs time and memory, a pair of strategies of neighbours the time to convert between layouts. [`solve`]
//! minimises the cost under a limit on the memory of the live nodes at any time, with a lower bound from prices of
//! memory.
//!
//! ```
//! use stagewright_core::document::StrategiesDocument;
//! use stagewright_core::solver::{Context, Limits, Silent};
//! use stagewright_shard::{Problem, Request, solve};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let document: StrategiesDocument = serde_json::from_str(
//!     r#"{"problem": {"name": "two", "usage_limit": 3,
//!         "nodes": {"intervals": [[0, 2], [1, 3]], "costs": [[1, 4], [0, 5]], "usages": [[2, 1], [2, 1]]},
//!         "edges": {"nodes": [[0, 1]], "costs": [[0, 3, 0, 0]]}}}"#,
//! )?;
//! let problem = Problem::new(document.problem)?;
//! let mut observer = Silent;
//! let mut context = Context::new(Limits::default(), &mut observer);
//! let solution = solve(&problem, Request::default(), &mut context)?;
//! assert_eq!(solution.strategies, Some(vec![1, 0]));
//! assert_eq!((solution.cost, solution.bound), (Some(4), Some(4.0)));
//! # Ok(())
//! # }
//! ```

mod branch;
pub mod code;
mod dual;
mod eliminate;
mod improve;
mod network;
mod problem;
mod reduce;
mod solver;

pub use problem::{Problem, ProblemError};
pub use solver::{NAME, Request, Solution, solve};
