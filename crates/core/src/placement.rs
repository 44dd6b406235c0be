//! A placement: the device of every operator, and the pipeline order if there is one.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::DeviceId;
use crate::contraction::{UnitId, Units};
use crate::document::{ObjectiveKind, Split};
use crate::graph::{Graph, OpId};
use crate::ids::Keyed;
use crate::problem::Problem;

/// A device for every operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    device_of: Vec<DeviceId>,
    order: Order,
    priority: Vec<OpId>,
}

/// How a placement orders operators.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Order {
    /// Only the tensors decide.
    Tensors,
    /// The devices in pipeline order, and the number of devices of every stage that has more than one.
    Pipeline { stages: Vec<DeviceId>, replicas: BTreeMap<DeviceId, u32> },
    /// The number of the call of each operator.
    Calls(Vec<u32>),
}

/// One stage of a contiguous placement, in terms of pools and units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageAssignment {
    /// The pool whose next free devices run the stage.
    pub pool: usize,
    /// Number of devices that run the stage.
    pub replicas: u32,
    /// Units of the stage.
    pub units: Vec<UnitId>,
}

impl Placement {
    /// A placement without an order of stages, given the device of each operator by index.
    pub fn new(device_of: Vec<DeviceId>) -> Self {
        Placement { device_of, order: Order::Tensors, priority: Vec::new() }
    }

    /// A placement with its devices in pipeline order; `replicas` lists the stages that run on more than one device.
    pub fn with_stages(
        device_of: Vec<DeviceId>,
        stages: Vec<DeviceId>,
        replicas: BTreeMap<DeviceId, u32>,
    ) -> Self {
        Placement { order: Order::Pipeline { stages, replicas }, ..Placement::new(device_of) }
    }

    /// A placement with its devices in a pipeline order that the contiguous rule admits, if there is one: each device
    /// comes after those from which forward tensors arrive. Of two devices that may be next, the one with the first
    /// operator in topological order comes first. Without such an order, or under another rule, the placement has no
    /// order. O(pins log pins).
    ///
    /// # Panics
    /// If `device_of` does not have one device for every operator of the problem.
    pub fn in_pipeline_order(problem: &Problem, device_of: Vec<DeviceId>) -> Self {
        let objective = problem.objective();
        let is_contiguous =
            objective.kind() == ObjectiveKind::Throughput && objective.rules().split == Split::Contiguous;
        match is_contiguous.then(|| pipeline_order(problem, &device_of)).flatten() {
            Some(stages) => Placement::with_stages(device_of, stages, BTreeMap::new()),
            None => Placement::new(device_of),
        }
    }

