//! The order of the passes of a device.
//!
//! Device i of p has v stages, of which stage c is the (c · p + i)-th of the pipeline. Every stage runs a forward pass,
//! a backward pass and a weight gradient for each of m microbatches. The device runs each of these three kinds of
//! passes in an order of its own, and the kinds alternate: in slot x = 0, 1, … it runs the x-th forward pass, then the
//! (x − b)-th backward pass, then the (x − w)-th weight gradient, each if there is such a pass.
//!
//! | schedule | v | b | w |
//! | --- | --- | --- | --- |
//! | 1F1B | 1 | p − 1 − i | not separate |
//! | interleaved | ≥ 2 | 2 (p − 1 − i) + (v − 1) p | not separate |
//! | zero-bubble | 1 | p − 1 − i | p − 1 |
//! | zero-bubble-2p | 1 | 2 (p − 1 − i) | 2 (p − 1) |
//!
//! The k-th forward pass runs stage ⌊(k mod p v) / p⌋ of the device for microbatch p ⌊k / (p v)⌋ + k mod p. Backward
//! passes and weight gradients take the stages from the last to the first (Narayanan et al., SC 2021).
//!
//! # DualPipeV
//!
//! Device i has the stages i and 2 p − 1 − i; here they are its stages 0 and 1. With k = p − 1 − i and m ≥ 2 p, n = m − 2 p +
//! i + 1 is the number of microbatches that a device takes while nothing fills or drains.
//!
//! | forward passes of the stages | backward passes, and weight gradients |
//! | --- | --- |
//! | 2 k times 0 | k times 1 |
//! | i + 1 times 0, 1 | m − k times 1, 0 |
//! | k times 1 | k times 0 |
//! | n times 0, 1 | |
//! | k times 1 | |
//!
//! Before its x-th backward pass, from 0, it has run 2 p forward passes and one more for each backward pass; from x = k to
//! x = k + 2 n − 1 another one; from x = k + 2 n on, 2 p + k + 2 n and one for every second. It runs the gradients of the
//! weights directly after each of the first k + 2 n + 2 k + i + 1 backward passes, none between the next i + 1, then one
//! before each backward pass, and the rest at the end (DeepSeek-AI, "DualPipe", 2025).
//!
//! From its k-th backward pass on, a backward pass and weight gradients directly after it are one whole pass, beside which the
//! forward pass before it runs, if there is one: they send their results together, at the end. The first of these forward passes
//! of the last device runs by itself.

use stagewright_core::document::Schedule;

/// Whether weight gradients run apart from the backward pass.
pub(super) fn has_weights_apart(schedule: Schedule) -> bool {
    matches!(schedule, Schedule::ZeroBubble | Schedule::ZeroBubbleTwice | Schedule::DualPipeV)
}

/// A pass of a microbatch through a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    Forward,
    Backward,
    Weight,
}

/// All passes, in their order within a slot.
const PASSES: [Pass; 3] = [Pass::Forward, Pass::Backward, Pass::Weight];

/// A task of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) pass: Pass,
    /// The stage, numbered over the pipeline.
    pub(super) stage: usize,
    pub(super) microbatch: usize,
}

/// A pipeline and its schedule.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pipeline {
    pub(super) schedule: Schedule,
    /// Devices of the pipeline, p.
    pub(super) devices: usize,
    /// Stages of a device, v.
    pub(super) chunks: usize,
    pub(super) microbatches: usize,
}

impl Pipeline {
    /// Number of passes of each kind that a device runs.
    fn count(&self) -> usize {
        self.microbatches * self.chunks
    }

    /// Number of kinds of passes that run separately.
    pub(super) fn sorts(&self) -> usize {
        if has_weights_apart(self.schedule) { 3 } else { 2 }
    }

    /// Number of microbatches in flight on a stage of a device without other stages: until the backward pass, and until
    /// the weight gradients.
    pub(super) fn in_flight(&self, stage: usize) -> [usize; 2] {
        [Pass::Backward, Pass::Weight].map(|pass| self.microbatches.min(self.lag(pass, stage) + 1))
    }

    /// Delay of the passes of a kind behind the forward passes, in slots.
    fn lag(&self, pass: Pass, device: usize) -> usize {
        let behind = self.devices - 1 - device;
        match (pass, self.schedule) {
            (Pass::Forward, _) => 0,
            (Pass::Backward, Schedule::Interleaved) => 2 * behind + (self.chunks - 1) * self.devices,
            (Pass::Backward, Schedule::ZeroBubbleTwice) => 2 * behind,
            (Pass::Backward, _) => behind,
            (Pass::Weight, Schedule::ZeroBubbleTwice) => 2 * (self.devices - 1),
            (Pass::Weight, _) => self.devices - 1,
        }
    }

