//! Brute force: the minimum value by `evaluate` over every assignment of colocation classes to devices, every order of
//! the used devices if the split is contiguous, and every number of replicas. Independent of units, ideals and windows.

use std::collections::BTreeMap;

use stagewright_core::cluster::DeviceId;
use stagewright_core::document::Split;
use stagewright_core::evaluate::{Evaluation, evaluate};
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;

/// Minimum value over all placements; `None` if no placement is feasible.
pub fn optimum(problem: &Problem) -> Option<f64> {
    least(problem, &mut |_, evaluation| evaluation.value)
}

/// Minimum score over all feasible placements; `None` if there are none. A score must be at least the value of its
/// placement.
pub fn least(problem: &Problem, score: &mut dyn FnMut(&Placement, &Evaluation) -> f64) -> Option<f64> {
    let classes = problem.graph().class_count();
    let devices = problem.cluster().device_count();
    let mut choice = vec![0; classes];
    let mut best: Option<f64> = None;
    loop {
        for_each_order(problem, &choice, score, &mut best);
        let Some(position) = choice.iter().position(|&device| device + 1 < devices) else { return best };
        choice[position] += 1;
        choice[..position].fill(0);
    }
}

fn for_each_order(
    problem: &Problem,
    choice: &[usize],
    score: &mut dyn FnMut(&Placement, &Evaluation) -> f64,
    best: &mut Option<f64>,
) {
    let graph = problem.graph();
    let device_of: Vec<DeviceId> =
        graph.operators().map(|op| DeviceId::new(choice[graph.class_of(op).index()])).collect();
    let mut used = device_of.clone();
    used.sort_unstable();
    used.dedup();
    let count = if problem.objective().rules().split == Split::Contiguous { used.len() } else { 1 };
    permutations(&mut used, count, &mut |order| {
        for_each_replication(problem, order, &mut |replicas| {
            let placement = Placement::with_stages(device_of.clone(), order.to_vec(), replicas.clone());
            let evaluation = evaluate(problem, &placement);
            if evaluation.is_feasible() && best.is_none_or(|best| evaluation.value < best) {
                let score = score(&placement, &evaluation);
                *best = Some(best.map_or(score, |best| best.min(score)));
            }
        });
    });
}

/// Visits all permutations of the first `count` items, by Heap's algorithm.
fn permutations(items: &mut [DeviceId], count: usize, visit: &mut impl FnMut(&[DeviceId])) {
    if count <= 1 {
        return visit(items);
    }
    for index in 0..count {
        permutations(items, count - 1, visit);
        if index + 1 < count {
            items.swap(if count.is_multiple_of(2) { index } else { 0 }, count - 1);
        }
    }
}

/// Visits every choice of replica counts within the devices of each pool. Only devices that no pin distinguishes can
/// be replicas of each other.
fn for_each_replication(
    problem: &Problem,
    order: &[DeviceId],
    visit: &mut impl FnMut(&BTreeMap<DeviceId, u32>),
) {
    let max_replicas = problem.objective().rules().max_replicas;
    let mut counts = vec![1u32; order.len()];
    loop {
        let fits = (0..problem.pools().len()).all(|pool| {
            let used: u32 = order
                .iter()
                .zip(&counts)
                .filter(|(device, _)| problem.pool_of(**device) == pool)
                .map(|(_, &count)| count)
                .sum();
            used <= problem.pools()[pool].count()
        });
        if fits {
            visit(
                &order.iter().copied().zip(counts.iter().copied()).filter(|&(_, count)| count > 1).collect(),
            );
        }
        let Some(position) = counts.iter().position(|&count| count < max_replicas) else { return };
        counts[position] += 1;
        counts[..position].fill(1);
    }
}
