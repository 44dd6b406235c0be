//! Rows with the activities of devices and links, in one step as the simulator plays it, in one period of the full
//! pipeline or in an iteration of a joint plan, as fine as a screen shows.
//!
//! The time shown is divided into ticks, at most as many as a screen has pixels. Activities of at least two ticks
//! are drawn by themselves; shorter ones are merged with those that follow immediately, and no bar begins in a tick
//! in which another bar of its row has begun. A row therefore has no more spans than ticks, for any number of
//! operators. A merged bar has the name of its longest activity, so no activity long enough for a bar of its own is
//! hidden.

use std::collections::BTreeSet;

use serde::Serialize;
use stagewright_core::problem::Problem;
use stagewright_core::simulate::Span;

use super::figures::Figures;
use super::names::visible;
use crate::units;

/// Maximum total number of spans; if there are more activities, the number of ticks is reduced.
const SPANS: usize = 60_000;
/// Maximum number of ticks: pixels across a large screen.
const FINEST: usize = 2_000;
/// Minimum number of ticks, with many rows.
const COARSEST: usize = 200;
/// Number of parts of the axis.
const PARTS: u32 = 4;
/// Pass code of transfers.
pub(super) const NO_PASS: u8 = 3;
/// Pass code of the synchronisation of gradients.
pub(super) const GRADIENTS: u8 = 4;
/// Pass code of weight gradients that run separately from their backward pass.
pub(super) const WEIGHTS: u8 = 5;
/// Pass code of several passes that are too short to be distinguished.
pub(super) const SEVERAL: u8 = 6;
/// Keys of the passes of a step, in the colours of devices.
pub(super) const KEY: &str = "<li><i class=\"swatch solid\"></i>forward</li><li><i class=\"swatch half\"></i>backward</li>\
                   <li><i class=\"swatch faint\"></i>update</li><li><i class=\"swatch transfer\"></i>transfer</li>";

/// Markup of the place where a timeline is drawn, with the markup of its key.
pub(super) fn view(id: &str, what: &str, key: &str) -> String {
    let template = include_str!("page/timeline.html");
    template.replace("{{id}}", id).replace("{{what}}", what).replace("{{key}}", key)
}

/// Activities of devices and links over a span of time.
#[derive(Serialize)]
pub(super) struct TimelineData {
    /// Number of ticks.
    ticks: usize,
    /// Labels of the axis from start to end, equally spaced.
    axis: Vec<String>,
    rows: Vec<Row>,
    /// Number of microbatches, if activities are passes of microbatches: operator o stands for microbatch o mod this
    /// number in stage o / this number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) microbatches: Option<u32>,
    /// Whether each activity is that of a device for a sample, with the number of the sample as the operator.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) samples: bool,
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
    /// Number of activities in each span.
    count: Vec<u32>,
    /// Operator of the longest activity; for a transfer, the producer of the tensor.
    operator: Vec<u32>,
    /// Pass code of each span: the number of the pass, or [`NO_PASS`] or [`GRADIENTS`].
    pass: Vec<u8>,
    /// Age of the batch of each span: the number of batches begun after it. Empty if it is 0 everywhere.
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

/// Bars of a row.
pub(super) struct Lane {
    /// Index of the device; `None` for an uplink.
    pub(super) device: Option<u32>,
    /// Label of the row.
    pub(super) name: String,
    pub(super) activities: Vec<Activity>,
    /// Pass code of a bar merged from several passes; if `None`, a merged bar has the code of its longest activity.
    pub(super) mixed: Option<u8>,
}

/// All activities by resource: the devices by number, the uplinks by group.
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

    /// Devices with rows for computing, sending and receiving, then uplinks; rows for data are omitted if they are
    /// idle.
    pub(super) fn lanes(self, problem: &Problem) -> Vec<Lane> {
        let Doing { computes, sends, receives, synchronises, uplinks } = self;
        let mut lanes = Vec::new();
        let moves = sends.into_iter().zip(receives).zip(synchronises);
        for (device, (computes, ((sends, receives), synchronises))) in
            (0..).zip(computes.into_iter().zip(moves))
        {
            let mut push = |name: &str, activities| {
                lanes.push(Lane { device: Some(device), name: name.to_owned(), activities, mixed: None });
            };
            push("computes", computes);
            for (name, activities) in
                [("sends", sends), ("receives", receives), ("synchronises", synchronises)]
            {
                if !activities.is_empty() {
                    push(name, activities);
                }
            }
        }
        for (group, activities) in problem.cluster().document().groups.iter().zip(uplinks) {
            let name = format!("uplink of {}", visible(&group.name));
            lanes.push(Lane { device: None, name, activities, mixed: None });
        }
        lanes
    }
}

