//! A problem prepared for schedulers: possible devices, run times and transfer times.

use std::collections::BTreeMap;

use stagewright_core::cluster::DeviceId;
use stagewright_core::document::Execution;
use stagewright_core::graph::{ClassId, Graph, OpId, TensorId};
use stagewright_core::ids::Keyed;
use stagewright_core::problem::Problem;
use stagewright_core::simulate::Fabric;

/// Costs of a problem that every scheduler needs.
#[derive(Debug, Clone)]
pub struct Instance<'p> {
    problem: &'p Problem,
    fabric: Fabric<'p>,
    pools: usize,
    pool_of: Keyed<DeviceId, usize>,
    /// Seconds by operator and pool; infinite if the operator or its class cannot run there.
    seconds: Vec<f64>,
    /// Every set of devices that is the home of some class; a million classes share a handful of them.
    homes: Vec<Vec<DeviceId>>,
    /// The index in `homes` of the devices that may run a class.
    homes_of: Keyed<ClassId, usize>,
    /// Bytes that a class occupies on its device throughout.
    fixed: Keyed<ClassId, f64>,
    /// Mean seconds of an operator over the devices that may run it.
    mean: Keyed<OpId, f64>,
    /// Mean seconds of a tensor over all pairs of different devices.
    transfer: Keyed<TensorId, f64>,
}

