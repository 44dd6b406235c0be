//! Claims of a plan as a whole: names, figures, gap and status.

use stagewright_core::document::{
    PlanStatus, SERVING_BOUND_SOURCES, SERVING_PLAN_SCHEMA, STOP_REASONS, ServingCertificateDocument,
    ServingPlanDocument,
};
use stagewright_core::tolerance;

use super::replicas::figure;
use super::report::Findings;
use super::totals::Totals;
use crate::fleet::{Fleet, Problem};

/// Checks names, and that the plan answers the question of the problem for its devices.
pub(super) fn names(problem: &Problem, plan: &ServingPlanDocument, findings: &mut Findings) {
    if plan.schema != SERVING_PLAN_SCHEMA {
        let message = format!("it is `{}`, and should be `{SERVING_PLAN_SCHEMA}`", plan.schema);
        findings.wrong("name", "schema", message);
    }
    if plan.question != problem.question {
        findings.wrong("question", "question", "the plan answers another question");
    }
    if Fleet::new("cluster", &plan.cluster).ok().as_ref() != Some(&problem.fleet) {
        findings.wrong("question", "cluster", "the plan has other devices than the problem");
    }
    let source = plan.bound.source.as_str();
    if !SERVING_BOUND_SOURCES.contains(&source) {
        findings.wrong("name", "bound.source", format!("there is no source `{source}`"));
    } else if source != evidence(plan.bound.certificate.as_ref()) {
        findings.wrong("name", "bound.source", format!("the source `{source}` contradicts the certificate"));
    }
    if let Some(reason) = plan.stop.as_deref().filter(|reason| !STOP_REASONS.contains(reason)) {
        findings.wrong("name", "stop", format!("there is no reason `{reason}`"));
    }
    if !(plan.seconds >= 0.0 && plan.seconds.is_finite()) {
        findings.wrong("figure", "seconds", format!("{} is no time", plan.seconds));
    }
}

/// The source of a bound with some evidence.
fn evidence(certificate: Option<&ServingCertificateDocument>) -> &'static str {
    match certificate {
        Some(ServingCertificateDocument::Tree { .. }) => "prices",
        Some(ServingCertificateDocument::Table {}) => "table",
        None => "none",
    }
}

/// Checks figures, gap and status. `sums` are those of the replicas, if all are in the space.
pub(super) fn figures(
    problem: &Problem,
    plan: &ServingPlanDocument,
    sums: Option<&Totals>,
    findings: &mut Findings,
) {
    let has_plan = !plan.replicas.is_empty();
    if sums.is_some() || !has_plan {
        let found = |read: fn(&Totals) -> f64| sums.map(read);
        value(plan.value, sums, findings);
        let moved = found(|sums| sums.moved).filter(|_| problem.question.start.is_some());
        figure("moved_bytes", plan.moved_bytes, moved, findings);
        figure("requests_per_s", plan.requests_per_s, found(|sums| sums.rate), findings);
        figure("tokens_per_s", plan.tokens_per_s, found(|sums| sums.tokens_per_s), findings);
        let stated = plan.devices.map(|devices| devices as f64);
        figure("devices", stated, found(|sums| sums.devices as f64), findings);
    }
    let distance = sums.zip(plan.bound.value).map(|(sums, bound)| {
        let sign = if problem.question.goal.is_maximised() { 1.0 } else { -1.0 };
        distance(sign * bound, sign * sums.value)
    });
    if sums.is_some() || !has_plan {
        gap(plan.gap, distance, findings);
    }
    let is_known = matches!(plan.status, PlanStatus::Optimal | PlanStatus::Feasible);
    if is_known != has_plan {
        let (status, shown) = (plan.status.name(), if has_plan { "a plan" } else { "no plan" });
        findings.wrong("status", "status", format!("it is `{status}`, and there is {shown}"));
    }
    if plan.status == PlanStatus::Optimal && distance.is_some_and(|distance| distance > 0.0) {
        findings.wrong("status", "status", "it is `optimal`, and value and bound differ");
    }
    if plan.status == PlanStatus::Optimal && plan.bound.value.is_none() {
        findings.wrong("status", "status", "it is `optimal`, and there is no bound");
    }
}

/// Compares a stated value with the right one, in which a price may take nearly all of the goal.
fn value(stated: Option<f64>, sums: Option<&Totals>, findings: &mut Findings) {
    let found = sums.map(|sums| sums.value);
    let is_right = sums.zip(stated).is_some_and(|(sums, stated)| {
        (stated - sums.value).abs() <= tolerance::VALUE_RELATIVE * sums.value.abs().max(sums.move_price)
    });
    if !is_right {
        figure("value", stated, found, findings);
    }
}

/// How far a bound is above a value, both in maximised form, as a share of the larger; 0 if that is rounding.
fn distance(bound: f64, value: f64) -> f64 {
    let share = (bound - value) / bound.abs().max(value.abs());
    if share <= 2.0 * tolerance::OPTIMAL_RELATIVE || share.is_nan() { 0.0 } else { share }
}

/// Compares a stated gap with the right one. Gaps are shares, so that value and bound may each be wrong by their tolerance.
fn gap(stated: Option<f64>, found: Option<f64>, findings: &mut Findings) {
    let is_right = match (stated, found) {
        (None, None) => true,
        (Some(stated), Some(found)) => (stated - found).abs() <= 2.0 * tolerance::VALUE_RELATIVE,
        _ => false,
    };
    if !is_right {
        let shown = |gap: Option<f64>| gap.map_or("null".into(), |gap| gap.to_string());
        findings.wrong("gap", "gap", format!("{} is stated, and {} is right", shown(stated), shown(found)));
    }
}
