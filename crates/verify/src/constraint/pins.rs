//! Every pinned operator is on a device that its pins allow.
//!
//! A pin names devices, kinds or classes. A pin to one device is satisfied by the stage that names this
//! device; the constraint on replicas keeps the other devices of a stage within the same pins.

use super::placement::Draft;
use crate::read::Problem;
use crate::violation::{Findings, Subject, ViolationKind};

/// Reports the operators on devices that their pins don't allow. O(operators).
pub(crate) fn check(problem: &Problem, draft: &Draft, findings: &mut Findings) {
    for (operator, device) in draft.device_of.iter().enumerate() {
        let Some(allowed) = problem.pins.of(operator) else { continue };
        let Some(device) = device.map(|device| &draft.devices[device]) else { continue };
        let Some((kind, number)) = device.seat else { continue };
        if !allowed.holds(kind, number) {
            let name = &problem.graph.operators[operator].name;
            findings.push(ViolationKind::Pins, Subject::Operator(name.clone()), || {
                format!("operator {name:?} is on {:?}, which its pins don't allow", device.document.name)
            });
        }
    }
}
