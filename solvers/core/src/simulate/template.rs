//! The flows of a problem's placements, made one after the other.
//!
//! # With ports
//!
//! What a placement's step takes where every device has ports, the project's own rules. Every device but a host
//! has a port for what it sends and one for what it receives; a host's memory is where the data already is, so
//! it has none. Every group has an uplink, one port for both directions, on the way of all that leaves the group
//! or enters it. A tensor goes once to each other device that has readers of it, and its transfer holds all
//! ports on its way for as long as the slowest of their links alone would take for it: latency + bytes /
//! bandwidth, or the seconds measured for the class. Where the cluster gives a matrix, it says the seconds
//! instead, and uplinks are on nobody's way. Between hosts of no groups nothing is on the way and no time
//! passes.
//!
//! # Without contention
//!
//! The rules of GiPH's simulator for any problem: a tensor goes to every reader on its own, all take the same
//! seconds as above and hinder nothing, and on its own device a tensor is there at once, or after the diagonal
//! of the matrix. What an operator makes is sent in the order of the document, each tensor to its readers as it
//! names them, to those at home at the place of the first.

use std::sync::Arc;

use super::builder::FlowBuilder;
use super::flow::{Flow, Operator, Shared};
use super::ports::Fabric;
use super::rules::Rules;
use crate::cluster::DeviceId;
use crate::document::Execution;
use crate::graph::{OpId, TensorId};
use crate::placement::Placement;
use crate::problem::Problem;

/// What all flows of a problem have in common, in flat arrays.
#[derive(Debug, Clone)]
pub struct Template<'p> {
    problem: &'p Problem,
    fabric: Fabric<'p>,
    pools: usize,
    /// Seconds by operator and pool.
    seconds: Vec<f64>,
    /// Fixed bytes and workspace of every operator.
    bytes: Vec<[f64; 2]>,
    shared: Arc<[Shared]>,
    /// The readers of a tensor on its own device, and by device those elsewhere.
    at_home: Vec<u32>,
    away: Vec<(u32, u32)>,
}

impl<'p> Template<'p> {
    /// The template of a problem, in time O(operators · pools).
    pub fn new(problem: &'p Problem) -> Template<'p> {
        let graph = problem.graph();
        let pools = problem.pools().len();
        let per_pool = |op| (0..pools).map(move |pool| problem.seconds(op, pool).unwrap_or(0.0));
        let bytes = |op| {
            let document = graph.operator(op);
            let declared = if graph.is_version_2() { document.activation_bytes } else { 0.0 };
            [document.parameter_bytes + document.optimizer_bytes + declared, document.workspace_bytes]
        };
        let shared = graph.parameters().iter().enumerate().map(|(parameter, document)| {
            let readers = graph.readers(parameter).iter().map(|op| op.0).collect();
            let cluster = problem.cluster();
            let kinds = cluster.devices().map(|device| cluster.kind_of(device));
            let seconds = kinds.map(|kind| problem.costs().gradient(parameter, kind)).collect();
            Shared { bytes: document.bytes + document.optimizer_bytes, readers, seconds }
        });
        Template {
            problem,
            fabric: Fabric::new(problem),
            pools,
            seconds: graph.operators().flat_map(per_pool).collect(),
            bytes: graph.operators().map(bytes).collect(),
            shared: shared.collect(),
            at_home: Vec::new(),
            away: Vec::new(),
        }
    }

    /// The flow of a placement, as [`Flow::of`] gives it: the device of every operator by index, and the place
    /// of every operator in the priority, or nothing. Takes O(operators + pins log pins of a tensor), and the
    /// memory of a flow that is no longer needed.
    ///
    /// # Panics
    /// As for [`Flow::of`].
    pub fn flow(&mut self, device_of: &[DeviceId], ranks: &[u32], spare: Flow) -> Flow {
        let mut flow = self.start(device_of, ranks, spare);
        for tensor in self.problem.graph().tensors() {
            self.spread(&mut flow, tensor, device_of);
        }
        flow.finish_checked()
    }

    /// The same with room for every way in which each tensor may be sent, so that it can be changed in place.
    pub(super) fn roomy_flow(&mut self, device_of: &[DeviceId], ranks: &[u32], spare: Flow) -> Flow {
        let (problem, graph) = (self.problem, self.problem.graph());
        let elsewhere = problem.cluster().device_count().saturating_sub(1);
        let mut flow = self.start(device_of, ranks, spare);
        for tensor in graph.tensors() {
            self.spread(&mut flow, tensor, device_of);
            let readers = graph.consumers(tensor).len();
            flow.leave_room(match problem.objective().execution {
                Execution::Ports => readers.min(elsewhere),
                Execution::ContentionFree => readers,
            });
        }
        flow.finish_checked()
    }

    /// A flow with operators and no tensors yet.
    fn start(&self, device_of: &[DeviceId], ranks: &[u32], spare: Flow) -> FlowBuilder {
        let problem = self.problem;
        let devices = problem.cluster().device_count() as u32;
        let (rules, ports) = match problem.objective().execution {
            Execution::Ports => (Rules::PORTS, self.fabric.ports().count()),
            Execution::ContentionFree => (Rules::CONTENTION_FREE, 0),
        };
        let mut flow = FlowBuilder::over(spare, rules, devices, ports, !ranks.is_empty());
        flow.residents(self.shared.clone(), problem.graph().is_version_2());
        for (op, (&device, &[fixed_bytes, workspace_bytes])) in device_of.iter().zip(&self.bytes).enumerate()
        {
            let rank = ranks.get(op).copied().unwrap_or(0);
            let seconds = self.seconds(OpId(op as u32), device);
            flow.operator(Operator {
                device: device.0,
                rank,
                seconds,
                pause: 0.0,
                fixed_bytes,
                workspace_bytes,
            });
        }
        flow
    }

    /// Seconds of an operator on a device.
    pub(super) fn seconds(&self, op: OpId, device: DeviceId) -> f64 {
        self.seconds[op.index() * self.pools + self.problem.pool_of(device)]
    }

    /// The problem.
    pub(super) fn problem(&self) -> &'p Problem {
        self.problem
    }

