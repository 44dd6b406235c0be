//! Possible faults of a joint plan.

use std::fmt;

use stagewright_core::units::{bytes_apart, seconds, seconds_apart};

/// A constraint or a claim of a joint plan that does not hold. Stages are counted from 0.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum JointViolation {
    /// The list of stages is not a plan.
    Stages {
        /// The fault.
        why: String,
    },
    /// A layer that is missing from the plan, named more than once, or nonexistent.
    Layer {
        /// The layer.
        layer: String,
        /// The fault.
        why: &'static str,
    },
    /// An operator that the plan does not run.
    Operator {
        /// The operator.
        operator: String,
        /// Why the plan does not run the operator.
        why: String,
    },
    /// A configuration that does not exist or is not allowed.
    Configuration {
        /// The layer.
        layer: String,
        /// Configuration of the layer.
        configuration: String,
        /// The fault.
        why: &'static str,
    },
    /// A tensor that goes against the order of the stages.
    Order {
        /// Layer or operator that produces the tensor.
        from: String,
        /// Layer or operator that reads the tensor.
        to: String,
    },
    /// A degree of parallelism, or a number of samples or microbatches, that is not allowed.
    Degree {
        /// The stage; `None` if the degree or number is the same in all stages.
        stage: Option<usize>,
        /// Name of the degree or number in the document.
        name: &'static str,
        /// The degree or number.
        found: u64,
        /// Requirement on the degree or number.
        needs: String,
    },
    /// A schedule that is not allowed.
    Schedule {
        /// Name of the schedule.
        found: &'static str,
        /// Requirement on the schedule.
        needs: String,
    },
    /// An exchange of tokens that is missing, or that there is no need for.
    Exchange {
        /// Name of the exchange; `None` if the plan names none.
        found: Option<&'static str>,
        /// Requirement on the exchange.
        needs: &'static str,
    },
    /// A stage on a kind of devices that does not exist.
    Kind {
        /// The stage.
        stage: usize,
        /// The kind; `None` if the plan names none.
        kind: Option<String>,
    },
    /// More devices than the cluster has.
    Devices {
        /// Kind of the devices; `None` if there is one kind.
        kind: Option<String>,
        /// Number of devices that the plan uses.
        used: u64,
        /// Number of devices.
        count: u64,
    },
    /// More bytes than a plan may use on a device.
    Memory {
        /// The stage.
        stage: usize,
        /// Bytes in use.
        bytes: f64,
        /// Bytes that a plan may use.
        limit: f64,
    },
    /// A stage with states or activations on the host, on a kind of devices that states no memory of a host (`ram`).
    Ram {
        /// The stage.
        stage: usize,
        /// The kind.
        kind: String,
    },
    /// More bytes than a host has for one device.
    HostMemory {
        /// The first stage of the device.
        stage: usize,
        /// Bytes in use, by all stages of the device.
        bytes: f64,
        /// Bytes of the host's memory for one device.
        limit: f64,
    },
    /// A figure that the plan states, but that differs from the recomputed one.
    Figure {
        /// The stage; `None` for a figure of the plan.
        stage: Option<usize>,
        /// Name of the figure in the document.
        name: &'static str,
        /// The stated figure, for display.
        stated: String,
        /// The recomputed figure, for display.
        found: String,
    },
    /// A bound above the value of the plan, or one that is not a number.
    Bound {
        /// The bound in seconds.
        stated: f64,
        /// Maximum that the bound could be; `None` if the bound is not a number.
        most: Option<f64>,
    },
    /// A status that the rest of the plan contradicts.
    Status {
        /// The contradiction.
        why: &'static str,
    },
    /// An unknown name.
    Name {
        /// Meaning of the name, for display.
        field: &'static str,
        /// The name.
        found: String,
    },
}

impl JointViolation {
    /// Whether the plan itself cannot run, apart from what it states about itself.
    pub fn breaks_feasibility(&self) -> bool {
        !matches!(
            self,
            JointViolation::Figure { .. }
                | JointViolation::Bound { .. }
                | JointViolation::Status { .. }
                | JointViolation::Name { .. }
        )
    }

