//! The time of a schedule and of the updates after it, by a simulation of its passes in the order of their dependencies.
//!
//! A forward pass waits for the forward pass of its microbatch on the previous stage, a backward pass for the backward
//! pass on the next stage and for the forward pass on its own, a weight gradient for the backward pass on its own.
//! Every device runs its passes in the order of [`Pipeline`].
//!
//! Devices update parameters when all of them have ended their passes. Under zero-bubble-2p, each device does so when it
//! has ended its own, and begins the next iteration after that. If the passes and updates of all iterations are those of
//! the first, each a period later, then no device does two things at once if the period is as long as each device takes
//! from its first pass to the end of its update; the longest of these times is that of an iteration.

use stagewright_core::document::Schedule;

use super::order::{Pass, Pipeline, Task};

/// Seconds of the forward pass, the backward pass and the weight gradients of a microbatch on a stage.
pub(super) type Times = [f64; 3];

/// State of a device during the simulation.
#[derive(Debug, Clone, Default)]
struct Device {
    /// Finished passes of the device, by kind of pass.
    done: [usize; 3],
    /// Start of the first pass.
    begun: f64,
    /// End of the last finished pass.
    free: f64,
    /// Finished passes whose results are sent later.
    unsent: Vec<Task>,
}

/// When the results of the passes of a stage are sent, by microbatch.
#[derive(Debug, Clone, Default)]
struct Ends {
    forward: Vec<f64>,
    backward: Vec<f64>,
}

/// Seconds of an iteration; infinite if the passes wait for each other. `times` lists the times of the stages, `updates`
/// the seconds of the updates of a device. O(passes).
pub(super) fn seconds(times: &[Times], updates: &[f64], pipeline: &Pipeline) -> f64 {
    let mut devices = vec![Device::default(); pipeline.devices];
    let mut ends = vec![Ends::default(); times.len()];
    // A finished pass can let the neighbouring devices continue.
    let mut open: Vec<usize> = (0..devices.len()).rev().collect();
    while let Some(index) = open.pop() {
        let before = devices[index].done;
        while let Some(task) = pipeline.next(index, devices[index].done) {
            let stage = task.stage;
            let end_of = |ends: &[f64]| ends.get(task.microbatch).copied();
            let ready = match task.pass {
                Pass::Forward if stage == 0 => Some(0.0),
                Pass::Forward => end_of(&ends[stage - 1].forward),
                Pass::Backward if stage + 1 == times.len() => end_of(&ends[stage].forward),
                Pass::Backward => end_of(&ends[stage].forward).and(end_of(&ends[stage + 1].backward)),
                // The backward pass came before it on this device.
                Pass::Weight => Some(0.0),
            };
            let Some(ready) = ready else { break };
            let device = &mut devices[index];
            if device.done == [0; 3] {
                device.begun = ready;
            }
            device.free = device.free.max(ready) + times[stage][task.pass as usize];
            device.done[task.pass as usize] += 1;
            device.unsent.push(task);
            if pipeline.is_held(index, task, device.done) {
                continue;
            }
            for task in device.unsent.drain(..) {
                match task.pass {
                    Pass::Forward => ends[task.stage].forward.push(device.free),
                    Pass::Backward => ends[task.stage].backward.push(device.free),
                    Pass::Weight => {}
                }
            }
        }
        if devices[index].done != before {
            let count = devices.len();
            open.extend(
                [(index + count - 1) % count, (index + 1) % count].into_iter().filter(|&next| next != index),
            );
        }
    }
    let is_done = |(index, device): (usize, &Device)| pipeline.next(index, device.done).is_none();
    if !devices.iter().enumerate().all(is_done) {
        return f64::INFINITY;
    }
    if pipeline.schedule == Schedule::ZeroBubbleTwice {
        let of_device = |(device, update): (&Device, &f64)| device.free - device.begun + update;
        return devices.iter().zip(updates).map(of_device).fold(0.0, f64::max);
    }
    let longest = |seconds: &mut dyn Iterator<Item = f64>| seconds.fold(0.0, f64::max);
    longest(&mut devices.iter().map(|device| device.free)) + longest(&mut updates.iter().copied())
}

#[cfg(test)]
mod tests {
    use stagewright_core::document::Schedule;

    use super::{Pipeline, Times, seconds};

    /// Seconds of a pipeline with `chunks` stages per device.
    fn run(schedule: Schedule, times: &[Times], chunks: usize, microbatches: usize) -> f64 {
        let devices = times.len() / chunks;
        seconds(times, &vec![0.0; devices], &Pipeline { schedule, devices, chunks, microbatches })
    }

    #[test]
    fn equal_stages_take_the_textbook_time() {
        // (m + p − 1) · (f + b).
        let times = [[1.0, 2.0, 0.0]; 3];
        let seconds =
            |stages: usize, microbatches| run(Schedule::OneFOneB, &times[..stages], 1, microbatches);
        assert_eq!(seconds(3, 4), 18.0);
        assert_eq!(seconds(3, 1), 9.0);
        assert_eq!(seconds(1, 5), 15.0);
        assert_eq!(seconds(0, 5), 0.0);
    }

