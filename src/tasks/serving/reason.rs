//! Why a serving question has no plan, and what would do.

use stagewright_core::document::{ServingGoal, ServingMode, ServingQuestionDocument, ServingRole};
use stagewright_replicas::{Column, Solution, Space};
use stagewright_report::units::{bytes, seconds};
use stagewright_serving::Problem;

use super::text;
use crate::tasks::Session;

/// Requests in flight that no cluster has.
const UNLIMITED: f64 = 1e9;

/// The first cause that explains why there is no plan: memory, a limit on times, or the load.
pub(super) fn reason(
    problem: &Problem,
    session: &mut Session<'_>,
    solve: impl Fn(&Problem, &mut Session<'_>) -> Option<Solution>,
) -> String {
    let mut free = problem.clone();
    free.question.ttft_s = None;
    free.question.tpot_s = None;
    free.question.rate = None;
    free.question.goal = ServingGoal::Throughput;
    // Single sequences and idle prefill replicas are the fastest; a limit in flight keeps the latter in the space.
    free.question.max_batch = Some(1);
    free.question.concurrency = Some(UNLIMITED);
    free.question.start = None;
    // Listing replicas again takes as long as before, for which there was time.
    let Some(space) = Space::new(&free, session.context().stop()) else {
        return "the time was too short to find the cause".into();
    };
    for class in 0..problem.classes.len() {
        let own = space.columns.iter().filter(|column| column.class == class);
        let own: Vec<&Column> = own.collect();
        let has = |role| own.iter().any(|column| column.role == role);
        let has_pools = has(ServingRole::Prefill) && has(ServingRole::Decode);
        if !has_pools && !has(ServingRole::Aggregated) {
            return unfitting(problem, class);
        }
        if let Some(text) = too_slow(problem, &own) {
            return text;
        }
    }
    free.question = ServingQuestionDocument { start: None, ..problem.question.clone() };
    if problem.question.start.is_some()
        && let Some(plan) = solve(&free, session).and_then(|solution| solution.plan)
        && problem.question.goal.is_maximised()
    {
        let worth = text::amount(problem.question.goal, plan.value);
        return format!(
            "no replicas are worth the weights that they load; without their price these devices reach {worth}: give a lower one"
        );
    }
    free.question.goal = ServingGoal::Throughput;
    free.question.rate = None;
    free.question.concurrency = None;
    let Some(plan) = solve(&free, session).and_then(|solution| solution.plan) else {
        return "each limit can be met alone, and not both together; give a longer one, or more devices"
            .into();
    };
    let rate = text::rate(plan.rate);
    match (problem.question.goal, problem.question.concurrency) {
        (ServingGoal::Throughput, Some(concurrency)) => format!(
            "no replicas work together at a concurrency of {concurrency}; without that limit these devices serve {rate} \
             requests/s: allow more in flight, or aggregated replicas"
        ),
        (_, Some(concurrency)) => format!(
            "these devices cannot keep {concurrency} requests in flight within the limits; they serve at most {rate} requests/s: give \
             more devices, a smaller load, or longer limits"
        ),
        (_, None) => format!(
            "these devices serve {rate} requests/s within the limits, which is less than the load; give more devices, a smaller \
             load, or longer limits"
        ),
    }
}

/// The text if weights or a sequence do not fit.
fn unfitting(problem: &Problem, class: usize) -> String {
    let weights: f64 = problem
        .worker(0, stagewright_serving::Parallel::tensor(1))
        .map_or(0.0, |worker| worker.weight_bytes());
    let devices = problem
        .fleet
        .kinds
        .iter()
        .map(|kind| format!("{} of {}", bytes(kind.device.memory), kind.device.name));
    format!(
        "no replica of at most {} stages holds the model's {} and one sequence of {} tokens: devices have {}; give more devices, or \
         --max-stages",
        problem.question.max_stages,
        bytes(weights),
        problem.classes[class].longest(),
        devices.collect::<Vec<_>>().join(", ")
    )
}

/// The text if a limit is shorter than the fastest replica's time.
fn too_slow(problem: &Problem, columns: &[&Column]) -> Option<String> {
    let shortest = |time: &dyn Fn(&Column) -> Option<f64>| {
        columns
            .iter()
            .filter_map(|column| Some((time(column)?, *column)))
            .min_by(|left, right| left.0.total_cmp(&right.0))
    };
    let question = &problem.question;
    for (name, limit, fastest) in [
        ("between tokens", question.tpot_s, shortest(&|column| column.offer.tpot)),
        ("to the first token", question.ttft_s, shortest(&|column| column.offer.ttft)),
    ] {
        if let (Some(limit), Some((time, column))) = (limit, fastest)
            && time > limit
        {
            let stages = column.shape.kinds.iter().map(|&kind| {
                format!("{} tp{}", problem.fleet.kinds[kind].device.name, column.shape.parallel.tensor)
            });
            let modes: &[ServingMode] = &question.modes;
            let other = if modes.len() == 1 { ", or allow the other mode" } else { "" };
            return Some(format!(
                "no replica has less than {} {name}, which {} takes; the limit is {}: give a longer one{other}",
                seconds(time),
                stages.collect::<Vec<_>>().join(" > "),
                seconds(limit)
            ));
        }
    }
    None
}
