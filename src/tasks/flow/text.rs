//! Plans of layer flow as text.

use stagewright_core::document::{LayerBoundDocument, LayerPlanDocument};
use stagewright_report::units::{percent, seconds};
use stagewright_report::wrap::facts;
use stagewright_verify::{LayerReport, LayerVerdict};

use super::super::Kind;
use super::super::answer::checked_text;

/// Nodes that a text lists.
const LISTED: usize = 64;

pub(super) fn shown(bound: &LayerBoundDocument) -> String {
    match bound.value {
        Some(value) => format!("{} ({})", Kind::LayerFlow.amount(value), bound.source),
        None => "none".into(),
    }
}

/// Formats a plan for a terminal of `width` characters.
pub(super) fn text(plan: &LayerPlanDocument, layers: usize, nodes: usize, width: Option<u16>) -> String {
    let mut lines = vec![("problem", format!("{}, {layers} layers, {nodes} nodes", plan.problem))];
    lines
        .push(("tokens", plan.value.map_or_else(|| "no plan".into(), |value| Kind::LayerFlow.amount(value))));
    lines.push(("bound", format!("{} at most", shown(&plan.bound))));
    lines.extend(plan.gap.map(|gap| ("gap", percent(gap))));
    if let Some(hops) = plan.hops {
        let limit = plan.max_hops.map(|limit| format!(" of {limit}")).unwrap_or_default();
        lines.push(("hops", format!("{hops}{limit}")));
    }
    let held = |count: usize| {
        let held = plan
            .nodes
            .iter()
            .take(count)
            .map(|held| format!("{}: {}-{}", held.node, held.first, held.first + held.layers - 1));
        held.collect::<Vec<_>>().join(", ")
    };
    if !plan.nodes.is_empty() {
        let rest = plan.nodes.len().saturating_sub(LISTED);
        let more = if rest > 0 { format!(", and {rest} more") } else { String::new() };
        lines.push(("node: layers", held(LISTED) + &more));
    }
    let stopped = plan.stop.as_ref().map(|stop| format!(", stopped by {stop}")).unwrap_or_default();
    lines.push(("status", format!("{}{stopped}", plan.status.name())));
    lines.push(("solver", format!("{}, {}", plan.solver, seconds(plan.seconds))));
    facts(lines, width)
}

fn verdict(verdict: LayerVerdict) -> String {
    match verdict {
        LayerVerdict::NoClaim => "not claimed".into(),
        LayerVerdict::NotVerified => "not verified".into(),
        LayerVerdict::Verified { proved } => {
            format!("verified, its certificate proves {}", Kind::LayerFlow.amount(proved))
        }
        LayerVerdict::Refuted => "refuted".into(),
    }
}

/// Formats the result of a check.
pub(super) fn checked(plan: &LayerPlanDocument, report: &LayerReport, width: Option<u16>) -> String {
    let amount =
        |value: Option<f64>| value.map_or_else(|| "none".into(), |value| Kind::LayerFlow.amount(value));
    let hops = report.hops.map_or_else(|| "none".into(), |hops| hops.to_string());
    let mut lines = vec![("tokens", amount(report.value)), ("hops", hops)];
    lines.extend(plan.value.map(|value| ("claimed", Kind::LayerFlow.amount(value))));
    lines.push(("bound", format!("{}: {}", shown(&plan.bound), verdict(report.bound))));
    let is_proved = matches!(report.bound, LayerVerdict::Verified { .. });
    checked_text(lines, plan.status, report.value.is_some(), is_proved, &report.violations, width)
}
