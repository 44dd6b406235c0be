//! The makespan: one step under dataflow execution, played through from its first event to its last.
//!
//! # With ports
//!
//! - A device runs one operator at a time and never interrupts it. An operator may run when all that it reads
//!   is on its device; of those that may, the first by priority runs, else that which could first, the first
//!   of the document where that is the same.
//! - A tensor goes once to each other device that reads it. It asks when its producer ends and stands in line
//!   for what the way takes: the sender's way out, the receiver's way in (a host has neither, its memory is
//!   where the data is), and the uplink of each group that it leaves or enters. Lines go by the time of
//!   asking, then by tensor, then by the device that it goes to. It starts when it is first in all its lines
//!   and nobody is on any of these ways, and has them all to itself for as long as the slowest of them alone
//!   takes. A matrix gives the seconds instead, and with it uplinks are on no way.
//! - At one moment all that ends does so before anything starts. Then operators start before tensors, one by
//!   one, and what takes no time has ended before the next starts.
//! - A device always holds the parameters and optimiser state of its operators, an operator's workspace while
//!   it runs, and a tensor from the start of its producer, or of its arrival, until the last reader there has
//!   ended, and at home also every departure. What ends at a moment is gone before what starts then is there.
//!
//! # Without contention
//!
//! The rules of GiPH's simulator (Hu et al., MLSys 2023), for tensors with several readers:
//!
//! - A tensor goes to each reader on its own, all on their way at once for as long as said above. On its own
//!   device it takes the diagonal of the matrix, or no time, until word is out that it may be read there, by
//!   all at once.
//! - What ends does so one by one, by time, then in the order in which it started, and what takes no time
//!   waits for its turn as well. What becomes ready with one event does so one by one, in the order of the
//!   document. A free device starts what is ready without waiting for more; else operators wait for it by
//!   priority, or in the order in which they were ready.
//! - Where an operator ends, its device starts the next, and then its tensors are sent, in the order of the
//!   document and each to its readers as it names them.
//! - Memory is held as with ports. There are no ports to be loaded, so devices communicate for no time.
//!
//! The value is the moment of the last event. [`step`] says what there is to do, [`ports`] and
//! [`contention_free`] when it is done, [`memory`] what is held meanwhile. Moments are sums of seconds in the
//! order in which things happen, so moments that are equal are so to the last bit, whoever computes them.

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
use crate::read::Problem;
use crate::score::cost;
use route::Way;
use step::Step;

/// Scores a placement as one step, with the most bytes that each of its devices holds; none where an operator
/// is on a device that can't run it.
///
/// O((operators + pins) log (operators + pins)).
pub(crate) fn makespan(
    problem: &Problem,
    placed: &Placed,
    precedence: &Precedence,
    execution: Execution,
) -> Result<Option<(Score, Vec<f64>)>, CheckError> {
    let Some(step) = Step::of(problem, placed, execution)? else { return Ok(None) };
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
    // Gradients of shared parameters are synchronised when all is done, by every device one after the other.
    let mut synchronising = vec![0.0f64; placed.devices.len()];
    for gradient in problem.gradients() {
        let (touched, _) = gradient.touches(&placed.device_of);
        for &device in touched.iter().filter(|_| touched.len() > 1) {
            synchronising[device] +=
                cost::gradient(&gradient, &problem.cluster.kinds[placed.devices[device].kind])?;
        }
    }
    let value = story.end + synchronising.into_iter().fold(0.0, f64::max);
    Ok(Some((Score { value, halves: None, devices, uplinks }, peaks)))
}
