//! The bottleneck of a pipeline: the device or the uplink with the largest load.

use stagewright_core::cluster::DeviceId;
use stagewright_core::document::Pass;
use stagewright_core::evaluate::{DeviceLoad, Evaluation};
use stagewright_core::graph::TensorId;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;

use super::bottleneck::{Bottleneck, Item, Part, longest};

/// The bottleneck of each pass or, under a schedule, the slowest stage, in O(operators + pins + operators log
/// operators).
pub(super) fn bottlenecks(
    problem: &Problem,
    placement: &Placement,
    evaluation: &Evaluation,
) -> Vec<Bottleneck> {
    let passes = if problem.objective().times_iteration() { 1 } else { problem.objective().passes() };
    let of_pass = |pass| bottleneck(problem, placement, evaluation, pass);
    (0..passes).filter_map(of_pass).collect()
}

fn bottleneck(
    problem: &Problem,
    placement: &Placement,
    evaluation: &Evaluation,
    pass: usize,
) -> Option<Bottleneck> {
    let is_iteration = problem.objective().times_iteration();
    let load = |device: &DeviceLoad| if is_iteration { device.load() } else { device.pass_loads[pass] };
    let device = evaluation.devices.iter().max_by(|left, right| load(left).total_cmp(&load(right)))?;
    let carried = |load: &[f64; 2]| if is_iteration { load[0] + load[1] } else { load[pass] };
    let uplink = evaluation
        .uplinks
        .iter()
        .enumerate()
        .max_by(|left, right| carried(left.1).total_cmp(&carried(right.1)))
        .filter(|(_, seconds)| carried(seconds) > load(device));
    Some(match uplink {
        Some((group, seconds)) => of_uplink(problem, placement, group, carried(seconds), pass),
        None => of_device(problem, placement, device, load(device), pass),
    })
}

fn of_device(
    problem: &Problem,
    placement: &Placement,
    device: &DeviceLoad,
    seconds: f64,
    pass: usize,
) -> Bottleneck {
    let graph = problem.graph();
    let id = device.device;
    let shared = f64::from(device.replicas);
    let is_iteration = problem.objective().times_iteration();
    let mut synchronised = 0.0;
    let sums = device.sums.iter().enumerate().filter(|&(of_pass, _)| is_iteration || of_pass == pass);
    let mut parts =
        [("compute", 0.0), ("sent", 0.0), ("received", 0.0)].map(|(name, seconds)| Part { name, seconds });
    for (_, sums) in sums {
        for (part, seconds) in parts.iter_mut().zip([sums.compute, sums.sent, sums.received]) {
            part.seconds += seconds / shared;
        }
        synchronised += sums.synchronised;
    }
    let mut parts = parts.to_vec();
    let is_last = is_iteration || pass + 1 == problem.objective().passes();
    if is_last {
        let on_it = graph.operators().filter(|&op| placement.device_of(op) == id);
        let parameters = problem.memory().of(on_it).synchronised;
        let pool = &problem.pools()[problem.pool_of(id)];
        synchronised += pool.synchronisation(parameters, device.replicas);
    }
    if synchronised > 0.0 || (device.replicas > 1 && is_last) {
        parts.push(Part { name: "synchronisation", seconds: synchronised });
    }
    let operators = graph.operators().filter(|&op| placement.device_of(op) == id);
    let operators = operators.filter(|&op| is_iteration || pass_of(problem, graph.operator(op).pass) == pass);
    let items = operators.map(|op| Item {
        name: graph.operator(op).name.clone(),
        role: "operator".into(),
        seconds: problem.seconds(op, problem.pool_of(id)).unwrap_or(0.0) / shared,
    });
    let mut items = longest(items.collect());
    let kind = problem.cluster().kind_of(id);
    items.extend(crossing(problem, placement, id, shared, pass));
    if is_last {
        let seconds = |parameter| problem.costs().gradient(parameter, kind);
        items.extend(longest(gradients(problem, placement, &|device| device == id, &seconds)));
    }
    let resource = format!("device {}", problem.cluster().device_name(id));
    Bottleneck { resource, seconds, parts, items }
}

