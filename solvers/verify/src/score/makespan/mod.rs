//! The makespan: one step under dataflow execution, played through from its first event to its last.
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
//! The value is the moment of the last event. [`step`] says what there is to do, [`play`] when it is done,
//! [`memory`] what is held meanwhile. Moments are sums of seconds in the order in which things happen, so
//! moments that are equal are so to the last bit, whoever computes them.

mod memory;
mod play;
mod step;

use super::value::{DeviceScore, Score};
use crate::constraint::Placed;
use crate::constraint::priority::Precedence;
use crate::error::CheckError;
use crate::read::Problem;
use step::{Step, Way};

/// Scores a placement as one step, with the most bytes that each of its devices holds; none where an operator
/// is on a device that can't run it.
///
/// O((operators + pins) log (operators + pins)).
pub(crate) fn makespan(
    problem: &Problem,
    placed: &Placed,
    precedence: &Precedence,
) -> Result<Option<(Score, Vec<f64>)>, CheckError> {
    let Some(step) = Step::of(problem, placed)? else { return Ok(None) };
    let story = play::play(&step, precedence);
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
    Ok(Some((Score { value: story.end, halves: None, devices, uplinks }, peaks)))
}
