//! Priorities for operators whose devices are known.
//!
//! The upward rank of HEFT with actual instead of mean costs: the seconds of an operator on its device and the
//! longest way from it to the end, where a tensor takes its route's seconds to readers elsewhere and none to those
//! on the same device.

use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::OpId;

use super::scene::Scene;

/// All operators by falling rank under an assignment. O(pins + operators log operators).
pub fn order(scene: &Scene<'_>, device_of: &[DeviceId]) -> Vec<OpId> {
    let graph = scene.graph();
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
                        let seconds = scene.fabric().route(tensor, here, there).seconds;
                        route = Some((there, seconds));
                        seconds
                    }
                };
                after = after.max(sent + rank[reader.index()]);
            }
        }
        rank[op.index()] = scene.seconds(op, here) + after;
    }
    super::rank::falling(scene, &rank)
}
