//! The makespan: one step under dataflow execution, simulated from its first event to its last.
//!
//! # With ports
//!
//! - A device runs one operator at a time, without preemption. An operator is ready when all its inputs are
//!   on its device. The ready operator that is first by priority runs; without priorities, the one that
//!   became ready first, with ties in document order.
//! - A tensor is sent once to each other device that reads it. The transfer is requested when its producer ends, and
//!   queues at every port on its route: the sender's output, the receiver's input (a host has neither, because the data
//!   is already in its memory), and the uplink of each group that it leaves or enters. Queues are ordered by the time
//!   of the request, then by tensor, then by destination. A transfer starts when it is first in all its queues and all
//!   its ports are idle; it then occupies all of them for as long as the slowest alone takes. If there is a matrix, it
//!   gives the seconds, and routes contain no uplinks.
//! - At one instant, everything that ends does so before anything starts. Then operators start before
//!   transfers, one by one, and a task of zero duration ends before the next task starts.
//! - A device always holds the parameters and optimiser state of its operators; an operator's workspace while it runs;
//!   and a tensor from the start of its producer, or of its transfer to the device, until the last reader there has
//!   ended, and on the producer's device also every outgoing transfer. Memory that is freed at an instant is available
//!   to whatever starts at that instant.
//!
//! # Without contention
//!
//! The rules of GiPH's simulator (Hu et al., MLSys 2023), for tensors with several readers:
//!
//! - A tensor is sent to each reader separately and concurrently, each transfer taking the seconds above. On
//!   the producer's device, one transfer makes it available to all readers at once; it takes the seconds on
//!   the diagonal of the matrix, or no time without a matrix.
//! - Events happen one by one, by time, then in the order in which they were scheduled. An event schedules its
//!   consequences for the same time, after the events already scheduled for that time. When an operator ends, its
//!   device takes the next operator, and then its tensors are sent. When a transfer ends, its readers have the tensor.
//!   When an operator has its last input, it requests its device (operators that one transfer makes ready do so in
//!   document order). When a device takes an operator, the operator starts. A task of zero duration also ends in its
//!   turn.
//! - An idle device accepts a requesting operator immediately, without waiting for others; otherwise operators
//!   queue for it by priority, or in the order of their requests.
//! - The tensors of an operator are sent in document order, each to its readers in the order in which the tensor names
//!   them.
//! - Memory is held as with ports. Without ports, the communication time of every device is zero.
//!
//! The value is the time of the last event. [`step`] lists the work, [`ports`] and [`contention_free`]
//! simulate it, and [`memory`] tracks the bytes held meanwhile. Times are sums of seconds in the order of
//! events, so equal times are bit-identical in every implementation.

mod contention_free;
mod memory;
mod ports;
mod route;
mod step;
mod story;

use stagewright_core::document::Execution;

use super::value::{DeviceScore, Score};
use crate::constraint::Placed;
use crate::constraint::priority::Precedence;
use crate::error::CheckError;
use crate::read::{Problem, cost};
use route::Way;
use step::Step;

/// Scores a placement as one step, and returns the peak bytes of each device; `None` if an operator is on a
/// device that can't run it.
///
/// O((operators + pins) log (operators + pins)).
pub(crate) fn makespan(
    problem: &Problem,
    placed: &Placed,
    precedence: &Precedence,
    execution: Execution,
) -> Result<Option<(Score, Vec<f64>)>, CheckError> {
    let Some(step) = Step::new(problem, placed, execution)? else { return Ok(None) };
    let story = match execution {
        Execution::Ports => ports::play(&step, precedence),
        Execution::ContentionFree => contention_free::play(&step, precedence),
    };
    let peaks = memory::peaks(problem, placed, &step, &story.moments);

    let mut devices = vec![DeviceScore { load: 0.0, compute: 0.0, communication: 0.0 }; placed.devices.len()];
    let mut uplinks = vec![0.0; problem.cluster.groups.len()];
    for (&device, seconds) in placed.device_of.iter().zip(&step.seconds) {
        devices[device].compute += seconds;
    }
    for transfer in &step.transfers {
        for &way in &transfer.ways {
            match way {
                Way::Out(device) | Way::In(device) => devices[device].communication += transfer.seconds,
                Way::Uplink(group) => uplinks[group] += transfer.seconds,
            }
        }
    }
    for device in &mut devices {
        device.load = device.compute + device.communication;
    }
    // After the last event, every device synchronises its gradients of shared parameters, one after the
    // other.
    let mut synchronising = vec![0.0f64; placed.devices.len()];
    for gradient in problem.gradients() {
        let touched = gradient.touches(&placed.device_of);
        for &device in touched.iter().filter(|_| touched.len() > 1) {
            synchronising[device] +=
                cost::gradient(&gradient, &problem.cluster.kinds[placed.devices[device].kind])?;
        }
    }
    let value = story.end + synchronising.into_iter().fold(0.0, f64::max);
    Ok(Some((Score { value, halves: None, devices, uplinks }, peaks)))
}
