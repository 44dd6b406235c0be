//! The latency: one sample through calls of accelerators and host operators.
//!
//! A call j starts when all its inputs are ready and the previous call on its accelerator has ended. It
//! receives its inputs, computes and sends its outputs, one after the other, and none of its outputs is ready
//! before its end. A host operator starts when all its inputs are ready; any number of them run concurrently,
//! and a host pays nothing to move data, which is already in its memory:
//!
//! - start_j = max over u outside j feeding j of ready_u, and end_{j−1};
//! - end_j = start_j + Σ_{v ∈ j} p_v + Σ_{t into j} x_t + Σ_{t out of j} x_t, and ready_v = end_j for v ∈ j;
//! - ready_v = max over u feeding v of ready_u, + p_v, on a host.
//!
//! A tensor goes into j once if it is made outside j and read in j, by any number of operators, and out of j
//! once if it is made in j and read outside, by any number of operators: an accelerator keeps nothing from
//! one call to the next. In other words, each call pays once for each tensor it cuts. The duration of a step
//! depends on no other step, so the value, the last ready time, is the longest path of steps.

use super::value::{DeviceScore, Score};
use crate::constraint::Placed;
use crate::constraint::calls::Steps;
use crate::constraint::waits::Waits;
use crate::error::CheckError;
use crate::read::{Problem, cost};
use crate::topological;

/// Scores a placement with calls; `None` if an operator is on a device that can't run it.
///
/// O(steps + operators + pins log pins), with the logarithm of the pins of one tensor.
pub(crate) fn latency(
    problem: &Problem,
    placed: &Placed,
    steps: &Steps,
    waits: &Waits,
) -> Result<Option<Score>, CheckError> {
    let mut seconds = vec![0.0; steps.list.len()];
    let mut devices = vec![DeviceScore { load: 0.0, compute: 0.0, communication: 0.0 }; placed.devices.len()];
    let kind = |device: usize| &problem.cluster.kinds[placed.devices[device].kind];
    for (operator, &step) in problem.graph.operators.iter().zip(&steps.step_of) {
        let device = steps.list[step].device;
        let Some(compute) = cost::seconds(operator, kind(device)) else { return Ok(None) };
        seconds[step] += compute;
        devices[device].compute += compute;
    }
    let mut touched = Vec::new();
    for tensor in &problem.graph.tensors {
        tensor.touches(&steps.step_of, &mut touched);
        if touched.len() < 2 {
            continue;
        }
        for &step in &touched {
            let device = steps.list[step].device;
            let transfer = cost::transfer(tensor, kind(device))?;
            seconds[step] += transfer;
            devices[device].communication += transfer;
        }
    }
    for device in &mut devices {
        device.load = device.compute + device.communication;
    }
    let ready = topological::longest(&waits.order, &waits.arcs, &seconds);
    let value = ready.into_iter().fold(0.0, f64::max);
    Ok(Some(Score { value, halves: None, devices, uplinks: Vec::new() }))
}
