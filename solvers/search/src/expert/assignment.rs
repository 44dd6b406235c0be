//! Converts a device per colocation class to a placement, with an order of the devices if the split rule
//! requires one.

use std::collections::BTreeMap;

use petgraph::algo::toposort;
use petgraph::graph::{DiGraph, NodeIndex};
use stagewright_core::cluster::DeviceId;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::document::Split;
use stagewright_core::graph::ClassId;
use stagewright_core::ids::Keyed;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;

/// The placement of classes on devices. For a contiguous split its devices are in an order that all units
/// respect.
///
/// # Errors
/// If the split is contiguous and the devices have no such order.
pub(super) fn placement(
    problem: &Problem,
    device_of_class: &Keyed<ClassId, DeviceId>,
) -> Result<Placement, String> {
    let graph = problem.graph();
    let device_of: Vec<DeviceId> = graph.operators().map(|op| device_of_class[graph.class_of(op)]).collect();
    if problem.objective().rules().split != Split::Contiguous {
        return Ok(Placement::new(device_of));
    }
    let units = Units::of(problem);
    let mut device_of_unit: Keyed<UnitId, DeviceId> = Vec::with_capacity(units.len()).into();
    for unit in units.ids() {
        let members = units.members(unit).iter().map(|op| device_of[op.index()]);
        let mut devices: Vec<DeviceId> = members.collect();
        devices.dedup();
        if let [first, _, ..] = devices[..] {
            return Err(no_order(problem, first));
        }
        device_of_unit.extend(devices);
    }
    let mut edges = Vec::new();
    for (unit, &from) in device_of_unit.enumerate() {
        let next = units.successors(unit).iter().map(|&next| device_of_unit[next]);
        edges.extend(next.filter(|&to| to != from).map(|to| (from.0, to.0)));
    }
    edges.sort_unstable();
    edges.dedup();
    let mut order: DiGraph<(), (), u32> = DiGraph::from_edges(&edges);
    while order.node_count() < problem.cluster().device_count() {
        order.add_node(());
    }
    let device = |node: NodeIndex<u32>| DeviceId::new(node.index());
    let mut stages: Vec<DeviceId> = match toposort(&order, None) {
        Ok(nodes) => nodes.into_iter().map(device).collect(),
        Err(cycle) => return Err(no_order(problem, device(cycle.node_id()))),
    };
    let mut used = Keyed::filled(false, stages.len());
    device_of_unit.iter().for_each(|&device| used[device] = true);
    stages.retain(|&device| used[device]);
    Ok(Placement::with_stages(device_of, stages, BTreeMap::new()))
}

fn no_order(problem: &Problem, device: DeviceId) -> String {
    let name = problem.cluster().device_name(device);
    format!("the split is not contiguous: {name} would have to come both before and after another device")
}