/// The longest transfers of a device; the replicas of its stage, `shared` of them, divide every transfer.
fn crossing(problem: &Problem, placement: &Placement, id: DeviceId, shared: f64, pass: usize) -> Vec<Item> {
    let graph = problem.graph();
    let kind = problem.cluster().kind_of(id);
    let is_iteration = problem.objective().times_iteration();
    let crossing = graph.tensors().filter(|&tensor| is_iteration || pass_of_tensor(problem, tensor) == pass);
    let crossing = crossing.filter(|&tensor| {
        let pins = graph.pins(tensor);
        let here = pins.iter().filter(|&&op| placement.device_of(op) == id).count();
        0 < here && here < pins.len()
    });
    let item = |tensor| Item {
        name: graph.tensor_name(tensor),
        role: ways(problem, placement, tensor),
        seconds: problem.costs().transfer(tensor, kind) / shared,
    };
    longest(crossing.map(item).collect())
}

fn of_uplink(
    problem: &Problem,
    placement: &Placement,
    group: usize,
    seconds: f64,
    pass: usize,
) -> Bottleneck {
    let (graph, cluster) = (problem.graph(), problem.cluster());
    let is_iteration = problem.objective().times_iteration();
    let is_inside = |device: DeviceId| cluster.group_of_kind(cluster.kind_of(device)) == Some(group);
    let crossing = graph.tensors().filter(|&tensor| is_iteration || pass_of_tensor(problem, tensor) == pass);
    let crossing = crossing.filter(|&tensor| {
        let pins = graph.pins(tensor);
        let inside = pins.iter().filter(|&&op| is_inside(placement.device_of(op))).count();
        0 < inside && inside < pins.len()
    });
    let items = crossing.map(|tensor| Item {
        name: graph.tensor_name(tensor),
        role: ways(problem, placement, tensor),
        seconds: problem.costs().uplink(tensor, group),
    });
    let mut items: Vec<Item> = items.collect();
    if is_iteration || pass + 1 == problem.objective().passes() {
        let seconds = |parameter| problem.costs().gradient_uplink(parameter, group);
        items.extend(gradients(problem, placement, &is_inside, &seconds));
    }
    Bottleneck {
        resource: format!("uplink of group {}", cluster.document().groups[group].name),
        seconds,
        parts: vec![Part { name: "carried", seconds }],
        items: longest(items),
    }
}

/// The gradients of shared parameters that are read both inside and outside of a set of devices.
fn gradients(
    problem: &Problem,
    placement: &Placement,
    is_inside: &dyn Fn(DeviceId) -> bool,
    seconds: &dyn Fn(usize) -> f64,
) -> Vec<Item> {
    let graph = problem.graph();
    let crossing = (0..graph.parameters().len()).filter(|&parameter| {
        let readers = graph.readers(parameter);
        let inside = readers.iter().filter(|&&op| is_inside(placement.device_of(op))).count();
        0 < inside && inside < readers.len() && seconds(parameter) > 0.0
    });
    let item = |parameter: usize| Item {
        name: graph.parameters()[parameter].name.clone(),
        role: "gradient of a shared parameter".into(),
        seconds: seconds(parameter),
    };
    crossing.map(item).collect()
}

/// Describes the source and the destinations of a tensor.
fn ways(problem: &Problem, placement: &Placement, tensor: TensorId) -> String {
    let (graph, cluster) = (problem.graph(), problem.cluster());
    let home = placement.device_of(graph.producer(tensor));
    let mut to: Vec<DeviceId> =
        graph.consumers(tensor).iter().map(|&op| placement.device_of(op)).filter(|&to| to != home).collect();
    to.sort_unstable();
    to.dedup();
    const NAMED: usize = 3;
    let mut names: Vec<String> = to.iter().take(NAMED).map(|&device| cluster.device_name(device)).collect();
    if to.len() > NAMED {
        names.push(format!("{} more", to.len() - NAMED));
    }
    format!("tensor from {} to {}", cluster.device_name(home), names.join(", "))
}

fn pass_of(problem: &Problem, pass: Pass) -> usize {
    usize::from(problem.objective().passes() == 2 && pass != Pass::Forward)
}

fn pass_of_tensor(problem: &Problem, tensor: TensorId) -> usize {
    let graph = problem.graph();
    usize::from(problem.objective().passes() == 2 && !graph.is_forward(graph.producer(tensor)))
}
