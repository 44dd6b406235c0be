//! A plan that was run on this machine, beside its predictions.

pub mod trace;

use serde::Serialize;
use stagewright_core::document::{Communication, ObjectiveDocument, ObjectiveKind, PlanDocument};

use super::grid::{Column, Grid};
use super::wrap::facts;

/// Predicted and measured figures, as `run --json` prints them; all times are in seconds.
#[derive(Debug, Clone, Serialize)]
pub struct RunOutcome {
    /// Predicted time per sample; for latency, the time of one sample.
    pub predicted_s: f64,
    /// Median over repeats of the measured time.
    pub measured_s: f64,
    /// Measured time of every repeat.
    pub repeats_s: Vec<f64>,
    /// Predicted divided by measured, minus one.
    pub error: f64,
    /// Mean time of a sample from its start to its end.
    pub latency_s: f64,
    /// Largest difference from the outputs of the whole model, relative to the largest number of each output; `None` if
    /// they were not compared.
    pub difference: Option<f64>,
    /// The devices of the plan, in its order.
    pub devices: Vec<RunDevice>,
}

/// A device; times are per sample.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct RunDevice {
    pub name: String,
    pub segments: usize,
    pub predicted_compute_s: f64,
    pub measured_compute_s: f64,
    pub predicted_communication_s: f64,
    pub measured_communication_s: f64,
    /// Share of the time in which the device computed.
    pub busy: f64,
    /// Largest resident memory in bytes.
    pub peak_memory_bytes: Option<u64>,
}

/// Activity of a device for a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunSpan {
    /// Number of the device in the plan.
    pub device: usize,
    /// Activity of the device.
    pub activity: RunActivity,
    /// Number of the sample.
    pub sample: u32,
    /// Start of the span, in seconds after the start of the first span of the run.
    pub start_s: f64,
    /// End of the span, in seconds after the start of the first span of the run.
    pub end_s: f64,
}

/// Activity that takes the time of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum RunActivity {
    Compute,
    Send,
    Receive,
    /// Computing, sending and receiving together, as the plan predicts them.
    Load,
}

impl RunActivity {
    /// Name of the activity in traces.
    pub fn name(self) -> &'static str {
        match self {
            RunActivity::Compute => "compute",
            RunActivity::Send => "send",
            RunActivity::Receive => "receive",
            RunActivity::Load => "load",
        }
    }
}

/// Prediction of a plan for a pipeline: every device is busy for its load once a period, after the devices before it.
/// Empty for latency plans, whose devices take turns within a sample.
pub fn predicted(plan: &PlanDocument, samples: u32) -> Vec<RunSpan> {
    let Some(period) = plan.objective.value_s.filter(|_| is_pipeline(&plan.objective)) else {
        return Vec::new();
    };
    let mut order: Vec<usize> = (0..plan.devices.len()).collect();
    order.sort_by_key(|&device| plan.devices[device].stage.unwrap_or(0));
    let mut spans = Vec::new();
    let mut before = 0.0;
    for device in order {
        let load = plan.devices[device].load_s;
        spans.extend((0..samples).map(|sample| {
            let start_s = before + period * f64::from(sample);
            RunSpan { device, activity: RunActivity::Load, sample, start_s, end_s: start_s + load }
        }));
        if plan.devices[device].stage.is_some() {
            before += load;
        }
    }
    spans
}

/// Whether samples are pipelined instead of run one by one.
pub fn is_pipeline(objective: &ObjectiveDocument) -> bool {
    objective.kind == ObjectiveKind::Throughput
}

/// Name of the predicted and measured quantity.
pub(crate) fn quantity(objective: &ObjectiveDocument) -> &'static str {
    if is_pipeline(objective) { "time per sample" } else { "latency" }
}

/// When transfers happen, relative to computations.
pub(crate) fn transfers(objective: &ObjectiveDocument) -> &'static str {
    match objective.communication {
        Communication::Serial => "between computations",
        Communication::Overlap | Communication::Duplex => "beside computations",
    }
}

/// How close the outputs are to those of the whole model.
pub(crate) fn outputs(difference: f64) -> String {
    format!("those of the whole model, to {difference:.0e} of the largest number")
}

pub(crate) fn ms(seconds: f64) -> String {
    format!("{:.3}", 1e3 * seconds)
}

impl RunOutcome {
    /// The range of several repeats, in milliseconds.
    pub(crate) fn spread(&self) -> Option<String> {
        let (low, high) =
            self.repeats_s.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), &s| (low.min(s), high.max(s)));
        (self.repeats_s.len() > 1)
            .then(|| format!("{} to {} in {} runs", ms(low), ms(high), self.repeats_s.len()))
    }

    /// The outcome as a text table.
    pub fn table(&self, objective: &ObjectiveDocument, width: Option<u16>) -> String {
        let names =
            ["segments", "compute, ms", "measured", "communication, ms", "measured", "busy", "memory, MB"];
        let mut grid = Grid::of(&[(Column::Names, &["device"]), (Column::Figures, &names)]);
        for device in &self.devices {
            grid.row([vec![device.name.clone()], device.figures()].concat());
        }
        let spread = self.spread().map(|spread| format!(", {spread}")).unwrap_or_default();
        let (predicted, measured) = (ms(self.predicted_s), ms(self.measured_s));
        let mut lines = vec![
            (quantity(objective), format!("{predicted} ms predicted, {measured} ms measured{spread}")),
            ("prediction", format!("{:+.1}%", 100.0 * self.error)),
            ("transfers", transfers(objective).to_owned()),
        ];
        lines.extend(self.difference.map(|difference| ("outputs", outputs(difference))));
        format!("{}\n{}", grid.text(width), facts(lines, width))
    }
}

impl RunDevice {
    /// Segments, compute and communication predicted and measured in milliseconds, the share of time in which the
    /// device computed, and memory in MB.
    pub(crate) fn figures(&self) -> Vec<String> {
        vec![
            self.segments.to_string(),
            ms(self.predicted_compute_s),
            ms(self.measured_compute_s),
            ms(self.predicted_communication_s),
            ms(self.measured_communication_s),
            format!("{:.0}%", 100.0 * self.busy),
            self.peak_memory_bytes.map_or("-".into(), |bytes| format!("{:.0}", bytes as f64 / 1e6)),
        ]
    }
}