    /// A placement for one sample through offloaded calls: each operator has a device, and the number of the call on
    /// that device that runs it. The calls of a device run by increasing number; for a host the number is ignored.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn with_calls(device_of: Vec<DeviceId>, call_of: Vec<u32>) -> Self {
        assert_eq!(device_of.len(), call_of.len(), "a call for every operator");
        Placement { order: Order::Calls(call_of), ..Placement::new(device_of) }
    }

    /// A placement for one step under dataflow execution: the ready operators of a device run in the order of
    /// `priority`, which names every operator once. If it is empty, they run in the order in which they become ready.
    pub fn with_priority(device_of: Vec<DeviceId>, priority: Vec<OpId>) -> Self {
        Placement { priority, ..Placement::new(device_of) }
    }

    /// Returns the placement for the simulation of one step, if it was made for `objective`. The memory of a throughput
    /// plan suffices for devices that run their operators in work order ([`Graph::work_order`]), so that order becomes
    /// the priority; in the order in which operators become ready, a step could need many times as much memory. Graphs
    /// of version 1, whose memory is a sum, and plans with a priority of their own are unchanged. O((operators + edges)
    /// log operators).
    pub fn as_step(&self, graph: &Graph, objective: ObjectiveKind) -> Placement {
        if objective == ObjectiveKind::Throughput && graph.is_version_2() && self.priority.is_empty() {
            return Placement { priority: graph.work_order(), ..self.clone() };
        }
        self.clone()
    }

    /// Assigns the devices of each pool to its stages in order; empty stages are skipped.
    ///
    /// # Panics
    /// If the stages use more devices of a pool than it has, or omit a unit, which is a broken invariant of the solver
    /// that made them.
    pub fn from_stages(problem: &Problem, units: &Units, assignment: &[StageAssignment]) -> Self {
        const UNSET: DeviceId = DeviceId(u32::MAX);
        let mut device_of = vec![UNSET; problem.graph().operator_count()];
        let mut stages = Vec::new();
        let mut replicas = BTreeMap::new();
        let mut used = vec![0usize; problem.pools().len()];
        for stage in assignment.iter().filter(|stage| !stage.units.is_empty()) {
            let device = problem.pools()[stage.pool].devices[used[stage.pool]];
            used[stage.pool] += stage.replicas as usize;
            assert!(used[stage.pool] <= problem.pools()[stage.pool].devices.len(), "pool overdrawn");
            stages.push(device);
            if stage.replicas > 1 {
                replicas.insert(device, stage.replicas);
            }
            for &unit in &stage.units {
                for op in units.members(unit) {
                    device_of[op.index()] = device;
                }
            }
        }
        assert!(device_of.iter().all(|&device| device != UNSET), "a unit has no stage");
        Placement::with_stages(device_of, stages, replicas)
    }

    /// The device of an operator.
    pub fn device_of(&self, op: OpId) -> DeviceId {
        self.device_of[op.index()]
    }

    /// Whether the placement assigns operators to calls.
    pub fn has_calls(&self) -> bool {
        matches!(self.order, Order::Calls(_))
    }

    /// Number of the call that runs an operator. It is 0 if the placement has no calls, so that all operators of a
    /// device form one call.
    pub fn call_of(&self, op: OpId) -> u32 {
        match &self.order {
            Order::Calls(call_of) => call_of[op.index()],
            _ => 0,
        }
    }

    /// The operators by decreasing priority; empty if the placement has none.
    pub fn priority(&self) -> &[OpId] {
        &self.priority
    }

    /// The devices in pipeline order; empty if the placement has no order.
    pub fn stages(&self) -> &[DeviceId] {
        match &self.order {
            Order::Pipeline { stages, .. } => stages,
            _ => &[],
        }
    }

    /// Number of devices that run the stage of `device`: this device and others of its pool, which are not named.
    pub fn replicas(&self, device: DeviceId) -> u32 {
        match &self.order {
            Order::Pipeline { replicas, .. } => replicas.get(&device).copied().unwrap_or(1),
            _ => 1,
        }
    }

    /// The devices in use: in pipeline order if there is one, otherwise by index.
    pub fn used(&self) -> Vec<DeviceId> {
        if !self.stages().is_empty() {
            return self.stages().to_vec();
        }
        let mut used = self.device_of.clone();
        used.sort_unstable();
        used.dedup();
        used
    }
}

/// The devices in use, in an order that no tensor contradicts; `None` if they are on a cycle.
fn pipeline_order(problem: &Problem, device_of: &[DeviceId]) -> Option<Vec<DeviceId>> {
    let graph = problem.graph();
    // The devices in the order of their first operators.
    let mut used: Vec<DeviceId> = Vec::new();
    let mut slot = Keyed::filled(usize::MAX, problem.cluster().device_count());
    for &op in graph.topological() {
        let device = device_of[op.index()];
        if slot[device] == usize::MAX {
            slot[device] = used.len();
            used.push(device);
        }
    }
    let count = used.len();
    let pair =
        |(before, after): (OpId, OpId)| (slot[device_of[before.index()]], slot[device_of[after.index()]]);
    let mut pairs: Vec<(usize, usize)> =
        graph.stage_precedences().map(pair).filter(|(before, after)| before != after).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let mut waiting = vec![0; count];
    for &(_, after) in &pairs {
        waiting[after] += 1;
    }
    let mut ready: BTreeSet<usize> = (0..count).filter(|&index| waiting[index] == 0).collect();
    let mut order = Vec::with_capacity(count);
    while let Some(next) = ready.pop_first() {
        order.push(used[next]);
        let first = pairs.partition_point(|&(before, _)| before < next);
        for &(_, after) in pairs[first..].iter().take_while(|(before, _)| *before == next) {
            waiting[after] -= 1;
            if waiting[after] == 0 {
                ready.insert(after);
            }
        }
    }
    (order.len() == count).then_some(order)
}