    /// Adds a tensor with its copies and transfers.
    pub(super) fn spread(&mut self, flow: &mut FlowBuilder, tensor: TensorId, device_of: &[DeviceId]) {
        match self.problem.objective().execution {
            Execution::Ports => self.through_ports(flow, tensor, device_of),
            Execution::ContentionFree => self.send_to_every_reader(flow, tensor, device_of),
        }
    }

    fn through_ports(&mut self, flow: &mut FlowBuilder, tensor: TensorId, device_of: &[DeviceId]) {
        let [producer, readers @ ..] = self.problem.graph().pins(tensor) else { return };
        let home = device_of[producer.index()];
        self.away.clear();
        self.at_home.clear();
        for &reader in readers {
            let device = device_of[reader.index()];
            match device == home {
                true => self.at_home.push(reader.0),
                false => self.away.push((device.0, reader.0)),
            }
        }
        let bytes = self.problem.graph().bytes(tensor);
        flow.tensor_on(home.0, producer.0, bytes, self.at_home.iter().copied());
        self.away.sort_unstable();
        for there in self.away.chunk_by(|a, b| a.0 == b.0) {
            let device = DeviceId(there[0].0);
            let route = self.fabric.route(tensor, home, device);
            flow.transfer(route.seconds, 0.0, route.ports());
            flow.copy(device.0, there.iter().map(|&(_, op)| op));
        }
    }

    fn send_to_every_reader(&mut self, flow: &mut FlowBuilder, tensor: TensorId, device_of: &[DeviceId]) {
        let [producer, readers @ ..] = self.problem.graph().pins(tensor) else { return };
        let home = device_of[producer.index()];
        let is_here = |reader: &&OpId| device_of[reader.index()] == home;
        let bytes = self.problem.graph().bytes(tensor);
        flow.tensor_on(home.0, producer.0, bytes, readers.iter().filter(is_here).map(|op| op.0));
        let mut is_announced = false;
        for reader in readers {
            let device = device_of[reader.index()];
            if device != home {
                flow.transfer(self.fabric.route(tensor, home, device).seconds, 0.0, []);
                flow.copy(device.0, [reader.0]);
            } else if !std::mem::replace(&mut is_announced, true) {
                flow.transfer(self.fabric.at_home(tensor, home), 0.0, []);
                flow.announce();
            }
        }
    }
}

impl Flow {
    /// The flow of a placement: operators and tensors by their index in the graph, transfers by tensor and
    /// then by destination (without contention, as the tensor names its readers), ports as
    /// [`Ports`](super::Ports) numbers them. The queues go by the placement's priority if it has one; operators
    /// that it leaves out come last, and of those named twice the first mention counts. An operator takes no time
    /// on a device that cannot run it. Takes O(operators · pools + pins log pins of a tensor).
    ///
    /// # Panics
    /// Where the placement was made for another graph or cluster, or there are more than 2³⁰ operators or
    /// transfers.
    pub fn of(problem: &Problem, placement: &Placement) -> Flow {
        Template::new(problem).flow_of(placement, Flow::default())
    }
}

impl Template<'_> {
    /// The flow of a placement, in the memory of a flow that is no longer needed.
    ///
    /// # Panics
    /// As for [`Flow::of`].
    pub fn flow_of(&mut self, placement: &Placement, spare: Flow) -> Flow {
        let devices: Vec<DeviceId> =
            self.problem.graph().operators().map(|op| placement.device_of(op)).collect();
        self.flow(&devices, &ranks(placement, devices.len()), spare)
    }
}

/// The place of every operator in the placement's priority; nothing where it has none.
fn ranks(placement: &Placement, operators: usize) -> Vec<u32> {
    if placement.priority().is_empty() {
        return Vec::new();
    }
    let mut ranks = vec![u32::MAX; operators];
    for (rank, op) in (0..).zip(placement.priority()) {
        let place = &mut ranks[op.index()];
        *place = rank.min(*place);
    }
    ranks
}
