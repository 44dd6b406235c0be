//! Every operator is on a device that can run it: its seconds on the device's class are known, measured or
//! derived.

use super::placement::Draft;
use crate::read::{Problem, cost};
use crate::violation::{Findings, Subject, ViolationKind};

/// Reports the operators that their device can't run. O(operators).
pub(crate) fn check(problem: &Problem, draft: &Draft, findings: &mut Findings) {
    for (operator, device) in problem.graph.operators.iter().zip(&draft.device_of) {
        let Some(device) = device.map(|device| &draft.devices[device]) else { continue };
        let Some((kind, _)) = device.seat else { continue };
        let kind = &problem.cluster.kinds[kind];
        if cost::seconds(operator, kind).is_none() {
            let (name, class) = (&operator.name, &kind.document.class);
            findings.push(ViolationKind::Support, Subject::Operator(name.clone()), || {
                format!("operator {name:?} can't run on {:?}, of class {class:?}", device.document.name)
            });
        }
    }
}
