//! The order of the tasks on every device.

use std::collections::VecDeque;

use super::ScheduleError;
use crate::document::Schedule;

/// Maximum number of tasks of a pipeline that are listed individually.
const MAX_TASKS: usize = 1 << 22;

/// The kind of work that a task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// The forward pass.
    Forward,
    /// The backward pass; if it is split, the gradient of the inputs.
    Backward,
    /// The gradient of the weights, if the backward pass is split.
    Weight,
}

/// One stage's work on one microbatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Task {
    /// Type of the task.
    pub work: Work,
    /// The stage, from 0.
    pub stage: u32,
    /// The microbatch, from 0.
    pub microbatch: u32,
}

/// Returns the tasks of every device in order: `stages` stages are assigned to `devices` devices as
/// [`Schedule::device`] says.
///
/// - GPipe: F₀ … F₍ₘ₋₁₎, then B₀ … B₍ₘ₋₁₎.
/// - 1F1B on device i: in slot x, F of microbatch x, then B of microbatch x − (p − 1 − i), each if there is such a
///   microbatch.
/// - Zero-bubble (ZB-H1): as 1F1B, then W of microbatch x − (p − 1). Every device thus holds the activations of at most
///   p microbatches, the first device for as long as the last.
/// - Zero-bubble-2p (ZB-H2): as ZB-H1 with B and W twice as late, and at most 2 p − 1 microbatches held.
/// - Interleaved 1F1B with v stages per device: device i first runs 2 (p − 1 − i) + (v − 1) p forward passes, then
///   alternates between forward and backward passes. Its k-th forward pass belongs to its stage number ⌊(k mod p v) /
///   p⌋ and to microbatch p ⌊k / (p v)⌋ + k mod p; so does its k-th backward pass, with stages counted from the last to
///   the first.
/// - DualPipeV with stages i and 2 p − 1 − i on device i, whose passes are F, B, W and F', B', W', and k = p − 1 − i: 2 k
///   times F; i + 1 times F, F'; k times B', W', F'; m − 2 p + i + 1 times F, B', W', F', B, W; k times B', W', F', B, W;
///   i + 1 times B', B, where W or W' follows each of the first i + 1 of these passes; k times W, B; then W. The last
///   three take the weight gradients that are left, the oldest first.
///
/// O(tasks).
///
/// # Errors
/// A pipeline that cannot be scheduled or has too many tasks.
pub fn orders(
    schedule: Schedule,
    devices: u32,
    stages: usize,
    microbatches: u32,
) -> Result<Vec<Vec<Task>>, ScheduleError> {
    if devices == 0 || stages == 0 || microbatches == 0 {
        return Err(ScheduleError::Empty);
    }
    let tasks = stages.checked_mul(3 * microbatches as usize).filter(|&tasks| tasks <= MAX_TASKS);
    if tasks.is_none() {
        return Err(ScheduleError::TooMany { stages, microbatches, most: MAX_TASKS });
    }
    let each = devices as usize;
    if !schedule.has_chunks() && stages != each {
        return Err(ScheduleError::OneStageEach { stages, devices });
    }
    if schedule == Schedule::DualPipeV && stages != 2 * each {
        return Err(ScheduleError::TwoStagesEach { stages, devices });
    }
    if !stages.is_multiple_of(each) {
        return Err(ScheduleError::Uneven { stages, devices });
    }
    let each_device = 0..devices;
    Ok(match schedule {
        Schedule::None => return Err(ScheduleError::NoSchedule),
        Schedule::GPipe => each_device.map(|stage| gpipe(stage, microbatches)).collect(),
        Schedule::OneFOneB | Schedule::ZeroBubble | Schedule::ZeroBubbleTwice => {
            each_device.map(|stage| slots(schedule, stage, devices, microbatches)).collect()
        }
        Schedule::Interleaved => {
            if !microbatches.is_multiple_of(devices) {
                return Err(ScheduleError::Rounds { microbatches, devices });
            }
            let chunks = stages as u32 / devices;
            each_device.map(|device| interleaved(device, devices, chunks, microbatches)).collect()
        }
        Schedule::DualPipeV => {
            if u64::from(microbatches) < 2 * u64::from(devices) {
                return Err(ScheduleError::FewMicrobatches { microbatches, devices });
            }
            each_device.map(|device| dualpipe_v(device, devices, microbatches)).collect()
        }
    })
}

/// For every task of a device, the position of the task after which its results are sent to other devices: its own, but
/// under DualPipeV the last of the passes that run beside each other, with the weight gradients that belong to them.
/// `order` is that of the device with index `device`. O(tasks).
pub(super) fn sendings(schedule: Schedule, device: u32, devices: u32, order: &[Task]) -> Vec<usize> {
    let own = 0..order.len();
    if schedule != Schedule::DualPipeV {
        return own.collect();
    }
    let [behind, before] = [devices - 1 - device, device + 1].map(|count| count as usize);
    let first = 5 * behind + 2 * before;
    // Up to here, weight gradients belong to the backward pass before them.
    let whole = order.len() - (before + 2 * behind + before);
    let mut sent: Vec<usize> = own.collect();
    let mut start = first;
    while start < whole {
        let length = match order[start].work {
            // The last device runs its first pair one after the other.
            Work::Forward if start == first && behind == 0 => 1,
            Work::Forward => 3,
            Work::Backward | Work::Weight => 2,
        };
        sent[start..start + length].fill(start + length - 1);
        start += length;
    }
    sent
}

