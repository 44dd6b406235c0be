//! The report: recomputed figures, violations, and the verdicts on the bound and on the claims about the worst case.

use crate::violation::Violation;

/// Result of a check.
///
/// All figures are recomputed, never the plan's. They are absent if the plan has no placement, or one that cannot be
/// scored (an operator is missing, or on a device that can't run it).
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The value: the largest load, the iteration time under a schedule, the latency, or the makespan.
    pub value_s: Option<f64>,
    /// Largest forward load, if training is `separate`.
    pub forward_s: Option<f64>,
    /// Largest backward load, if training is `separate`.
    pub backward_s: Option<f64>,
    /// Devices in the order of the plan.
    pub devices: Vec<DeviceFigures>,
    /// Load of every group's uplink, in the order of the cluster; empty for latency, where uplinks play no part.
    pub uplinks: Vec<(String, f64)>,
    /// Violations; empty if the plan holds.
    pub violations: Vec<Violation>,
    /// Verdict on the claimed bound.
    pub bound: BoundVerdict,
    /// Verdicts on the claims about the worst case; empty if the plan makes none.
    pub robust: Vec<RobustVerdict>,
    /// Verdict on the bound of the second goal; `None` if the plan has none.
    pub second_goal: Option<Verdict>,
}

impl Report {
    /// Whether there is no violation.
    pub fn holds(&self) -> bool {
        self.violations.is_empty()
    }

    /// Whether the placement breaks no constraint, whatever the plan claims of it.
    pub fn is_feasible(&self) -> bool {
        !self.violations.iter().any(|violation| violation.kind.breaks_feasibility())
    }
}

/// The recomputed figures of one device.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceFigures {
    /// Name of the device, or of the first device of a replicated stage.
    pub name: String,
    /// Kind of the device.
    pub kind: String,
    /// Stage in the plan.
    pub stage: Option<u32>,
    /// Number of devices that run the stage.
    pub replicas: u32,
    /// Load of each replica; forward plus backward if training is `separate`. For latency and makespan, compute plus
    /// communication.
    pub load_s: f64,
    /// Seconds of compute, before division among replicas.
    pub compute_s: f64,
    /// Seconds of communication, before division among replicas and without their synchronisation. For latency, the
    /// inputs and outputs of all calls; for makespan, everything that the device's link carries, or zero without
    /// contention.
    pub communication_s: f64,
    /// Bytes in use, with the microbatches in flight; with one microbatch if the schedule needs stages that the plan
    /// does not give. For makespan, the peak.
    pub memory_bytes: f64,
    /// Usable bytes; `None` means unlimited.
    pub memory_limit: Option<f64>,
}

/// The verdict on a claim about the worst case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RobustVerdict {
    /// The claim.
    pub claim: RobustClaim,
    /// The verdict.
    pub verdict: Verdict,
}

/// A claim about the worst case, in which some costs are off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RobustClaim {
    /// The worst value of the plan, and the scenario in which it occurs.
    WorstCase,
    /// The bound on the worst value of every plan, and the gap.
    WorstCaseBound,
    /// The value of the nominally best plan, and its worst value.
    NominalWorstCase,
}

impl RobustClaim {
    /// Stable name.
    pub fn name(self) -> &'static str {
        match self {
            RobustClaim::WorstCase => "worst-case",
            RobustClaim::WorstCaseBound => "worst-case-bound",
            RobustClaim::NominalWorstCase => "nominal-worst-case",
        }
    }
}

/// Verdict on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The recomputed figures prove the claim.
    Verified,
    /// Nothing refutes the claim, and the plan has no evidence for it.
    NotVerified,
    /// A violation states the fault of the claim.
    Refuted,
}

impl Verdict {
    /// Stable name, the same as for a verdict on a bound.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Verified => "verified",
            Verdict::NotVerified => "not-verified",
            Verdict::Refuted => "refuted",
        }
    }
}

/// Evidence that a bound was compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BoundEvidence {
    /// The recomputed value of the plan, which is feasible.
    Value,
    /// The prices of a fluid relaxation.
    Fluid,
    /// The heaviest colocation class.
    HeaviestUnit,
    /// Windows into which a path cuts the step.
    Windows,
    /// Prices at which the devices cannot hold all classes.
    ColumnGeneration,
    /// The longest path of the graph, each operator on its fastest kind.
    CriticalPath,
}

impl BoundEvidence {
    /// Stable name.
    pub fn name(self) -> &'static str {
        match self {
            BoundEvidence::Value => "value",
            BoundEvidence::Fluid => "fluid",
            BoundEvidence::HeaviestUnit => "heaviest-unit",
            BoundEvidence::Windows => "windows",
            BoundEvidence::ColumnGeneration => "column-generation",
            BoundEvidence::CriticalPath => "critical-path",
        }
    }
}

/// Verdict on the claimed bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BoundVerdict {
    /// The plan claims no bound.
    NoClaim,
    /// Nothing refutes the bound, and the checker can replay no evidence for it.
    NotVerified,
    /// The evidence of the bound proves it.
    Verified {
        /// The evidence.
        by: BoundEvidence,
        /// The bound that the evidence proves, at least the claimed one.
        proved_s: f64,
    },
    /// The bound exceeds the value of the plan, or the bound that its evidence proves.
    Refuted {
        /// The refuting evidence.
        by: BoundEvidence,
        /// Maximum that the bound could be; `None` if the claim or the certificate is malformed.
        limit_s: Option<f64>,
    },
}
