//! The answer: recomputed figures, violations and the verdict on the bound.

use crate::violation::Violation;

/// What the checker found.
///
/// The figures are those of the checker, never the plan's. They are absent where the plan has no placement or
/// one they can't be computed of (an operator missing, or on a device that can't run it).
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The value: the largest load, the iteration time under a schedule, the last ready time, or the makespan.
    pub value_s: Option<f64>,
    /// The largest forward load, where training is `separate`.
    pub forward_s: Option<f64>,
    /// The largest backward load, where training is `separate`.
    pub backward_s: Option<f64>,
    /// The devices in the order of the plan.
    pub devices: Vec<DeviceFigures>,
    /// Every group of the cluster with the load of its uplink, in the order of the cluster; none for latency,
    /// where uplinks play no part.
    pub uplinks: Vec<(String, f64)>,
    /// What is wrong; empty where the plan is what it says.
    pub violations: Vec<Violation>,
    /// What can be said of the claimed bound.
    pub bound: BoundVerdict,
}

impl Report {
    /// Whether the plan is what it says, as far as can be checked: there is no violation.
    pub fn holds(&self) -> bool {
        self.violations.is_empty()
    }
}

/// The recomputed figures of one device.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceFigures {
    /// Name of the device; of the first one where the stage is replicated.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// The place in the pipeline that the plan gives it.
    pub stage: Option<u32>,
    /// Devices that run the stage.
    pub replicas: u32,
    /// The load of each replica; forward plus backward where training is `separate`. For latency and
    /// makespan, compute plus communication.
    pub load_s: f64,
    /// Seconds of compute, before division among replicas.
    pub compute_s: f64,
    /// Seconds of communication, before division among replicas and without their synchronisation. For
    /// latency, of all that the calls bring in and send out; for makespan, of all that its link carries, and
    /// without contention none.
    pub communication_s: f64,
    /// Bytes in use, with the microbatches in flight; with one microbatch where the schedule needs stages
    /// that the plan does not give. For makespan, the most at any moment.
    pub memory_bytes: f64,
    /// Bytes it has; none where unlimited.
    pub memory_limit: Option<f64>,
}

/// What a bound was compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BoundEvidence {
    /// The recomputed value of the plan itself, a feasible one.
    Value,
    /// The prices of a fluid relaxation.
    Fluid,
    /// The heaviest colocation class.
    HeaviestUnit,
    /// Prices at which the devices cannot hold everything.
    ColumnGeneration,
    /// The longest path of the graph, each operator at its fastest.
    CriticalPath,
}

impl BoundEvidence {
    /// A stable name, for programs.
    pub fn name(self) -> &'static str {
        match self {
            BoundEvidence::Value => "value",
            BoundEvidence::Fluid => "fluid",
            BoundEvidence::HeaviestUnit => "heaviest-unit",
            BoundEvidence::ColumnGeneration => "column-generation",
            BoundEvidence::CriticalPath => "critical-path",
        }
    }
}

/// What can be said of the claimed bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BoundVerdict {
    /// The plan claims none.
    NoClaim,
    /// Nothing speaks against it, and nothing the checker can replay for it.
    NotVerified,
    /// Its evidence proves it.
    Verified {
        /// What proves it.
        by: BoundEvidence,
        /// The bound that this proves, at least the claimed one.
        proved_s: f64,
    },
    /// It is above the value of the plan, or above what its evidence proves.
    Refuted {
        /// What speaks against it.
        by: BoundEvidence,
        /// The most that it could be; none where the claim or the certificate is malformed.
        limit_s: Option<f64>,
    },
}
