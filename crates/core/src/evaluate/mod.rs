//! The value of a placement, and every constraint it violates.
//!
//! This is the single definition of a placement's value: the result of every solver is evaluated here before it is
//! reported. The evaluation works on operators and tensors, not on contracted units.

mod batch;
mod constraint;
mod latency;
mod makespan;
mod pipeline;
mod steady;
mod throughput;

pub use batch::Values;
pub use pipeline::pipeline;
pub use steady::{NoSteadyState, Place, SteadyDevice, SteadyState, SteadyTask, SteadyWork, steady};
use thiserror::Error;

use crate::cluster::DeviceId;
use crate::document::ObjectiveKind;
use crate::graph::OpId;
use crate::ids::Keyed;
use crate::memory::DeviceBytes;
use crate::objective::PassSums;
use crate::overhead::Step;
use crate::placement::Placement;
use crate::problem::Problem;
use crate::schedule::StageTimes;
use crate::units::bytes_apart;

/// The load of one device.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceLoad {
    /// The device.
    pub device: DeviceId,
    /// Devices that share the stage.
    pub replicas: u32,
    /// Load of each pass, divided among replicas and including synchronisation. The second is zero unless training is
    /// `separate`.
    pub pass_loads: [f64; 2],
    /// Sums of each pass, before division among replicas.
    pub sums: [PassSums; 2],
    /// Seconds of the load that synchronise replicas and the gradients of shared parameters.
    pub synchronised: f64,
    /// Times of the stage for one microbatch under a pipeline schedule; otherwise zero.
    pub times: StageTimes,
    /// Bytes in use; for the makespan, the peak.
    pub memory_bytes: f64,
}

impl DeviceLoad {
    /// A device of a placement, with all sums at zero.
    fn new(placement: &Placement, device: DeviceId) -> DeviceLoad {
        DeviceLoad {
            device,
            replicas: placement.replicas(device),
            pass_loads: [0.0; 2],
            sums: Default::default(),
            synchronised: 0.0,
            times: StageTimes::default(),
            memory_bytes: 0.0,
        }
    }

    /// The load over both passes.
    pub fn load(&self) -> f64 {
        self.pass_loads[0] + self.pass_loads[1]
    }

    /// Seconds of compute.
    pub fn compute(&self) -> f64 {
        self.sums[0].compute + self.sums[1].compute
    }

    /// Seconds of communication: sent, received, and gradients of shared parameters.
    pub fn communication(&self) -> f64 {
        self.sums.iter().map(PassSums::communication).sum()
    }
}

/// Value of a placement with its loads, calls and violations.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// Value of the objective.
    pub value: f64,
    /// The devices in use, in pipeline order if there is one.
    pub devices: Vec<DeviceLoad>,
    /// Load of every group's uplink in each pass. For the makespan it is the busy seconds; for latency it is zero,
    /// because that model has no uplinks.
    pub uplinks: Vec<[f64; 2]>,
    /// The calls in order of their start; empty unless the objective is latency.
    pub calls: Vec<CallTimes>,
    /// Violated constraints.
    pub violations: Vec<Violation>,
}

impl Evaluation {
    /// Whether no constraint is violated.
    pub fn is_feasible(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Start and finish of a call, in seconds from the start of the sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallTimes {
    /// The accelerator.
    pub device: DeviceId,
    /// Number of the call, as [`Placement::call_of`] gives it.
    pub call: u32,
    /// Start of the call's input transfers.
    pub start: f64,
    /// End of the call's output transfers.
    pub finish: f64,
}

/// A violated constraint.
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
        /// An operator of the class.
        first: String,
        /// Another operator of the class.
        second: String,
    },
    /// Memory exceeded.
    #[error("{device} needs {}", bytes_apart(*bytes, *limit).join(" of "))]
    Memory {
        /// The device.
        device: String,
        /// Bytes in use.
        bytes: f64,
        /// Bytes of the device's memory.
        limit: f64,
    },
    /// A tensor that goes against the pipeline order.
    #[error("the tensor from `{producer}` to `{consumer}` goes against the order of the stages")]
    Order {
        /// Producer of the tensor.
        producer: String,
        /// A consumer in an earlier stage (or, between backward operators, in a later one).
        consumer: String,
    },
    /// A forward path that leaves a device and comes back.
    #[error("a path leaves {device} and comes back to it at `{operator}`")]
    Convexity {
        /// The device.
        device: String,
        /// The operator at which the path comes back.
        operator: String,
    },
    /// More devices of a kind in use than the cluster has.
    #[error("the plan uses {used} devices of kind `{kind}`, which has {count}")]
    Devices {
        /// The kind.
        kind: String,
        /// Devices in use, replicas included.
        used: u64,
        /// Devices of the kind in the cluster.
        count: u32,
    },
    /// A stage on no device, or on more than the objective allows.
    #[error("the stage on {device} has {replicas} replicas, but must have 1 to {most}")]
    Replicas {
        /// The device.
        device: String,
        /// Replicas of the stage.
        replicas: u32,
        /// Maximum that the objective allows.
        most: u32,
    },
    /// Replicated stages that need more devices than their pool has.
    #[error(
        "the stages on {devices} need {used} devices, replicas included, but their pool has only {count}: pins \
         separate the others of the kind"
    )]
    Pool {
        /// The named devices of the stages, joined by commas.
        devices: String,
        /// Devices that the stages need, replicas included.
        used: u64,
        /// Devices of the pool.
        count: u32,
    },
    /// More calls of an accelerator than the objective allows.
    #[error("{device} has {calls} calls, but at most {most} are allowed")]
    Calls {
        /// The device.
        device: String,
        /// Calls of the accelerator.
        calls: u32,
        /// Maximum that the objective allows.
        most: u32,
    },
    /// Calls that wait for one another in a cycle.
    #[error("the call of {device} with `{operator}` is on a cycle of calls")]
    CallOrder {
        /// A device of the cycle.
        device: String,
        /// An operator of the call.
        operator: String,
    },
    /// A priority that does not name every operator exactly once.
    #[error("the priority lists `{operator}` {times} times, but must list every operator once")]
    Priority {
        /// The operator.
        operator: String,
        /// Number of times that the priority names the operator.
        times: u32,
    },
}

/// Evaluates a placement under the problem's objective.
///
/// # Panics
/// If the placement was made for another graph or cluster.
pub fn evaluate(problem: &Problem, placement: &Placement) -> Evaluation {
    problem.timed(Step::Evaluation, || match problem.objective().kind() {
        ObjectiveKind::Latency => latency::evaluate(problem, placement),
        ObjectiveKind::Makespan => makespan::evaluate(problem, placement),
        ObjectiveKind::Throughput => throughput::evaluate(problem, placement),
    })
}

/// Entry of an unused device in [`slots`].
const UNUSED: usize = usize::MAX;

/// Index of each device among the devices in use, or [`UNUSED`].
fn slots(problem: &Problem, used: &[DeviceId]) -> Keyed<DeviceId, usize> {
    let mut slot = Keyed::filled(UNUSED, problem.cluster().device_count());
    for (index, &device) in used.iter().enumerate() {
        slot[device] = index;
    }
    slot
}

/// Memory of each device in use, in the order of the devices in use.
fn device_bytes(problem: &Problem, used: usize, slot_of: impl Fn(OpId) -> usize) -> Vec<DeviceBytes> {
    let mut ops = vec![Vec::new(); used];
    for op in problem.graph().operators() {
        ops[slot_of(op)].push(op);
    }
    ops.into_iter().map(|ops| problem.memory().of(ops)).collect()
}
