//! Route of a tensor from one device of the plan to another, and its duration.

use crate::constraint::Placed;
use crate::error::CheckError;
use crate::read::{Kind, Problem, Tensor, cost};

/// A port or uplink, which carries one tensor at a time. Devices are indices in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// Output port of a device.
    Out(usize),
    /// Input port of a device.
    In(usize),
    /// Uplink of a group.
    Uplink(usize),
}

/// Seconds to send a tensor from one device to another, or to its own device.
pub(super) fn seconds(
    problem: &Problem,
    placed: &Placed,
    tensor: &Tensor,
    [from, to]: [usize; 2],
) -> Result<f64, CheckError> {
    let cluster = &problem.cluster;
    let bytes = tensor.document.bytes;
    let [sends, receives] = kinds(problem, placed, [from, to]);
    if let Some(matrix) = cluster.matrix {
        let [row, column] = [(sends, from), (receives, to)]
            .map(|(kind, device)| (kind.before + u64::from(placed.devices[device].number)) as usize);
        return Ok(matrix.delay_s[row][column] + bytes * matrix.seconds_per_byte[row][column]);
    }
    if from == to {
        return Ok(0.0);
    }
    let links = cost::transfer(tensor, sends)?.max(cost::transfer(tensor, receives)?);
    let uplinks = crossed(sends, receives).map(|group| cost::over(&cluster.groups[group].uplink, bytes));
    Ok(uplinks.fold(links, f64::max))
}

/// Ports and uplinks on the route from one device to another.
pub(super) fn ways(problem: &Problem, placed: &Placed, [from, to]: [usize; 2]) -> Vec<Way> {
    let [sends, receives] = kinds(problem, placed, [from, to]);
    let mut ways = Vec::new();
    if !sends.document.host {
        ways.push(Way::Out(from));
    }
    if !receives.document.host {
        ways.push(Way::In(to));
    }
    if problem.cluster.matrix.is_none() {
        ways.extend(crossed(sends, receives).map(Way::Uplink));
    }
    ways
}

fn kinds<'p>(problem: &'p Problem, placed: &Placed, devices: [usize; 2]) -> [&'p Kind<'p>; 2] {
    devices.map(|device| &problem.cluster.kinds[placed.devices[device].kind])
}

/// Groups that a tensor leaves or enters.
fn crossed(sends: &Kind, receives: &Kind) -> impl Iterator<Item = usize> {
    let groups = if sends.group == receives.group { [None, None] } else { [sends.group, receives.group] };
    groups.into_iter().flatten()
}
