//! The core of Stagewright: documents, graph, cluster, cost model, problem, placement and evaluation.
//!
//! Each module imports only those before it in this order: `bits`, `ids`, `csr`, `text`, `document`, `tolerance`, `seed`,
//! `stop`, `graph`, `cluster`, `objective`, `kernel`, `cost`, `memory`, `magnitude`, `derived`, `problem`, `contract`, `placement`,
//! `holdings`, `meter`, `offload`, `simulate`, `schedule`, `evaluate`, `uncertainty`, `calls`, `certificate`, `bound`, `solver`.

pub mod bits;
pub mod bound;
pub mod calls;
pub mod certificate;
pub mod cluster;
pub mod contract;
pub mod cost;
pub mod csr;
mod derived;
pub mod document;
pub mod evaluate;
pub mod graph;
pub mod holdings;
pub mod ids;
pub mod kernel;
mod magnitude;
pub mod memory;
pub mod meter;
pub mod objective;
pub mod offload;
mod overhead;
pub mod placement;
pub mod problem;
pub mod schedule;
pub mod seed;
pub mod simulate;
pub mod solver;
pub mod stop;
pub mod text;
pub mod tolerance;
pub mod uncertainty;