impl<'p> Instance<'p> {
    /// The instance of a problem, in time O(operators · pools + tensors · kinds log kinds).
    pub fn new(problem: &'p Problem) -> Instance<'p> {
        let (graph, cluster, pools) = (problem.graph(), problem.cluster(), problem.pools().len());
        let mut seconds = vec![f64::INFINITY; graph.operator_count() * pools];
        let mut homes = Vec::new();
        let mut index_of: BTreeMap<Vec<bool>, usize> = BTreeMap::new();
        let mut homes_of = Vec::with_capacity(graph.class_count());
        let mut capable = vec![false; pools];
        for class in graph.class_ids() {
            let members = graph.class(class);
            for (pool, capable) in capable.iter_mut().enumerate() {
                *capable = members.iter().all(|&op| problem.seconds(op, pool).is_some());
            }
            for &op in members {
                for pool in (0..pools).filter(|&pool| capable[pool]) {
                    seconds[op.index() * pools + pool] = problem.seconds(op, pool).unwrap_or(f64::INFINITY);
                }
            }
            let index = index_of.get(&capable[..]).copied().unwrap_or_else(|| {
                homes.push(cluster.devices().filter(|&device| capable[problem.pool_of(device)]).collect());
                index_of.insert(capable.clone(), homes.len() - 1);
                homes.len() - 1
            });
            homes_of.push(index);
        }
        let fixed = |class: ClassId| {
            let bytes = |&op: &OpId| {
                let operator = graph.operator(op);
                operator.parameter_bytes + operator.optimizer_bytes
            };
            graph.class(class).iter().map(bytes).sum()
        };
        let mut instance = Instance {
            problem,
            fabric: Fabric::new(problem),
            pools,
            pool_of: cluster.devices().map(|device| problem.pool_of(device)).collect(),
            seconds,
            homes,
            homes_of: homes_of.into(),
            fixed: graph.class_ids().map(fixed).collect(),
            mean: Keyed::default(),
            transfer: Keyed::default(),
        };
        instance.mean = graph.operators().map(|op| instance.mean_over_homes(op)).collect();
        instance.transfer = instance.mean_transfers();
        instance
    }

    fn mean_over_homes(&self, op: OpId) -> f64 {
        let homes = self.homes(op);
        let sum: f64 = homes.iter().map(|&device| self.seconds(op, device)).sum();
        if homes.is_empty() { 0.0 } else { sum / homes.len() as f64 }
    }

    fn mean_transfers(&self) -> Keyed<TensorId, f64> {
        let (graph, cluster) = (self.graph(), self.problem.cluster());
        // Devices of a kind differ only if there is a matrix, and the mean over a matrix is linear in the bytes.
        let tensors = graph.tensors();
        if let Some(matrix) = &cluster.document().matrix {
            let (delay, per_byte) = (off_diagonal(&matrix.delay_s), off_diagonal(&matrix.seconds_per_byte));
            return tensors.map(|tensor| delay + graph.bytes(tensor) * per_byte).collect();
        }
        let mut ascending: Vec<usize> = (0..cluster.kind_count()).collect();
        let mut before_in = vec![0.0; cluster.group_count() + 1];
        tensors.map(|tensor| self.mean_over_pairs(tensor, &mut ascending, &mut before_in)).collect()
    }

    /// Mean seconds of a tensor over all ordered pairs of different devices, without a matrix.
    ///
    /// A transfer takes the longest of the times on the links and uplinks on its way. The mean therefore follows from
    /// the kinds in ascending order of time: in a pair with an earlier kind, the later kind takes the longer. O(kinds
    /// log kinds).
    ///
    /// Both buffers spare a million tensors an allocation each: `ascending` holds every kind in any order, `before_in`
    /// a figure for every group and one for the kinds without a group.
    fn mean_over_pairs(&self, tensor: TensorId, ascending: &mut [usize], before_in: &mut [f64]) -> f64 {
        let (cluster, costs) = (self.problem.cluster(), self.problem.costs());
        let group = |kind: usize| cluster.group_of_kind(kind);
        let within = |kind: usize| costs.transfer(tensor, kind);
        let across =
            |kind: usize| group(kind).map_or(0.0, |group| costs.uplink(tensor, group)).max(within(kind));
        let devices = |kind: usize| f64::from(cluster.kind(kind).count);
        // Number of devices of the previous kinds, in total and by group; kinds without a group form one group.
        let mut before = 0.0;
        before_in.fill(0.0);
        let place = |kind: usize| group(kind).map_or(0, |group| group + 1);
        let mut sum = 0.0;
        ascending.sort_unstable_by(|&left, &right| within(left).total_cmp(&within(right)));
        for &kind in &*ascending {
            let same = &mut before_in[place(kind)];
            sum += within(kind) * devices(kind) * (2.0 * *same + (devices(kind) - 1.0));
            *same += devices(kind);
            before += devices(kind);
        }
        let pairs = before * (before - 1.0);
        before = 0.0;
        before_in.fill(0.0);
        ascending.sort_unstable_by(|&left, &right| across(left).total_cmp(&across(right)));
        for &kind in &*ascending {
            let same = &mut before_in[place(kind)];
            sum += across(kind) * devices(kind) * 2.0 * (before - *same);
            *same += devices(kind);
            before += devices(kind);
        }
        if pairs > 0.0 { sum / pairs } else { 0.0 }
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
        self.problem.objective().execution() == Execution::Ports
    }

    /// Number of devices.
    pub fn device_count(&self) -> usize {
        self.pool_of.len()
    }

    /// The pool of a device.
    pub fn pool_of(&self, device: DeviceId) -> usize {
        self.pool_of[device]
    }

    /// Whether the devices of a pool are interchangeable, which fails if a matrix gives each pair of devices its own
    /// link.
    pub fn pools_are_uniform(&self) -> bool {
        self.problem.cluster().document().matrix.is_none()
    }

    /// Number of pools.
    pub fn pool_count(&self) -> usize {
        self.pools
    }

    /// Memory of a device.
    pub fn memory(&self, device: DeviceId) -> f64 {
        self.problem.pools()[self.pool_of[device]].memory
    }

    /// Seconds of an operator on a device; infinite if it or its colocation class cannot run there.
    #[inline]
    pub fn seconds(&self, op: OpId, device: DeviceId) -> f64 {
        self.seconds_on(op, self.pool_of[device])
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
        self.mean[op]
    }

    /// Mean seconds of a tensor over all pairs of different devices.
    pub fn mean_transfer(&self, tensor: TensorId) -> f64 {
        self.transfer[tensor]
    }

    /// The devices that may run an operator and its colocation class, by index.
    pub fn homes(&self, op: OpId) -> &[DeviceId] {
        self.homes_of_class(self.graph().class_of(op))
    }

    /// The devices that may run a colocation class.
    pub fn homes_of_class(&self, class: ClassId) -> &[DeviceId] {
        &self.homes[self.homes_of[class]]
    }

    /// Whether every operator can run on its assigned device, and every colocation class is on one device.
    pub fn admits(&self, device_of: &[DeviceId]) -> bool {
        let graph = self.graph();
        let at_home = |op: OpId| {
            let first = graph.class(graph.class_of(op))[0];
            let device = device_of[op.index()];
            device == device_of[first.index()] && self.seconds(op, device).is_finite()
        };
        graph.operators().all(at_home)
    }

    /// Bytes of a colocation class that stay on its device throughout the step.
    pub fn fixed_bytes(&self, class: ClassId) -> f64 {
        self.fixed[class]
    }

    /// Bytes of a shared parameter, which every device with a reader holds.
    pub fn shared_bytes(&self, parameter: u32) -> f64 {
        let document = &self.problem.graph().parameters()[parameter as usize];
        document.bytes + document.optimizer_bytes
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

#[cfg(test)]
mod tests {
    use rand::RngExt;
    use stagewright_core::cluster::Cluster;
    use stagewright_core::document::{
        CLUSTER_SCHEMA, ClusterDocument, GroupDocument, KindDocument, LinkDocument, OperatorDocument,
        TensorDocument,
    };
    use stagewright_core::graph::GraphBuilder;
    use stagewright_core::objective::Objective;
    use stagewright_core::seed;

    use super::*;

    /// A tensor on up to six kinds of devices, some of them hosts, in up to two groups.
    fn problem(number: u64) -> Problem {
        let mut rng = seed::stream(number, 23);
        let mut link = || LinkDocument { latency_s: 0.0, bandwidth: rng.random_range(1.0..9.0) };
        let groups = ["left", "right"].map(|name| GroupDocument { name: name.into(), uplink: link() });
        let links: Vec<LinkDocument> = (0..6).map(|_| link()).collect();
        let kinds = (0..rng.random_range(1..=6)).map(|index: usize| KindDocument {
            server: None,
            ram: None,
            name: format!("k{index}"),
            class: "acc".into(),
            count: rng.random_range(1..4),
            host: rng.random_bool(0.2),
            memory_bytes: None,
            reserve_bytes: None,
            link: Some(links[index]),
            group: [None, Some("left".into()), Some("right".into())][rng.random_range(0..3)].clone(),
        });
        let cluster = ClusterDocument {
            schema: CLUSTER_SCHEMA.into(),
            name: String::new(),
            classes: Default::default(),
            kinds: kinds.collect(),
            groups: groups.into(),
            matrix: None,
        };
        let mut builder = GraphBuilder::new("pair");
        for name in ["a", "b"] {
            let seconds = [("acc".to_string(), 1.0)].into();
            builder.operator(OperatorDocument { seconds, ..OperatorDocument::named(name) });
        }
        builder.timed_tensor(TensorDocument {
            name: None,
            producer: "a".into(),
            consumers: vec!["b".into()],
            bytes: 8.0,
            seconds: Default::default(),
        });
        let objective = Objective::Makespan { execution: Execution::Ports };
        let cluster = Cluster::from_document(cluster).expect("a cluster");
        Problem::new(builder.build().expect("a graph"), cluster, objective).expect("a problem")
    }

    #[test]
    fn the_mean_transfer_is_that_of_all_pairs_of_devices() {
        for number in 0..1000 {
            let problem = problem(number);
            let instance = Instance::new(&problem);
            let devices: Vec<DeviceId> = problem.cluster().devices().collect();
            let pairs = devices.iter().flat_map(|&from| devices.iter().map(move |&to| (from, to)));
            let seconds: Vec<f64> = pairs
                .filter(|(from, to)| from != to)
                .map(|(from, to)| instance.fabric().route(TensorId(0), from, to).seconds)
                .collect();
            let mean = seconds.iter().sum::<f64>() / seconds.len().max(1) as f64;
            assert!((instance.mean_transfer(TensorId(0)) - mean).abs() <= 1e-12 * mean.max(1.0), "{number}");
        }
    }
}
