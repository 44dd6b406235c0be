//! Errors of exporting a joint plan to a runtime.

use stagewright_core::code::Code;
use thiserror::Error;

use stagewright_report::units::name as shown;

use crate::code::E::*;
use crate::error::{MICROBATCHES, SCHEDULE};

/// Reason why a joint plan cannot be exported to a runtime.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum JointError {
    /// The plan is for the time per sample, and its stages have individual degrees.
    #[error(
        "the plan is for the time per sample, where every stage has degrees of its own, and runtimes take one for an iteration"
    )]
    PerSample,
    /// Numbers of the plan disagree.
    #[error("the plan contradicts itself: {why}")]
    Inconsistent {
        /// The disagreement.
        why: String,
        /// Path in the plan.
        at: String,
    },
    /// A stage has a different degree from the first.
    #[error(
        "stage {stage} has {what} parallelism {found} and stage 1 has {first}, but {runtime} has one degree for all stages"
    )]
    Degrees {
        /// The runtime.
        runtime: &'static str,
        /// Kind of the parallelism.
        what: &'static str,
        /// The stage, counted from 1.
        stage: usize,
        /// Degree of the stage.
        found: u32,
        /// The degree of the first stage.
        first: u32,
        /// Path in the plan.
        at: String,
    },
    /// The runtime cannot divide these states over copies.
    #[error("the plan divides states as ZeRO {zero} over {copies} copies, but {rule}")]
    Sharding {
        /// The stage of ZeRO.
        zero: u32,
        /// Number of copies.
        copies: u64,
        /// The runtime's rule.
        rule: &'static str,
        /// A hint for fixing the error.
        help: &'static str,
    },
    /// The runtime cannot divide states over groups of copies.
    #[error("groups of {shards} of {copies} copies divide states, but {rule}")]
    Groups {
        /// Copies of a group.
        shards: u32,
        /// Number of copies.
        copies: u64,
        /// The runtime's rule.
        rule: &'static str,
        /// A hint for fixing the error.
        help: &'static str,
    },
    /// The runtime cannot divide the tokens of a sample like this.
    #[error("the plan has context parallelism {context} by {exchange}, but {rule}")]
    Context {
        /// The degree.
        context: u32,
        /// Name of the exchange of tokens.
        exchange: &'static str,
        /// The runtime's rule.
        rule: &'static str,
        /// A hint for fixing the error.
        help: &'static str,
    },
    /// The runtime cannot keep states of the optimizer, and nothing else, on the host.
    #[error("the plan keeps states of the optimizer in the host's memory, but {rule}")]
    Offload {
        /// The runtime's rule.
        rule: &'static str,
        /// A hint for fixing the error.
        help: &'static str,
    },
    /// The runtime cannot recompute exactly these layers, or cannot keep on the host what they keep there.
    #[error("`{}` of stage {stage} has the configuration `{found}`, but {rule}", shown(.layer))]
    Recomputation {
        /// The layer.
        layer: String,
        /// Stage of the layer, counted from 1.
        stage: usize,
        /// Configuration of the layer.
        found: &'static str,
        /// The runtime's rule.
        rule: String,
        /// A hint for fixing the error.
        help: &'static str,
        /// Path in the plan.
        at: String,
    },
    /// The runtime takes no pipeline in this notation.
    #[error("the plan has {stages} stages, but {rule}")]
    Stages {
        /// Number of stages.
        stages: usize,
        /// The runtime's rule.
        rule: &'static str,
        /// A hint for fixing the error.
        help: &'static str,
    },
    /// The runtime cannot divide experts by this degree.
    #[error("the plan has expert parallelism {expert}, but {rule}")]
    Experts {
        /// The degree.
        expert: u32,
        /// The runtime's rule.
        rule: &'static str,
        /// A hint for fixing the error.
        help: &'static str,
    },
    /// The runtime does not have the schedule.
    #[error("the plan has the schedule {schedule}, but {rule}")]
    Schedule {
        /// Name of the schedule.
        schedule: &'static str,
        /// The runtime's rule.
        rule: &'static str,
        /// A hint for fixing the error.
        help: &'static str,
    },
    /// The schedule of the runtime needs a different number of microbatches.
    #[error("the plan has {microbatches} microbatches in {stages} stages, but {rule}")]
    Microbatches {
        /// Microbatches of an iteration.
        microbatches: u32,
        /// Number of stages.
        stages: usize,
        /// The runtime's rule.
        rule: &'static str,
        /// A hint for fixing the error.
        help: &'static str,
    },
}

impl JointError {
    /// Stable error code.
    pub fn code(&self) -> Code {
        match self {
            JointError::PerSample => E022,
            JointError::Degrees { .. } => E023,
            JointError::Sharding { .. } | JointError::Groups { .. } => E024,
            JointError::Context { .. } => E033,
            JointError::Offload { .. } => E034,
            JointError::Recomputation { .. } => E025,
            JointError::Stages { .. } => E026,
            JointError::Experts { .. } => E027,
            JointError::Microbatches { .. } => MICROBATCHES,
            JointError::Inconsistent { .. } => E029,
            JointError::Schedule { .. } => SCHEDULE,
        }
        .into()
    }

    /// Path of the offending entry of the plan.
    pub fn place(&self) -> Option<&str> {
        match self {
            JointError::PerSample => Some("objective.kind"),
            JointError::Inconsistent { at, .. }
            | JointError::Degrees { at, .. }
            | JointError::Recomputation { at, .. } => Some(at),
            JointError::Sharding { .. } => Some("execution.zero"),
            JointError::Groups { .. } => Some("execution.shards"),
            JointError::Context { .. } => Some("execution.context"),
            JointError::Offload { .. } => Some("execution.offload"),
            JointError::Stages { .. } => Some("stages"),
            JointError::Experts { .. } => Some("execution.expert"),
            JointError::Microbatches { .. } => Some("execution.microbatches"),
            JointError::Schedule { .. } => Some("execution.schedule"),
        }
    }

    /// A hint for fixing the error.
    pub fn help(&self) -> &'static str {
        match self {
            JointError::PerSample => "plan a training graph, which is planned for the time of an iteration",
            JointError::Inconsistent { .. } => "give the document as `plan --out` wrote it",
            JointError::Degrees { .. } => {
                "plan with one given degree for all stages, and on devices of one kind"
            }
            JointError::Sharding { help, .. }
            | JointError::Groups { help, .. }
            | JointError::Context { help, .. }
            | JointError::Offload { help, .. }
            | JointError::Recomputation { help, .. }
            | JointError::Stages { help, .. }
            | JointError::Experts { help, .. }
            | JointError::Schedule { help, .. }
            | JointError::Microbatches { help, .. } => help,
        }
    }
}
