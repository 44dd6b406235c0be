//! Violations of a plan, and the list that collects them.

use std::collections::BTreeMap;
use std::fmt;

/// The broken constraint or claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ViolationKind {
    /// An operator is missing, placed twice or unknown; a device is unknown, used twice, or exceeds the count
    /// of its kind.
    Placement,
    /// An operator is on a device that cannot run it.
    Support,
    /// An operator is on a device that its pins don't allow.
    Pins,
    /// A stage has more replicas than there are devices that no pin distinguishes from its own.
    Replicas,
    /// Operators of one colocation group are on several devices.
    Colocation,
    /// A device exceeds its memory even with one microbatch.
    Memory,
    /// One microbatch fits, but not all the microbatches that the schedule keeps in flight.
    InFlightMemory,
    /// Under makespan, a device exceeds its memory at some moment of the step.
    PeakMemory,
    /// The split rule is broken, or the stages do not form an order.
    Order,
    /// Under latency, the calls of an accelerator do not contain each of its operators exactly once, there are too many
    /// calls, or calls and host operators wait for each other in a cycle.
    Calls,
    /// Under makespan, the priority does not name every operator exactly once.
    Priority,
    /// A requirement that the plan states is not met.
    Requirements,
    /// The value differs from the recomputed one.
    Value,
    /// A figure of a device differs from the recomputed one, or a pipeline position before that of the device is
    /// skipped.
    DeviceFigures,
    /// The load of an uplink differs from the recomputed one, or is missing.
    UplinkFigures,
    /// The bound exceeds the value of a plan or the bound that its evidence proves.
    Bound,
    /// The status contradicts the value or the bound.
    Status,
    /// The gap does not match value and bound.
    Gap,
    /// The stated seconds of the solve are not a valid time.
    Seconds,
    /// A claim about the worst case differs from the recomputed worst case.
    Robust,
    /// A figure of the second goal differs from the recomputed one, or the value of the plan is beyond its limit.
    SecondGoal,
}

impl ViolationKind {
    /// Stable name.
    pub fn name(self) -> &'static str {
        match self {
            ViolationKind::Placement => "placement",
            ViolationKind::Support => "support",
            ViolationKind::Pins => "pins",
            ViolationKind::Replicas => "replicas",
            ViolationKind::Colocation => "colocation",
            ViolationKind::Memory => "memory",
            ViolationKind::InFlightMemory => "in-flight-memory",
            ViolationKind::PeakMemory => "peak-memory",
            ViolationKind::Order => "order",
            ViolationKind::Calls => "calls",
            ViolationKind::Priority => "priority",
            ViolationKind::Requirements => "requirements",
            ViolationKind::Value => "value",
            ViolationKind::DeviceFigures => "device-figures",
            ViolationKind::UplinkFigures => "uplink-figures",
            ViolationKind::Bound => "bound",
            ViolationKind::Status => "status",
            ViolationKind::Gap => "gap",
            ViolationKind::Seconds => "seconds",
            ViolationKind::Robust => "robust",
            ViolationKind::SecondGoal => "second-goal",
        }
    }

    /// Whether the placement is infeasible, as opposed to a claim about it being wrong.
    pub fn breaks_feasibility(self) -> bool {
        match self {
            ViolationKind::Placement
            | ViolationKind::Support
            | ViolationKind::Pins
            | ViolationKind::Replicas
            | ViolationKind::Colocation
            | ViolationKind::Memory
            | ViolationKind::InFlightMemory
            | ViolationKind::PeakMemory
            | ViolationKind::Order
            | ViolationKind::Calls
            | ViolationKind::Priority
            | ViolationKind::Requirements => true,
            ViolationKind::Value
            | ViolationKind::DeviceFigures
            | ViolationKind::UplinkFigures
            | ViolationKind::Bound
            | ViolationKind::Status
            | ViolationKind::Gap
            | ViolationKind::Seconds
            | ViolationKind::Robust
            | ViolationKind::SecondGoal => false,
        }
    }
}

impl fmt::Display for ViolationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Subject of a violation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The plan as a whole.
    Plan,
    /// The operator of this name.
    Operator(String),
    /// The tensor of this name or, if it has no name, the tensor made by this operator.
    Tensor(String),
    /// The device of this name.
    Device(String),
    /// The device kind of this name.
    Kind(String),
    /// The device group, or colocation group, of this name.
    Group(String),
}

/// One violation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The broken constraint or claim.
    pub kind: ViolationKind,
    /// Message for display, with names, figures and limits.
    pub message: String,
    /// The subject.
    pub subject: Subject,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)
    }
}

/// Maximum number of violations of one kind with a message; the rest are counted.
const MAX_OF_A_KIND: usize = 100;

/// The violations found so far. A plan for another graph breaks everything, so only the first violations of
/// each kind get a message.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    worded: Vec<Violation>,
    counts: BTreeMap<ViolationKind, usize>,
}

impl Findings {
    /// Adds a violation; `message` is called only if it will be shown.
    pub(crate) fn push(&mut self, kind: ViolationKind, subject: Subject, message: impl FnOnce() -> String) {
        let count = self.counts.entry(kind).or_insert(0);
        *count += 1;
        if *count <= MAX_OF_A_KIND {
            self.worded.push(Violation { kind, message: message(), subject });
        }
    }

    /// Whether no constraint violation has been found so far.
    pub(crate) fn feasible(&self) -> bool {
        !self.counts.keys().any(|kind| kind.breaks_feasibility())
    }

    /// The violations in the order found, and for each truncated kind the number of omitted ones.
    pub(crate) fn finish(mut self) -> Vec<Violation> {
        for (&kind, &count) in &self.counts {
            if count > MAX_OF_A_KIND {
                let message = format!("and {} more", count - MAX_OF_A_KIND);
                self.worded.push(Violation { kind, message, subject: Subject::Plan });
            }
        }
        self.worded
    }
}
