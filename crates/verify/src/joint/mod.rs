//! The check of a joint plan: stages with degrees of parallelism, and a configuration for every layer.
//!
//! The figures of a plan are derived from the cost model of joint plans (`docs/joint.md`): [`layers`] from a Piper
//! file, [`iteration`] from a training graph. [`rules`] has the constraints common to both; [`claims`] checks the
//! figures, the gap, the status and the bound that the plan states. Figures are derived only if the plan names every
//! layer once, in configurations and on devices that exist. The bound of an iteration is proved only if the plan
//! satisfies the constraints.

mod claims;
mod iteration;
mod layers;
mod placed;
mod rules;
mod violation;

pub use iteration::check_joint;
pub use layers::check_joint_layers;
pub use violation::JointViolation;

/// Result of a check of a joint plan. All figures are recomputed.
#[derive(Debug, Clone, PartialEq)]
pub struct JointReport {
    /// The value in seconds; `None` without a plan, or if its figures cannot be derived.
    pub value_s: Option<f64>,
    /// The figures of the stages, in the order of the plan; empty if they cannot be derived.
    pub stages: Vec<JointStageFigures>,
    /// Violations; empty if the plan holds.
    pub violations: Vec<JointViolation>,
    /// Verdict on the claimed bound.
    pub bound: JointVerdict,
}

impl JointReport {
    /// Whether there is no violation.
    pub fn holds(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Recomputed figures of a stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JointStageFigures {
    /// Maximum number of microbatches in flight in a copy.
    pub in_flight: u64,
    /// Seconds per microbatch.
    pub seconds: f64,
    /// Seconds of the forward pass of a microbatch; `None` for a Piper file.
    pub forward_s: Option<f64>,
    /// Seconds of the separate weight gradients of a microbatch; `None` for a Piper file.
    pub weight_s: Option<f64>,
    /// Seconds of an iteration after the last microbatch; `None` for a Piper file.
    pub update_s: Option<f64>,
    /// Bytes in use on a device, by all its stages.
    pub memory_bytes: f64,
    /// Bytes of parameters, gradients and the optimizer in the memory of a device; `None` for a Piper file.
    pub state_bytes: Option<f64>,
    /// Bytes of the optimizer in the host's memory, for one device; `None` if they are on the device.
    pub host_bytes: Option<f64>,
    /// Bytes of the activations of all microbatches in flight; `None` for a Piper file.
    pub activation_bytes: Option<f64>,
}

/// Verdict on the bound of a joint plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum JointVerdict {
    /// The plan claims no bound.
    NoClaim,
    /// A proof shows that no plan of the objective takes less than the bound, up to rounding.
    Verified,
    /// Nothing refutes the bound, and nothing proves it.
    NotVerified,
    /// The bound is above the value of the plan, or not a number.
    Refuted,
}
