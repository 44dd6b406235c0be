//! One iteration under its schedule, pass by pass.

use std::collections::BTreeSet;
use std::io;

use serde::Serialize;
use stagewright_core::document::{JointExecutionDocument, JointStageDocument, Schedule};
use stagewright_core::schedule::{Pipeline, Run, ScheduleError, Stage, StageTimes, Task, Work};
use stagewright_core::simulate::Span;

use super::JointPage;
use super::parts::backward;
use crate::html::figures::Figures;
use crate::html::markup::{count, escape};
use crate::html::names::visible;
use crate::html::scene::Device;
use crate::html::shell::Section;
use crate::html::timeline::{Activity, Lane, SEVERAL, TimelineData, WEIGHTS, view};
use crate::joint::pipeline_devices;
use crate::{table, units};

/// Maximum number of rows, because the page holds the spans of every row.
const ROWS: usize = 500;

/// The data of a page.
#[derive(Serialize)]
struct Scene {
    devices: Vec<Device>,
    timeline: TimelineData,
    seconds: Figures,
}

/// The drawing, and the sentence above it.
struct Drawing {
    scene: Scene,
    lead: String,
}

/// Timeline section with its data; no section for a plan without an execution.
pub(super) fn section(page: &JointPage) -> io::Result<(Option<Section>, String)> {
    let none = || "null".to_owned();
    let Some(execution) = page.document.execution.as_ref().filter(|_| !page.document.stages.is_empty())
    else {
        return Ok((None, none()));
    };
    let mut markup = String::from("<h2 id=\"timeline-title\">Timeline</h2>\n");
    let data = match drawn(page, execution) {
        Ok(Drawing { scene, lead }) => {
            markup.push_str(&format!("<p class=\"lead\">{lead}</p>\n"));
            markup.push_str(&view("timeline", "one iteration", &key(&scene.timeline.passes())));
            serde_json::to_string(&scene)?
        }
        Err(why) => {
            let why = escape(&visible(&why));
            markup.push_str(&format!(
                "<p class=\"note\" id=\"no-timeline\">The timeline is left out: {why}.</p>\n"
            ));
            none()
        }
    };
    Ok((Some(Section { id: "timeline", title: "Timeline", markup }), data))
}

/// Items of the key: names and colours of the passes that are drawn.
fn key(drawn: &BTreeSet<u8>) -> String {
    let passes = [
        (0, "d0", "forward"),
        (1, "d2", "backward"),
        (WEIGHTS, "d1", "weight gradients"),
        (SEVERAL, "several", "several, too short to be drawn apart"),
        (2, "d7", "synchronisation of gradients and update"),
    ];
    let item =
        |(pass, colour, name)| format!("<li><i class=\"chip {colour}\" data-pass=\"{pass}\"></i>{name}</li>");
    passes.into_iter().filter(|(pass, ..)| drawn.contains(pass)).map(item).collect()
}

/// Reason why an iteration cannot be drawn, if this is clear before it is simulated.
fn refusal(stages: &[JointStageDocument], devices: usize) -> Option<String> {
    let times = |stage: &JointStageDocument| {
        [Some(stage.seconds), stage.forward_s, stage.weight_s, stage.update_s].map(|time| time.unwrap_or(0.0))
    };
    let is_time = |seconds: f64| seconds.is_finite() && seconds >= 0.0;
    if let Some(index) = stages.iter().position(|stage| !times(stage).into_iter().all(is_time)) {
        return Some(format!("a time of stage {index} is negative or not finite"));
    }
    let too_many =
        || format!("the pipeline has {} devices, and {ROWS} are the most that are drawn", count(devices));
    (devices > ROWS).then(too_many)
}

