//! Starting schedules of searches.

use rayon::prelude::*;
use stagewright_core::cluster::DeviceId;
use stagewright_core::solver::{Context, SolveError};

use super::cpop::CPOP;
use super::earliest_task_first::EARLIEST_TASK_FIRST;
use super::heft::HEFT;
use super::list::ListScheduler;
use super::peft::PEFT;
use super::rank;
use super::schedule::{Best, Evaluator, Schedule};
use super::search::SearchSolver;
use super::small_communication::SMALL_COMMUNICATION;

/// Fraction of the time limit for all starts: if memory is short, list schedulers need several attempts.
const SHARE: f64 = 0.3;

/// The list scheduler that every search tries at least, and the others.
const FIRST: &ListScheduler = &HEFT;
const OTHERS: [&ListScheduler; 4] = [&PEFT, &CPOP, &SMALL_COMMUNICATION, &EARLIEST_TASK_FIRST];

/// The starting schedules, without a search.
pub static LIST_SCHEDULES: SearchSolver = SearchSolver {
    name: "list-schedules",
    summary: "the best of the list schedulers and of a single device (makespan)",
    counts_simulations: false,
    starts_from_plan: true,
    begin: starts,
    run: |_, _| Ok(()),
};

/// The warm start if there is one that fits; otherwise the list schedules and, for each pool, everything on one of its
/// devices, best first. Ends early when stopped, but always returns at least one schedule.
///
/// # Errors
/// If worker threads cannot be started.
pub fn starts(evaluator: &mut Evaluator<'_, '_>, context: &mut Context<'_>) -> Result<Vec<Best>, SolveError> {
    let context = context.time_slice(SHARE);
    let instance = evaluator.instance();
    let mut starts: Vec<Best> = Vec::new();
    if let Some(warm) = &context.warm_start {
        let schedule = Schedule::of_placement(instance, warm);
        if instance.admits(&schedule.device_of) {
            starts.extend(Best::better_of(None, evaluator, schedule));
        }
        if starts.iter().any(|warm| warm.score.fits()) {
            return Ok(starts);
        }
    }
    let is_over = |starts: &[Best]| !starts.is_empty() && context.stop().reason().is_some();
    if !is_over(&starts) {
        starts.extend(FIRST.best(evaluator, context.stop()));
    }
    if !is_over(&starts) {
        let (stop, mut fresh) = (context.stop(), evaluator.clone());
        fresh.runs = 0;
        let run = |list: &&ListScheduler| {
            let mut evaluator = fresh.clone();
            (list.best(&mut evaluator, stop), evaluator.runs)
        };
        let pool = context.pool()?;
        let found: Vec<(Option<Best>, u64)> = pool.install(|| OTHERS.par_iter().map(run).collect());
        for (best, runs) in found {
            starts.extend(best);
            evaluator.runs += runs;
        }
    }
    let order = rank::falling(instance, &rank::upward(instance));
    for pool in instance.problem().pools() {
        let device_of = vec![pool.devices[0]; instance.graph().operator_count()];
        if !is_over(&starts) && instance.admits(&device_of) {
            starts.extend(Best::better_of(None, evaluator, Schedule::by_order(device_of, &order)));
        }
    }
    if starts.is_empty() {
        // Interrupted before the first schedule: put each class on its first possible device.
        let device_of: Vec<DeviceId> = instance.graph().operators().map(|op| instance.homes(op)[0]).collect();
        starts.extend(Best::better_of(None, evaluator, Schedule::by_order(device_of, &order)));
    }
    starts.sort_by(|a, b| a.score.energy().total_cmp(&b.score.energy()));
    Ok(starts)
}
