//! Local plans for a terminal.

use stagewright_core::document::{LocalMemoryDocument, LocalPlanDocument, LocalSettingDocument};
use stagewright_core::text::visible;
use stagewright_report::grid::{Column, Grid};
use stagewright_report::local::{context, layers, objective, speed};
use stagewright_report::units::{bytes, percent, seconds};
use stagewright_report::wrap::facts;

/// Formats a plan.
pub(super) fn plan(plan: &LocalPlanDocument, width: Option<u16>) -> String {
    let mut lines = vec![("model", visible(&plan.model).into_owned())];
    lines.push(("objective", objective(&plan.objective)));
    lines.push(("value", plan.objective.value_s.map_or_else(|| "no plan".into(), seconds)));
    lines.extend(plan.setting.as_ref().map(|setting| ("speed", speed(plan, setting))));
    lines.push(("bound", bound_text(plan)));
    lines.extend(plan.gap.map(|gap| ("gap", percent(gap))));
    let stopped = plan.stop.as_ref().map(|stop| format!(", stopped by {stop}")).unwrap_or_default();
    lines.push(("status", format!("{}{stopped}", plan.status.name())));
    lines.extend(plan.reason.as_ref().map(|reason| ("reason", reason.clone())));
    lines.push(("solver", format!("{}, {}", plan.solver, seconds(plan.seconds))));
    let Some(setting) = &plan.setting else { return facts(lines, width) };
    lines.push(("context", context(setting)));
    let mut text = facts(lines, width);
    text.push('\n');
    text.push_str(&memories(setting, width));
    text.push('\n');
    text.push_str(&picture(setting));
    text.push_str("\nllama-server ");
    text.push_str(&setting.flags);
    text.push('\n');
    text
}

fn bound_text(plan: &LocalPlanDocument) -> String {
    match plan.bound.value_s {
        Some(value) => format!("{} ({})", seconds(value), plan.bound.source),
        None => "none".into(),
    }
}

/// Formats a bound.
pub(super) fn bound(plan: &LocalPlanDocument, width: Option<u16>) -> String {
    facts([("bound", bound_text(plan))], width)
}

/// What every memory holds.
pub(super) fn memories(setting: &LocalSettingDocument, width: Option<u16>) -> String {
    let mut grid = Grid::new([
        ("memory", Column::Words),
        ("kind", Column::Words),
        ("layers", Column::Words),
        ("weights", Column::Figures),
        ("cache", Column::Figures),
        ("buffers", Column::Figures),
        ("in use", Column::Figures),
        ("of", Column::Figures),
    ]);
    for memory in [&setting.host].into_iter().chain(&setting.devices) {
        let size = |count: u64| bytes(count as f64);
        grid.row([
            memory.name.clone(),
            visible(&memory.kind).into_owned(),
            layers(memory, setting.blocks),
            size(memory.weights),
            size(memory.cache),
            size(memory.compute.saturating_add(memory.other)),
            size(memory.total()),
            size(memory.memory),
        ]);
    }
    grid.text(width)
}

/// Layers by memory, a character each: `█` whole, `▒` with projections elsewhere, `░` on the host.
pub(super) fn picture(setting: &LocalSettingDocument) -> String {
    let is_divided = |block: u64| setting.overrides.iter().any(|moved| moved.blocks.contains(&block));
    let line = |memory: &LocalMemoryDocument, whole: char| {
        let [first, end] = memory.slots;
        let blocks: String = (first..end.min(setting.blocks))
            .map(|block| if is_divided(block) { '▒' } else { whole })
            .collect();
        (!blocks.is_empty()).then(|| format!("{} {blocks}", memory.name))
    };
    let host = line(&setting.host, '░');
    let devices = setting.devices.iter().filter_map(|device| line(device, '█'));
    let lines: Vec<String> = host.into_iter().chain(devices).collect();
    format!("layers  {}\n", lines.join("  "))
}
