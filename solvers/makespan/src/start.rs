//! Starting schedules of searches.

use stagewright_core::cluster::DeviceId;
use stagewright_core::solver::Context;

use super::cpop::CPOP;
use super::earliest_task_first::EARLIEST_TASK_FIRST;
use super::heft::HEFT;
use super::list::ListScheduler;
use super::peft::PEFT;
use super::rank;
use super::schedule::{Best, Evaluator, Schedule};
use super::small_communication::SMALL_COMMUNICATION;

/// Fraction of the time limit for all starts: if memory is short, list schedulers try repeatedly.
const SHARE: f64 = 0.3;

/// The list schedulers, best first.
const LISTS: [&ListScheduler; 5] = [&HEFT, &PEFT, &CPOP, &SMALL_COMMUNICATION, &EARLIEST_TASK_FIRST];

/// The warm start if there is one, the list schedules, and everything on one device of each pool; best first. Ends
/// early when stopped, but always returns at least one schedule.
pub fn starts(evaluator: &mut Evaluator<'_, '_>, context: &mut Context<'_>) -> Vec<Best> {
    let context = context.time_slice(SHARE);
    let instance = evaluator.instance();
    let operators = instance.graph().operator_count();
    let mut starts: Vec<Best> = Vec::new();
    if let Some(warm) = &context.warm_start {
        let schedule = Schedule::of_placement(instance, warm);
        if instance.admits(&schedule.device_of) {
            starts.extend(Best::better_of(None, evaluator, schedule));
        }
    }
    let order = rank::falling(instance, &rank::upward(instance));
    let is_over = |starts: &[Best]| !starts.is_empty() && context.stop().reason().is_some();
    for list in LISTS {
        if !is_over(&starts) {
            starts.extend(list.best(evaluator, context.stop()));
        }
    }
    for pool in instance.problem().pools() {
        let device_of = vec![pool.devices[0]; operators];
        if !is_over(&starts) && instance.admits(&device_of) {
            starts.extend(Best::better_of(None, evaluator, Schedule::by_order(device_of, &order)));
        }
    }
    if starts.is_empty() {
        // Interrupted before the first schedule: each class on its first possible device.
        let device_of: Vec<DeviceId> = instance.graph().operators().map(|op| instance.homes(op)[0]).collect();
        starts.extend(Best::better_of(None, evaluator, Schedule::by_order(device_of, &order)));
    }
    starts.sort_by(|a, b| a.score.energy().total_cmp(&b.score.energy()));
    starts
}
