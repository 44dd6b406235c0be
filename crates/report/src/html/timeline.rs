//! Rows of what devices and links do, in one step as the simulator plays it or in one period of the full pipeline, as
//! fine as a screen shows.
//!
//! The time shown is divided into ticks, at most as many as a screen has pixels. What is at least two ticks long is
//! drawn by itself; what is shorter is merged with what follows it at once, and nothing begins in the tick in
//! which something else of its row has begun. A row so has no more spans than ticks, however many operators. What
//! is merged goes by the name of its longest activity, so nothing that is seen by itself hides behind another name.

use std::fmt::Write;

use rustc_hash::FxHashMap;
use serde::Serialize;
use stagewright_core::graph::OpId;
use stagewright_core::problem::Problem;
use stagewright_core::simulate::{Ports, Span};

use super::names::visible;
use super::scene::{Tables, pass_number};
use super::shell::Section;
use super::{Page, steady};
use crate::steady::Steady;
use crate::step::Step;
use crate::step::text::parts;
use crate::units;

/// Total number of spans; if there are more activities, the number of ticks is reduced.
const SPANS: usize = 60_000;
/// Maximum number of ticks: pixels across a large screen.
const FINEST: usize = 2_000;
/// Minimum number of ticks, with many rows.
const COARSEST: usize = 200;
/// Number of parts of the axis.
const PARTS: u32 = 4;
/// Pass code of transfers.
pub(super) const NO_PASS: u8 = 3;
/// What the synchronisation of gradients has there.
pub(super) const GRADIENTS: u8 = 4;

/// The place of the timelines on the page; none without a step.
pub(super) fn section(page: &Page, steady: Option<&Steady>) -> Option<Section> {
    let step = page.step?;
    let mut markup = String::from("<h2 id=\"timeline-title\">Timeline</h2>\n");
    if let Some(steady) = steady {
        markup.push_str(&steady::markup(steady));
    }
    // Writing to a string cannot fail.
    let _ = writeln!(
        markup,
        "<h3>One step</h3>\n<p class=\"lead\">One batch alone under dataflow execution, in {}: {} on \
         the critical path.</p>",
        units::seconds(step.makespan()),
        parts(&step.critical_path(), step.makespan())
    );
    markup.push_str(&view("timeline", "one step"));
    Some(Section { id: "timeline", title: "Timeline", markup })
}

/// Where a timeline is drawn.
pub(super) fn view(id: &str, what: &str) -> String {
    include_str!("page/timeline.html").replace("{{id}}", id).replace("{{what}}", what)
}

/// What devices and links do in some time.
#[derive(Serialize)]
pub(super) struct TimelineData {
    /// Number of ticks.
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
    /// The number of its pass, or [`NO_PASS`] or [`GRADIENTS`].
    pass: Vec<u8>,
    /// Age of its batch: the number of batches begun after it. Empty if it is 0 everywhere.
    #[serde(skip_serializing_if = "all_newest")]
    batch: Vec<u32>,
    /// Start and duration of the span, including the gaps between its activities.
    from: Vec<u32>,
    took: Vec<u32>,
}

fn all_newest(batches: &[u32]) -> bool {
    batches.iter().all(|&batch| batch == 0)
}

/// An operator or a transfer in a row.
#[derive(Clone, Copy)]
pub(super) struct Activity {
    pub(super) span: Span,
    pub(super) operator: u32,
    pub(super) pass: u8,
    pub(super) batch: u32,
}

/// All that is done, by who does it: the devices by number, the uplinks by group.
pub(super) struct Doing {
    pub(super) computes: Vec<Vec<Activity>>,
    pub(super) sends: Vec<Vec<Activity>>,
    pub(super) receives: Vec<Vec<Activity>>,
    pub(super) synchronises: Vec<Vec<Activity>>,
    pub(super) uplinks: Vec<Vec<Activity>>,
}

impl Doing {
    /// An empty timeline of the given numbers of devices and groups.
    pub(super) fn new(devices: usize, groups: usize) -> Doing {
        let nothing = || vec![Vec::new(); devices];
        Doing {
            computes: nothing(),
            sends: nothing(),
            receives: nothing(),
            synchronises: nothing(),
            uplinks: vec![Vec::new(); groups],
        }
    }

