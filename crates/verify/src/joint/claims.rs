//! The value, the figures of the stages, the gap, the status and the bound match those recomputed from the plan.

use stagewright_core::document::{JOINT_BOUND_SOURCES, JointPlanDocument, PlanStatus, STOP_REASONS};
use stagewright_core::tolerance;
use stagewright_core::units::{bytes, bytes_apart, seconds_apart};

use super::{JointReport, JointStageFigures, JointVerdict, JointViolation};
use crate::claim::gap::gaps_apart;

/// Absolute tolerance of a stated gap, the same as for other plans: a gap may have been rounded for display.
const GAP_ABSOLUTE: f64 = 1e-6;

/// The derived figures of a plan.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) value: f64,
    /// Figures of the stages, in the order of the plan.
    pub(super) stages: Vec<JointStageFigures>,
    /// Whether it is proved that no plan takes less than the stated bound.
    pub(super) is_bound_proven: bool,
}

/// Whether the document has a plan to check. A document that claims to have none must not list stages.
pub(super) fn has_plan(plan: &JointPlanDocument) -> bool {
    matches!(plan.status, PlanStatus::Optimal | PlanStatus::Feasible)
        || !plan.stages.is_empty()
        || plan.objective.value_s.is_some()
}

/// Compares the claims with the figures and writes the report. `violations` are those of the constraints.
pub(super) fn report(
    plan: &JointPlanDocument,
    figures: Option<Figures>,
    mut violations: Vec<JointViolation>,
) -> JointReport {
    let is_feasible = violations.is_empty();
    if let Some(figures) = &figures {
        stated_figures(plan, figures, &mut violations);
    }
    // Only a plan that satisfies the constraints refutes a bound.
    let value = figures.as_ref().map(|figures| figures.value).filter(|_| is_feasible);
    let is_proven = figures.as_ref().is_some_and(|figures| figures.is_bound_proven);
    let bound = verdict(plan, value, is_proven, &mut violations);
    gap(plan, &mut violations);
    status(plan, &mut violations);
    let mut name = |field, found: &str, known: &[&str]| {
        if !known.contains(&found) {
            violations.push(JointViolation::Name { field, found: found.to_owned() });
        }
    };
    name("the source of the bound", &plan.bound.source, JOINT_BOUND_SOURCES);
    plan.stop.iter().for_each(|reason| name("the reason to stop", reason, STOP_REASONS));
    let (value_s, stages) = match figures {
        Some(figures) => (Some(figures.value), figures.stages),
        None => (None, Vec::new()),
    };
    JointReport { value_s, stages, violations, bound }
}

fn stated_figures(plan: &JointPlanDocument, figures: &Figures, violations: &mut Vec<JointViolation>) {
    let mut compare = |stage, name: &'static str, stated: Option<f64>, found: f64| {
        if let Some(stated) = stated
            && !tolerance::same(stated, found)
        {
            let apart = if name.ends_with("bytes") { bytes_apart } else { seconds_apart };
            let [stated, found] = apart(stated, found);
            violations.push(JointViolation::Figure { stage, name, stated, found });
        }
    };
    compare(None, "value_s", plan.objective.value_s, figures.value);
    for (index, (stage, found)) in plan.stages.iter().zip(&figures.stages).enumerate() {
        let stage_at = Some(index);
        compare(stage_at, "seconds", Some(stage.seconds), found.seconds);
        compare(stage_at, "memory_bytes", Some(stage.memory_bytes), found.memory_bytes);
        for (name, stated, found) in [
            ("forward_s", stage.forward_s, found.forward_s),
            // If weight gradients do not run separately, the document may omit them.
            ("weight_s", stage.weight_s.or(Some(0.0)), found.weight_s),
            ("update_s", stage.update_s, found.update_s),
            ("state_bytes", stage.state_bytes, found.state_bytes),
            ("activation_bytes", stage.activation_bytes, found.activation_bytes),
        ] {
            if let Some(found) = found {
                compare(stage_at, name, stated, found);
            }
        }
    }
    for (index, (stage, found)) in plan.stages.iter().zip(&figures.stages).enumerate() {
        // Bytes on the host are there exactly if states are.
        let is_right = match (stage.host_bytes, found.host_bytes) {
            (Some(stated), Some(found)) => tolerance::same(stated, found),
            (stated, found) => stated.is_none() && found.is_none(),
        };
        if !is_right {
            let [stated, found] = host_bytes_apart(stage.host_bytes, found.host_bytes);
            violations.push(JointViolation::Figure { stage: Some(index), name: "host_bytes", stated, found });
        }
        if u64::from(stage.in_flight) != found.in_flight {
            let (stated, found) = (stage.in_flight.to_string(), found.in_flight.to_string());
            violations.push(JointViolation::Figure { stage: Some(index), name: "in_flight", stated, found });
        }
    }
}

/// Stated and recomputed bytes for a message, of which either may be absent.
fn host_bytes_apart(stated: Option<f64>, found: Option<f64>) -> [String; 2] {
    match (stated, found) {
        (Some(stated), Some(found)) => bytes_apart(stated, found),
        either => [either.0, either.1].map(|amount| amount.map_or_else(|| "null".to_owned(), bytes)),
    }
}

fn verdict(
    plan: &JointPlanDocument,
    value: Option<f64>,
    is_proven: bool,
    violations: &mut Vec<JointViolation>,
) -> JointVerdict {
    let Some(stated) = plan.bound.value_s else { return JointVerdict::NoClaim };
    let limit = match value {
        _ if !stated.is_finite() => None,
        Some(value) if stated > value * (1.0 + tolerance::VALUE_RELATIVE) => Some(value),
        _ if is_proven => return JointVerdict::Verified,
        _ => return JointVerdict::NotVerified,
    };
    violations.push(JointViolation::Bound { stated, most: limit });
    JointVerdict::Refuted
}

/// The stated gap is that of the plan's own value and bound, and null if either is null.
fn gap(plan: &JointPlanDocument, violations: &mut Vec<JointViolation>) {
    let found = match (plan.objective.value_s, plan.bound.value_s) {
        (Some(value), Some(bound)) if value.is_finite() && bound.is_finite() => {
            Some(tolerance::gap(value, bound))
        }
        // A value or bound that is not finite is reported elsewhere.
        (Some(_), Some(_)) => return,
        _ => None,
    };
    let is_right = match (plan.gap, found) {
        (None, None) => true,
        (Some(stated), Some(found)) => (stated - found).abs() <= GAP_ABSOLUTE,
        _ => false,
    };
    if !is_right {
        let [stated, found] = gaps_apart(plan.gap, found);
        violations.push(JointViolation::Figure { stage: None, name: "gap", stated, found });
    }
}

fn status(plan: &JointPlanDocument, violations: &mut Vec<JointViolation>) {
    let value = plan.objective.value_s;
    let is_closed = || match (value, plan.bound.value_s) {
        (Some(value), Some(bound)) => tolerance::gap(value, bound) == 0.0,
        _ => false,
    };
    let why = match plan.status {
        PlanStatus::Optimal | PlanStatus::Feasible if value.is_none() => {
            "the status promises a plan, but the value is null"
        }
        PlanStatus::Optimal if !is_closed() => {
            "the plan claims to be optimal, but its bound is below its value"
        }
        PlanStatus::Infeasible if has_plan(plan) => {
            "the problem is claimed to be infeasible, but there is a plan"
        }
        PlanStatus::Unknown if has_plan(plan) => "the status says that no plan was found, but there is one",
        _ => return,
    };
    violations.push(JointViolation::Status { why });
}
