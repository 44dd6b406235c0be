//! The gap is (value − bound) / value with the plan's own value and bound, and null if either is null.

use stagewright_core::document::PlanDocument;
use stagewright_core::tolerance;
use stagewright_core::units::{percent, percent_apart};

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
        findings.push(ViolationKind::Gap, Subject::Plan, || {
            let [claimed, actual] = gaps_apart(plan.gap, expected);
            format!("the gap is {claimed}, but value and bound give {actual}")
        });
    }
}

/// A claimed and a recomputed gap for a message, of which either may be absent.
pub(crate) fn gaps_apart(claimed: Option<f64>, actual: Option<f64>) -> [String; 2] {
    match (claimed, actual) {
        (Some(claimed), Some(actual)) => percent_apart(claimed, actual),
        gaps => [gaps.0, gaps.1].map(|gap| gap.map_or_else(|| "null".to_owned(), percent)),
    }
}
