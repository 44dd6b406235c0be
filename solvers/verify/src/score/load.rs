//! The load of a device.
//!
//! A tensor is cut by the set S on a device iff some of its pins, its producer and its consumers, are in S and some are
//! not. The device pays for every cut tensor once: sent if the producer is in S, received if only consumers are. So a
//! tensor with pins on two or more devices costs each of them once, and all loads take time proportional to the pins of
//! all tensors. The gradient of a shared parameter costs every device that holds one of several copies once: the device
//! of its first reader sends, the others receive.

use stagewright_core::document::Pass;

use super::cost;
use super::sums::{Sums, half};
use crate::constraint::Placed;
use crate::error::CheckError;
use crate::read::Problem;

/// Seconds of every device, forward and backward, before division among replicas.
///
/// `None` if an operator is on a device that can't run it.
pub(super) fn sums(problem: &Problem, placed: &Placed) -> Result<Option<Vec<[Sums; 2]>>, CheckError> {
    let mut sums = vec![[Sums::default(); 2]; placed.devices.len()];
    for (operator, &device) in problem.graph.operators.iter().zip(&placed.device_of) {
        let kind = &problem.cluster.kinds[placed.devices[device].kind];
        let Some(seconds) = cost::seconds(operator, kind) else { return Ok(None) };
        sums[device][half(operator.pass)].compute += seconds;
    }
    let mut touched = Vec::new();
    for tensor in &problem.graph.tensors {
        tensor.touches(&placed.device_of, &mut touched);
        if touched.len() < 2 {
            continue;
        }
        let from = placed.device_of[tensor.producer];
        let pass = half(problem.graph.pass(tensor.producer));
        for &device in &touched {
            let seconds = cost::transfer(tensor, &problem.cluster.kinds[placed.devices[device].kind])?;
            let sums = &mut sums[device][pass];
            *(if device == from { &mut sums.sent } else { &mut sums.received }) += seconds;
        }
    }
    for gradient in problem.gradients() {
        let (touched, first) = gradient.touches(&placed.device_of);
        for &device in touched.iter().filter(|_| touched.len() > 1) {
            let seconds = cost::gradient(&gradient, &problem.cluster.kinds[placed.devices[device].kind])?;
            let sums = &mut sums[device][half(Pass::Backward)];
            *(if device == first { &mut sums.sent } else { &mut sums.received }) += seconds;
        }
    }
    Ok(Some(sums))
}
