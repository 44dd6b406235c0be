//! The project's own rules: what a placement's step takes where every device has ports.
//!
//! Every device but a host has a port for what it sends and one for what it receives; a host's memory is
//! where the data already is, so it has none. Every group has an uplink, one port for both directions, on the
//! way of all that leaves the group or enters it. A tensor goes once to each other device that has readers of
//! it, and its transfer holds all ports on its way for as long as the slowest of their links alone would take
//! for it: latency + bytes / bandwidth, or the seconds measured for the class. Where the cluster gives a
//! matrix, it says the seconds instead, and uplinks are on nobody's way. Between hosts of no groups nothing
//! is on the way and no time passes.

use super::builder::FlowBuilder;
use super::flow::{Flow, Operator};
use super::rules::Rules;
use crate::cluster::DeviceId;
use crate::graph::TensorId;
use crate::placement::Placement;
use crate::problem::Problem;

/// Which port is which in the flow of a placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    devices: u32,
    groups: u32,
}

impl Ports {
    /// The ports of a problem's cluster.
    pub fn new(problem: &Problem) -> Ports {
        let cluster = problem.cluster();
        Ports { devices: cluster.device_count() as u32, groups: cluster.group_count() as u32 }
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        2 * self.devices + self.groups
    }

    /// The port through which a device sends.
    pub fn egress(&self, device: DeviceId) -> u32 {
        device.0
    }

    /// The port through which a device receives.
    pub fn ingress(&self, device: DeviceId) -> u32 {
        self.devices + device.0
    }

    /// The uplink of a group.
    pub fn uplink(&self, group: usize) -> u32 {
        2 * self.devices + group as u32
    }
}

impl Flow {
    /// The flow of a placement: operators and tensors by their index in the graph, transfers by tensor and
    /// then by destination, ports as [`Ports`] numbers them. The queues go by the placement's priority if it
    /// has one; operators that it leaves out come last, and of those named twice the first mention counts. An
    /// operator takes no time on a device that cannot run it. Takes O(operators + pins log pins of a tensor).
    ///
    /// # Panics
    /// Where the placement was made for another graph or cluster, or there are more than 2³⁰ operators or
    /// transfers.
    pub fn of(problem: &Problem, placement: &Placement) -> Flow {
        Flow::empty().remade(problem, placement)
    }

    /// The same in the memory of a flow that is no longer needed.
    ///
    /// # Panics
    /// As for [`Flow::of`].
    pub fn remade(self, problem: &Problem, placement: &Placement) -> Flow {
        let (graph, cluster) = (problem.graph(), problem.cluster());
        let fabric = Fabric { problem, ports: Ports::new(problem) };
        let devices = cluster.device_count() as u32;
        let ranks = ranks(placement, graph.operator_count());
        let mut flow =
            FlowBuilder::over(self, Rules::PORTS, devices, fabric.ports.count(), !ranks.is_empty());
        for op in graph.operators() {
            let (device, document) = (placement.device_of(op), graph.operator(op));
            flow.operator(Operator {
                device: device.0,
                rank: ranks.get(op.index()).copied().unwrap_or(0),
                seconds: problem.seconds(op, problem.pool_of(device)).unwrap_or(0.0),
                pause: 0.0,
                fixed_bytes: document.parameter_bytes + document.optimizer_bytes,
                workspace_bytes: document.workspace_bytes,
            });
        }
        let mut away: Vec<(DeviceId, u32)> = Vec::new();
        for tensor in graph.tensors() {
            let producer = graph.producer(tensor);
            let home = placement.device_of(producer);
            let readers = || graph.consumers(tensor).iter().map(|&op| (placement.device_of(op), op.0));
            let at_home = readers().filter(|&(device, _)| device == home).map(|(_, op)| op);
            flow.tensor(producer.0, graph.bytes(tensor), at_home);
            away.clear();
            away.extend(readers().filter(|&(device, _)| device != home));
            away.sort_unstable();
            for there in away.chunk_by(|a, b| a.0 == b.0) {
                let device = there[0].0;
                let (seconds, ports) = fabric.route(tensor, home, device);
                flow.transfer(seconds, 0.0, ports.into_iter().flatten());
                flow.copy(device.0, there.iter().map(|&(_, op)| op));
            }
        }
        flow.finish_checked()
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

struct Fabric<'p> {
    problem: &'p Problem,
    ports: Ports,
}

impl Fabric<'_> {
    /// Seconds of a tensor's transfer between two devices, and the ports that it holds.
    fn route(&self, tensor: TensorId, from: DeviceId, to: DeviceId) -> (f64, [Option<u32>; 4]) {
        let (cluster, costs) = (self.problem.cluster(), self.problem.costs());
        let kinds = [cluster.kind_of(from), cluster.kind_of(to)];
        let is_host = kinds.map(|kind| cluster.kind(kind).host);
        let egress = (!is_host[0]).then(|| self.ports.egress(from));
        let ingress = (!is_host[1]).then(|| self.ports.ingress(to));
        if let Some(matrix) = &cluster.document().matrix {
            let [row, column] = [from.index(), to.index()];
            let bytes = self.problem.graph().bytes(tensor);
            let seconds = matrix.delay_s[row][column] + bytes * matrix.seconds_per_byte[row][column];
            return (seconds, [egress, ingress, None, None]);
        }
        // The table has zero for hosts.
        let mut seconds = costs.transfer(tensor, kinds[0]).max(costs.transfer(tensor, kinds[1]));
        let mut groups = kinds.map(|kind| cluster.group_of_kind(kind));
        if groups[0] == groups[1] {
            groups = [None, None];
        }
        for group in groups.into_iter().flatten() {
            seconds = seconds.max(costs.uplink(tensor, group));
        }
        let [leaving, entering] = groups.map(|group| group.map(|group| self.ports.uplink(group)));
        (seconds, [egress, ingress, leaving, entering])
    }
}
