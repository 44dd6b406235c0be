//! The head of the page.

use stagewright_core::document::ServingPlanDocument;

use crate::html::markup::{self, escape};
use crate::html::names::visible;
use crate::html::shell::Section;
use crate::html::summary::{facts, figures, gauge, heading, reasons, verdict};
use crate::serving::{amount, asked};
use crate::units;

/// Summary section: the question and the figures of a plan, or the reason why there is none.
pub(super) fn section(plan: &ServingPlanDocument) -> Section {
    let goal = plan.question.goal;
    let shown = |value: Option<f64>| {
        let amount = value.map(|value| amount(goal, value));
        let parts = amount.as_ref().and_then(|amount| amount.split_once(' '));
        parts.map_or_else(|| "none".into(), |(number, unit)| format!("{number} <small>{unit}</small>"))
    };
    let side = if goal.is_maximised() { "at most" } else { "at least" };
    let bound = format!("{side}, by {}", plan.bound.source);
    let stop = plan.stop.as_ref().map(|stop| format!("stopped by {stop}")).unwrap_or_default();
    let tokens = plan.tokens_per_s.map(|tokens| format!("{tokens:.0} tokens/s")).unwrap_or_default();
    let rows = [
        (goal.name(), shown(plan.value), tokens.as_str()),
        ("bound", shown(plan.bound.value), if plan.bound.value.is_some() { &bound } else { "" }),
        ("gap", plan.gap.map_or_else(|| "none".to_owned(), markup::percent), &stop),
        ("solved in", markup::seconds(plan.seconds), &plan.solver),
    ];
    let eyebrow = format!("{}: {}", goal.name(), asked(&plan.question));
    let mut markup = heading(&eyebrow, &plan.model, Some(&plan.cluster.name));
    markup.push_str(&verdict(plan.status, plan.gap));
    markup.push_str(&figures(rows));
    if let Some((value, bound)) = plan.value.zip(plan.bound.value) {
        let (part, whole) = if goal.is_maximised() { (value, bound) } else { (bound, value) };
        if whole > 0.0 && (part / whole).is_finite() {
            markup.push_str(&gauge(part / whole));
        }
    }
    markup.push_str(&reasons(plan.reason.as_deref()));
    let question = &plan.question;
    let limit = |limit: Option<f64>| limit.map_or_else(|| "any".into(), units::seconds);
    let load = match (question.concurrency, question.rate) {
        (Some(requests), None) => format!("{requests} requests in flight"),
        (None, Some(rate)) => format!("{rate} requests a second"),
        (Some(requests), Some(rate)) => format!("{requests} requests in flight, {rate} a second"),
        (None, None) => "as large as possible".into(),
    };
    let [ttft, tpot] = match question.limits.is_mean() {
        true => ["mean TTFT at most", "mean TPOT at most"],
        false => ["p95 of TTFT at most", "p95 of TPOT at most"],
    };
    let available: u64 =
        plan.cluster.kinds.iter().filter(|kind| !kind.host).map(|kind| u64::from(kind.count)).sum();
    let mut rows = vec![
        ("engine", escape(&visible(&question.engine))),
        ("load", escape(&load)),
        (ttft, escape(&limit(question.ttft_s))),
        (tpot, escape(&limit(question.tpot_s))),
    ];
    rows.extend(plan.moved_bytes.map(|moved| ("weights to load", escape(&units::bytes(moved)))));
    rows.extend(plan.devices.map(|devices| ("devices", format!("{devices} of {available} in use"))));
    markup.push_str(&facts(&rows));
    Section { id: "summary", title: "Summary", markup }
}
