//! Brute force for free splits with replicated stages.

use stagewright_core::cluster::DeviceId;
use stagewright_core::evaluate::evaluate;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;

/// Maximum number of placements that are tried.
const MAX_PLACEMENTS: f64 = 50_000.0;

/// Minimum value over all assignments of colocation classes to devices and all numbers of replicas. The outer `None`
/// means that there are too many to try, the inner one that none is feasible.
pub fn replicated_optimum(problem: &Problem) -> Option<Option<f64>> {
    let graph = problem.graph();
    let (devices, max_replicas) =
        (problem.cluster().device_count(), problem.objective().rules().max_replicas);
    let classes = graph.class_count();
    if (devices as f64).powi(classes as i32) * f64::from(max_replicas).powi(devices as i32) > MAX_PLACEMENTS {
        return None;
    }
    let devices = devices as u32;
    // The device of every class, then for every device its number of replicas minus one.
    let mut choice = vec![0u32; classes + problem.cluster().device_count()];
    let mut best: Option<f64> = None;
    loop {
        let device_of: Vec<DeviceId> =
            graph.operators().map(|op| DeviceId(choice[graph.class_of(op).index()])).collect();
        let used = Placement::new(device_of.clone()).used();
        let replicas = used.iter().map(|&device| (device, choice[classes + device.index()] + 1));
        let replicas = replicas.filter(|&(_, replicas)| replicas > 1).collect();
        let evaluation = evaluate(problem, &Placement::with_stages(device_of, Vec::new(), replicas));
        if evaluation.is_feasible() && best.is_none_or(|best| evaluation.value < best) {
            best = Some(evaluation.value);
        }
        let size = |index: usize| if index < classes { devices } else { max_replicas };
        let Some(position) = (0..choice.len()).find(|&index| choice[index] + 1 < size(index)) else {
            return Some(best);
        };
        choice[position] += 1;
        choice[..position].fill(0);
    }
}