    #[test]
    fn a_slow_last_stage_is_never_idle_between_microbatches() {
        let times = [[1.0, 4.0, 0.0], [2.0, 3.0, 0.0]];
        // Stage 0: F0 0–1, F1 1–2, B0 6–10, F2 10–11, B1 11–15, B2 16–20; stage 1: F0 1–3, B0 3–6, F1 6–8, B1 8–11,
        // F2 11–13, B2 13–16.
        assert_eq!(run(Schedule::OneFOneB, &times, 1, 3), 20.0);
    }

    #[test]
    fn equal_chunks_take_the_textbook_time() {
        // m · v · (f + b) + (p − 1) · (f + b).
        for (devices, chunks, microbatches) in [(2, 2, 2), (2, 3, 4), (3, 2, 6), (4, 2, 4), (4, 3, 12)] {
            let times = vec![[1.0, 2.0, 0.0]; devices * chunks];
            let found = run(Schedule::Interleaved, &times, chunks, microbatches);
            assert_eq!(found, 3.0 * (microbatches * chunks + devices - 1) as f64);
        }
    }

    #[test]
    fn uneven_chunks_take_what_was_computed_by_hand() {
        let times = [[1.0, 1.0, 0.0], [2.0, 2.0, 0.0], [1.0, 3.0, 0.0], [1.0, 1.0, 0.0]];
        // Device 0: F0.0 0–1, F0.1 1–2, F1.0 3–4, F1.1 5–6, B1.0 7–10, B1.1 10–13, B0.0 13–14, B0.1 15–16;
        // device 1: F0.0 1–3, F0.1 3–5, F1.0 5–6, B1.0 6–7, F1.1 7–8, B1.1 8–9, B0.0 10–12, B0.1 13–15.
        assert_eq!(run(Schedule::Interleaved, &times, 2, 2), 16.0);
    }

    #[test]
    fn equal_passes_under_dualpipe_v_take_the_published_time() {
        // 2 m (f + b + w) + (p − 1) (f + 2 b − w), if all three are equal.
        for (devices, microbatches) in [(1, 2), (2, 4), (3, 7), (4, 8), (8, 40)] {
            let found = run(Schedule::DualPipeV, &vec![[1.0; 3]; 2 * devices], 2, microbatches);
            assert_eq!(found, (6 * microbatches + 2 * (devices - 1)) as f64);
        }
    }

    #[test]
    fn weight_gradients_fill_the_bubble() {
        // m · (f + b + w) + (p − 1) · (f + b − w).
        for (stages, microbatches) in [(1, 3), (2, 2), (3, 5), (4, 4), (4, 9)] {
            let times = vec![[2.0, 2.0, 1.0]; stages];
            let found = run(Schedule::ZeroBubble, &times, 1, microbatches);
            assert_eq!(found, (5 * microbatches + 3 * (stages - 1)) as f64);
        }
    }

    #[test]
    fn uneven_weight_gradients_take_what_was_computed_by_hand() {
        let times = [[1.0, 2.0, 1.0], [2.0, 1.0, 3.0]];
        // Stage 0: F0 0–1, F1 1–2, B0 4–6, W0 6–7, F2 7–8, B1 8–10, W1 10–11, B2 13–15, W2 15–16; stage 1: F0 1–3, B0 3–4,
        // F1 4–6, B1 6–7, W0 7–10, F2 10–12, B2 12–13, W1 13–16, W2 16–19.
        assert_eq!(run(Schedule::ZeroBubble, &times, 1, 3), 19.0);
    }

    #[test]
    fn equal_passes_under_zero_bubble_2p_leave_no_device_idle() {
        for (stages, microbatches) in [(1, 3), (2, 3), (3, 5), (4, 7), (4, 9)] {
            let times = vec![[1.0; 3]; stages];
            assert_eq!(run(Schedule::ZeroBubbleTwice, &times, 1, microbatches), 3.0 * microbatches as f64);
        }
        // With fewer microbatches, the first device waits for its first backward pass.
        assert_eq!(run(Schedule::ZeroBubbleTwice, &[[1.0; 3]; 3], 1, 2), 9.0);
    }

    #[test]
    fn devices_under_zero_bubble_2p_update_without_waiting_for_each_other() {
        let times = [[1.0, 3.0, 1.0], [2.0, 2.0, 2.0]];
        // Stage 0: F0 0–1, F1 1–2, F2 2–3, B0 5–8, W0 8–9, B1 9–12, W1 12–13, B2 13–16, W2 16–17; stage 1: F0 1–3, B0 3–5,
        // F1 5–7, B1 7–9, F2 9–11, B2 11–13, W0 13–15, W1 15–17, W2 17–19.
        let with = |updates: [f64; 2]| {
            let (schedule, devices) = (Schedule::ZeroBubbleTwice, 2);
            seconds(&times, &updates, &Pipeline { schedule, devices, chunks: 1, microbatches: 3 })
        };
        assert_eq!(with([0.0, 0.0]), 18.0);
        assert_eq!(with([1.0, 0.0]), 18.0);
        assert_eq!(with([4.0, 0.0]), 21.0);
        assert_eq!(with([4.0, 5.0]), 23.0);
    }
}
