//! The check of a local plan: its command line read anew, with its placement, memory and speed.

use serde::Serialize;
use stagewright_core::document::{LocalPlanDocument, PlanStatus};
use stagewright_core::tolerance;
use stagewright_llamacpp::Location;
use stagewright_llamacpp::memory::MARGIN;
use stagewright_report::local::speed;
use stagewright_report::units::{bytes, percent, seconds};
use stagewright_report::wrap::facts;

use super::document::with_gap;
use super::question::{Fixed, Local};
use super::text;
use crate::failure::Result;
use crate::tasks::answer::checked_text;
use crate::tasks::cluster::{ClusterSource, ClusterSummary, is_same, made_for_another};
use crate::tasks::{Checked, Session, Shown, json};

/// The report as JSON.
#[derive(Serialize)]
struct Summary {
    holds: bool,
    cluster: ClusterSummary,
    value_s: Option<f64>,
    /// Seconds of the fastest plan that a search found for the same context and cache.
    best_s: Option<f64>,
    /// (value − best) / value.
    behind: Option<f64>,
    bound: &'static str,
    violations: Vec<String>,
    setting: Option<stagewright_core::document::LocalSettingDocument>,
}

/// Verifies a plan, or the command line of a user.
///
/// # Errors
/// If the line cannot be read (L007, L008), or its memory is not followed (L009).
pub(super) fn check(
    task: &Local,
    plan: LocalPlanDocument,
    label: &str,
    session: &mut Session<'_>,
) -> Result<Checked> {
    if !is_same(&task.cluster, &plan.cluster) {
        session.note(&made_for_another(label));
    }
    let Some(claimed) = &plan.setting else { return without_plan(task, &plan, session) };
    let (fixed, judged) = task.given_line(label, &claimed.flags)?;
    let own = task.planned(&plan.solver, &fixed, Some(&judged), plan.seconds);
    let mut violations: Vec<String> = judged
        .memory
        .shortfalls(&judged.setting, task.machine.host)
        .into_iter()
        .map(|(location, lacking)| {
            let name = match location {
                Location::Host => "RAM".to_owned(),
                Location::Device(device) => judged.setting.devices[device].name.clone(),
            };
            format!("{name} lacks {}, of which {} are a margin", bytes(lacking as f64), bytes(MARGIN as f64))
        })
        .collect();
    let value = own.objective.value_s;
    let claims = plan.objective.value_s.zip(value);
    if let Some((claim, value)) = claims.filter(|(claim, value)| !tolerance::same(*claim, *value)) {
        violations.push(format!("the value is {}, and the plan claims {}", seconds(value), seconds(claim)));
    }
    if own.setting.as_ref() != Some(claimed) && violations.is_empty() {
        violations.push("the plan claims other memory, slots or speeds than its command line has".to_owned());
    }
    violations.extend(contradictions(&plan, value));
    violations.extend(departures(task, &fixed));
    // A search is about the micro-batches of the question and one encoding of the cache.
    let question = task.question(&fixed);
    let (own_setting, usual) = (&judged.setting, question.setting(Vec::new(), judged.setting.micro_batch));
    let is_searched = question.micro_batches.contains(&own_setting.micro_batch)
        && (usual.batch, usual.keys, usual.values, usual.unified)
            == (own_setting.batch, own_setting.keys, own_setting.values, own_setting.unified);
    let best = task.solved(fixed, session)?.solution;
    let best_s = best.plan.as_ref().map(|plan| plan.seconds);
    let bound = match plan.bound.value_s {
        None => "no-claim",
        Some(_) if best.stop.is_some() || !is_searched => "not-verified",
        Some(bound) if bound <= best.bound * (1.0 + tolerance::VALUE_RELATIVE) => "verified",
        Some(_) => "refuted",
    };
    if bound == "refuted" {
        violations
            .push("the bound is above the value of a plan, or above what a second search proves".to_owned());
    }
    let behind = value.zip(best_s).map(|(value, best)| tolerance::gap(value, best));
    let summary = Summary {
        holds: violations.is_empty(),
        cluster: ClusterSummary::new(ClusterSource::Given, &task.cluster, &task.label),
        value_s: value,
        best_s,
        behind,
        bound,
        violations: violations.clone(),
        setting: own.setting.clone(),
    };
    Ok(Checked {
        holds: summary.holds,
        value,
        bound: plan.bound.value_s,
        is_proved: bound == "verified",
        violations: violations.clone(),
        shown: Shown::new(json(&summary)?, move |width| {
            let mut lines = vec![("value", value.map_or_else(|| "not known".into(), seconds))];
            lines.extend(own.setting.as_ref().map(|setting| ("speed", speed(&own, setting))));
            lines.extend(best_s.map(|best| ("best plan", format!("{}, found by a search", seconds(best)))));
            lines.extend(behind.map(|behind| ("behind", percent(behind.max(0.0)))));
            lines.extend(plan.bound.value_s.map(|value| ("bound", format!("{}: {bound}", seconds(value)))));
            let mut text = checked_text(lines, PlanStatus::Feasible, true, false, &violations, width);
            if let Some(setting) = &own.setting {
                text.push('\n');
                text.push_str(&text::memories(setting, width));
                text.push('\n');
                text.push_str(&text::picture(setting));
            }
            text
        }),
    })
}

