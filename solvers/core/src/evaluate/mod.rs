//! The value of a placement, and every constraint it breaks.
//!
//! This is the one place that says what a placement is worth: every solver's answer is evaluated here before
//! it is reported. It works on the operators and tensors themselves, not on contracted units.

mod constraint;
mod latency;
mod makespan;
mod pipeline;
mod steady;
mod throughput;

pub use pipeline::pipeline;
pub use steady::{NoSteadyState, Place, SteadyDevice, SteadyState, SteadyTask, SteadyWork, steady};
use thiserror::Error;

use crate::cluster::DeviceId;
use crate::document::ObjectiveKind;
use crate::graph::OpId;
use crate::memory::DeviceBytes;
use crate::meter::PassSums;
use crate::placement::Placement;
use crate::problem::Problem;
use crate::schedule::StageTimes;

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
    /// Seconds of the load in which replicas synchronise.
    pub synchronised: f64,
    /// What the stage takes for one microbatch under a pipeline schedule; else zero.
    pub times: StageTimes,
    /// Bytes in use; for the makespan, the most at any moment.
    pub memory_bytes: f64,
}

impl DeviceLoad {
    /// A device of a placement before anything is added up.
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
    /// Load per pass of every group's uplink; for the makespan, the seconds that it carries something, and
    /// zero for latency, whose model has none.
    pub uplinks: Vec<[f64; 2]>,
    /// For latency, the calls in order of their start.
    pub calls: Vec<CallTimes>,
    /// The constraints it breaks.
    pub violations: Vec<Violation>,
}

impl Evaluation {
    /// Whether no constraint is broken.
    pub fn is_feasible(&self) -> bool {
        self.violations.is_empty()
    }
}

/// When an accelerator is called, from the start of the sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallTimes {
    /// The accelerator.
    pub device: DeviceId,
    /// Number of the call, as [`Placement::call_of`] gives it.
    pub call: u32,
    /// Seconds until it begins to bring its inputs in.
    pub start: f64,
    /// Seconds until its outputs are out.
    pub finish: f64,
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
    /// More calls of an accelerator than the objective allows.
    #[error("{device} is called {calls} times, but at most {most} may be")]
    Calls {
        /// The device.
        device: String,
        /// Its calls.
        calls: u32,
        /// Most that the objective allows.
        most: u32,
    },
    /// Calls that wait for one another.
    #[error("the call of {device} with `{operator}` waits for what itself has to come before")]
    CallOrder {
        /// A device of the cycle.
        device: String,
        /// An operator of its call.
        operator: String,
    },
    /// A priority that does not name every operator once.
    #[error("the priority names `{operator}` {times} times, but has to name every operator once")]
    Priority {
        /// The operator.
        operator: String,
        /// How often it is named.
        times: u32,
    },
}

/// Evaluates a placement under the problem's objective.
///
/// # Panics
/// Where the placement was made for another graph or cluster.
pub fn evaluate(problem: &Problem, placement: &Placement) -> Evaluation {
    match problem.objective().kind {
        ObjectiveKind::Latency => latency::evaluate(problem, placement),
        ObjectiveKind::Makespan => makespan::evaluate(problem, placement),
        ObjectiveKind::Throughput => throughput::evaluate(problem, placement),
    }
}

/// An unused device in the table of [`slots`].
const UNUSED: u32 = u32::MAX;

/// Where each device stands among those in use.
fn slots(problem: &Problem, used: &[DeviceId]) -> Vec<u32> {
    let mut slot = vec![UNUSED; problem.cluster().device_count()];
    for (at, device) in used.iter().enumerate() {
        slot[device.index()] = at as u32;
    }
    slot
}

/// What each device in use needs, by its place among them.
fn device_bytes(problem: &Problem, used: usize, slot_of: impl Fn(OpId) -> usize) -> Vec<DeviceBytes> {
    let mut ops = vec![Vec::new(); used];
    for op in problem.graph().operators() {
        ops[slot_of(op)].push(op);
    }
    ops.into_iter().map(|ops| problem.memory().of(ops)).collect()
}
