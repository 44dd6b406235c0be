//! The seconds of the solve are not negative.

use stagewright_core::document::PlanDocument;
use stagewright_core::units;

use crate::violation::{Findings, Subject, ViolationKind};

/// Reports invalid seconds.
pub(crate) fn check(plan: &PlanDocument, findings: &mut Findings) {
    let seconds = plan.seconds;
    if !(seconds >= 0.0 && seconds.is_finite()) {
        findings.push(ViolationKind::Seconds, Subject::Plan, || {
            format!("the plan claims that the solve took {}", units::seconds(seconds))
        });
    }
}