/// Activities that are merged into one span.
struct Merged {
    /// From the start of the first activity to the end of the last.
    span: Span,
    /// The longest activity; ties go to the first.
    longest: Activity,
    count: u32,
    /// Code of the passes of the activities.
    pass: u8,
    /// Whether all activities are too short to be drawn on their own.
    all_short: bool,
}

impl TimelineData {
    /// Codes of the passes that are drawn.
    pub(super) fn passes(&self) -> BTreeSet<u8> {
        self.rows.iter().flat_map(|row| &row.spans.pass).copied().collect()
    }

    /// The data of the activities of a time span; `None` if the span is empty.
    pub(super) fn new(length: f64, lanes: Vec<Lane>, seconds: &mut Figures) -> Option<TimelineData> {
        if length <= 0.0 || !length.is_finite() {
            return None;
        }
        let count: usize = lanes.iter().map(|lane| lane.activities.len()).sum();
        let affordable = if count > SPANS { SPANS / lanes.len() } else { FINEST };
        let ticks = affordable.clamp(COARSEST, FINEST);
        let rows = lanes.into_iter().map(|Lane { device, name, activities, mixed }| {
            let scale = ticks as f64 / length;
            Row { device, name, spans: merged(activities, mixed, scale, seconds) }
        });
        let rows = rows.collect();
        let moment = |part| units::seconds(length * f64::from(part) / f64::from(PARTS));
        Some(TimelineData {
            ticks,
            axis: (0..=PARTS).map(moment).collect(),
            rows,
            microbatches: None,
            samples: false,
        })
    }
}

/// Merges the activities of a row into spans.
fn merged(mut activities: Vec<Activity>, mixed: Option<u8>, scale: f64, seconds: &mut Figures) -> Spans {
    activities.retain(|activity| activity.span.start < activity.span.end);
    activities.sort_by(|left, right| left.span.start.total_cmp(&right.span.start));
    let mut spans = Spans::default();
    let mut open: Option<Merged> = None;
    let tick = |moment: f64| (moment * scale).floor() as u32;
    for activity in activities {
        let is_short = activity.seconds() < 2.0 / scale;
        if let Some(last) = &mut open {
            let same_tick = tick(last.span.start) == tick(activity.span.start);
            let overlaps = activity.span.start < last.span.end && activity.pass == NO_PASS;
            let adjacent = activity.span.start - last.span.end < 1.0 / scale;
            let same_work = (last.pass, last.longest.batch) == (activity.pass, activity.batch);
            let alike = last.all_short && is_short && adjacent && same_work;
            if same_tick || overlaps || alike {
                last.span.end = last.span.end.max(activity.span.end);
                last.count += 1;
                last.all_short &= is_short;
                let was = last.longest.pass;
                if activity.seconds() > last.longest.seconds() {
                    last.longest = activity;
                }
                last.pass = mixed
                    .filter(|&mixed| last.pass == mixed || was != activity.pass)
                    .unwrap_or(last.longest.pass);
                continue;
            }
            spans.push(last, scale, seconds);
        }
        let pass = activity.pass;
        open = Some(Merged { span: activity.span, longest: activity, count: 1, pass, all_short: is_short });
    }
    if let Some(last) = &open {
        spans.push(last, scale, seconds);
    }
    spans
}

impl Activity {
    fn seconds(&self) -> f64 {
        self.span.end - self.span.start
    }
}

impl Spans {
    fn push(&mut self, merged: &Merged, scale: f64, seconds: &mut Figures) {
        let Span { start, end } = merged.span;
        let first = (start * scale).floor();
        self.start.push(first as u32);
        self.ticks.push(((end * scale).ceil() - first).max(1.0) as u32);
        self.count.push(merged.count);
        self.operator.push(merged.longest.operator);
        self.pass.push(merged.pass);
        self.batch.push(merged.longest.batch);
        self.from.push(seconds.number(start, units::seconds));
        self.took.push(seconds.number(end - start, units::seconds));
    }
}
