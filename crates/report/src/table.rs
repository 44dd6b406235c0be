//! A plan as text tables.

use stagewright_core::document::{
    BoundDocument, ClusterDocument, Communication, DeviceDocument, ObjectiveDocument, ObjectiveKind,
    PlanDocument, RequirementsDocument, RobustDocument, Schedule, SecondGoal, SourcesDocument,
    ThroughputDocument, Training,
};

use super::grid::{Column, Grid};
use super::throughput::rate;
use super::units::{bytes, flop, name, percent, seconds};
use super::wrap::facts;

/// Length of a full bar in characters.
const BAR: f64 = 24.0;

/// Figures of one device, from a plan or from the checker.
#[derive(Debug, Clone)]
pub struct DeviceRow {
    /// Name, with the number of replicas if there are several.
    pub name: String,
    /// Load in seconds.
    pub load: f64,
    /// Compute time in seconds.
    pub compute: f64,
    /// Communication time in seconds.
    pub communication: f64,
    /// Memory in use, in bytes.
    pub memory: f64,
    /// Memory limit in bytes; `None` if unlimited.
    pub limit: Option<f64>,
    /// Number of operators.
    pub operators: usize,
}

/// Formats a plan for a terminal of `width` characters: figures first, then a row per device.
pub fn plan(plan: &PlanDocument, cluster: &ClusterDocument, width: Option<u16>) -> String {
    let mut lines = vec![("objective", objective(&plan.objective))];
    match plan.objective.value_s {
        Some(value) => {
            lines.push(("value", value_line(&plan.objective, value, plan.throughput.as_ref())));
            let loads: Vec<f64> = plan.devices.iter().map(|device| device.load_s).collect();
            lines.extend(bubble(&plan.objective, value, &loads).map(|bubble| ("bubble", bubble)));
        }
        None => lines.push(("value", "no plan".into())),
    }
    lines.push(("bound", bound(&plan.bound)));
    if let Some(gap) = plan.gap {
        lines.push(("gap", percent(gap)));
    }
    lines.extend(selection(plan));
    lines.extend(robustness(plan));
    lines.extend(plan.sources.as_ref().map(|shares| ("costs", sources(shares))));
    let stopped = plan.stop.as_ref().map(|stop| format!(", stopped by {stop}")).unwrap_or_default();
    lines.push(("status", format!("{}{stopped}", plan.status.name())));
    lines.push(("solver", format!("{}, {}", plan.solver, seconds(plan.seconds))));
    let reasons = plan.reason.iter().flat_map(|reason| reason.lines()).enumerate();
    lines.extend(reasons.map(|(index, line)| (if index == 0 { "reason" } else { "" }, line.to_owned())));
    let mut text = facts(lines, width);
    if !plan.devices.is_empty() {
        let rows: Vec<DeviceRow> = plan
            .devices
            .iter()
            .map(|device| DeviceRow {
                name: replicated(&device.name, device.replicas),
                load: device.load_s,
                compute: device.compute_s,
                communication: device.communication_s,
                memory: device.memory_bytes,
                limit: limit(device, cluster),
                operators: device.ops.len(),
            })
            .collect();
        text.push('\n');
        text.push_str(&devices(&rows, makespan(&plan.objective)).text(width));
    }
    if !plan.uplinks.is_empty() {
        text.push('\n');
        let loads: Vec<(String, f64)> =
            plan.uplinks.iter().map(|uplink| (uplink.group.clone(), uplink.load_s)).collect();
        text.push_str(&uplinks(&loads).text(width));
    }
    text
}

/// Sources of a plan's seconds, without those of less than half a percent.
pub fn sources(shares: &SourcesDocument) -> String {
    let spread = shares.learned_spread.map(|spread| format!(" ± {:.0}%", 100.0 * spread)).unwrap_or_default();
    let parts = [
        ("measured", shares.measured),
        ("interpolated", shares.interpolated),
        ("learned", shares.learned),
        ("fitted", shares.fitted),
        ("guessed", shares.guessed),
    ];
    let parts = parts.iter().filter(|(_, share)| *share >= 5e-3);
    let text = |(name, share): &(&str, f64)| {
        let spread = if *name == "learned" { spread.as_str() } else { "" };
        format!("{:.0}% {name}{spread}", 100.0 * share)
    };
    parts.map(text).collect::<Vec<_>>().join(", ")
}

/// The requirements that a plan meets, and its second goal. Empty for plans without them.
pub fn selection(plan: &PlanDocument) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(RequirementsDocument { stages, all_devices, alone }) = &plan.requirements {
        let mut required = Vec::new();
        required.extend(stages.map(|stages| format!("exactly {stages} stages")));
        required.extend(all_devices.then(|| "work for every device".to_owned()));
        required.extend(alone.iter().map(|group| match group.as_slice() {
            [only] => format!("{} alone", name(only)),
            [first, .., last] => format!("{} to {} alone", name(first), name(last)),
            [] => "nothing alone".into(),
        }));
        lines.push(("required", required.join(", ")));
    }
    if let Some(second) = &plan.second_goal {
        let figure = |value| match second.goal {
            SecondGoal::Memory => bytes(value),
            SecondGoal::Devices => format!("{value:.0}"),
            SecondGoal::Communication => seconds(value),
        };
        let (goal, value, bound) = (second.goal.name(), figure(second.value), figure(second.bound));
        let (within, best) = (percent(second.within), seconds(second.best_s));
        lines.push((
            "second goal",
            format!("{goal} {value}, bound {bound}, gap {}; within {within} of {best}", percent(second.gap)),
        ));
    }
    lines
}

