//! The names of the bound sources and of the stop reason are known.

use stagewright_core::document::{BOUND_SOURCES, PlanDocument, ROBUST_BOUND_SOURCES, STOP_REASONS};

use crate::violation::{Findings, Subject, ViolationKind};

/// Reports unknown names.
pub(crate) fn check(plan: &PlanDocument, findings: &mut Findings) {
    let mut report = |kind, what: &str, name: &str| {
        findings.push(kind, Subject::Plan, || format!("{what} is `{name}`, which does not exist"));
    };
    if !BOUND_SOURCES.contains(&&*plan.bound.source) {
        report(ViolationKind::Bound, "the source of the bound", &plan.bound.source);
    }
    if let Some(source) = plan.robust.as_ref().map(|robust| &robust.source)
        && ![BOUND_SOURCES, ROBUST_BOUND_SOURCES].concat().contains(&&**source)
    {
        report(ViolationKind::Robust, "the source of the bound on the worst case", source);
    }
    if let Some(reason) = plan.stop.as_deref().filter(|reason| !STOP_REASONS.contains(reason)) {
        report(ViolationKind::Status, "the reason to stop", reason);
    }
}
