//! The time of an iteration, without a timeline.

use super::ScheduleError;
use super::order::{Task, Work, lags, orders, sendings};
use crate::document::Schedule;
use crate::objective::Objective;
use crate::objective::PassSums;

/// Seconds that a stage takes for one microbatch.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StageTimes {
    /// Seconds of the forward pass.
    pub forward: f64,
    /// Seconds of the backward pass; if that pass is split, only of the gradient of the stage's inputs.
    pub backward: f64,
    /// Seconds of the gradient of the stage's weights if the backward pass is split, otherwise zero.
    pub weight: f64,
}

impl StageTimes {
    /// Times of a stage on `replicas` replicas for one microbatch, from the sums of its passes on one device. The time
    /// of each pass is its load under the objective's communication mode. `deferred` seconds of the backward pass are
    /// weight gradients, which only compute, so all communication belongs to the rest of that pass. `synchronised`
    /// seconds are added to the backward pass.
    pub fn new(
        objective: &Objective,
        sums: &[PassSums; 2],
        deferred: f64,
        replicas: u32,
        synchronised: f64,
    ) -> StageTimes {
        let rest = PassSums { compute: (sums[1].compute - deferred).max(0.0), ..sums[1] };
        StageTimes {
            forward: objective.rules().load(&sums[0], replicas),
            backward: objective.rules().load(&rest, replicas) + synchronised,
            weight: deferred / f64::from(replicas),
        }
    }

    /// Total time.
    pub fn total(&self) -> f64 {
        self.forward + self.backward + self.weight
    }
}

/// Seconds of an iteration of `microbatches` microbatches through `stages`, each on a device of its own, whose times
/// include all communication. Only the zero-bubble schedules run weight gradients separately; the others run them with
/// the backward pass.
///
/// Under GPipe the forward passes are a permutation flow shop with equal jobs, and so are the backward passes, which
/// begin when the forward passes end: Σ f + (m − 1) max f + Σ b + (m − 1) max b, in O(stages). Under 1F1B and
/// zero-bubble the time is the longest path, computed slot by slot (see [`orders`](super::orders)), in O(stages ·
/// microbatches) time and O(stages) memory. Under zero-bubble-2p, whose iterations follow each other without a barrier,
/// it is the longest time from the first to the last pass of a stage in these slots. Without a schedule only one
/// microbatch is in flight, so the iteration takes m times as long as one microbatch through all stages.
///
/// # Panics
/// If stages share devices under the schedule: use [`chunked`].
pub fn iteration(schedule: Schedule, stages: &[StageTimes], microbatches: u32) -> f64 {
    updated(schedule, stages, &[], microbatches)
}

/// Seconds of an iteration as in [`iteration`], after which every stage updates its parameters in the seconds given by
/// `updates`, which is empty if none does. Under zero-bubble-2p a stage updates after its own last pass, under other
/// schedules after the last pass of all stages.
///
/// # Panics
/// If stages share devices under the schedule.
pub fn updated(schedule: Schedule, stages: &[StageTimes], updates: &[f64], microbatches: u32) -> f64 {
    let passes = match schedule {
        Schedule::None => f64::from(microbatches) * stages.iter().map(StageTimes::total).sum::<f64>(),
        Schedule::GPipe => {
            let again = f64::from(microbatches.saturating_sub(1));
            let shop = |seconds: &dyn Fn(&StageTimes) -> f64| {
                let slowest = stages.iter().map(seconds).fold(0.0, f64::max);
                stages.iter().map(seconds).sum::<f64>() + again * slowest
            };
            shop(&|stage| stage.forward) + shop(&|stage| stage.backward + stage.weight)
        }
        Schedule::OneFOneB | Schedule::ZeroBubble => {
            slots(schedule, stages, microbatches).into_iter().map(|[_, end]| end).fold(0.0, f64::max)
        }
        Schedule::ZeroBubbleTwice => {
            // A repetition of all passes and updates with this period lets no device do two things at once.
            let spans = slots(schedule, stages, microbatches).into_iter();
            let updates = updates.iter().copied().chain(std::iter::repeat(0.0));
            return spans.zip(updates).map(|([start, end], update)| end - start + update).fold(0.0, f64::max);
        }
        Schedule::Interleaved | Schedule::DualPipeV => {
            panic!("the stages of {} share devices", schedule.name())
        }
    };
    passes + updates.iter().copied().fold(0.0, f64::max)
}

