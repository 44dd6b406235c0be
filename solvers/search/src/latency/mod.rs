//! Latency: one sample through offloaded calls, each accelerator running its operators as one call or few.
//!
//! The rule is that of [`stagewright_core::offload`]. Here are the ways to plans:
//!
//! - `greedy`: the published baseline, which fills one accelerator after the other;
//! - `blocks`: the best total order of calls and host segments, by dynamic programming over ideals.

pub mod blocks;
pub mod host;
pub mod local;