    /// Stable name.
    pub fn kind(&self) -> &'static str {
        match self {
            JointViolation::Stages { .. } => "stages",
            JointViolation::Layer { .. } => "layer",
            JointViolation::Operator { .. } => "operator",
            JointViolation::Configuration { .. } => "configuration",
            JointViolation::Order { .. } => "order",
            JointViolation::Degree { .. } => "degree",
            JointViolation::Schedule { .. } => "schedule",
            JointViolation::Exchange { .. } => "exchange",
            JointViolation::Kind { .. } => "kind",
            JointViolation::Devices { .. } => "devices",
            JointViolation::Memory { .. } => "memory",
            JointViolation::Ram { .. } => "ram",
            JointViolation::HostMemory { .. } => "host-memory",
            JointViolation::Figure { .. } => "figure",
            JointViolation::Bound { .. } => "bound",
            JointViolation::Status { .. } => "status",
            JointViolation::Name { .. } => "name",
        }
    }
}

impl fmt::Display for JointViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JointViolation::Stages { why } => f.write_str(why),
            JointViolation::Layer { layer, why } => write!(f, "layer {layer:?} {why}"),
            JointViolation::Operator { operator, why } => write!(f, "operator {operator:?} {why}"),
            JointViolation::Configuration { layer, configuration, why } => {
                write!(f, "configuration {configuration:?} of layer {layer:?} {why}")
            }
            JointViolation::Order { from, to } => {
                write!(f, "{to:?} reads a tensor of {from:?} against the order of their stages")
            }
            JointViolation::Degree { stage, name, found, needs } => {
                write!(f, "{name}{} is {found}, but must be {needs}", of_stage(*stage))
            }
            JointViolation::Schedule { found, needs } => {
                write!(f, "the schedule is {found}, but must be {needs}")
            }
            JointViolation::Exchange { found, needs } => {
                write!(f, "the exchange of tokens is {}, but must be {needs}", found.unwrap_or("absent"))
            }
            JointViolation::Kind { stage, kind: Some(kind) } => {
                write!(f, "stage {stage} is on kind {kind:?}, which the cluster lacks")
            }
            JointViolation::Kind { stage, kind: None } => write!(f, "stage {stage} names no kind of devices"),
            JointViolation::Devices { kind: Some(kind), used, count } => {
                write!(f, "the plan uses {used} devices of kind {kind:?}, but there are {count}")
            }
            JointViolation::Devices { kind: None, used, count } => {
                write!(f, "the plan uses {used} devices, but there are {count}")
            }
            JointViolation::Memory { stage, bytes, limit } => {
                let [needed, limit] = bytes_apart(*bytes, *limit);
                write!(f, "a device of stage {stage} needs {needed} and has {limit}")
            }
            JointViolation::Ram { stage, kind } => {
                write!(
                    f,
                    "stage {stage} has states or activations on the host, but kind {kind:?} states no ram"
                )
            }
            JointViolation::HostMemory { stage, bytes, limit } => {
                let [needed, limit] = bytes_apart(*bytes, *limit);
                write!(f, "a device of stage {stage} needs {needed} of its host's memory and has {limit}")
            }
            JointViolation::Figure { stage, name, stated, found } => {
                write!(f, "the plan states {name} {stated}{}, but it is {found}", of_stage(*stage))
            }
            JointViolation::Bound { stated, most: Some(limit) } => {
                let [bound, taken] = seconds_apart(*stated, *limit);
                write!(f, "the bound is {bound}, but the plan itself takes {taken}")
            }
            JointViolation::Bound { stated, most: None } => write!(f, "the bound is {}", seconds(*stated)),
            JointViolation::Status { why } => f.write_str(why),
            JointViolation::Name { field, found } => write!(f, "{field} is `{found}`, which does not exist"),
        }
    }
}

/// The stage that a message is about.
fn of_stage(stage: Option<usize>) -> String {
    stage.map_or_else(String::new, |stage| format!(" of stage {stage}"))
}
