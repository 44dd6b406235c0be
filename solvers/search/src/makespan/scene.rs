//! A problem prepared for schedulers: possible devices, run times and transfer times.

use stagewright_core::cluster::DeviceId;
use stagewright_core::document::Execution;
use stagewright_core::graph::{Graph, OpId, TensorId};
use stagewright_core::problem::Problem;
use stagewright_core::simulate::Fabric;
use stagewright_core::tolerance;

/// Costs of a problem that every scheduler needs.
#[derive(Debug, Clone)]
pub struct Scene<'p> {
    problem: &'p Problem,
    fabric: Fabric<'p>,
    pools: usize,
    pool_of: Vec<u32>,
    /// Seconds by operator and pool; infinite if the operator or its class cannot run there.
    seconds: Vec<f64>,
    /// The devices that may run a class, by class.
    homes: Vec<Vec<DeviceId>>,
    /// Bytes of a class that are always on its device.
    fixed: Vec<f64>,
    /// Mean seconds of an operator over the devices that may run it.
    mean: Vec<f64>,
    /// Mean seconds of a tensor over all pairs of different devices.
    transfer: Vec<f64>,
}

impl<'p> Scene<'p> {
    /// The scene of a problem. O(operators · pools + tensors · kinds²).
    pub fn new(problem: &'p Problem) -> Scene<'p> {
        let (graph, cluster, pools) = (problem.graph(), problem.cluster(), problem.pools().len());
        let mut seconds = vec![f64::INFINITY; graph.operator_count() * pools];
        let mut homes = Vec::with_capacity(graph.class_count());
        for class in 0..graph.class_count() {
            let members = graph.class(class);
            let can = |pool: usize| members.iter().all(|&op| problem.seconds(op, pool).is_some());
            let able: Vec<bool> = (0..pools).map(can).collect();
            for &op in members {
                for pool in (0..pools).filter(|&pool| able[pool]) {
                    seconds[op.index() * pools + pool] = problem.seconds(op, pool).unwrap_or(f64::INFINITY);
                }
            }
            homes.push(cluster.devices().filter(|&device| able[problem.pool_of(device)]).collect());
        }
        let fixed = |class: usize| {
            let bytes = |&op: &OpId| {
                let operator = graph.operator(op);
                operator.parameter_bytes + operator.optimizer_bytes
            };
            graph.class(class).iter().map(bytes).sum()
        };
        let mut scene = Scene {
            problem,
            fabric: Fabric::new(problem),
            pools,
            pool_of: cluster.devices().map(|device| problem.pool_of(device) as u32).collect(),
            seconds,
            homes,
            fixed: (0..graph.class_count()).map(fixed).collect(),
            mean: Vec::new(),
            transfer: Vec::new(),
        };
        scene.mean = graph.operators().map(|op| scene.mean_over_homes(op)).collect();
        scene.transfer = scene.mean_transfers();
        scene
    }

    fn mean_over_homes(&self, op: OpId) -> f64 {
        let homes = self.homes(op);
        let sum: f64 = homes.iter().map(|&device| self.seconds(op, device)).sum();
        if homes.is_empty() { 0.0 } else { sum / homes.len() as f64 }
    }

    fn mean_transfers(&self) -> Vec<f64> {
        let (graph, cluster) = (self.graph(), self.problem.cluster());
        // Devices of a kind differ only under a matrix, whose mean is linear in the bytes.
        let tensors = graph.tensors();
        if let Some(matrix) = &cluster.document().matrix {
            let (delay, per_byte) = (off_diagonal(&matrix.delay_s), off_diagonal(&matrix.seconds_per_byte));
            return tensors.map(|tensor| delay + graph.bytes(tensor) * per_byte).collect();
        }
        let mut pairs: Vec<(DeviceId, DeviceId, f64)> = Vec::new();
        let kinds: Vec<Vec<DeviceId>> =
            (0..cluster.kind_count()).map(|kind| cluster.devices_of(kind).collect()).collect();
        for (at, from) in kinds.iter().enumerate() {
            for (other, to) in kinds.iter().enumerate() {
                let first = from.first().zip(if at == other { to.get(1) } else { to.first() });
                let count = from.len() * if at == other { to.len().saturating_sub(1) } else { to.len() };
                pairs.extend(first.map(|(&from, &to)| (from, to, count as f64)));
            }
        }
        let count: f64 = pairs.iter().map(|pair| pair.2).sum();
        let mean = |tensor| {
            let seconds = |&(from, to, count)| count * self.fabric.route(tensor, from, to).seconds;
            if count > 0.0 { pairs.iter().map(seconds).sum::<f64>() / count } else { 0.0 }
        };
        tensors.map(mean).collect()
    }

    /// The problem.
    pub fn problem(&self) -> &'p Problem {
        self.problem
    }

