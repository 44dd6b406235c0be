//! The load of a group's uplink: every tensor with a pin inside and a pin outside crosses it once, and so
//! does the gradient of a shared parameter with readers on both sides.

use stagewright_core::document::Pass;

use super::sums::half;
use crate::constraint::Placed;
use crate::read::{Problem, cost};

/// Seconds of every uplink, forward and backward, in the order of the groups. O(pins of all tensors).
pub(super) fn loads(problem: &Problem, placed: &Placed) -> Vec<[f64; 2]> {
    let mut loads = vec![[0.0; 2]; problem.cluster.groups.len()];
    let mut cross = |touched: &[usize], pass: Pass, bytes: f64, times: f64| {
        // Groups of the devices; a device without a group is outside all of them.
        let mut sides: Vec<Option<usize>> =
            touched.iter().map(|&device| problem.cluster.kinds[placed.devices[device].kind].group).collect();
        sides.sort_unstable();
        sides.dedup();
        for group in sides.iter().flatten().filter(|_| sides.len() > 1) {
            loads[*group][half(pass)] += times * cost::over(&problem.cluster.groups[*group].uplink, bytes);
        }
    };
    let mut touched = Vec::new();
    for tensor in &problem.graph.tensors {
        tensor.touches(&placed.device_of, &mut touched);
        let pass = problem.graph.pass(tensor.producer);
        cross(&touched, pass, tensor.document.bytes, problem.transfers(tensor));
    }
    for gradient in problem.gradients() {
        cross(&gradient.touches(&placed.device_of), Pass::Backward, gradient.bytes, problem.once());
    }
    loads
}
