//! The core of Stagewright: documents, graph, cluster, cost model, problem, placement and evaluation.
//!
//! The modules are listed in the order in which they may import one another: each uses only those before it.

pub mod document;
pub mod tolerance;
pub mod seed;
pub mod graph;
pub mod cluster;
pub mod cost;
pub mod objective;
pub mod problem;
pub mod contract;
pub mod meter;
pub mod placement;
pub mod evaluate;
pub mod certificate;
pub mod bound;
pub mod solver;
