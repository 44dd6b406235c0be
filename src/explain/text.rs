//! Text form of an explanation.

use stagewright_core::document::{ObjectiveDocument, ObjectiveKind, Schedule, ThroughputDocument};

use super::{Bottleneck, Explanation, Sensitivity, Tight, WhatIf, as_it_is};
use crate::report::grid::{Column, Grid};
use crate::report::table;
use crate::report::units::{bytes, name, percent, seconds};
use crate::report::wrap::facts;

/// Renders the whole explanation for a terminal `width` characters wide. `origin` says where the figures come from, and
/// `known` is the value expressed as a throughput.
pub fn text(
    origin: Vec<(&'static str, String)>,
    objective: &ObjectiveDocument,
    explanation: &Explanation,
    what_ifs: &[WhatIf],
    sensitivity: Option<&Sensitivity>,
    known: Option<&ThroughputDocument>,
    width: Option<u16>,
) -> String {
    let mut lines = vec![
        ("objective", table::objective(objective)),
        ("value", table::value_line(objective, explanation.value_s, known)),
    ];
    lines.push(("bound", bound(explanation, what_ifs)));
    lines.extend(origin);
    let of_each = if objective.schedule == Schedule::None { "" } else { " a microbatch" };
    lines.extend(explanation.bottlenecks.iter().map(|it| ("bottleneck", parts(it, of_each))));
    lines.extend(explanation.tight.iter().map(|it| ("tight", tight(it))));
    lines.extend(explanation.merged.iter().map(|it| ("merged", it.text())));
    lines.extend(explanation.serial.iter().map(|it| ("serial", it.text())));
    lines.extend(explanation.violations.iter().map(|it| ("broken", it.clone())));
    let of_costs = sensitivity.map(Sensitivity::lines).unwrap_or_default();
    let named = |(index, line)| (if index == 0 { "sensitivity" } else { "" }, line);
    lines.extend(of_costs.into_iter().enumerate().map(named));
    let mut sections = vec![facts(lines, width)];
    sections.extend(explanation.bottlenecks.iter().filter_map(items).map(|it| it.text(width)));
    sections.push(slack(objective, explanation).text(width));
    if explanation.bounds.len() > 1 {
        sections.push(table::bounds(&explanation.bounds).text(width));
    }
    if !what_ifs.is_empty() {
        sections.push(changes(explanation.value_s, what_ifs).text(width));
    }
    let grids = sensitivity.map(Sensitivity::grids).unwrap_or_default();
    sections.extend(grids.iter().map(|grid| grid.text(width)));
    sections.join("\n")
}

/// The strongest bound: a closed-form one, or the one proved by solving the unchanged problem.
fn bound(explanation: &Explanation, what_ifs: &[WhatIf]) -> String {
    let closed = explanation.bounds.first().and_then(|bound| Some((bound.value_s?, &bound.source)));
    let solved = as_it_is(what_ifs).and_then(|baseline| Some((baseline.bound_s?, &baseline.source)));
    match (closed, solved) {
        (Some(closed), Some(solved)) if solved.0 >= closed.0 => Some(solved),
        (closed, solved) => closed.or(solved),
    }
    .map_or_else(|| "none".into(), |(value, source)| format!("{} ({source})", seconds(value)))
}

/// Formats a bottleneck with its parts on one line.
fn parts(bottleneck: &Bottleneck, of_each: &str) -> String {
    let parts: Vec<String> = bottleneck
        .parts
        .iter()
        .filter(|part| part.seconds > 0.0)
        .map(|part| {
            let share = table::share(part.seconds, bottleneck.seconds);
            format!("{} {} ({})", part.name, seconds(part.seconds), percent(share))
        })
        .collect();
    let whole = format!("{}, {}{of_each}", name(&bottleneck.resource), seconds(bottleneck.seconds));
    if parts.is_empty() { whole } else { format!("{whole}: {}", parts.join(", ")) }
}

fn tight(tight: &Tight) -> String {
    match tight {
        Tight::Memory { device, share } => {
            format!("{} of the memory of {} is in use", percent(*share), name(device))
        }
        Tight::Devices { kind, count: 1 } => format!("the only {} is in use", name(kind)),
        Tight::Devices { kind, count } => format!("all {count} {} are in use", name(kind)),
        Tight::Calls { device, calls: 1 } => {
            format!("{} has one call, the maximum", name(device))
        }
        Tight::Calls { device, calls } => {
            format!("{} has {calls} calls, the maximum", name(device))
        }
    }
}

/// The longest items of a bottleneck, if there are any.
fn items(bottleneck: &Bottleneck) -> Option<Grid> {
    let title = format!("longest in {}", name(&bottleneck.resource));
    let mut grid = Grid::of(&[
        (Column::Names, &[&title]),
        (Column::Words, &[""]),
        (Column::Figures, &["takes", "of it"]),
    ]);
    for item in &bottleneck.items {
        let share = percent(table::share(item.seconds, bottleneck.seconds));
        grid.row([name(&item.name), item.role.clone(), seconds(item.seconds), share]);
    }
    (!bottleneck.items.is_empty()).then_some(grid)
}

fn slack(objective: &ObjectiveDocument, explanation: &Explanation) -> Grid {
    let (busy, left) = match objective.kind {
        ObjectiveKind::Makespan => ("compute", "idle"),
        ObjectiveKind::Latency => ("in use", "idle"),
        ObjectiveKind::Throughput => ("in use", "slack"),
    };
    let mut grid =
        Grid::of(&[(Column::Names, &["device"]), (Column::Figures, &[busy, left, "memory", "free"])]);
    for device in &explanation.slack {
        grid.row([
            name(&device.device),
            seconds(device.load_s),
            seconds(device.slack_s),
            bytes(device.memory_bytes),
            device.free_bytes.map_or_else(|| "unlimited".into(), bytes),
        ]);
    }
    grid
}

fn changes(value: f64, what_ifs: &[WhatIf]) -> Grid {
    let mut grid = Grid::of(&[
        (Column::Words, &["what if"]),
        (Column::Figures, &["best plan known", "no plan below"]),
        (Column::Words, &["against this plan"]),
        (Column::Names, &["bound by"]),
    ]);
    for what_if in what_ifs {
        let shown = |value: Option<f64>| value.map_or_else(|| "none".into(), seconds);
        grid.row([
            what_if.change.clone(),
            shown(what_if.value_s),
            shown(what_if.bound_s),
            gain(value, what_if),
            what_if.source.clone(),
        ]);
    }
    grid
}

/// The speedup from a change: exact if proved, otherwise a range.
fn gain(value: f64, what_if: &WhatIf) -> String {
    let times = |over: f64| match over {
        over if over == value => "1.000×".into(),
        over if over > 0.0 => format!("{:.3}×", value / over),
        _ => "any".into(),
    };
    match (what_if.value_s, what_if.bound_s) {
        (Some(reached), _) if what_if.is_optimal => times(reached),
        (Some(reached), Some(bound)) => match [times(reached), times(bound)] {
            [from, to] if from == to => from,
            [from, to] => format!("{from} to {to}"),
        },
        (Some(reached), None) => format!("at least {}", times(reached)),
        (None, Some(bound)) => format!("at most {}", times(bound)),
        (None, None) => String::new(),
    }
}
