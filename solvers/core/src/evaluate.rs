//! The value of a placement under the throughput objective, and every constraint it breaks.
//!
//! This is the one place that says what a placement is worth: every solver's answer is evaluated here before
//! it is reported. It works on the operators and tensors themselves, not on contracted units, and costs
//! O(operators + pins log devices).

use std::collections::BTreeMap;

use thiserror::Error;

use crate::cluster::DeviceId;
use crate::document::{Pass, Split};
use crate::graph::TensorId;
use crate::meter::PassSums;
use crate::objective::synchronisation;
use crate::placement::Placement;
use crate::problem::Problem;
use crate::tolerance;

/// The load of one device.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceLoad {
    /// The device.
    pub device: DeviceId,
    /// Devices that share the stage.
    pub replicas: u32,
    /// Load per pass, divided among replicas, synchronisation included; the second is zero unless training is
    /// `separate`.
    pub pass_loads: [f64; 2],
    /// Sums per pass, before division.
    pub sums: [PassSums; 2],
    /// Bytes in use.
    pub memory_bytes: f64,
}

impl DeviceLoad {
    /// The load over both passes.
    pub fn load(&self) -> f64 {
        self.pass_loads[0] + self.pass_loads[1]
    }

    /// Seconds of compute.
    pub fn compute(&self) -> f64 {
        self.sums[0].compute + self.sums[1].compute
    }

    /// Seconds of communication, sent and received.
    pub fn communication(&self) -> f64 {
        self.sums.iter().map(|sums| sums.sent + sums.received).sum()
    }
}

/// What a placement is worth.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The objective.
    pub value: f64,
    /// The devices in use, in pipeline order where there is one.
    pub devices: Vec<DeviceLoad>,
    /// Load per pass of every group's uplink.
    pub uplinks: Vec<[f64; 2]>,
    /// The constraints it breaks.
    pub violations: Vec<Violation>,
}

impl Evaluation {
    /// Whether no constraint is broken.
    pub fn is_feasible(&self) -> bool {
        self.violations.is_empty()
    }
}

/// A broken constraint.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Violation {
    /// An operator on a device that cannot run it, or that its pin excludes.
    #[error("operator `{operator}` cannot run on {device}")]
    Unsupported {
        /// The operator.
        operator: String,
        /// The device.
        device: String,
    },
    /// A colocation class on two devices.
    #[error("operators `{first}` and `{second}` must share a device")]
    Colocation {
        /// One operator.
        first: String,
        /// Another of its class.
        second: String,
    },
    /// Memory exceeded.
    #[error("{device} needs {bytes} bytes of {limit}")]
    Memory {
        /// The device.
        device: String,
        /// Bytes in use.
        bytes: f64,
        /// Its memory.
        limit: f64,
    },
    /// A tensor against the pipeline order.
    #[error("the tensor from `{producer}` to `{consumer}` goes against the order of the stages")]
    Order {
        /// Its producer.
        producer: String,
        /// A consumer in an earlier stage (or, between backward operators, in a later one).
        consumer: String,
    },
    /// A forward path that leaves a device and comes back.
    #[error("a path leaves {device} and comes back to it at `{operator}`")]
    Convexity {
        /// The device.
        device: String,
        /// Where it comes back.
        operator: String,
    },
    /// More devices of a kind in use than there are.
    #[error("{used} devices of kind `{kind}` in use, of {count}")]
    Devices {
        /// The kind.
        kind: String,
        /// In use, replicas included.
        used: u64,
        /// Available.
        count: u32,
    },
    /// A stage on no device, or on more than the objective allows.
    #[error("the stage on {device} has {replicas} replicas, but must have 1 to {most}")]
    Replicas {
        /// The device.
        device: String,
        /// Its replicas.
        replicas: u32,
        /// Most that the objective allows.
        most: u32,
    },
    /// A stage with replicas on devices that a pin tells apart.
    #[error(
        "the stages on {devices} need {used} devices, replicas included, but only {count} are in their pool: \
         a pin tells the others of their kind apart"
    )]
    Pool {
        /// The named devices of the stages, joined by commas.
        devices: String,
        /// In use, replicas included.
        used: u64,
        /// Devices of the pool.
        count: u32,
    },
}

