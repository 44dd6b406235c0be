//! The core of Stagewright: documents, graph, cluster, cost model, problem, placement and evaluation.
//!
//! The modules are listed in the order in which they may import one another: each uses only those before it.

pub mod bound;
pub mod certificate;
pub mod cluster;
pub mod contract;
pub mod cost;
pub mod document;
pub mod evaluate;
pub mod graph;
mod magnitude;
pub mod meter;
pub mod objective;
pub mod placement;
pub mod problem;
pub mod seed;
pub mod solver;
pub mod tolerance;
