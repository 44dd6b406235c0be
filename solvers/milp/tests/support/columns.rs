//! What column generation is held against: the resources of a set by their definition, and the optimum with replicas.

use stagewright_core::cluster::DeviceId;
use stagewright_core::contract::Units;
use stagewright_core::evaluate::evaluate;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_milp::colgen::kind::{Kind, Resource};

/// The least value over every assignment of classes to devices with every number of replicas; none where
/// there are too many to try.
pub(crate) fn replicated_optimum(problem: &Problem) -> Option<Option<f64>> {
    let graph = problem.graph();
    let (devices, most) = (problem.cluster().device_count(), problem.objective().max_replicas);
    let (classes, levels) = (graph.class_count(), most as usize);
    if (devices as f64).powi(classes as i32) * (levels as f64).powi(devices as i32) > 50_000.0 {
        return None;
    }
    let mut choice = vec![0u32; classes + devices];
    let mut best: Option<f64> = None;
    loop {
        let device_of = graph.operators().map(|op| DeviceId(choice[graph.class_of(op)])).collect();
        let used = Placement::new(device_of).used();
        let device_of = graph.operators().map(|op| DeviceId(choice[graph.class_of(op)])).collect();
        let replicas = used.iter().map(|&device| (device, choice[classes + device.index()] + 1));
        let replicas = replicas.filter(|&(_, replicas)| replicas > 1).collect();
        let evaluation = evaluate(problem, &Placement::with_stages(device_of, Vec::new(), replicas));
        if evaluation.is_feasible() && best.is_none_or(|best| evaluation.value < best) {
            best = Some(evaluation.value);
        }
        let size = |at: usize| if at < classes { devices } else { levels };
        let Some(at) = (0..choice.len()).find(|&at| choice[at] as usize + 1 < size(at)) else {
            return Some(best);
        };
        choice[at] += 1;
        choice[..at].fill(0);
    }
}

/// Both resources of a set by their definition: sums over the units and the nets with pins on both sides.
pub(crate) fn resources(units: &Units, kind: &Kind, set: u32) -> [f64; 2] {
    let inside = |unit: u32| set >> unit & 1 == 1;
    let cut: f64 = (0..units.nets().len())
        .filter(|&net| {
            let count = units.pins(net).iter().filter(|&&unit| inside(unit)).count();
            0 < count && count < units.pins(net).len()
        })
        .map(|net| units.transfer(net, kind.pool))
        .sum();
    let of = |resource: &Resource| {
        let held = (0..units.len()).filter(|&unit| inside(unit as u32));
        held.map(|unit| resource.units[unit]).sum::<f64>() + resource.cut * cut
    };
    [of(&kind.first), kind.second.as_ref().map_or(0.0, of)]
}
