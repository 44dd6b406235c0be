//! Activations are held from their forward pass to the end of their backward pass.

use stagewright_core::document::Schedule;
use stagewright_core::schedule::{Pipeline, Stage};

use super::{pipeline, run};

fn with_memory(schedule: Schedule, microbatches: u32, count: usize) -> Pipeline {
    let mut pipeline = pipeline(schedule, microbatches, &vec![[1.0, 1.0, 1.0]; count]);
    for stage in &mut pipeline.stages {
        *stage = Stage { activation_bytes: 10.0, fixed_bytes: 100.0, workspace_bytes: 1.0, ..*stage };
    }
    pipeline
}

#[test]
fn peaks_are_fixed_bytes_workspace_and_what_is_in_flight() {
    for schedule in [Schedule::GPipe, Schedule::OneFOneB, Schedule::ZeroBubble, Schedule::ZeroBubbleTwice] {
        for (stages, microbatches) in [(1, 1), (3, 2), (4, 8)] {
            let run = run(&with_memory(schedule, microbatches, stages));
            for (&peak, &held) in run.peak_bytes.iter().zip(&run.in_flight) {
                assert_eq!(peak, 101.0 + 10.0 * f64::from(held), "{schedule:?} {stages} {microbatches}");
            }
        }
    }
}

#[test]
fn a_device_holds_all_its_chunks() {
    let mut pipeline = with_memory(Schedule::Interleaved, 4, 4);
    pipeline.devices = 2;
    let run = run(&pipeline);
    // 2 (p − 1 − i) + (v − 1) p forward passes, and one more before the first backward pass.
    assert_eq!(run.in_flight, [5, 3]);
    assert_eq!(run.peak_bytes, [251.0, 231.0]);
}
