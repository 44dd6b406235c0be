//! The page of a run: predictions and measurements by device, and a timeline.

use std::io::{self, Write};

use serde::Serialize;
use stagewright_core::document::PlanDocument;
use stagewright_core::simulate::Span;

use super::devices::colour;
use super::figures::Figures;
use super::markup::{self, count, escape, table};
use super::names::visible;
use super::scene::Device;
use super::shell::{self, Section};
use super::summary::{facts, figures, heading, title};
use super::timeline::{Activity, Lane, NO_PASS, TimelineData, view};
use crate::run::{self, RunActivity, RunOutcome, RunSpan};

/// Contents of a page.
#[derive(Debug, Clone, Copy)]
pub struct RunPage<'a> {
    /// Name of the model.
    pub model: &'a str,
    /// The plan.
    pub plan: &'a PlanDocument,
    /// Predicted and measured figures.
    pub outcome: &'a RunOutcome,
    /// Measurements of one run, with the predictions for it.
    pub spans: &'a [RunSpan],
    /// Samples of the run.
    pub samples: u32,
}

/// The data of a page.
#[derive(Serialize)]
struct Scene {
    devices: Vec<Device>,
    timeline: TimelineData,
    seconds: Figures,
}

/// Rows of a device, with the name of each and the code by which it is drawn.
const ROWS: [(RunActivity, &str, u8); 4] = [
    (RunActivity::Compute, "computes", 0),
    (RunActivity::Send, "sends", NO_PASS),
    (RunActivity::Receive, "receives", NO_PASS),
    (RunActivity::Load, "predicted", 1),
];

/// Writes a page, in O(spans log spans).
///
/// # Errors
/// If the writer fails.
pub fn write(page: &RunPage, out: &mut dyn Write) -> io::Result<()> {
    let scene = scene(page);
    let data = serde_json::to_string(&scene)?;
    let timeline = scene.map(|_| timeline(page));
    let sections: Vec<Section> =
        [Some(summary(page)), Some(devices(page)), timeline].into_iter().flatten().collect();
    shell::write(&title(page.model, Some("this machine")), &sections, &data, out)
}

fn summary(page: &RunPage) -> Section {
    let RunPage { outcome, plan, .. } = page;
    let eyebrow = format!("{}, predicted and measured", run::quantity(&plan.objective));
    let mut text = heading(&eyebrow, page.model, Some("this machine"));
    let spread = outcome.spread().map(|spread| format!("{spread}, ms")).unwrap_or_default();
    let solver = format!("plan of {}", plan.solver);
    let error = format!("{:+.1}%", 100.0 * outcome.error);
    text.push_str(&figures([
        ("predicted", markup::seconds(outcome.predicted_s), solver.as_str()),
        ("measured", markup::seconds(outcome.measured_s), &spread),
        ("error", error, "of the prediction"),
        ("latency", markup::seconds(outcome.latency_s), "of a sample, mean"),
    ]));
    let mut rows = vec![
        ("devices", count(plan.devices.len())),
        ("transfers", run::transfers(&plan.objective).to_owned()),
    ];
    rows.extend(outcome.difference.map(|difference| ("outputs", run::outputs(difference))));
    rows.extend(plan.sources.as_ref().map(|shares| ("costs", crate::table::sources(shares))));
    text.push_str(&facts(&rows));
    Section { id: "summary", title: "Summary", markup: text }
}

fn devices(page: &RunPage) -> Section {
    let columns = [
        ("device", true),
        ("segments", false),
        ("compute, ms", false),
        ("measured", false),
        ("communication, ms", false),
        ("measured", false),
        ("busy", false),
        ("memory, MB", false),
    ];
    let rows = page.outcome.devices.iter().map(|device| {
        let name = format!("<bdi>{}</bdi>", escape(&visible(&device.name)));
        [vec![name], device.figures()].concat()
    });
    let lead = "Means per sample, beside the predictions; the share of the time in which the device computed; and the \
                largest memory of its process.";
    let table = table("device-table", "Devices", &columns, rows);
    let markup = format!("<h2 id=\"devices-title\">Devices</h2>\n<p class=\"lead\">{lead}</p>\n{table}");
    Section { id: "devices", title: "Devices", markup }
}

fn timeline(page: &RunPage) -> Section {
    let samples = count(page.samples as usize);
    let mut key = String::from(
        "<li><i class=\"swatch solid\"></i>computes</li><li><i class=\"swatch transfer\"></i>sends, receives</li>",
    );
    let lead = match run::is_pipeline(&page.plan.objective) {
        true => {
            key.push_str("<li><i class=\"swatch half\"></i>predicted</li>");
            format!(
                "The last run from its start, {samples} samples with those that fill the pipeline, and when the plan \
                 predicts a device to be busy."
            )
        }
        false => format!("The last run from its start, {samples} samples one after the other."),
    };
    let markup = format!(
        "<h2 id=\"timeline-title\">Timeline</h2>\n<p class=\"lead\">{lead}</p>\n{}",
        view("timeline", "the run", &key)
    );
    Section { id: "timeline", title: "Timeline", markup }
}

/// The drawing; `None` if nothing took any time.
fn scene(page: &RunPage) -> Option<Scene> {
    let mut devices = Vec::new();
    let mut lanes = Vec::new();
    for (index, device) in page.plan.devices.iter().enumerate() {
        devices.push(Device { name: visible(&device.name), colour: Some(colour(index)) });
        for (activity, name, pass) in ROWS {
            let own = page.spans.iter().filter(|span| (span.device, span.activity) == (index, activity));
            let activities: Vec<Activity> = own
                .map(|span| Activity {
                    span: Span { start: span.start_s, end: span.end_s },
                    operator: span.sample,
                    pass,
                    batch: 0,
                })
                .collect();
            if !activities.is_empty() {
                lanes.push(Lane { device: Some(index as u32), name: name.into(), activities, mixed: None });
            }
        }
    }
    let length = page.spans.iter().map(|span| span.end_s).fold(0.0, f64::max);
    let mut seconds = Figures::default();
    let mut timeline = TimelineData::new(length, lanes, &mut seconds)?;
    timeline.samples = true;
    Some(Scene { devices, timeline, seconds })
}
