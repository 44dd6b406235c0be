//! Serving plans as text.

use stagewright_core::document::{ServingBoundDocument, ServingGoal, ServingPlanDocument};
use stagewright_report::grid::{Column, Grid};
pub(super) use stagewright_report::serving::{amount, asked, kind, rate, stages};
use stagewright_report::units::{percent, seconds};
use stagewright_report::wrap::{facts, lines};
use stagewright_serving::{Report, Verdict};

use crate::tasks::answer::checked_text;

pub(super) fn shown(goal: ServingGoal, bound: &ServingBoundDocument) -> String {
    match bound.value {
        Some(value) => format!("{} ({})", amount(goal, value), bound.source),
        None => "none".into(),
    }
}

/// Formats a plan for a terminal of `width` characters.
pub(super) fn text(plan: &ServingPlanDocument, width: Option<u16>) -> String {
    let goal = plan.question.goal;
    let mut rows = vec![
        ("model", format!("{}, {}", plan.model, plan.question.engine)),
        ("requests", asked(&plan.question)),
        (goal.name(), plan.value.map_or_else(|| "no plan".into(), |value| amount(goal, value))),
    ];
    let side = if goal.is_maximised() { "at most" } else { "at least" };
    let side = plan.bound.value.map_or_else(String::new, |_| format!(" {side}"));
    rows.push(("bound", shown(goal, &plan.bound) + &side));
    rows.extend(plan.gap.map(|gap| ("gap", percent(gap))));
    if let (Some(rate), Some(tokens), Some(devices)) = (plan.requests_per_s, plan.tokens_per_s, plan.devices)
    {
        rows.push((
            "serves",
            format!("{} requests/s, {tokens:.0} tokens/s, {devices} devices", self::rate(rate)),
        ));
    }
    rows.extend(moved(plan).map(|moved| ("moved", moved)));
    let stopped = plan.stop.as_ref().map(|stop| format!(", stopped by {stop}")).unwrap_or_default();
    rows.push(("status", format!("{}{stopped}", plan.status.name())));
    rows.push(("solver", format!("{}, {}", plan.solver, seconds(plan.seconds))));
    let mut text = facts(rows, width);
    if let Some(reason) = &plan.reason {
        text.push('\n');
        text.push_str(&lines(reason, width));
    }
    if !plan.replicas.is_empty() {
        text.push('\n');
        text.push_str(&replicas(plan, width));
    }
    text
}

/// Replicas that stay, and the price of weights that others load; `None` if the question has no start, or there is no plan.
fn moved(plan: &ServingPlanDocument) -> Option<String> {
    let (start, bytes) = (plan.question.start.as_ref()?, plan.moved_bytes?);
    let running = start.replicas.iter().fold(0_u64, |sum, replica| sum.saturating_add(replica.count));
    let kept: u64 = plan.replicas.iter().map(|replica| replica.kept).sum();
    let gigabytes = bytes / 1e9;
    let paid = amount(plan.question.goal, gigabytes * start.price_per_gb);
    Some(format!("{kept} of {running} replicas stay, {gigabytes:.1} GB of weights are loaded for {paid}"))
}

/// Replicas as a table.
fn replicas(plan: &ServingPlanDocument, width: Option<u16>) -> String {
    let has_start = plan.question.start.is_some();
    let mut columns = vec![("replicas", Column::Figures)];
    columns.extend(has_start.then_some(("stay", Column::Figures)));
    columns.extend([
        ("role", Column::Words),
        ("stages", Column::Words),
        ("batch", Column::Figures),
        ("requests/s", Column::Figures),
        ("TTFT", Column::Figures),
        ("TPOT", Column::Figures),
    ]);
    let mut grid = Grid::new(columns);
    let several = plan.question.classes.len() > 1;
    for replica in &plan.replicas {
        let class = if several { format!(", class {}", replica.class) } else { String::new() };
        let batch = if replica.batch == 0 { String::new() } else { replica.batch.to_string() };
        let mut cells = vec![replica.count.to_string()];
        cells.extend(has_start.then(|| replica.kept.to_string()));
        cells.extend([
            format!("{}{class}", replica.role.name()),
            stages(replica, &plan.cluster),
            batch,
            rate(replica.requests_per_s),
            replica.ttft_s.map_or_else(String::new, seconds),
            replica.tpot_s.map_or_else(String::new, seconds),
        ]);
        grid.row(cells);
    }
    grid.text(width)
}

/// Formats the result of a check.
pub(super) fn checked(plan: &ServingPlanDocument, report: &Report, width: Option<u16>) -> String {
    let goal = plan.question.goal;
    let shown_value = |value: Option<f64>| value.map_or_else(|| "none".into(), |value| amount(goal, value));
    let verdict = match report.bound {
        Verdict::NoClaim => "not claimed".into(),
        Verdict::NotVerified => "not verified".into(),
        Verdict::Verified { proved } if proved.is_finite() => {
            format!("verified, {} is proved", amount(goal, proved))
        }
        Verdict::Verified { .. } => "verified, nothing serves the load".into(),
        Verdict::Refuted => "refuted".into(),
    };
    let rows = vec![
        ("value", shown_value(report.value)),
        ("claimed", shown_value(plan.value)),
        ("bound", format!("{}: {verdict}", shown(goal, &plan.bound))),
    ];
    let is_proved = matches!(report.bound, Verdict::Verified { .. });
    checked_text(rows, plan.status, report.value.is_some(), is_proved, &report.violations, width)
}
