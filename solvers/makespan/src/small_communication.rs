//! Small communication times, with memory (m-SCT).
//!
//! Earliest task first, where a device that has run an operator waits for its *favourite child*: until the time at
//! which that child could have its inputs on another device as well, other operators start on the device only if they
//! cannot start earlier elsewhere. Every operator has at most one favourite child and is the favourite child of at most
//! one producer, so favourites form chains, which tend to stay together.
//!
//! The published rule takes the favourites from a linear program over all edges. Here they are matched greedily: the
//! edges on the longest paths through the graph, tensors included, are matched first. That takes O(edges log edges)
//! rather than a linear program as large as the graph, and amounts to the linear clustering of Kim and Browne in one
//! pass.
//!
//! Hanen and Munier, "An approximation algorithm for scheduling dependent tasks on m processors with small
//! communication delays", ETFA 1995; with memory as in Jeon et al., "Baechi: fast device placement of machine
//! learning graphs", SoCC 2020.

use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::{OpId, TensorId};
use stagewright_core::ids::Keyed;
use stagewright_core::solver::Stop;

use super::earliest_task_first::{Earliest, fill_by_start};
use super::instance::Instance;
use super::list::ListScheduler;
use super::partial_schedule::PartialSchedule;
use super::rank;

/// Devices waiting for favourite children.
struct Waiting {
    favourites: Keyed<OpId, Option<(OpId, TensorId)>>,
    /// The child that each device waits for, and the time until which it waits.
    waits_for: Keyed<DeviceId, Option<(OpId, f64)>>,
}

impl Earliest for Waiting {
    fn start(&mut self, partial: &mut PartialSchedule<'_, '_>, op: OpId, device: DeviceId) -> f64 {
        let start = partial.probe(op, device)[0];
        match self.waits_for[device] {
            Some((child, until)) if child != op && partial.device(child).is_none() => start.max(until),
            _ => start,
        }
    }

    fn took(&mut self, partial: &PartialSchedule<'_, '_>, op: OpId, device: DeviceId) {
        let until = |(child, tensor)| (child, partial.end(op) + partial.instance().mean_transfer(tensor));
        self.waits_for[device] = self.favourites[op].map(until);
    }
}

/// Earliest task first with favourite children.
pub static SMALL_COMMUNICATION: ListScheduler = ListScheduler {
    name: "m-sct",
    summary: "small communication times, with memory: devices wait for favourite children (makespan)",
    fill,
    is_one_pass: false,
};

/// Fills a partial schedule by m-SCT.
fn fill(partial: &mut PartialSchedule<'_, '_>, stop: &Stop) -> Option<()> {
    let waits_for = Keyed::filled(None, partial.instance().device_count());
    let mut rule = Waiting { favourites: favourites(partial.instance()), waits_for };
    fill_by_start(partial, &mut rule, stop)
}

/// The favourite child of every operator, with the tensor between them.
fn favourites(instance: &Instance<'_>) -> Keyed<OpId, Option<(OpId, TensorId)>> {
    let graph = instance.graph();
    let (up, down) = (rank::upward(instance), rank::downward(instance));
    let mut edges: Vec<(f64, OpId, OpId, TensorId)> = Vec::new();
    for tensor in graph.tensors() {
        let producer = graph.producer(tensor);
        let before =
            down[producer.index()] + instance.mean_seconds(producer) + instance.mean_transfer(tensor);
        let longest = |&reader: &OpId| (before + up[reader.index()], producer, reader, tensor);
        edges.extend(graph.consumers(tensor).iter().map(longest));
    }
    edges.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| (a.1, a.2, a.3).cmp(&(b.1, b.2, b.3))));
    let mut favourites = Keyed::filled(None, graph.operator_count());
    let mut is_favourite = Keyed::<OpId, _>::filled(false, graph.operator_count());
    for (_, producer, reader, tensor) in edges {
        if favourites[producer].is_none() && !is_favourite[reader] {
            favourites[producer] = Some((reader, tensor));
            is_favourite[reader] = true;
        }
    }
    favourites
}