fn gpipe(stage: u32, microbatches: u32) -> Vec<Task> {
    let all = |work| (0..microbatches).map(move |microbatch| Task { work, stage, microbatch });
    all(Work::Forward).chain(all(Work::Backward)).collect()
}

/// Slots by which F, B and W of a microbatch on a stage are late, under 1F1B and the zero-bubble schedules.
pub(super) fn lags(schedule: Schedule, stage: u32, devices: u32) -> [u32; 3] {
    let each = if schedule == Schedule::ZeroBubbleTwice { 2 } else { 1 };
    [0, each * (devices - 1 - stage), each * (devices - 1)]
}

/// The tasks of a stage, slot by slot, under 1F1B and the zero-bubble schedules.
fn slots(schedule: Schedule, stage: u32, devices: u32, microbatches: u32) -> Vec<Task> {
    let lags = lags(schedule, stage, devices);
    let works = [Work::Forward, Work::Backward, Work::Weight];
    let works = &works[..if schedule.is_split() { 3 } else { 2 }];
    let mut tasks = Vec::with_capacity(works.len() * microbatches as usize);
    for slot in 0..microbatches + lags[2] {
        for (&work, behind) in works.iter().zip(lags) {
            if let Some(microbatch) = slot.checked_sub(behind).filter(|&microbatch| microbatch < microbatches)
            {
                tasks.push(Task { work, stage, microbatch });
            }
        }
    }
    tasks
}

fn interleaved(device: u32, devices: u32, chunks: u32, microbatches: u32) -> Vec<Task> {
    let round = devices * chunks;
    let total = microbatches * chunks;
    let task = |work, position: u32| {
        let chunk = position % round / devices;
        let chunk = if work == Work::Forward { chunk } else { chunks - 1 - chunk };
        let (stage, microbatch) = (chunk * devices + device, position / round * devices + position % devices);
        Task { work, stage, microbatch }
    };
    let first = (2 * (devices - 1 - device) + (chunks - 1) * devices).min(total);
    let mut tasks: Vec<Task> = (0..first).map(|position| task(Work::Forward, position)).collect();
    for position in 0..total {
        if first + position < total {
            tasks.push(task(Work::Forward, first + position));
        }
        tasks.push(task(Work::Backward, position));
    }
    tasks
}

fn dualpipe_v(device: u32, devices: u32, microbatches: u32) -> Vec<Task> {
    let mut listed = Listed {
        stages: [device, 2 * devices - 1 - device],
        next: [[0; 2]; 2],
        waiting: VecDeque::new(),
        tasks: Vec::with_capacity(6 * microbatches as usize),
    };
    let behind = devices - 1 - device;
    for _ in 0..2 * behind {
        listed.forward(0);
    }
    for _ in 0..=device {
        listed.forward(0);
        listed.forward(1);
    }
    for _ in 0..behind {
        listed.backward(1);
        listed.weight();
        listed.forward(1);
    }
    for position in 0..microbatches - 2 * devices + device + 1 + behind {
        if position < microbatches - 2 * devices + device + 1 {
            listed.forward(0);
        }
        listed.backward(1);
        listed.weight();
        listed.forward(1);
        listed.backward(0);
        listed.weight();
    }
    for position in 0..2 * (device + 1) {
        listed.backward(1 - position as usize % 2);
        if position <= device {
            listed.weight();
        }
    }
    for _ in 0..behind {
        listed.weight();
        listed.backward(0);
    }
    for _ in 0..=device {
        listed.weight();
    }
    listed.tasks
}

/// Tasks of a device under DualPipeV so far.
struct Listed {
    stages: [u32; 2],
    /// Next microbatch of the forward and of the backward pass of each stage.
    next: [[u32; 2]; 2],
    /// Weight gradients that have not run.
    waiting: VecDeque<Task>,
    tasks: Vec<Task>,
}

impl Listed {
    fn pass(&mut self, work: Work, chunk: usize) -> Task {
        let next = &mut self.next[chunk][usize::from(work == Work::Backward)];
        let task = Task { work, stage: self.stages[chunk], microbatch: *next };
        *next += 1;
        self.tasks.push(task);
        task
    }

    fn forward(&mut self, chunk: usize) {
        self.pass(Work::Forward, chunk);
    }

    fn backward(&mut self, chunk: usize) {
        let task = self.pass(Work::Backward, chunk);
        self.waiting.push_back(Task { work: Work::Weight, ..task });
    }

    fn weight(&mut self) {
        self.tasks.extend(self.waiting.pop_front());
    }
}