/// Evaluates a placement.
///
/// # Panics
/// Where the placement was made for another graph or cluster.
pub fn evaluate(problem: &Problem, placement: &Placement) -> Evaluation {
    let graph = problem.graph();
    let cluster = problem.cluster();
    let used = placement.used();
    let mut slot = vec![u32::MAX; cluster.device_count()];
    for (at, device) in used.iter().enumerate() {
        slot[device.index()] = at as u32;
    }
    let slot_of = |op| slot[placement.device_of(op).index()] as usize;

    let separate = problem.objective().passes() == 2;
    let mut devices: Vec<DeviceLoad> = used
        .iter()
        .map(|&device| DeviceLoad {
            device,
            replicas: placement.replicas(device),
            pass_loads: [0.0; 2],
            sums: Default::default(),
            memory_bytes: 0.0,
        })
        .collect();
    let mut violations = Vec::new();
    let mut parameters = vec![0.0; used.len()];
    let mut activations = vec![0.0; used.len()];
    for op in graph.operators() {
        let at = slot_of(op);
        let document = graph.operator(op);
        let pass = usize::from(separate && document.pass != Pass::Forward);
        match problem.seconds(op, problem.pool_of(devices[at].device)) {
            Some(seconds) => devices[at].sums[pass].compute += seconds,
            None => violations.push(Violation::Unsupported {
                operator: document.name.clone(),
                device: cluster.device_name(devices[at].device),
            }),
        }
        devices[at].memory_bytes +=
            document.parameter_bytes + document.optimizer_bytes + document.workspace_bytes;
        parameters[at] += document.parameter_bytes;
        activations[at] += document.activation_bytes;
    }

    let mut uplinks = vec![[0.0; 2]; cluster.group_count()];
    let mut places: Vec<usize> = Vec::new();
    for tensor in graph.tensors() {
        places.clear();
        places.extend(graph.pins(tensor).iter().map(|&op| slot_of(op)));
        let producer = places[0];
        places.sort_unstable();
        places.dedup();
        if places.len() < 2 {
            continue;
        }
        let pass = usize::from(separate && !graph.is_forward(graph.producer(tensor)));
        for &at in &places {
            let seconds = problem.costs().transfer(tensor, cluster.kind_of(devices[at].device));
            let sums = &mut devices[at].sums[pass];
            if at == producer { sums.sent += seconds } else { sums.received += seconds }
        }
        add_uplinks(problem, &devices, &places, tensor, pass, &mut uplinks);
    }

    let stages = used.len() as u32;
    for (at, device) in devices.iter_mut().enumerate() {
        let pool = &problem.pools()[problem.pool_of(device.device)];
        let in_flight = problem.objective().in_flight(stages - at as u32);
        device.memory_bytes += f64::from(in_flight) * activations[at];
        for pass in 0..problem.objective().passes() {
            let PassSums { compute, sent, received } = device.sums[pass];
            device.pass_loads[pass] =
                problem.objective().load(compute, sent, received) / f64::from(device.replicas);
        }
        device.pass_loads[problem.objective().passes() - 1] +=
            synchronisation(parameters[at], device.replicas, pool.bandwidth);
        if !tolerance::fits(device.memory_bytes, pool.memory) {
            violations.push(Violation::Memory {
                device: cluster.device_name(device.device),
                bytes: device.memory_bytes,
                limit: pool.memory,
            });
        }
    }
    check_colocation(problem, placement, &mut violations);
    check_replicas(problem, &devices, &mut violations);
    check_device_counts(problem, &devices, &mut violations);
    check_pools(problem, &devices, &mut violations);
    match problem.objective().split {
        Split::Contiguous => check_order(problem, placement, &slot, &mut violations),
        Split::Convex => check_convexity(problem, placement, &used, &mut violations),
        Split::Free => {}
    }
    Evaluation { value: bottleneck(&devices, &uplinks), devices, uplinks, violations }
}

/// The largest load, or the largest forward load plus the largest backward load.
fn bottleneck(devices: &[DeviceLoad], uplinks: &[[f64; 2]]) -> f64 {
    (0..2)
        .map(|pass| {
            let loads = devices.iter().map(|device| device.pass_loads[pass]);
            loads.chain(uplinks.iter().map(|uplink| uplink[pass])).fold(0.0, f64::max)
        })
        .sum()
}

/// A tensor crosses a group's uplink iff it has pins on both sides.
fn add_uplinks(
    problem: &Problem,
    devices: &[DeviceLoad],
    places: &[usize],
    tensor: TensorId,
    pass: usize,
    uplinks: &mut [[f64; 2]],
) {
    let group_of =
        |&at: &usize| problem.cluster().group_of_kind(problem.cluster().kind_of(devices[at].device));
    for (group, uplink) in uplinks.iter_mut().enumerate() {
        let inside = places.iter().filter(|at| group_of(at) == Some(group)).count();
        if 0 < inside && inside < places.len() {
            uplink[pass] += problem.costs().uplink(tensor, group);
        }
    }
}