/// The plan's claim about its worst case, if costs are off. Empty for plans that claim none.
pub fn robustness(plan: &PlanDocument) -> Vec<(&'static str, String)> {
    let value = plan.objective.value_s;
    plan.robust.iter().flat_map(|robust| worst_case(value, robust)).collect()
}

/// The worst case of a plan, and its price: how much more the plan costs than the nominally best one, and how much it
/// saves in the worst case.
fn worst_case(value: Option<f64>, robust: &RobustDocument) -> Vec<(&'static str, String)> {
    let share = |from: f64, to: f64| if from > 0.0 { to / from - 1.0 } else { 0.0 };
    let mut off: Vec<String> = robust.scenario.kinds.iter().map(|kind| source(kind)).collect();
    off.extend(robust.scenario.links.then(|| "links".to_owned()));
    let when = match off.as_slice() {
        [] => String::new(),
        off => format!(", if {} take {} longer", off.join(" and "), percent(robust.deviation)),
    };
    let of_nominal = seconds(robust.nominal_best_worst_s);
    let mut lines = vec![
        ("worst case", format!("{}{when}", seconds(robust.worst_s))),
        (
            "worst-case bound",
            format!("{} ({}), gap {}", seconds(robust.bound_s), robust.source, percent(robust.gap)),
        ),
        ("nominal best", format!("{}, worst case {of_nominal}", seconds(robust.nominal_best_s))),
    ];
    if let Some(value) = value {
        let (costs, saves) =
            (share(robust.nominal_best_s, value), -share(robust.nominal_best_worst_s, robust.worst_s));
        lines.push((
            "robustness",
            format!(
                "value {} higher and worst case {} lower than of the nominal best",
                percent(costs.max(0.0)),
                percent(saves.max(0.0))
            ),
        ));
    }
    lines
}

/// A source of error, for display.
fn source(kind: &str) -> String {
    if kind.is_empty() { "operators without a kind".into() } else { format!("`{}`", name(kind)) }
}

/// Memory of a device that a plan may use, in bytes; `None` if unlimited.
pub(super) fn limit(device: &DeviceDocument, cluster: &ClusterDocument) -> Option<f64> {
    let kind = cluster.kinds.iter().find(|kind| kind.name == device.kind)?;
    Some((kind.memory_bytes? - kind.reserve_bytes.unwrap_or(0.0)).max(0.0))
}

/// The makespan if it is the objective. A table of devices shows compute as a share of it.
pub fn makespan(objective: &ObjectiveDocument) -> Option<f64> {
    objective.value_s.filter(|_| objective.kind == ObjectiveKind::Makespan)
}

/// Table of devices. With a makespan, the bar is the compute share of the makespan and memory is the peak.
/// Otherwise the bar is the load relative to the largest, compute solid and communication shaded.
pub fn devices(rows: &[DeviceRow], makespan: Option<f64>) -> Grid {
    match makespan {
        Some(makespan) => devices_of_step(rows, makespan),
        None => devices_by_load(rows),
    }
}

fn devices_of_step(rows: &[DeviceRow], makespan: f64) -> Grid {
    let mut grid = Grid::of(&[
        (Column::Names, &["device"]),
        (Column::Figures, &["compute", "utilisation", "communication", "peak memory", "of", "ops"]),
        (Column::Bars, &[""]),
    ]);
    for row in rows {
        let busy = share(row.compute, makespan);
        grid.row([
            row.name.clone(),
            seconds(row.compute),
            percent(busy),
            seconds(row.communication),
            bytes(row.memory),
            row.limit.map_or_else(|| "unlimited".into(), bytes),
            row.operators.to_string(),
            "█".repeat((BAR * busy).round() as usize),
        ]);
    }
    grid
}

/// Share of `part` in `whole`, clamped to 0 to 1; 0 unless `whole` is positive.
pub fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}

fn devices_by_load(rows: &[DeviceRow]) -> Grid {
    let most = rows.iter().map(|row| row.load).fold(0.0, f64::max);
    let mut grid = Grid::of(&[
        (Column::Names, &["device"]),
        (Column::Figures, &["load", "compute", "communication", "memory", "of", "ops"]),
        (Column::Bars, &[""]),
    ]);
    for row in rows {
        grid.row([
            row.name.clone(),
            seconds(row.load),
            seconds(row.compute),
            seconds(row.communication),
            bytes(row.memory),
            row.limit.map_or_else(|| "unlimited".into(), bytes),
            row.operators.to_string(),
            bar(row, most),
        ]);
    }
    grid
}

