//! Latency: one sample through offloaded calls, with one or a few calls per accelerator.
//!
//! The execution rule is defined in [`stagewright_core::call_timing`]. This module contains the solvers, and lower
//! bounds on the latency of every plan:
//!
//! - [`greedy`]: the published baseline, which fills one accelerator after the other;
//! - [`blocks`]: the best total order of calls and host segments, by dynamic programming over ideals;
//! - [`local`]: local search over calls and hosts, which also accounts for parallel execution;
//! - [`bound`]: chains of calls that wait for one another, which bound the latency and often yield the best plan.

pub mod blocks;
pub mod bound;
pub mod greedy;
pub mod host;
pub mod local;
