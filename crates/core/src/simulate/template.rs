//! Construction of the flows of a problem's placements.
//!
//! # With ports
//!
//! The project's own rules, in which devices have ports. Every device except a host has one port for outgoing and one
//! for incoming tensors; a host has none, because data is already in its memory. Every group has an uplink, one port
//! for both directions, which is on the route of everything that leaves or enters the group. A tensor is sent once to
//! each other device that has readers of it, and its transfer holds all ports on its route for as long as the slowest
//! of their links alone would take: latency + bytes / bandwidth, or the seconds measured for the class. If the cluster
//! has a matrix, the matrix gives the seconds instead, and no route has uplinks. Between hosts without groups a
//! transfer needs no port and no time.
//!
//! # Without contention
//!
//! The rules of GiPH's simulator, applied to any problem: a tensor is sent to every reader separately, with the same
//! seconds as above and without contention. On its own device a tensor is available immediately, or after the diagonal
//! entry of the matrix. The outputs of an operator are sent in document order. Each tensor goes to its readers in the
//! order in which it names them, and to all readers on its own device at the position of the first of these.

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

/// Data shared by all flows of a problem, in flat arrays.
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
    /// Readers of a tensor on its own device. `away` has the readers elsewhere, with their devices.
    at_home: Vec<u32>,
    away: Vec<(u32, u32)>,
}

impl<'p> Template<'p> {
    /// Builds the template of a problem, in O(operators · pools).
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

    /// Returns the flow of a placement, as [`Flow::from_placement`] does. `device_of` has the device of every operator
    /// by index; `ranks` has the position of every operator in the priority, or is empty. Reuses the memory of a flow
    /// that is no longer needed. Takes O(operators + pins · log pins of a tensor).
    ///
    /// # Panics
    /// If the placement was made for another graph or cluster, or there are more than 2³⁰ operators or transfers.
    pub fn flow(&mut self, device_of: &[DeviceId], ranks: &[u32], spare: Flow) -> Flow {
        let mut flow = self.start(device_of, ranks, spare);
        for tensor in self.problem.graph().tensors() {
            self.spread(&mut flow, tensor, device_of);
        }
        flow.finish_checked()
    }

    /// Returns the flow of a placement, with room for every set of transfers that a tensor may need, so that the flow
    /// can be changed in place; otherwise like [`Template::flow`].
    pub(super) fn roomy_flow(&mut self, device_of: &[DeviceId], ranks: &[u32], spare: Flow) -> Flow {
        let (problem, graph) = (self.problem, self.problem.graph());
        let elsewhere = problem.cluster().device_count().saturating_sub(1);
        let mut flow = self.start(device_of, ranks, spare);
        for tensor in graph.tensors() {
            self.spread(&mut flow, tensor, device_of);
            let readers = graph.consumers(tensor).len();
            flow.leave_room(match problem.objective().execution() {
                Execution::Ports => readers.min(elsewhere),
                Execution::ContentionFree => readers,
            });
        }
        flow.finish_checked()
    }

    /// A flow that has operators but no tensors yet.
    fn start(&self, device_of: &[DeviceId], ranks: &[u32], spare: Flow) -> FlowBuilder {
        let problem = self.problem;
        let devices = problem.cluster().device_count() as u32;
        let (rules, ports) = match problem.objective().execution() {
            Execution::Ports => (Rules::PORTS, self.fabric.ports().count()),
            Execution::ContentionFree => (Rules::CONTENTION_FREE, 0),
        };
        let mut flow = FlowBuilder::over(spare, rules, devices, ports, !ranks.is_empty());
        flow.residents(self.shared.clone(), problem.graph().is_version_2());
        for ((op, &device), &[fixed_bytes, workspace_bytes]) in
            problem.graph().operators().zip(device_of).zip(&self.bytes)
        {
            let rank = ranks.get(op.index()).copied().unwrap_or(0);
            let seconds = self.seconds(op, device);
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
        match self.problem.objective().execution() {
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
    /// Returns the flow of a placement. Operators and tensors are numbered by their index in the graph, transfers by
    /// tensor and then by destination (without contention, in the order in which the tensor names its readers), ports
    /// in the numbering of [`Ports`](super::Ports). The queues are ordered by the placement's priority if it has one;
    /// operators missing from the priority come last, and for operators named twice the first mention counts. An
    /// operator takes no time on a device that cannot run it. Takes O(operators · pools + pins · log pins of a tensor).
    ///
    /// # Panics
    /// If the placement was made for another graph or cluster, or there are more than 2³⁰ operators or transfers.
    pub fn from_placement(problem: &Problem, placement: &Placement) -> Flow {
        Template::new(problem).flow_of(placement, Flow::default())
    }
}

impl Template<'_> {
    /// Returns the flow of a placement, reusing the memory of a flow that is no longer needed.
    ///
    /// # Panics
    /// If the placement was made for another graph or cluster, or there are more than 2³⁰ operators or transfers.
    pub fn flow_of(&mut self, placement: &Placement, spare: Flow) -> Flow {
        let devices: Vec<DeviceId> =
            self.problem.graph().operators().map(|op| placement.device_of(op)).collect();
        self.flow(&devices, &ranks(placement, devices.len()), spare)
    }
}

/// Position of every operator in the placement's priority; empty if the placement has no priority.
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