    fn count(&self) -> usize {
        let Doing { computes, sends, receives, synchronises, uplinks } = self;
        [computes, sends, receives, synchronises, uplinks].into_iter().flatten().map(Vec::len).sum()
    }

    /// Devices with what they compute, send and receive, then uplinks; what nothing is done in is left out of what
    /// moves data.
    fn lanes(self, problem: &Problem) -> Vec<(Option<u32>, String, Vec<Activity>)> {
        let Doing { computes, sends, receives, synchronises, uplinks } = self;
        let mut lanes = Vec::new();
        let moves = sends.into_iter().zip(receives).zip(synchronises);
        for (device, (computes, ((sends, receives), synchronises))) in
            (0..).zip(computes.into_iter().zip(moves))
        {
            lanes.push((Some(device), "computes".to_owned(), computes));
            for (name, activities) in
                [("sends", sends), ("receives", receives), ("synchronises", synchronises)]
            {
                if !activities.is_empty() {
                    lanes.push((Some(device), name.to_owned(), activities));
                }
            }
        }
        for (group, activities) in problem.cluster().document().groups.iter().zip(uplinks) {
            lanes.push((None, format!("uplink of {}", visible(&group.name)), activities));
        }
        lanes
    }
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
    pub(super) fn from_step(step: &Step, tables: &mut Tables) -> Option<TimelineData> {
        TimelineData::new(step.problem(), step.makespan(), doing(step, tables), tables)
    }

    /// The data of the activities of a time span; `None` if the span is empty.
    pub(super) fn new(
        problem: &Problem,
        length: f64,
        doing: Doing,
        tables: &mut Tables,
    ) -> Option<TimelineData> {
        if length <= 0.0 || !length.is_finite() {
            return None;
        }
        let count = doing.count();
        let lanes = doing.lanes(problem);
        let affordable = if count > SPANS { SPANS / lanes.len() } else { FINEST };
        let ticks = affordable.clamp(COARSEST, FINEST);
        let rows = lanes.into_iter().map(|(device, name, activities)| {
            let scale = ticks as f64 / length;
            Row { device, name, spans: merged(activities, scale, tables) }
        });
        let rows = rows.collect();
        let moment = |part| units::seconds(length * f64::from(part) / f64::from(PARTS));
        Some(TimelineData { ticks, axis: (0..=PARTS).map(moment).collect(), rows })
    }
}

/// What is done in a step.
fn doing(step: &Step, tables: &Tables) -> Doing {
    let graph = step.problem().graph();
    let ports = Ports::new(step.problem());
    let groups = step.problem().cluster().group_count();
    let mut doing = Doing::new(tables.number_of.len(), groups);
    let group_of: FxHashMap<u32, usize> = (0..groups).map(|group| (ports.uplink(group), group)).collect();
    let number = |device| tables.number_of.get(&device).map(|&number| number as usize);
    for (op, &span) in (0..).zip(step.timeline().operators()) {
        let pass = pass_number(graph.operator(OpId(op)).pass);
        if let Some(device) = number(step.device_of(op)) {
            let operator = tables.place_of[OpId(op)];
            doing.computes[device].push(Activity { span, operator, pass, batch: 0 });
        }
    }
    for (transfer, &span) in (0..).zip(step.timeline().transfers()) {
        let producer = step.flow().producer_of(transfer);
        let operator = tables.place_of[OpId(producer)];
        let activity = Activity { span, operator, pass: NO_PASS, batch: 0 };
        let [from, to] = step.ends_of(transfer).map(number);
        if let (Some(from), Some(to)) = (from, to) {
            doing.sends[from].push(activity);
            doing.receives[to].push(activity);
        }
        for port in step.flow().ports_of(transfer) {
            if let Some(&group) = group_of.get(port) {
                doing.uplinks[group].push(activity);
            }
        }
    }
    doing
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
            let same_work = (last.longest.pass, last.longest.batch) == (activity.pass, activity.batch);
            let alike = last.all_short && is_short && adjacent && same_work;
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
        self.batch.push(merged.longest.batch);
        self.from.push(tables.seconds.number(start, units::seconds));
        self.took.push(tables.seconds.number(end - start, units::seconds));
    }
}