    /// Device of a stage.
    pub(super) fn device(&self, stage: usize) -> usize {
        match self.schedule {
            Schedule::DualPipeV => stage.min((2 * self.devices - 1).saturating_sub(stage)),
            _ => stage % self.devices,
        }
    }

    /// Whether the boundary between a stage and the next is between two devices.
    pub(super) fn is_crossed(&self, boundary: usize) -> bool {
        self.device(boundary) != self.device(boundary + 1)
    }

    /// The next task of a device after `done` passes of every kind; `None` after all of them.
    pub(super) fn next(&self, device: usize, done: [usize; 3]) -> Option<Task> {
        if self.schedule == Schedule::DualPipeV {
            return self.next_folded(device, done);
        }
        let left = PASSES.into_iter().take(self.sorts()).filter(|&pass| done[pass as usize] < self.count());
        let pass = left.min_by_key(|&pass| done[pass as usize] + self.lag(pass, device))?;
        let position = done[pass as usize];
        let (round, within) =
            (position / (self.devices * self.chunks), position % (self.devices * self.chunks));
        let chunk = match pass {
            Pass::Forward => within / self.devices,
            Pass::Backward | Pass::Weight => self.chunks - 1 - within / self.devices,
        };
        let microbatch = self.devices * round + within % self.devices;
        Some(Task { pass, stage: chunk * self.devices + device, microbatch })
    }

    fn next_folded(&self, device: usize, [forward, backward, weight]: [usize; 3]) -> Option<Task> {
        let (p, m, i) = (self.devices, self.microbatches, device);
        let k = p - 1 - i;
        let n = (m + i + 1).saturating_sub(2 * p);
        let full = k + 2 * n;
        let forwards = match backward {
            before if before < k => 2 * p + before,
            before if before < full => 2 * p + before + 1,
            before => 2 * p + full + (before - full).div_ceil(2),
        };
        let together = full + 2 * k + i + 1;
        let weights = match backward {
            before if before <= together => before,
            before if before <= together + i => together,
            before if before < 2 * m => before - i,
            _ => 2 * m,
        };
        // The stage of the device and the microbatch of a pass by its position.
        let pair = |position: usize| (position % 2, position / 2);
        let behind = |position: usize| match position {
            _ if position < k => (1, position),
            _ if position < k + 2 * (m - k) => match pair(position - k) {
                (0, microbatch) => (1, k + microbatch),
                (_, microbatch) => (0, microbatch),
            },
            _ => (0, position - m),
        };
        let (pass, (chunk, microbatch)) = if weight < weights.min(backward) {
            (Pass::Weight, behind(weight))
        } else if forward < forwards.min(2 * m) {
            let (chunk, microbatch) = match forward {
                x if x < 2 * k => (0, x),
                x if x < 2 * p => match pair(x - 2 * k) {
                    (0, microbatch) => (0, 2 * k + microbatch),
                    (_, microbatch) => (1, microbatch),
                },
                x if x < 2 * p + k => (1, i + 1 + x - 2 * p),
                x if x < 2 * p + k + 2 * n => match pair(x - 2 * p - k) {
                    (0, microbatch) => (0, 2 * k + i + 1 + microbatch),
                    (_, microbatch) => (1, i + 1 + k + microbatch),
                },
                x => (1, i + 1 + x - 2 * p - n),
            };
            (Pass::Forward, (chunk, microbatch))
        } else if backward < 2 * m {
            (Pass::Backward, behind(backward))
        } else {
            return None;
        };
        Some(Task { pass, stage: if chunk == 0 { i } else { 2 * p - 1 - i }, microbatch })
    }

    /// Whether the results of `task`, the last of `done`, are sent only after the next task of the device.
    pub(super) fn is_held(&self, device: usize, task: Task, done: [usize; 3]) -> bool {
        if self.schedule != Schedule::DualPipeV {
            return false;
        }
        let (p, m) = (self.devices, self.microbatches);
        let k = p - 1 - device;
        // Backward passes that are one with their weight gradients.
        let whole = k..2 * m - device - 1 - k;
        match task.pass {
            Pass::Forward => {
                let is_first = k == 0 && done[1] == 0;
                let next = self.next(device, done).map(|next| next.pass);
                done[1] >= k && !is_first && next == Some(Pass::Backward)
            }
            Pass::Backward => whole.contains(&(done[1] - 1)),
            Pass::Weight => false,
        }
    }

