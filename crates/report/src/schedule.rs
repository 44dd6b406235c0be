//! Report of an iteration under a pipeline schedule, as text and as data.

use serde::Serialize;
use stagewright_core::document::Schedule;
use stagewright_core::evaluate::pipeline;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::schedule::{Run, ScheduleError, Work};

use super::grid::{Column, Grid};
use super::units::{bytes, percent, seconds};
use super::wrap::facts;

/// A simulated iteration.
#[derive(Debug, Clone, Serialize)]
pub struct IterationReport {
    /// The schedule.
    pub schedule: Schedule,
    /// Number of microbatches.
    pub microbatches: u32,
    /// Number of stages per device.
    pub chunks: u32,
    /// Duration of the iteration in seconds.
    pub iteration_s: f64,
    /// Idle share of the devices' time.
    pub bubble: f64,
    /// Devices in pipeline order.
    pub devices: Vec<DeviceReport>,
}

/// One device of an iteration.
#[derive(Debug, Clone, Serialize)]
pub struct DeviceReport {
    /// Name of the device.
    pub name: String,
    /// Busy time in seconds.
    pub busy_s: f64,
    /// Maximum number of microbatches whose activations the device holds, counted separately for each of its stages.
    pub in_flight: u32,
    /// Peak memory in bytes.
    pub peak_bytes: f64,
    /// Memory of the device in bytes; `None` if unlimited.
    pub memory_bytes: Option<f64>,
    /// Tasks in execution order.
    pub tasks: Vec<TaskReport>,
}

/// One task of a device.
#[derive(Debug, Clone, Serialize)]
pub struct TaskReport {
    /// `forward`, `backward` or `weight`.
    pub work: &'static str,
    /// The stage, from 0.
    pub stage: u32,
    /// The microbatch, from 0.
    pub microbatch: u32,
    /// Start time in seconds.
    pub start_s: f64,
    /// End time in seconds.
    pub end_s: f64,
}

impl IterationReport {
    /// Simulates a placement under a schedule. The objective of the problem must be an iteration: it sets the number of
    /// microbatches, and its schedule must be `schedule`, except that interleaved 1F1B takes the loads of 1F1B, and
    /// zero-bubble-2p and DualPipeV those of zero-bubble. Interleaved 1F1B and DualPipeV divide every stage into
    /// `chunks`.
    ///
    /// # Errors
    /// If [`pipeline`] or [`Pipeline::run`](stagewright_core::schedule::Pipeline::run) fails.
    ///
    /// # Panics
    /// If [`pipeline`] panics.
    pub fn new(
        problem: &Problem,
        placement: &Placement,
        schedule: Schedule,
        chunks: u32,
    ) -> Result<IterationReport, ScheduleError> {
        let pipeline = pipeline(problem, placement, schedule, chunks)?;
        let Run { seconds, bubble, busy, in_flight, peak_bytes, tasks, .. } = pipeline.run()?;
        let devices = placement.used().into_iter().zip(tasks).enumerate().map(|(index, (device, tasks))| {
            let limit = problem.pools()[problem.pool_of(device)].memory;
            let task =
                |(task, span): (stagewright_core::schedule::Task, stagewright_core::simulate::Span)| {
                    let work = match task.work {
                        Work::Forward => "forward",
                        Work::Backward => "backward",
                        Work::Weight => "weight",
                    };
                    let (stage, microbatch) = (task.stage, task.microbatch);
                    TaskReport { work, stage, microbatch, start_s: span.start, end_s: span.end }
                };
            DeviceReport {
                name: problem.cluster().device_name(device),
                busy_s: busy[index],
                in_flight: in_flight[index],
                peak_bytes: peak_bytes[index],
                memory_bytes: limit.is_finite().then_some(limit),
                tasks: tasks.into_iter().map(task).collect(),
            }
        });
        let microbatches = pipeline.microbatches;
        let devices = devices.collect();
        Ok(IterationReport { schedule, microbatches, chunks, iteration_s: seconds, bubble, devices })
    }

    /// Formats the figures and a table of the devices for a terminal of `width` characters.
    pub fn text(&self, width: Option<u16>) -> String {
        let each = self.iteration_s / f64::from(self.microbatches.max(1));
        let schedule = super::table::schedule(self.schedule).unwrap_or("none");
        let stages =
            if self.chunks > 1 { format!(", {} stages per device", self.chunks) } else { String::new() };
        let lines = [
            ("schedule", format!("{schedule} with {} microbatches{stages}", self.microbatches)),
            ("iteration", format!("{}, {} per microbatch", seconds(self.iteration_s), seconds(each))),
            ("bubble", percent(self.bubble)),
        ];
        let mut grid = Grid::of(&[
            (Column::Names, &["device"]),
            (Column::Figures, &["busy", "idle", "in flight", "peak memory", "of"]),
        ]);
        for device in &self.devices {
            let idle = if self.iteration_s > 0.0 { 1.0 - device.busy_s / self.iteration_s } else { 0.0 };
            grid.row([
                device.name.clone(),
                seconds(device.busy_s),
                percent(idle.max(0.0)),
                device.in_flight.to_string(),
                bytes(device.peak_bytes),
                device.memory_bytes.map_or_else(|| "unlimited".into(), bytes),
            ]);
        }
        format!("{}\n{}", facts(lines, width), grid.text(width))
    }
}
