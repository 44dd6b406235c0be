//! The gap is (value − bound) / value, as the plan states the two, and null where one of them is.

use stagewright_core::document::PlanDocument;
use stagewright_core::tolerance;

use crate::violation::{Findings, Subject, ViolationKind};

/// Difference up to which a stated gap is the right one. Gaps are small differences of large numbers and may
/// have been rounded for people.
const GAP_ABSOLUTE: f64 = 1e-6;

/// Reports a wrong gap. A value or bound that is no number is reported as such, not here.
pub(crate) fn check(plan: &PlanDocument, findings: &mut Findings) {
    let expected = match (plan.objective.value_s, plan.bound.value_s) {
        (Some(value), Some(bound)) if value.is_finite() && bound.is_finite() => {
            Some(tolerance::gap(value, bound))
        }
        (Some(_), Some(_)) => return,
        _ => None,
    };
    let right = match (plan.gap, expected) {
        (None, None) => true,
        (Some(gap), Some(expected)) => (gap - expected).abs() <= GAP_ABSOLUTE,
        _ => false,
    };
    if !right {
        let say = |gap: Option<f64>| gap.map_or("null".to_owned(), |gap| format!("{gap:?}"));
        findings.push(ViolationKind::Gap, Subject::Plan, || {
            format!("the gap is {}, but value and bound give {}", say(plan.gap), say(expected))
        });
    }
}
