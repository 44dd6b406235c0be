//! accelerate's `device_map="balanced"`: devices filled in turn, in module order.
//!
//! `get_balanced_memory` gives every accelerator but the last a budget of an equal share of the parameters,
//! plus a buffer of 1.25 times the larger of the largest layer and the mean leaf module, capped at its
//! memory; the last keeps all its memory. `infer_auto_device_map` then walks the modules and advances to the
//! next device when one does not fit; on the first device it reserves room for the largest module still to
//! come. Because of the buffer the last device gets less than the others.
//!
//! This rule follows accelerate in the budgets, the buffer, the reserved room, the walk and the unsplit layers. It
//! differs in two points: accelerate continues with host memory and disk when the accelerators are full, which is not a
//! plan for a pipeline; and the leaf modules here are the operators with parameters.

use stagewright_core::problem::Problem;

use super::chain::{Chain, Segment};
use super::{ExpertRule, Placed, accelerators};

/// Budget above an equal share, in units of the largest layer.
const BUFFER: f64 = 1.25;

/// The rule of accelerate's `balanced`.
pub static ACCELERATE_BALANCED: ExpertRule = ExpertRule {
    name: "accelerate-balanced",
    summary: "accelerators filled in turn up to an equal share of parameters (accelerate; baseline)",
    missing_feature: None,
    depends_on_seed: false,
    place,
};

fn place(problem: &Problem, _seed: u64) -> Result<Placed, String> {
    let devices = accelerators(problem)?;
    let chain = Chain::new(problem)?;
    let bytes = chain.weights(|units, unit| units.weight_bytes(unit));
    let total: f64 = bytes.iter().sum();
    if total == 0.0 {
        return Err("no operator has parameters to distribute".into());
    }
    let layer = |(segment, &bytes): (&Segment, &f64)| if segment.is_layer { bytes } else { 0.0 };
    let largest_layer = chain.segments().iter().zip(&bytes).map(layer).fold(0.0, f64::max);
    let budget = total / devices.len() as f64 + BUFFER * largest_layer.max(total / leaves(problem) as f64);
    let memory = |index: usize| problem.pools()[problem.pool_of(devices[index])].memory;
    let budgets: Vec<f64> = (0..devices.len())
        .map(|index| if index + 1 < devices.len() { budget.min(memory(index)) } else { memory(index) })
        .collect();
    Ok(chain.place(problem, &devices, &fill(&bytes, &budgets)?))
}

/// Number of operators with parameters.
fn leaves(problem: &Problem) -> usize {
    let graph = problem.graph();
    graph.operators().filter(|&op| graph.operator(op).parameter_bytes > 0.0).count()
}

/// The device of each module: the next one if the module does not fit, never an earlier one.
fn fill(bytes: &[f64], budgets: &[f64]) -> Result<Vec<usize>, String> {
    let mut largest_after = vec![0.0; bytes.len()];
    for index in (1..bytes.len()).rev() {
        largest_after[index - 1] = bytes[index].max(largest_after[index]);
    }
    let (mut device, mut used) = (0, 0.0);
    let mut devices = Vec::with_capacity(bytes.len());
    for (&size, &held_back) in bytes.iter().zip(&largest_after) {
        let room = |device: usize| budgets[device] - if device == 0 { held_back } else { 0.0 };
        while used + size > room(device) {
            device += 1;
            used = 0.0;
            if device == budgets.len() {
                let placed = devices.len();
                return Err(format!(
                    "the accelerators are full after {placed} of {} modules: accelerate would continue on the host",
                    bytes.len()
                ));
            }
        }
        used += size;
        devices.push(device);
    }
    Ok(devices)
}

#[cfg(test)]
mod tests {
    use super::super::support::{Model, names, plan, reason};
    use super::*;

    /// An equal share is 3 and the buffer 1.25: the first device reserves 1 of 4.25, the others take 4.
    #[test]
    fn the_last_device_has_what_the_buffers_leave() {
        let mut model = Model::layers(12);
        model.operator("embedding").parameter_bytes = 0.0;
        model.operator("head").parameter_bytes = 0.0;
        let problem = model.on(4);
        let plan = plan(&ACCELERATE_BALANCED, &problem);
        let counts: Vec<usize> = (0..4)
            .map(|device| {
                names(&problem, &plan, device).iter().filter(|name| name.starts_with("layer")).count()
            })
            .collect();
        assert_eq!(counts, [3, 4, 4, 1]);
    }

    #[test]
    fn a_module_larger_than_a_budget_goes_to_the_last_device() {
        assert_eq!(fill(&[1.0, 9.0, 1.0], &[10.0, 4.0, f64::INFINITY]), Ok(vec![0, 2, 2]));
    }

    #[test]
    fn full_accelerators_are_said() {
        let mut model = Model::layers(4);
        model.memory = Some(2.0);
        assert!(reason(&ACCELERATE_BALANCED, &model.on(2)).contains("would continue on the host"));
    }
}
