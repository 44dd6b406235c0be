//! The ports of a cluster, and the routes of tensors through them.

use crate::cluster::DeviceId;
use crate::graph::TensorId;
use crate::problem::Problem;

/// Port numbering in the flow of a placement.
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

    /// Number of ports.
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

/// Route of a tensor from one device to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Route {
    /// Transfer time in seconds without contention.
    pub seconds: f64,
    ports: [Option<u32>; 4],
}

impl Route {
    /// The ports on the route.
    pub fn ports(self) -> impl Iterator<Item = u32> {
        self.ports.into_iter().flatten()
    }
}

/// The interconnect of a problem's devices.
#[derive(Debug, Clone, Copy)]
pub struct Fabric<'p> {
    problem: &'p Problem,
    ports: Ports,
}

impl<'p> Fabric<'p> {
    /// The fabric of a problem.
    pub fn new(problem: &'p Problem) -> Fabric<'p> {
        Fabric { problem, ports: Ports::new(problem) }
    }

    /// Port numbering of the fabric.
    pub fn ports(&self) -> Ports {
        self.ports
    }

    /// Route of a tensor between two different devices.
    pub fn route(&self, tensor: TensorId, from: DeviceId, to: DeviceId) -> Route {
        let (cluster, costs) = (self.problem.cluster(), self.problem.costs());
        let kinds = [cluster.kind_of(from), cluster.kind_of(to)];
        let is_host = kinds.map(|kind| cluster.kind(kind).host);
        let egress = (!is_host[0]).then(|| self.ports.egress(from));
        let ingress = (!is_host[1]).then(|| self.ports.ingress(to));
        if let Some(seconds) = self.by_matrix(tensor, from, to) {
            return Route { seconds, ports: [egress, ingress, None, None] };
        }
        // The cost table has zero for hosts.
        let mut seconds = costs.transfer(tensor, kinds[0]).max(costs.transfer(tensor, kinds[1]));
        let mut groups = kinds.map(|kind| cluster.group_of_kind(kind));
        if groups[0] == groups[1] {
            groups = [None, None];
        }
        for group in groups.into_iter().flatten() {
            seconds = seconds.max(costs.uplink(tensor, group));
        }
        let [leaving, entering] = groups.map(|group| group.map(|group| self.ports.uplink(group)));
        Route { seconds, ports: [egress, ingress, leaving, entering] }
    }

    /// Seconds until readers on the producer's device can read a tensor if nothing else delays it. This is the diagonal
    /// of the matrix, used only by execution without contention.
    pub(super) fn at_home(&self, tensor: TensorId, device: DeviceId) -> f64 {
        self.by_matrix(tensor, device, device).unwrap_or(0.0)
    }

    fn by_matrix(&self, tensor: TensorId, from: DeviceId, to: DeviceId) -> Option<f64> {
        let matrix = self.problem.cluster().document().matrix.as_ref()?;
        let [row, column] = [from.index(), to.index()];
        let bytes = self.problem.graph().bytes(tensor);
        Some(matrix.delay_s[row][column] + bytes * matrix.seconds_per_byte[row][column])
    }
}