/// A table of group uplinks.
pub fn uplinks(loads: &[(String, f64)]) -> Grid {
    let mut grid = Grid::new([("uplink of group", Column::Names), ("load", Column::Figures)]);
    for (group, load) in loads {
        grid.row([group.clone(), seconds(*load)]);
    }
    grid
}

/// A table of bounds by source.
pub fn bounds(rows: &[BoundDocument]) -> Grid {
    let mut grid = Grid::new([("source", Column::Names), ("bound", Column::Figures)]);
    for row in rows {
        grid.row([row.source.clone(), row.value_s.map_or_else(|| "none".into(), seconds)]);
    }
    grid
}

/// One variant of a built-in workload.
#[derive(Debug, Clone)]
pub struct WorkloadRow {
    /// Family.
    pub family: String,
    /// Variant.
    pub variant: String,
    /// Number of operators.
    pub operators: usize,
    /// Number of parameters.
    pub parameters: f64,
    /// Number of floating-point operations.
    pub flop: f64,
    /// Summary of the family; empty for all but its first variant.
    pub summary: String,
}

/// A table of built-in workloads.
pub fn workloads(rows: &[WorkloadRow]) -> Grid {
    let mut grid = Grid::of(&[
        (Column::Keys, &["family", "variant"]),
        (Column::Figures, &["operators", "parameters", "work"]),
        (Column::Words, &[""]),
    ]);
    for row in rows {
        grid.row([
            row.family.clone(),
            row.variant.clone(),
            row.operators.to_string(),
            row.parameters.to_string(),
            flop(row.flop),
            row.summary.clone(),
        ]);
    }
    grid
}

/// Name of a stage, with the number of replicas if there are several.
pub fn replicated(name: &str, replicas: u32) -> String {
    if replicas > 1 { format!("{name} ×{replicas}") } else { name.into() }
}

/// The objective in words, with its rules; defaults of training, schedule and replicas are omitted.
pub fn objective(objective: &ObjectiveDocument) -> String {
    match (objective.kind, objective.calls.unwrap_or(1)) {
        (ObjectiveKind::Throughput, _) => throughput(objective),
        (ObjectiveKind::Latency, 1) => "latency, one call per accelerator".into(),
        (ObjectiveKind::Latency, calls) => format!("latency, at most {calls} calls per accelerator"),
        (ObjectiveKind::Makespan, _) => "makespan of one step".into(),
    }
}

fn throughput(objective: &ObjectiveDocument) -> String {
    let mut words = vec![
        "throughput".to_owned(),
        format!("{} split", objective.split.name()),
        match objective.communication {
            Communication::Serial => "serial communication",
            Communication::Overlap => "overlapped communication",
            Communication::Duplex => "duplex communication",
        }
        .to_owned(),
    ];
    if objective.training == Training::Separate {
        words.push("forward and backward scored separately".into());
    }
    if let Some(schedule) = schedule(objective.schedule) {
        words[0] =
            format!("iteration under {schedule} with {} microbatches", objective.microbatches.unwrap_or(1));
    }
    if let Some(most) = objective.max_replicas {
        words.push(format!("at most {most} devices per stage"));
    }
    words.join(", ")
}

/// Name of a schedule; `None` without a schedule.
pub fn schedule(schedule: Schedule) -> Option<&'static str> {
    match schedule {
        Schedule::None => None,
        Schedule::GPipe => Some("GPipe"),
        Schedule::OneFOneB => Some("1F1B"),
        Schedule::Interleaved => Some("interleaved 1F1B"),
        Schedule::ZeroBubble => Some("zero-bubble"),
        Schedule::ZeroBubbleTwice => Some("zero-bubble-2p"),
        Schedule::DualPipeV => Some("DualPipeV"),
    }
}

/// A value with its throughput, in samples and tokens per second if they are known.
pub fn value_line(objective: &ObjectiveDocument, value: f64, known: Option<&ThroughputDocument>) -> String {
    let unit = if objective.schedule == Schedule::None { "" } else { " an iteration" };
    match rate(objective, value, known) {
        Some(rate) => format!("{}{unit}, {rate}", seconds(value)),
        None => seconds(value),
    }
}

/// Idle share of the devices' time in an iteration, from the loads of the stages; `None` without a schedule.
pub fn bubble(objective: &ObjectiveDocument, value: f64, loads: &[f64]) -> Option<String> {
    let microbatches = f64::from(objective.microbatches.unwrap_or(1));
    let busy = microbatches * loads.iter().sum::<f64>();
    (objective.schedule != Schedule::None)
        .then(|| percent(stagewright_core::schedule::bubble(busy, loads.len(), value)))
}

/// A bound with its source.
pub fn bound(bound: &BoundDocument) -> String {
    match bound.value_s {
        Some(value) => format!("{} ({})", seconds(value), bound.source),
        None => "none".into(),
    }
}

fn bar(row: &DeviceRow, most: f64) -> String {
    let work = row.compute + row.communication;
    if most <= 0.0 || work <= 0.0 {
        return String::new();
    }
    let length = (BAR * row.load / most).round();
    let solid = (length * row.compute / work).round();
    format!("{}{}", "█".repeat(solid as usize), "▒".repeat((length - solid).max(0.0) as usize))
}