/// Start of the first and end of the last pass of every stage under 1F1B and the zero-bubble schedules. In a slot every
/// stage runs F of a microbatch after the previous stage has run it in the same slot, then B of another after the next
/// stage has run it one slot before, or two under zero-bubble-2p. Besides its start, a stage needs the time when it is
/// free and the ends of its last two B.
fn slots(schedule: Schedule, stages: &[StageTimes], microbatches: u32) -> Vec<[f64; 2]> {
    let count = stages.len() as u32;
    let lags: Vec<[u64; 3]> = (0..count).map(|stage| lags(schedule, stage, count).map(u64::from)).collect();
    let last = lags.first().map_or(0, |&[_, _, weight]| weight);
    let mut spans = vec![[0.0f64; 2]; stages.len()];
    // Ends by the parity of the microbatch: when a stage runs B of one, the next has ended at most B of the one after it.
    let mut ended = vec![[0.0f64; 2]; stages.len() + 1];
    let due = |slot: u64, lag: u64| slot.checked_sub(lag).filter(|&found| found < microbatches.into());
    for slot in 0..u64::from(microbatches) + last {
        let mut arrived = 0.0f64;
        for (stage, times) in stages.iter().enumerate() {
            let [start, free] = &mut spans[stage];
            let [forward, backward, weight] = lags[stage].map(|lag| due(slot, lag));
            if forward.is_some() {
                if slot == 0 {
                    *start = arrived;
                }
                arrived = free.max(arrived) + times.forward;
                *free = arrived;
            }
            if let Some(microbatch) = backward {
                let whole = if schedule.is_split() { times.backward } else { times.backward + times.weight };
                let parity = (microbatch % 2) as usize;
                *free = free.max(ended[stage + 1][parity]) + whole;
                ended[stage][parity] = *free;
            }
            if schedule.is_split() && weight.is_some() {
                *free += times.weight;
            }
        }
    }
    spans
}

/// Seconds of an iteration of `microbatches` microbatches through `stages` under a schedule whose stages share `devices`
/// devices: the longest path through the orders of the devices, in O(stages · microbatches) time and memory.
///
/// # Errors
/// A pipeline that cannot be scheduled or has too many tasks.
pub fn chunked(
    schedule: Schedule,
    stages: &[StageTimes],
    devices: u32,
    microbatches: u32,
) -> Result<f64, ScheduleError> {
    let orders = orders(schedule, devices, stages.len(), microbatches)?;
    let is_split = schedule.is_split();
    let each_order = (0..devices).zip(&orders);
    let sent: Vec<Vec<usize>> =
        each_order.map(|(device, order)| sendings(schedule, device, devices, order)).collect();
    let (count, microbatches) = (stages.len(), microbatches as usize);
    // When the results of the passes are sent, by stage and microbatch.
    let mut ends = [f64::NAN; 2].map(|none| vec![none; count * microbatches]);
    let mut free = vec![0.0f64; devices as usize];
    let mut next = vec![0usize; devices as usize];
    let mut first_unsent = next.clone();
    // When a task ends, the device of the previous or of the next stage may be able to continue.
    let mut open: Vec<usize> = (0..devices as usize).collect();
    while let Some(device) = open.pop() {
        let before = next[device];
        while let Some(&Task { work, stage, microbatch }) = orders[device].get(next[device]) {
            let (stage, microbatch) = (stage as usize, microbatch as usize);
            let end_of = |pass: usize, stage: usize| ends[pass][stage * microbatches + microbatch];
            let (ready, seconds) = match work {
                Work::Forward if stage == 0 => (0.0, stages[stage].forward),
                Work::Forward => (end_of(0, stage - 1), stages[stage].forward),
                Work::Backward => (
                    if stage + 1 == count { end_of(0, stage) } else { end_of(1, stage + 1) },
                    stages[stage].backward + if is_split { 0.0 } else { stages[stage].weight },
                ),
                // The backward pass came before it on the same device.
                Work::Weight => (0.0, stages[stage].weight),
            };
            if ready.is_nan() {
                break;
            }
            free[device] = free[device].max(ready) + seconds;
            let done = next[device];
            while first_unsent[device] <= done && sent[device][first_unsent[device]] == done {
                let Task { work, stage, microbatch } = orders[device][first_unsent[device]];
                if work != Work::Weight {
                    let pass = usize::from(work == Work::Backward);
                    ends[pass][stage as usize * microbatches + microbatch as usize] = free[device];
                }
                first_unsent[device] += 1;
            }
            next[device] += 1;
        }
        if next[device] > before {
            let devices = devices as usize;
            open.extend([(device + 1) % devices, (device + devices - 1) % devices]);
        }
    }
    debug_assert!(orders.iter().zip(&next).all(|(order, &done)| done == order.len()), "orders that end");
    Ok(free.into_iter().fold(0.0, f64::max))
}

/// Idle share of the time of `devices` devices in an iteration of `iteration` seconds, of which they are busy for
/// `busy` seconds in total. Zero if the iteration takes no time.
pub fn bubble(busy: f64, devices: usize, iteration: f64) -> f64 {
    let time = devices as f64 * iteration;
    if time > 0.0 { (1.0 - busy / time).max(0.0) } else { 0.0 }
}