    /// All tasks of a device, in order.
    pub(super) fn tasks(self, device: usize) -> impl Iterator<Item = Task> {
        let mut done = [0; 3];
        std::iter::from_fn(move || {
            let task = self.next(device, done)?;
            done[task.pass as usize] += 1;
            Some(task)
        })
    }
}

#[cfg(test)]
mod tests {
    use stagewright_core::document::Schedule;

    use super::{Pass, Pipeline};

    /// Tasks as letters with chunk and microbatch.
    fn order(schedule: Schedule, [devices, chunks, microbatches]: [usize; 3], device: usize) -> String {
        let pipeline = Pipeline { schedule, devices, chunks, microbatches };
        let tasks = pipeline.tasks(device).map(|task| {
            let letter = match task.pass {
                Pass::Forward => 'F',
                Pass::Backward => 'B',
                Pass::Weight => 'W',
            };
            assert_eq!(pipeline.device(task.stage), device);
            match chunks {
                1 => format!("{letter}{}", task.microbatch),
                _ => format!("{letter}{}.{}", task.stage / devices, task.microbatch),
            }
        });
        tasks.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn one_forward_pass_alternates_with_one_backward_pass() {
        let order_of = |device| order(Schedule::OneFOneB, [3, 1, 4], device);
        assert_eq!(order_of(0), "F0 F1 F2 B0 F3 B1 B2 B3");
        assert_eq!(order_of(1), "F0 F1 B0 F2 B1 F3 B2 B3");
        assert_eq!(order_of(2), "F0 B0 F1 B1 F2 B2 F3 B3");
        assert_eq!(order(Schedule::OneFOneB, [3, 1, 1], 0), "F0 B0");
    }

    #[test]
    fn weight_gradients_lag_by_as_many_microbatches_as_there_are_stages() {
        let order_of = |device| order(Schedule::ZeroBubble, [3, 1, 4], device);
        assert_eq!(order_of(0), "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
        assert_eq!(order_of(1), "F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3");
        assert_eq!(order_of(2), "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3");
        assert_eq!(order(Schedule::ZeroBubble, [3, 1, 1], 1), "F0 B0 W0");
    }

    #[test]
    fn zero_bubble_2p_doubles_both_lags() {
        let order_of = |device| order(Schedule::ZeroBubbleTwice, [2, 1, 4], device);
        assert_eq!(order_of(0), "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
        assert_eq!(order_of(1), "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3");
        assert_eq!(order(Schedule::ZeroBubbleTwice, [3, 1, 4], 1), "F0 F1 F2 B0 F3 B1 B2 W0 B3 W1 W2 W3");
        assert_eq!(order(Schedule::ZeroBubbleTwice, [3, 1, 1], 0), "F0 B0 W0");
    }

    #[test]
    fn stages_under_dualpipe_v_run_as_published() {
        let order_of = |device| order(Schedule::DualPipeV, [2, 2, 5], device);
        let first = "F0.0 F0.1 F0.2 F1.0 B1.0 W1.0 F1.1 F0.3 B1.1 W1.1 F1.2 B0.0 W0.0 F0.4 B1.2 W1.2 F1.3 B0.1 W0.1 \
                     B1.3 W1.3 F1.4 B0.2 W0.2 B1.4 W1.4 B0.3 W0.3 B0.4 W0.4";
        let last = "F0.0 F1.0 F0.1 F1.1 F0.2 B1.0 W1.0 F1.2 B0.0 W0.0 F0.3 B1.1 W1.1 F1.3 B0.1 W0.1 F0.4 B1.2 W1.2 F1.4 \
                    B0.2 W0.2 B1.3 W1.3 B0.3 W0.3 B1.4 B0.4 W1.4 W0.4";
        assert_eq!(order_of(1), last);
        assert_eq!(order_of(0), first);
    }

    #[test]
    fn chunks_take_turns_of_as_many_microbatches_as_there_are_devices() {
        let order_of = |device| order(Schedule::Interleaved, [2, 2, 4], device);
        // 2 (2 − 1 − 0) + 2 forward passes come first, and 2 on the last device.
        let first = "F0.0 F0.1 F1.0 F1.1 F0.2 B1.0 F0.3 B1.1 F1.2 B0.0 F1.3 B0.1 B1.2 B1.3 B0.2 B0.3";
        let last = "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 F0.2 B0.0 F0.3 B0.1 F1.2 B1.2 F1.3 B1.3 B0.2 B0.3";
        assert_eq!((order_of(0).as_str(), order_of(1).as_str()), (first, last));
        // If there are no more forward passes than these, all of them come first.
        assert_eq!(order(Schedule::Interleaved, [2, 2, 2], 0), "F0.0 F0.1 F1.0 F1.1 B1.0 B1.1 B0.0 B0.1");
    }
}
