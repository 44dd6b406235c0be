//! The gap is (value − bound) / value with the plan's own value and bound, and null if either is null.

use stagewright_core::document::PlanDocument;
use stagewright_core::tolerance;

use crate::violation::{Findings, Subject, ViolationKind};

/// Absolute tolerance of a stated gap. Gaps are small differences of large numbers and may have been rounded
/// for display.
pub(super) const GAP_ABSOLUTE: f64 = 1e-6;

/// Reports a wrong gap. A non-finite value or bound is reported elsewhere.
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
