//! The time of an iteration under a schedule, by simulation.
//!
//! Every stage chooses its next pass from the passes it has done. With f forward passes, b backward passes and w weight
//! gradients done, stage i of p
//!
//! - runs forward passes until f = m, then backward passes, under GPipe;
//! - runs a forward pass while f < m and f − b ≤ p − 1 − i, otherwise a backward pass, under 1F1B;
//! - under zero-bubble, runs a weight gradient before either if b − w > i or b = m.
//!
//! A forward pass waits for the same microbatch's forward pass on the previous stage, a backward pass for its backward
//! pass on the next stage. Every stage that can run does so, until all are done.

use std::collections::VecDeque;

use stagewright_core::document::Schedule;

/// Seconds of a stage's passes for one microbatch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) forward: f64,
    /// Seconds of the backward pass without the deferred weight gradients.
    pub(super) backward: f64,
    pub(super) weight: f64,
}

/// State of a stage: passes done, and arrival times of its inputs.
#[derive(Debug, Clone, Default)]
struct StageState {
    done: [u32; 3],
    free: f64,
    activations: VecDeque<f64>,
    gradients: VecDeque<f64>,
}

/// Seconds until all passes are done. O(stages · microbatches).
pub(super) fn seconds(schedule: Schedule, times: &[Times], microbatches: u32) -> f64 {
    let count = times.len();
    let mut states = vec![StageState::default(); count];
    let mut moved = true;
    while std::mem::take(&mut moved) {
        // Visits the stages first to last, then last to first, so that both passes advance far in one round.
        for stage in (0..count).chain((0..count).rev()) {
            while let Some(work) = next(schedule, &states[stage].done, [stage, count], microbatches) {
                let arrived = match work {
                    0 if stage > 0 => states[stage].activations.pop_front(),
                    1 if stage + 1 < count => states[stage].gradients.pop_front(),
                    _ => Some(0.0),
                };
                let Some(arrived) = arrived else { break };
                let state = &mut states[stage];
                let seconds = [times[stage].forward, times[stage].backward, times[stage].weight][work];
                state.free = state.free.max(arrived) + seconds;
                state.done[work] += 1;
                let ended = state.free;
                match work {
                    0 if stage + 1 < count => states[stage + 1].activations.push_back(ended),
                    1 if stage > 0 => states[stage - 1].gradients.push_back(ended),
                    _ => {}
                }
                moved = true;
            }
        }
    }
    states.iter().map(|state| state.free).fold(0.0, f64::max)
}

/// Next pass of a stage: 0 forward, 1 backward, 2 weight gradient; `None` if the stage is done.
fn next(schedule: Schedule, done: &[u32; 3], [stage, count]: [usize; 2], microbatches: u32) -> Option<usize> {
    let [forward, backward, weight] = *done;
    let (ahead, behind) = ((count - 1 - stage) as u64, stage as u64);
    let held = u64::from(forward - backward);
    let is_split = schedule == Schedule::ZeroBubble;
    if is_split && weight < backward && (u64::from(backward - weight) > behind || backward == microbatches) {
        return Some(2);
    }
    if forward < microbatches && (schedule == Schedule::GPipe || held <= ahead) {
        return Some(0);
    }
    (backward < microbatches).then_some(1)
}
