//! Joint plans for a terminal.

use stagewright_core::document::{
    JointObjectiveKind, JointPlanDocument, JointStageDocument, Schedule, ThroughputDocument,
};
use stagewright_core::text::visible;
use stagewright_report::grid::{Column, Grid};
use stagewright_report::joint::{self, JointFigures};
use stagewright_report::table::sources;
use stagewright_report::units::{bytes, percent, seconds};
use stagewright_report::wrap::facts;
use stagewright_verify::{JointReport, JointVerdict};

use crate::tasks::answer::checked_text;

/// Formats a plan.
pub(super) fn plan(plan: &JointPlanDocument, figures: JointFigures, width: Option<u16>) -> String {
    let mut lines = vec![("model", visible(&plan.model).into_owned())];
    lines.push(("objective", joint::objective(&plan.objective)));
    lines.push(("parallel", joint::parallel(&plan.objective)));
    let runtime = joint::runtime(&plan.objective);
    lines.extend(runtime.map(|name| ("runtime", visible(name).into_owned())));
    lines.extend(joint::cut(&plan.objective).map(|layers| ("cut", layers)));
    if plan.objective.schedules.iter().any(|&schedule| schedule != Schedule::OneFOneB) {
        lines.push(("schedules", joint::schedules(&plan.objective)));
    }
    let value = match plan.objective.value_s {
        Some(value) => joint::value_line(value, plan.throughput.as_ref()),
        None => "no plan".into(),
    };
    lines.push(("value", value));
    lines.push(("bound", bound_text(plan)));
    lines.extend(plan.gap.map(|gap| ("gap", percent(gap))));
    lines.extend(joint::utilisation(plan, figures).map(|share| ("utilisation", share)));
    lines.extend(plan.sources.as_ref().map(|shares| ("costs", sources(shares))));
    if let Some(execution) = &plan.execution {
        let count = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let mut text = format!(
            "{}, dp {}, {} of {}",
            count(plan.stages.len() as u64, "stage"),
            execution.data,
            count(execution.microbatches.into(), "microbatch").replace("microbatchs", "microbatches"),
            execution.microbatch
        );
        if execution.chunks > 1 {
            let devices = joint::pipeline_devices(plan);
            let name = execution.schedule.name();
            text.push_str(&format!(", {name} on pp {devices}, {} stages each", execution.chunks));
        } else if execution.schedule != Schedule::OneFOneB {
            text.push_str(&format!(", {}", execution.schedule.name()));
        }
        if let Some(context) = joint::context(execution) {
            text.push_str(&format!(", cp {context}"));
        }
        if execution.expert > 1 {
            text.push_str(&format!(", ep {}", execution.expert));
        }
        if execution.zero > 0 {
            text.push_str(&format!(", ZeRO {}", joint::zero(execution)));
        }
        if let Some(states) = joint::offload(execution) {
            text.push_str(&format!(", {states}"));
        }
        lines.push(("execution", text));
    }
    let stopped = plan.stop.as_ref().map(|stop| format!(", stopped by {stop}")).unwrap_or_default();
    lines.push(("status", format!("{}{stopped}", plan.status.name())));
    lines.extend(plan.reason.as_ref().map(|reason| ("reason", reason.clone())));
    lines.push(("solver", format!("{}, {}", plan.solver, seconds(plan.seconds))));
    let mut text = facts(lines, width);
    if !plan.stages.is_empty() {
        text.push('\n');
        text.push_str(&stages(plan, width));
    }
    text
}

fn stages(plan: &JointPlanDocument, width: Option<u16>) -> String {
    let is_iteration = plan.objective.kind == JointObjectiveKind::Iteration;
    let mut columns = vec![("stage", Column::Figures)];
    if is_iteration {
        columns.push(("kind", Column::Words));
    }
    columns.extend([
        ("tp", Column::Figures),
        ("dp", Column::Figures),
        ("layers", Column::Words),
        ("recomputed", Column::Figures),
        ("in flight", Column::Figures),
        ("seconds", Column::Figures),
        ("memory", Column::Figures),
    ]);
    let has_host = plan.stages.iter().any(|stage| stage.host_bytes.is_some());
    columns.extend(has_host.then_some(("host's memory", Column::Figures)));
    let mut grid = Grid::new(columns);
    for (index, stage) in plan.stages.iter().enumerate() {
        let mut row = vec![index.to_string()];
        if is_iteration {
            row.push(stage.place().unwrap_or_default());
        }
        row.extend([
            stage.tensor.to_string(),
            stage.data.to_string(),
            layers(stage),
            recomputed(stage),
            stage.in_flight.to_string(),
            seconds(stage.seconds),
            bytes(stage.memory_bytes),
        ]);
        row.extend(has_host.then(|| stage.host_bytes.map(bytes).unwrap_or_default()));
        grid.row(row);
    }
    grid.text(width)
}

/// Names of the first and last layer of a stage, with their number.
fn layers(stage: &JointStageDocument) -> String {
    let name = |layer: Option<&stagewright_core::document::JointLayerDocument>| {
        layer.map(|layer| visible(&layer.layer).into_owned()).unwrap_or_default()
    };
    match stage.layers.len() {
        0 | 1 => name(stage.layers.first()),
        count => format!("{count}: {} to {}", name(stage.layers.first()), name(stage.layers.last())),
    }
}

/// Number of layers of a stage that recompute, or keep activations on the host, by configuration.
fn recomputed(stage: &JointStageDocument) -> String {
    let count = |wanted: &str| stage.layers.iter().filter(|layer| layer.configuration == wanted).count();
    let mut parts = Vec::new();
    for name in ["full", "selective", "offload", "activation recomp"] {
        match count(name) {
            0 => {}
            layers if name == "activation recomp" => parts.push(layers.to_string()),
            layers => parts.push(format!("{layers} {name}")),
        }
    }
    if parts.is_empty() { "0".into() } else { parts.join(", ") }
}

fn bound_text(plan: &JointPlanDocument) -> String {
    match plan.bound.value_s {
        Some(value) => format!("{} ({})", seconds(value), plan.bound.source),
        None => "none".into(),
    }
}

/// Formats the bound of a solve.
pub(super) fn bound(plan: &JointPlanDocument, width: Option<u16>) -> String {
    facts([("bound", bound_text(plan))], width)
}

/// Formats the result of a check.
pub(super) fn checked(
    plan: &JointPlanDocument,
    report: &JointReport,
    throughput: Option<&ThroughputDocument>,
    cluster: &str,
    width: Option<u16>,
) -> String {
    let verdict = match report.bound {
        JointVerdict::NoClaim => "not claimed",
        JointVerdict::NotVerified => "not verified",
        JointVerdict::Refuted => "refuted",
        _ => "verified",
    };
    let value = match report.value_s {
        Some(value) => joint::value_line(value, throughput),
        None => "none".into(),
    };
    let mut lines = vec![("cluster", cluster.to_owned()), ("value", value)];
    lines.extend(plan.objective.value_s.map(|value| ("claimed", seconds(value))));
    lines.push(("bound", format!("{}: {verdict}", bound_text(plan))));
    let has_plan = !plan.stages.is_empty();
    checked_text(lines, plan.status, has_plan, false, &report.violations, width)
}