/// Simulates an iteration; an error is the reason why it is not drawn.
fn drawn(page: &JointPage, execution: &JointExecutionDocument) -> Result<Drawing, String> {
    let stages = &page.document.stages;
    let devices = pipeline_devices(page.document);
    if let Some(why) = refusal(stages, devices) {
        return Err(why);
    }
    let run = run(page, execution, devices).map_err(|error| error.to_string())?;
    let mut updates = vec![0.0f64; devices];
    for (index, stage) in stages.iter().enumerate() {
        updates[execution.schedule.device(index, devices)] += stage.update_s.unwrap_or(0.0);
    }
    let longest = updates.iter().copied().fold(0.0, f64::max);
    let mut scene_devices = Vec::new();
    let mut lanes = Vec::new();
    let mut end = 0.0f64;
    let kinds: Vec<_> = stages.iter().filter_map(JointStageDocument::place).collect();
    let has_kinds = kinds.iter().any(|kind| *kind != kinds[0]);
    for (device, tasks) in run.tasks.iter().enumerate() {
        let kind = stages[device].place().filter(|_| has_kinds);
        let of_kind = kind.map(|kind| format!(", {}", visible(&kind))).unwrap_or_default();
        scene_devices.push(Device { name: format!("device {device}{of_kind}"), colour: None });
        let mut activities: Vec<Activity> =
            tasks.iter().map(|&(task, span)| activity(task, span, execution.microbatches)).collect();
        let start = match execution.schedule {
            // A device updates its parameters without waiting for the others.
            Schedule::ZeroBubbleTwice => tasks.last().map_or(0.0, |(_, span)| span.end),
            _ => run.seconds,
        };
        let span = Span { start, end: start + updates[device] };
        end = end.max(span.end);
        activities.push(Activity { span, operator: 0, pass: 2, batch: 0 });
        let (name, mixed) = ("runs".into(), Some(SEVERAL));
        lanes.push(Lane { device: Some(device as u32), name, activities, mixed });
    }
    let mut seconds = Figures::default();
    let mut timeline = TimelineData::new(end, lanes, &mut seconds)
        .ok_or_else(|| "an iteration takes no time that can be drawn".to_owned())?;
    timeline.microbatches = Some(execution.microbatches);
    let lead = lead(execution, &run, longest, devices);
    Ok(Drawing { scene: Scene { devices: scene_devices, timeline, seconds }, lead })
}

fn run(page: &JointPage, execution: &JointExecutionDocument, devices: usize) -> Result<Run, ScheduleError> {
    let stage = |stage: &JointStageDocument| Stage {
        times: StageTimes {
            forward: stage.forward_s.unwrap_or(0.0),
            backward: backward(stage),
            weight: stage.weight_s.unwrap_or(0.0),
        },
        ..Stage::default()
    };
    let pipeline = Pipeline {
        schedule: execution.schedule,
        microbatches: execution.microbatches,
        devices: devices as u32,
        stages: page.document.stages.iter().map(stage).collect(),
        transfers: Vec::new(),
    };
    pipeline.run()
}

fn activity(task: Task, span: Span, microbatches: u32) -> Activity {
    let pass = match task.work {
        Work::Forward => 0,
        Work::Backward => 1,
        Work::Weight => WEIGHTS,
    };
    Activity { span, operator: task.stage * microbatches + task.microbatch, pass, batch: 0 }
}

fn lead(execution: &JointExecutionDocument, run: &Run, update: f64, devices: usize) -> String {
    let schedule = table::schedule(execution.schedule).unwrap_or("no schedule");
    let microbatches = match execution.microbatches {
        1 => "1 microbatch takes".to_owned(),
        several => format!("{} microbatches take", count(several as usize)),
    };
    let idle = match devices {
        1 => String::new(),
        _ => format!(", of which a device is idle for {} on average", units::percent(run.bubble)),
    };
    let (passes, then) = match execution.schedule {
        Schedule::ZeroBubbleTwice => (
            " on a device, from its first pass to its last",
            "the synchronisation of gradients and the update of a device follow without waiting for the others and take up to",
        ),
        _ => ("", "the synchronisation of gradients and the update after them,"),
    };
    format!(
        "One iteration under {schedule}: {microbatches} {}{passes}{idle}; {then} {}. A row is a device of the pipeline, a \
         tensor-parallel group of one copy.",
        units::seconds(run.seconds),
        units::seconds(update)
    )
}
