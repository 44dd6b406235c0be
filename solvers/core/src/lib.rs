//! The core of Stagewright: documents, graph, cluster, cost model, problem, placement and evaluation.
//!
//! The modules are listed in the order in which they may import one another: each uses only those before it.

pub mod document;
pub mod tolerance;
