//! The plan meets the requirements that it states: the number of stages, the devices with work, the operators that are alone.

use std::collections::{BTreeMap, BTreeSet};

use stagewright_core::document::RequirementsDocument;

use super::Placed;
use crate::read::Problem;
use crate::violation::{Findings, Subject, ViolationKind};

/// Devices that count for requirements and second goals: all but hosts, or hosts in a cluster that has nothing else.
pub(crate) fn counted(problem: &Problem) -> Vec<bool> {
    let kinds = &problem.cluster.kinds;
    let has_others = kinds.iter().any(|kind| !kind.document.host && kind.document.count > 0);
    kinds.iter().map(|kind| kind.document.host != has_others).collect()
}

/// Reports the requirements that the placement does not meet. O(operators log operators + devices).
pub(crate) fn check(
    problem: &Problem,
    placed: &Placed,
    required: Option<&RequirementsDocument>,
    findings: &mut Findings,
) {
    let Some(RequirementsDocument { stages, all_devices, alone }) = required else { return };
    let mut broken = |message: String| findings.push(ViolationKind::Requirements, Subject::Plan, || message);
    let used: Vec<_> = placed.devices.iter().filter(|device| !device.operators.is_empty()).collect();
    if let Some(stages) = stages.filter(|&stages| used.len() as u64 != u64::from(stages)) {
        broken(format!("the plan must have {stages} stages, but it has {}", used.len()));
    }
    if *all_devices {
        let counted = counted(problem);
        for (kind, spec) in problem.cluster.kinds.iter().enumerate().filter(|(kind, _)| counted[*kind]) {
            let of_kind = used.iter().filter(|device| device.kind == kind);
            let busy: u64 = of_kind.map(|device| u64::from(device.document.replicas)).sum();
            let count = u64::from(spec.document.count);
            if busy < count {
                let name = &spec.document.name;
                broken(format!(
                    "every device must have work, but {} of kind {name:?} have none",
                    count - busy
                ));
            }
        }
    }
    let operators = &problem.graph.operators;
    let index: BTreeMap<&str, usize> = match alone.is_empty() {
        true => BTreeMap::new(),
        false => {
            operators.iter().enumerate().map(|(index, operator)| (operator.name.as_str(), index)).collect()
        }
    };
    for group in alone {
        let members: Option<BTreeSet<usize>> =
            group.iter().map(|name| index.get(name.as_str()).copied()).collect();
        let Some(members) = members.filter(|members| !members.is_empty()) else {
            broken("the plan requires operators to be alone that the model does not have".into());
            continue;
        };
        let devices: BTreeSet<usize> = members.iter().map(|&operator| placed.device_of[operator]).collect();
        let of_devices: usize = devices.iter().map(|&device| placed.devices[device].operators.len()).sum();
        if devices.len() > 1 || of_devices > members.len() {
            let name = &group[0];
            broken(format!(
                "{name:?} and its group must be alone on one device, but are on {}, which run {of_devices} \
                 operators",
                devices.len()
            ));
        }
    }
}
