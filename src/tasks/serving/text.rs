//! Serving plans as text.

use stagewright_core::document::{
    ClusterDocument, ReplicaDocument, ServingBoundDocument, ServingGoal, ServingPlanDocument,
    ServingQuestionDocument, ServingStageDocument,
};
use stagewright_report::grid::{Column, Grid};
use stagewright_report::units::{percent, seconds};
use stagewright_report::wrap::{facts, lines};
use stagewright_serving::{Report, Verdict};

use crate::tasks::answer::checked_text;

/// A value of a goal.
pub(super) fn amount(goal: ServingGoal, value: f64) -> String {
    match goal {
        ServingGoal::Throughput => format!("{} requests/s", rate(value)),
        // With a price of weights, numbers of devices are not whole.
        ServingGoal::Devices if (value - value.round()).abs() > 1e-6 => format!("{value:.3} devices"),
        ServingGoal::Devices => format!("{value:.0} devices"),
        ServingGoal::Price => format!("{value:.2} an hour"),
        ServingGoal::Cache => format!("{value:.0} tokens"),
    }
}

/// Requests a second in three digits at least; 0 of what is left by rounding.
pub(super) fn rate(value: f64) -> String {
    if value.abs() < 1e-9 || value.abs() >= 0.1 { format!("{value:.3}") } else { format!("{value:.2e}") }
}

pub(super) fn shown(goal: ServingGoal, bound: &ServingBoundDocument) -> String {
    match bound.value {
        Some(value) => format!("{} ({})", amount(goal, value), bound.source),
        None => "none".into(),
    }
}

/// The question in words.
fn asked(question: &ServingQuestionDocument) -> String {
    let classes = question.classes.iter().map(|class| {
        let prefix = match class.shared_prefix {
            0 => String::new(),
            tokens => format!(" ({tokens} cached)"),
        };
        let share =
            if question.classes.len() > 1 { format!(", {}", percent(class.share)) } else { String::new() };
        format!("{}{prefix} to {}{share}", class.input, class.output)
    });
    let load = question.concurrency.map(|requests| format!("; {requests} in flight"));
    let rate = question.rate.map(|rate| format!("; {rate} a second"));
    let ttft = question.ttft_s.map(|limit| format!("; TTFT {}", seconds(limit)));
    let tpot = question.tpot_s.map(|limit| format!("; TPOT {}", seconds(limit)));
    let rest: String = [load, rate, ttft, tpot].into_iter().flatten().collect();
    format!("{} tokens{rest}", classes.collect::<Vec<_>>().join("; "))
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

/// Name of a kind for display: its class, unless several kinds have that.
pub(super) fn kind<'c>(name: &'c str, cluster: &'c ClusterDocument) -> &'c str {
    let class = cluster.kinds.iter().find(|kind| kind.name == name).map(|kind| kind.class.as_str());
    let is_alone = |class: &&str| cluster.kinds.iter().filter(|kind| kind.class == **class).count() == 1;
    class.filter(is_alone).unwrap_or(name)
}

/// Stages in short, equal neighbours together.
pub(super) fn stages(replica: &ReplicaDocument, cluster: &ClusterDocument) -> String {
    let degrees = |stage: &ServingStageDocument| {
        let data = if stage.data > 1 { format!(" dp{}", stage.data) } else { String::new() };
        let experts = if stage.experts > 1 { format!(" ep{}", stage.experts) } else { String::new() };
        format!("{} tp{}{data}{experts}", kind(&stage.kind, cluster), stage.tensor)
    };
    let [only] = &replica.stages[..] else {
        let alike = |left: &ServingStageDocument, right: &ServingStageDocument| {
            (&left.kind, left.tensor, left.layers) == (&right.kind, right.tensor, right.layers)
        };
        let runs = replica.stages.chunk_by(alike).map(|run| {
            let times = if run.len() > 1 { format!("{} of ", run.len()) } else { String::new() };
            format!("{times}{} ({} layers)", degrees(&run[0]), run[0].layers)
        });
        return runs.collect::<Vec<_>>().join(" > ");
    };
    degrees(only)
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
