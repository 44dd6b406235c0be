//! The convex rule: no path between forward operators leaves a device and returns.
//!
//! For one device with operators S, walk the forward operators in topological order and mark those on a path that has
//! left S: v is marked if a predecessor is, or if a predecessor is in S and v is not. The rule is broken if a marked v
//! is in S. Each device takes one bit, so a machine word covers 64 devices: O((operators + pins) · ⌈devices / 64⌉).

use stagewright_core::document::Pass;

use super::Placed;
use crate::read::Problem;
use crate::violation::{Findings, Subject, ViolationKind};

/// Reports for each device one path that leaves it and returns.
pub(crate) fn check(problem: &Problem, placed: &Placed, findings: &mut Findings) {
    let before = predecessors(problem);
    let mut left = vec![0u64; problem.graph.operators.len()];
    for first in (0..placed.devices.len()).step_by(64) {
        let bit = |device: usize| match device.checked_sub(first) {
            Some(offset) if offset < 64 => 1u64 << offset,
            _ => 0,
        };
        let mut reported = 0;
        for &operator in &problem.graph.order {
            let device = placed.device_of[operator];
            left[operator] = before[operator].iter().fold(0, |left_here, &from| {
                let source = placed.device_of[from];
                left_here | left[from] | if source == device { 0 } else { bit(source) }
            });
            let home = bit(device);
            if left[operator] & home & !reported != 0 {
                reported |= home;
                let path = way_back(placed, &before, &left, operator, home);
                report(problem, placed, device, &path, findings);
            }
        }
    }
}

/// Forward predecessors of each forward operator; empty for the other operators.
fn predecessors(problem: &Problem) -> Vec<Vec<usize>> {
    let graph = &problem.graph;
    let mut before = vec![Vec::new(); graph.operators.len()];
    for tensor in graph.tensors.iter().filter(|tensor| graph.pass(tensor.producer) == Pass::Forward) {
        for &consumer in &tensor.consumers {
            if graph.pass(consumer) == Pass::Forward {
                before[consumer].push(tensor.producer);
            }
        }
    }
    before
}

/// A path that leaves the device of `end` and returns to it at `end`, last operator first. Each step goes to a
/// predecessor on a path that has left the device, until one is on the device itself.
fn way_back(placed: &Placed, before: &[Vec<usize>], left: &[u64], end: usize, home: u64) -> Vec<usize> {
    let device = placed.device_of[end];
    let mut path = vec![end];
    let mut here = end;
    loop {
        let outside = here != end;
        let exit = before[here].iter().copied().find(|&from| outside && placed.device_of[from] == device);
        let step = exit.or_else(|| before[here].iter().copied().find(|&from| left[from] & home != 0));
        let Some(from) = step else { return path };
        path.push(from);
        if exit.is_some() {
            return path;
        }
        here = from;
    }
}

fn report(problem: &Problem, placed: &Placed, device: usize, path: &[usize], findings: &mut Findings) {
    let name = placed.name(device);
    findings.push(ViolationKind::Order, Subject::Device(name.to_owned()), || {
        let operator =
            |index: Option<&usize>| index.map_or("", |&index| problem.graph.operators[index].name.as_str());
        format!(
            "a path leaves device {name:?} after {:?} for {:?} and comes back at {:?}",
            operator(path.last()),
            operator(path.iter().nth_back(1)),
            operator(path.first()),
        )
    });
}
