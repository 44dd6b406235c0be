//! Latency: one sample through offloaded calls, each accelerator running its operators as one call or few.
//!
//! The execution rule is defined in [`stagewright_core::call_timing`]. This module has the solvers, and the bounds on every
//! plan:
//!
//! - [`greedy`]: the published baseline, which fills one accelerator after the other;
//! - [`blocks`]: the best total order of calls and host segments, by dynamic programming over ideals;
//! - [`local`]: local search over calls and hosts, which also accounts for parallel execution;
//! - [`bound`]: chains of calls that wait for one another, which bound the latency and often show the best plan.

pub mod blocks;
pub mod bound;
pub mod greedy;
pub mod host;
pub mod local;
