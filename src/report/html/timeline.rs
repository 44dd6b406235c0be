//! The timeline of a simulated step: rows of device and link activity, at screen resolution.
//!
//! The step is divided into ticks, at most as many as a screen has pixels. An activity of at least two ticks is
//! drawn on its own; a shorter one is merged with what immediately follows it. At most one span of a row begins in
//! a tick, so a row has no more spans than ticks, however many operators. A merged span has the name of its longest
//! activity, so no activity that is long enough to be seen on its own is hidden behind another name.

use rustc_hash::FxHashMap;
use serde::Serialize;
use stagewright_core::graph::OpId;
use stagewright_core::simulate::{Ports, Span};

use super::Page;
use super::names::visible;
use super::scene::{Tables, pass_number};
use super::shell::Section;
use crate::report::step::Step;
use crate::report::step::text::parts;
use crate::report::units;

/// Total number of spans; if there are more activities, the number of ticks is reduced.
const SPANS: usize = 60_000;
/// Maximum number of ticks: pixels across a large screen.
const FINEST: usize = 2_000;
/// Minimum number of ticks, with many rows.
const COARSEST: usize = 200;
/// Number of parts of the axis.
const PARTS: u32 = 4;
/// Pass code of transfers.
const NO_PASS: u8 = 3;

/// Timeline section; `None` without a step.
pub(super) fn section(page: &Page) -> Option<Section> {
    let step = page.step?;
    let markup = include_str!("page/timeline.html").replace("{{makespan}}", &units::seconds(step.makespan()));
    let markup = markup.replace("{{parts}}", &parts(&step.critical_path(), step.makespan()));
    Some(Section { id: "timeline", title: "Timeline", markup })
}

/// Data of the timeline of a step.
#[derive(Serialize)]
pub(super) struct TimelineData {
    /// Number of ticks of the step.
    ticks: usize,
    /// Labels of the axis from start to end, equally spaced.
    axis: Vec<String>,
    rows: Vec<Row>,
}

/// A row of the timeline, of a device or a link.
#[derive(Serialize)]
struct Row {
    /// Index of the device; `None` for an uplink.
    device: Option<u32>,
    /// Label of the row.
    name: String,
    #[serde(flatten)]
    spans: Spans,
}

/// Spans in columns, in order of time.
#[derive(Default, Serialize)]
struct Spans {
    /// First tick and number of ticks of each span.
    start: Vec<u32>,
    ticks: Vec<u32>,
    /// Number of activities in it.
    count: Vec<u32>,
    /// Operator of the longest activity; for a transfer, the producer of the tensor.
    operator: Vec<u32>,
    /// Code of its pass, or [`NO_PASS`].
    pass: Vec<u8>,
    /// Start and duration of the span, including the gaps between its activities.
    from: Vec<u32>,
    took: Vec<u32>,
}

/// An operator or a transfer in a row.
#[derive(Clone, Copy)]
struct Activity {
    span: Span,
    operator: u32,
    pass: u8,
}

/// Activities that are merged into one span.
struct Merged {
    /// From the start of the first to the end of the last.
    span: Span,
    /// The longest activity; ties go to the first.
    longest: Activity,
    count: u32,
    /// Whether all of them are too short to be drawn on their own.
    all_short: bool,
}

impl TimelineData {
    /// Returns the data of a step; `None` if its makespan is zero or non-finite.
    pub(super) fn of(step: &Step, tables: &mut Tables) -> Option<TimelineData> {
        let makespan = step.makespan();
        if makespan <= 0.0 || !makespan.is_finite() {
            return None;
        }
        let lanes = lanes(step, tables);
        let activities: usize = lanes.iter().map(|(_, _, activities)| activities.len()).sum();
        let affordable = if activities > SPANS { SPANS / lanes.len() } else { FINEST };
        let ticks = affordable.clamp(COARSEST, FINEST);
        let rows = lanes.into_iter().map(|(device, name, activities)| {
            let scale = ticks as f64 / makespan;
            Row { device, name, spans: merged(activities, scale, tables) }
        });
        let rows = rows.collect();
        let moment = |part| units::seconds(makespan * f64::from(part) / f64::from(PARTS));
        Some(TimelineData { ticks, axis: (0..=PARTS).map(moment).collect(), rows })
    }
}

