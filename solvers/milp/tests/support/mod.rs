//! Small random problems, and brute force over all assignments for splits without an order of stages.

pub(crate) mod columns;

pub(crate) use stagewright_testing::random;

use stagewright_core::cluster::DeviceId;
use stagewright_core::document::{Schedule, Split};
use stagewright_core::evaluate::evaluate;
use stagewright_core::graph::ClassId;
use stagewright_core::ids::Keyed;
use stagewright_core::objective::Throughput;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;

/// A random problem under a split rule, without replicas unless requested.
pub(crate) fn problem(number: u64, size: random::Size, split: Split, replicas: bool) -> Problem {
    let problem = random::problem(number, size);
    let given = *problem.objective();
    let max_replicas = if replicas { given.rules().max_replicas } else { 1 };
    let objective =
        Throughput { split, schedule: Schedule::None, microbatches: 1, max_replicas, ..given.rules() };
    problem.with_objective(objective).expect("a valid objective")
}

/// Minimum value over all assignments of classes to devices; `None` if there are too many to try.
pub(crate) fn optimum(problem: &Problem) -> Option<Option<f64>> {
    let graph = problem.graph();
    let devices = problem.cluster().device_count();
    if (devices as f64).powi(graph.class_count() as i32) > 20_000.0 {
        return None;
    }
    let mut choice: Keyed<ClassId, DeviceId> = Keyed::filled(DeviceId(0), graph.class_count());
    let mut best: Option<f64> = None;
    loop {
        let device_of = graph.operators().map(|op| choice[graph.class_of(op)]).collect();
        let evaluation = evaluate(problem, &Placement::new(device_of));
        if evaluation.is_feasible() && best.is_none_or(|best| evaluation.value < best) {
            best = Some(evaluation.value);
        }
        let Some(position) = choice.iter().position(|device| device.index() + 1 < devices) else {
            return Some(best);
        };
        choice.as_mut_slice()[position].0 += 1;
        choice.as_mut_slice()[..position].fill(DeviceId(0));
    }
}
