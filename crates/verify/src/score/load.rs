//! The load of a device.
//!
//! A tensor is cut by the set S on a device iff some of its pins, its producer and its consumers, are in S and some are
//! not. The device pays for every cut tensor once: sent if the producer is in S, received if only consumers are. So a
//! tensor with pins on two or more devices costs each of them once, and computing all loads takes time proportional to
//! the pins of all tensors. The gradient of a shared parameter costs every device that holds one of several copies
//! once.

use stagewright_core::document::Pass;

use super::sums::{Sums, half};
use crate::constraint::Placed;
use crate::error::CheckError;
use crate::read::{Problem, cost};

/// Seconds of every device, forward and backward, before division among replicas.
///
/// `None` if an operator is on a device that can't run it.
pub(super) fn sums(problem: &Problem, placed: &Placed) -> Result<Option<Vec<[Sums; 2]>>, CheckError> {
    let mut sums = vec![[Sums::default(); 2]; placed.devices.len()];
    for (operator, &device) in placed.device_of.iter().enumerate() {
        let kind = &problem.cluster.kinds[placed.devices[device].kind];
        let Some(seconds) = problem.seconds(operator, kind) else { return Ok(None) };
        sums[device][half(problem.graph.pass(operator))].compute += seconds;
    }
    let mut touched = Vec::new();
    for tensor in &problem.graph.tensors {
        tensor.touches(&placed.device_of, &mut touched);
        if touched.len() < 2 {
            continue;
        }
        let from = placed.device_of[tensor.producer];
        let pass = half(problem.graph.pass(tensor.producer));
        let times = problem.transfers(tensor);
        for &device in &touched {
            let seconds = cost::transfer(tensor, &problem.cluster.kinds[placed.devices[device].kind])?;
            let sums = &mut sums[device][pass];
            *(if device == from { &mut sums.sent } else { &mut sums.received }) += times * seconds;
        }
    }
    for gradient in problem.gradients() {
        let touched = gradient.touches(&placed.device_of);
        for &device in touched.iter().filter(|_| touched.len() > 1) {
            let seconds = cost::gradient(&gradient, &problem.cluster.kinds[placed.devices[device].kind])?;
            sums[device][half(Pass::Backward)].synchronised += problem.once() * seconds;
        }
    }
    Ok(Some(sums))
}