fn check_colocation(problem: &Problem, placement: &Placement, violations: &mut Vec<Violation>) {
    let graph = problem.graph();
    for class in 0..graph.class_count() {
        let members = graph.class(class);
        let first = members[0];
        if let Some(&second) =
            members.iter().find(|&&op| placement.device_of(op) != placement.device_of(first))
        {
            violations.push(Violation::Colocation {
                first: graph.operator(first).name.clone(),
                second: graph.operator(second).name.clone(),
            });
        }
    }
}

fn check_replicas(problem: &Problem, devices: &[DeviceLoad], violations: &mut Vec<Violation>) {
    let most = problem.objective().max_replicas;
    for &DeviceLoad { device, replicas, .. } in devices {
        if replicas == 0 || replicas > most {
            let device = problem.cluster().device_name(device);
            violations.push(Violation::Replicas { device, replicas, most });
        }
    }
}

fn check_device_counts(problem: &Problem, devices: &[DeviceLoad], violations: &mut Vec<Violation>) {
    let mut used: BTreeMap<usize, u64> = BTreeMap::new();
    for device in devices {
        *used.entry(problem.cluster().kind_of(device.device)).or_default() += u64::from(device.replicas);
    }
    for (kind, used) in used {
        let spec = problem.cluster().kind(kind);
        if used > u64::from(spec.count) {
            violations.push(Violation::Devices { kind: spec.name.clone(), used, count: spec.count });
        }
    }
}

/// The replicas of a stage lie in the pool of its named device. Which devices they are is not said, so the
/// rule holds iff no pool is overdrawn. A pool that is a whole kind is left to the count of the kind.
fn check_pools(problem: &Problem, devices: &[DeviceLoad], violations: &mut Vec<Violation>) {
    let mut stages: BTreeMap<usize, Vec<&DeviceLoad>> = BTreeMap::new();
    for device in devices {
        stages.entry(problem.pool_of(device.device)).or_default().push(device);
    }
    for (pool, stages) in stages {
        let spec = &problem.pools()[pool];
        let used = stages.iter().map(|stage| u64::from(stage.replicas)).sum();
        if used > u64::from(spec.count()) && spec.count() < problem.cluster().kind(spec.kind).count {
            let names = stages.iter().map(|stage| problem.cluster().device_name(stage.device));
            let devices = names.collect::<Vec<_>>().join(", ");
            violations.push(Violation::Pool { devices, used, count: spec.count() });
        }
    }
}

fn check_order(problem: &Problem, placement: &Placement, slot: &[u32], violations: &mut Vec<Violation>) {
    let graph = problem.graph();
    let mut has_forward = vec![false; graph.class_count()];
    for op in graph.operators().filter(|&op| graph.is_forward(op)) {
        has_forward[graph.class_of(op)] = true;
    }
    for tensor in graph.tensors() {
        let producer = graph.producer(tensor);
        for &consumer in graph.consumers(tensor) {
            let from = slot[placement.device_of(producer).index()];
            let to = slot[placement.device_of(consumer).index()];
            let against = match (graph.operator(producer).pass, graph.operator(consumer).pass) {
                (Pass::Forward, Pass::Forward) => from > to,
                (Pass::Backward, Pass::Backward) => {
                    from < to
                        && !(has_forward[graph.class_of(producer)] && has_forward[graph.class_of(consumer)])
                }
                _ => false,
            };
            if against {
                violations.push(Violation::Order {
                    producer: graph.operator(producer).name.clone(),
                    consumer: graph.operator(consumer).name.clone(),
                });
            }
        }
    }
}

/// One sweep along the topological order per device: an operator is `left` once a forward path from the device
/// has left it. O(devices · (operators + edges)).
fn check_convexity(
    problem: &Problem,
    placement: &Placement,
    used: &[DeviceId],
    violations: &mut Vec<Violation>,
) {
    let graph = problem.graph();
    for &device in used {
        let mut left = vec![false; graph.operator_count()];
        for &op in graph.topological().iter().filter(|&&op| graph.is_forward(op)) {
            let here = placement.device_of(op) == device;
            if here && left[op.index()] {
                violations.push(Violation::Convexity {
                    device: problem.cluster().device_name(device),
                    operator: graph.operator(op).name.clone(),
                });
                break;
            }
            for &next in graph.successors(op).iter().filter(|&&next| graph.is_forward(next)) {
                if left[op.index()] || (here && placement.device_of(next) != device) {
                    left[next.index()] = true;
                }
            }
        }
    }
}