/// Rows of compute, sends and receives per device, then of uplinks. Sends and receives are left out if there are none.
fn lanes(step: &Step, tables: &Tables) -> Vec<(Option<u32>, String, Vec<Activity>)> {
    let graph = step.problem().graph();
    let devices = tables.number_of.len();
    let ports = Ports::new(step.problem());
    let groups = &step.problem().cluster().document().groups;
    let mut computes: Vec<Vec<Activity>> = vec![Vec::new(); devices];
    let mut sends = computes.clone();
    let mut receives = computes.clone();
    let mut uplinks: Vec<Vec<Activity>> = vec![Vec::new(); groups.len()];
    let group_of: FxHashMap<u32, usize> =
        (0..groups.len()).map(|group| (ports.uplink(group), group)).collect();
    let number = |device| tables.number_of.get(&device).map(|&number| number as usize);
    for (op, &span) in (0..).zip(step.timeline().operators()) {
        let pass = pass_number(graph.operator(OpId(op)).pass);
        if let Some(device) = number(step.device_of(op)) {
            computes[device].push(Activity { span, operator: tables.place_of[op as usize], pass });
        }
    }
    for (transfer, &span) in (0..).zip(step.timeline().transfers()) {
        let producer = step.flow().producer_of(transfer);
        let activity = Activity { span, operator: tables.place_of[producer as usize], pass: NO_PASS };
        let [from, to] = step.ends_of(transfer).map(number);
        if let (Some(from), Some(to)) = (from, to) {
            sends[from].push(activity);
            receives[to].push(activity);
        }
        for port in step.flow().ports_of(transfer) {
            if let Some(&group) = group_of.get(port) {
                uplinks[group].push(activity);
            }
        }
    }
    let mut lanes = Vec::new();
    for (device, ((computes, sends), receives)) in computes.into_iter().zip(sends).zip(receives).enumerate() {
        lanes.push((Some(device as u32), "computes".to_owned(), computes));
        for (name, activities) in [("sends", sends), ("receives", receives)] {
            if !activities.is_empty() {
                lanes.push((Some(device as u32), name.to_owned(), activities));
            }
        }
    }
    for (group, activities) in groups.iter().zip(uplinks) {
        lanes.push((None, format!("uplink of {}", visible(&group.name)), activities));
    }
    lanes
}

/// Merges the activities of a row into spans.
fn merged(mut activities: Vec<Activity>, scale: f64, tables: &mut Tables) -> Spans {
    activities.retain(|activity| activity.span.start < activity.span.end);
    activities.sort_by(|one, other| one.span.start.total_cmp(&other.span.start));
    let mut spans = Spans::default();
    let mut open: Option<Merged> = None;
    let tick = |seconds: f64| (seconds * scale).floor() as u32;
    for activity in activities {
        let is_short = activity.seconds() < 2.0 / scale;
        if let Some(last) = &mut open {
            let same_tick = tick(last.span.start) == tick(activity.span.start);
            let overlaps = activity.span.start < last.span.end && activity.pass == NO_PASS;
            let adjacent = activity.span.start - last.span.end < 1.0 / scale;
            let alike = last.all_short && is_short && adjacent && last.longest.pass == activity.pass;
            if same_tick || overlaps || alike {
                last.span.end = last.span.end.max(activity.span.end);
                last.count += 1;
                last.all_short &= is_short;
                if activity.seconds() > last.longest.seconds() {
                    last.longest = activity;
                }
                continue;
            }
            spans.push(last, scale, tables);
        }
        open = Some(Merged { span: activity.span, longest: activity, count: 1, all_short: is_short });
    }
    if let Some(last) = &open {
        spans.push(last, scale, tables);
    }
    spans
}

impl Activity {
    fn seconds(&self) -> f64 {
        self.span.end - self.span.start
    }
}

impl Spans {
    fn push(&mut self, merged: &Merged, scale: f64, tables: &mut Tables) {
        let Span { start, end } = merged.span;
        let first = (start * scale).floor();
        self.start.push(first as u32);
        self.ticks.push(((end * scale).ceil() - first).max(1.0) as u32);
        self.count.push(merged.count);
        self.operator.push(merged.longest.operator);
        self.pass.push(merged.longest.pass);
        self.from.push(tables.seconds.number(start, units::seconds));
        self.took.push(tables.seconds.number(end - start, units::seconds));
    }
}
