//! Priorities for operators with assigned devices.
//!
//! The upward rank of HEFT with actual instead of mean costs: the longest path from an operator to the end, its own
//! seconds on its device included. A tensor takes its route's seconds to readers on other devices and none to readers
//! on the same device.

use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::OpId;

use super::instance::Instance;

/// All operators by decreasing rank under an assignment. O(pins + operators log operators).
pub fn order(instance: &Instance<'_>, device_of: &[DeviceId]) -> Vec<OpId> {
    let graph = instance.graph();
    let mut rank = vec![0.0f64; graph.operator_count()];
    for &op in graph.topological().iter().rev() {
        let here = device_of[op.index()];
        let mut after = 0.0f64;
        for &tensor in graph.outputs(op) {
            let mut route = None;
            for &reader in graph.consumers(tensor) {
                let there = device_of[reader.index()];
                let sent = match route {
                    _ if there == here => 0.0,
                    Some((to, seconds)) if to == there => seconds,
                    _ => {
                        let seconds = instance.fabric().route(tensor, here, there).seconds;
                        route = Some((there, seconds));
                        seconds
                    }
                };
                after = after.max(sent + rank[reader.index()]);
            }
        }
        rank[op.index()] = instance.seconds(op, here) + after;
    }
    super::rank::falling(instance, &rank)
}