/// Parameters of a line that are not those of the question.
fn departures(task: &Local, fixed: &Fixed) -> Vec<String> {
    let mut found = Vec::new();
    let needed = task.lengths().saturating_mul(fixed.sequences.max(1));
    if let Some(context) = task.context.filter(|&context| context != fixed.context) {
        found.push(format!("the line has a context of {}, and {context} is asked for", fixed.context));
    }
    if fixed.context < needed {
        found.push(format!("a context of {} does not hold {needed} tokens", fixed.context));
    }
    if let Some(cache) = task.cache.filter(|&cache| cache != fixed.cache) {
        found.push(format!(
            "the line has a cache of {}, and {} is asked for",
            fixed.cache.name(),
            cache.name()
        ));
    }
    found
}

/// Claims of a plan that contradict each other, or its value.
fn contradictions(plan: &LocalPlanDocument, value: Option<f64>) -> Vec<String> {
    let mut found = Vec::new();
    let (claim, bound) = (plan.objective.value_s, plan.bound.value_s);
    if claim.is_none() && value.is_some() {
        found.push("the plan claims no value, and its command line has one".to_owned());
    }
    if plan.gap != with_gap(plan.clone()).gap {
        found.push("the gap is not that of the value and the bound".to_owned());
    }
    let is_above = |value: f64, bound: f64| bound > value && !tolerance::same(value, bound);
    if value.zip(bound).is_some_and(|(value, bound)| is_above(value, bound)) {
        found.push("the bound is above the value".to_owned());
    }
    let is_reached = claim.zip(bound).is_some_and(|(claim, bound)| !is_above(bound, claim));
    let is_consistent = match plan.status {
        PlanStatus::Optimal => is_reached,
        PlanStatus::Feasible => true,
        PlanStatus::Infeasible | PlanStatus::Unknown => false,
    };
    if !is_consistent {
        found.push(format!("the plan has a value, and claims to be {}", plan.status.name()));
    }
    found
}

/// The check of a document without a plan: a second search says whether there is one.
fn without_plan(task: &Local, plan: &LocalPlanDocument, session: &mut Session<'_>) -> Result<Checked> {
    let found = task.best(session)?.solution.plan;
    let is_infeasible = plan.status == PlanStatus::Infeasible;
    let is_refuted = is_infeasible && found.is_some();
    let violations: Vec<String> =
        is_refuted.then(|| "a search finds a plan".to_owned()).into_iter().collect();
    let summary = Summary {
        holds: !is_refuted,
        cluster: ClusterSummary::new(ClusterSource::Given, &task.cluster, &task.label),
        value_s: None,
        best_s: found.map(|plan| plan.seconds),
        behind: None,
        bound: "no-claim",
        violations: violations.clone(),
        setting: None,
    };
    Ok(Checked {
        holds: !is_refuted,
        value: None,
        bound: None,
        is_proved: false,
        violations,
        shown: Shown::new(json(&summary)?, move |width| {
            let result = match (is_refuted, is_infeasible) {
                (true, _) => "1 violation: a search finds a plan",
                (false, true) => "not verified: infeasibility",
                (false, false) => "no plan to check",
            };
            facts([("result", result.to_owned())], width)
        }),
    })
}
