//! What searches start from.

use stagewright_core::cluster::DeviceId;
use stagewright_core::solver::Context;

use super::list::best;
use super::schedule::{Best, Judge, Schedule};
use super::{cpop, heft, peft, rank};

/// The warm start if there is one, everything on one device of each pool, and what list schedulers make; the best
/// first. Ends early when told to stop, but never with nothing.
pub(super) fn starts(judge: &mut Judge<'_, '_>, context: &Context<'_>) -> Vec<Best> {
    let scene = judge.scene();
    let operators = scene.graph().operator_count();
    let mut starts: Vec<Best> = Vec::new();
    if let Some(warm) = &context.warm_start {
        let schedule = Schedule::of_placement(scene, warm);
        if scene.admits(&schedule.device_of) {
            starts.extend(Best::of(None, judge, schedule));
        }
    }
    let order = rank::falling(scene, &rank::upward(scene));
    for pool in scene.problem().pools() {
        let device_of = vec![pool.devices[0]; operators];
        if scene.admits(&device_of) {
            starts.extend(Best::of(None, judge, Schedule::by_order(device_of, &order)));
        }
    }
    for fill in [heft::fill, peft::fill, cpop::fill] {
        starts.extend(best(fill, judge, context.stop()));
    }
    if starts.is_empty() {
        // Out of time before anything was there: each class at its first home.
        let device_of: Vec<DeviceId> = scene.graph().operators().map(|op| scene.homes(op)[0]).collect();
        starts.extend(Best::of(None, judge, Schedule::by_order(device_of, &order)));
    }
    starts.sort_by(|a, b| a.score.energy().total_cmp(&b.score.energy()));
    starts
}