    /// The graph of the problem.
    pub fn graph(&self) -> &'p Graph {
        self.problem.graph()
    }

    /// The network between the devices.
    pub fn fabric(&self) -> &Fabric<'p> {
        &self.fabric
    }

    /// Whether transfers queue for ports.
    pub fn has_ports(&self) -> bool {
        self.problem.objective().execution == Execution::Ports
    }

    /// Number of devices.
    pub fn device_count(&self) -> usize {
        self.pool_of.len()
    }

    /// Number of pools.
    pub fn pool_count(&self) -> usize {
        self.pools
    }

    /// Memory of a device.
    pub fn memory(&self, device: DeviceId) -> f64 {
        self.problem.pools()[self.pool_of[device.index()] as usize].memory
    }

    /// Seconds of an operator on a device; infinite if it or its colocation class cannot run there.
    #[inline]
    pub fn seconds(&self, op: OpId, device: DeviceId) -> f64 {
        self.seconds_on(op, self.pool_of[device.index()] as usize)
    }

    /// Seconds of an operator on any device of a pool.
    #[inline]
    pub fn seconds_on(&self, op: OpId, pool: usize) -> f64 {
        self.seconds[op.index() * self.pools + pool]
    }

    /// Minimum seconds of an operator over the devices.
    pub fn least_seconds(&self, op: OpId) -> f64 {
        let of_pools = &self.seconds[op.index() * self.pools..(op.index() + 1) * self.pools];
        of_pools.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Mean seconds of an operator over the devices that may run it.
    pub fn mean_seconds(&self, op: OpId) -> f64 {
        self.mean[op.index()]
    }

    /// Mean seconds of a tensor over all pairs of different devices.
    pub fn mean_transfer(&self, tensor: TensorId) -> f64 {
        self.transfer[tensor.index()]
    }

    /// The devices that may run an operator and its colocation class, by index.
    pub fn homes(&self, op: OpId) -> &[DeviceId] {
        self.homes_of_class(self.graph().class_of(op))
    }

    /// The devices that may run a colocation class.
    pub fn homes_of_class(&self, class: usize) -> &[DeviceId] {
        &self.homes[class]
    }

    /// Whether every operator and its colocation class can run on the assigned device, which they share.
    pub fn admits(&self, device_of: &[DeviceId]) -> bool {
        let graph = self.graph();
        let at_home = |op: OpId| {
            let first = graph.class(graph.class_of(op))[0];
            let device = device_of[op.index()];
            device == device_of[first.index()] && self.seconds(op, device).is_finite()
        };
        graph.operators().all(at_home)
    }

    /// Bytes of a colocation class that are always on its device.
    pub fn fixed_bytes(&self, class: usize) -> f64 {
        self.fixed[class]
    }

    /// Bytes of a shared parameter, which every device with a reader holds.
    pub fn shared_bytes(&self, parameter: u32) -> f64 {
        let document = &self.problem.graph().parameters()[parameter as usize];
        document.bytes + document.optimizer_bytes
    }

    /// Reason why there is no plan at all, if evident: a class that no device can run, or whose parameters
    /// and optimiser state fit on none that can, or more parameters and optimiser state than all devices
    /// hold.
    pub fn impossible(&self) -> Option<String> {
        let graph = self.graph();
        for class in 0..graph.class_count() {
            let name = || graph.operator(graph.class(class)[0]).name.as_str();
            let homes = &self.homes[class];
            if homes.is_empty() {
                return Some(format!("no device can run `{}` and what is colocated with it", name()));
            }
            if !homes.iter().any(|&device| tolerance::fits(self.fixed[class], self.memory(device))) {
                let name = name();
                return Some(format!(
                    "no device that can run `{name}` and what is colocated with it has room for them"
                ));
            }
        }
        let have: f64 = self.problem.cluster().devices().map(|device| self.memory(device)).sum();
        let need: f64 = self.fixed.iter().sum();
        (!tolerance::fits(need, have)).then(|| {
            format!("parameters and optimiser state need {need} bytes, all devices together have {have}")
        })
    }
}

/// Mean of the off-diagonal entries of a square matrix.
fn off_diagonal(matrix: &[Vec<f64>]) -> f64 {
    let others = |(row, figures): (usize, &Vec<f64>)| -> f64 {
        figures.iter().enumerate().filter(|&(column, _)| column != row).map(|(_, figure)| figure).sum()
    };
    let pairs = (matrix.len() * matrix.len().saturating_sub(1)) as f64;
    let sum: f64 = matrix.iter().enumerate().map(others).sum();
    if pairs > 0.0 { sum / pairs } else { 0.0 }
}
