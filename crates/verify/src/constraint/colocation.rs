//! All operators of a colocation group are on one device.

use super::placement::Draft;
use crate::read::Problem;
use crate::violation::{Findings, Subject, ViolationKind};

/// Reports the split groups, each with two of its operators. Unplaced operators are reported by the placement
/// constraint. O(operators).
pub(crate) fn check(problem: &Problem, draft: &Draft, findings: &mut Findings) {
    for members in &problem.graph.classes {
        let mut placed = members.iter().filter_map(|&operator| Some((operator, draft.device_of[operator]?)));
        let Some((first, here)) = placed.next() else { continue };
        let Some((other, there)) = placed.find(|&(_, device)| device != here) else { continue };
        let operators = problem.graph.operators;
        let group = operators[first].colocation.clone().unwrap_or_default();
        findings.push(ViolationKind::Colocation, Subject::Group(group.clone()), || {
            format!(
                "colocation group {group:?} is split: {:?} is on {:?}, {:?} on {:?}",
                operators[first].name,
                draft.devices[here].document.name,
                operators[other].name,
                draft.devices[there].document.name,
            )
        });
    }
}
