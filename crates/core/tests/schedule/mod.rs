//! Pipeline schedules compared with their closed forms and with independently computed longest paths.

mod closed_forms;
mod longest_path;
mod memory;
mod updates;
mod weights;

use stagewright_core::document::Schedule;
use stagewright_core::schedule::{Pipeline, Run, Stage, StageTimes};

/// Stages with the given times, one per device.
fn pipeline(schedule: Schedule, microbatches: u32, times: &[[f64; 3]]) -> Pipeline {
    let stage = |&[forward, backward, weight]: &[f64; 3]| Stage {
        times: StageTimes { forward, backward, weight },
        ..Stage::default()
    };
    Pipeline {
        schedule,
        microbatches,
        devices: times.len() as u32,
        stages: times.iter().map(stage).collect(),
        transfers: Vec::new(),
    }
}

fn run(pipeline: &Pipeline) -> Run {
    pipeline.run().expect("a pipeline that can be scheduled")
}

fn times(pipeline: &Pipeline) -> Vec<StageTimes> {
    pipeline.stages.iter().map(|stage| stage.times).collect()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}
