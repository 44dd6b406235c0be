//! Errors of models and clusters that cannot have a joint plan.

use stagewright_core::code::Code;
use thiserror::Error;

use crate::code::J::*;

/// A graph, a cluster or a request that cannot have a joint plan.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A name that repeats or does not exist.
    #[error("the operator `{name}` is missing, or there are two of that name")]
    Name {
        /// The name.
        name: String,
    },
    /// A cycle of the forward pass.
    #[error("the forward pass has a cycle through `{name}`")]
    Cycle {
        /// An operator on the cycle.
        name: String,
    },
    /// An inference graph.
    #[error("the graph has no backward pass")]
    NoBackward,
    /// A tensor that contradicts the order of the layers.
    #[error("the layer `{from}` reads from the later layer `{to}`")]
    Order {
        /// The reader.
        from: String,
        /// The later layer.
        to: String,
    },
    /// A device kind without a figure.
    #[error("the kind `{kind}` has no {what}")]
    Kind {
        /// The kind.
        kind: String,
        /// The missing figure.
        what: &'static str,
    },
    /// An operator without costs on a kind.
    #[error("the operator `{name}` has no time on `{class}`")]
    Unpriced {
        /// The operator.
        name: String,
        /// The class.
        class: String,
    },
    /// No kinds of devices other than hosts, or too many.
    #[error("the cluster has {found} kinds of devices that are not hosts, but 1 to {most} are supported")]
    Kinds {
        /// Number of kinds of devices other than hosts.
        found: usize,
        /// The largest supported number.
        most: usize,
    },
    /// Stages with devices of two kinds, on a cluster without two kinds other than hosts.
    #[error("mixed needs two kinds of devices that are not hosts, and the cluster has {found}")]
    Mixed {
        /// Number of kinds of devices other than hosts.
        found: usize,
    },
    /// Too many combinations of degrees.
    #[error("there are at least {found} combinations of degrees, more than {most}")]
    Combinations {
        /// Number of combinations.
        found: usize,
        /// The largest supported number.
        most: usize,
    },
    /// Too many layers.
    #[error("the model has {found} layers, more than {most}")]
    Layers {
        /// Number of layers of the model.
        found: usize,
        /// The largest supported number.
        most: usize,
    },
    /// A batch that cannot be divided.
    #[error("{what} is {found}, but must be {range}")]
    Range {
        /// The option.
        what: &'static str,
        /// Value of the option.
        found: u64,
        /// Allowed range.
        range: &'static str,
    },
    /// A cut that does not fit the model, or the other degrees.
    #[error("{0}")]
    Cut(CutFault),
    /// A constant of the runtime that is out of range.
    #[error("the constant `{name}` of the runtime is {value}, but must be {range}")]
    Runtime {
        /// Name of the constant.
        name: &'static str,
        /// Value of the constant.
        value: f64,
        /// Allowed range.
        range: &'static str,
    },
    /// A missing schedule, or one that joint plans do not support.
    #[error(
        "the schedules of a joint plan are 1f1b, interleaved, zero-bubble, zero-bubble-2p and dualpipe-v, and at least one is \
         needed"
    )]
    Schedules,
}

impl ModelError {
    /// Stable code; `data/errors.md` explains it.
    pub fn code(&self) -> Code {
        match self {
            ModelError::Name { .. } | ModelError::Cycle { .. } | ModelError::Order { .. } => J006,
            ModelError::NoBackward => J007,
            ModelError::Kind { .. } | ModelError::Unpriced { .. } => J008,
            ModelError::Kinds { .. }
            | ModelError::Mixed { .. }
            | ModelError::Layers { .. }
            | ModelError::Combinations { .. } => J009,
            ModelError::Range { .. } | ModelError::Cut(_) | ModelError::Schedules => J010,
            ModelError::Runtime { .. } => J011,
        }
        .into()
    }

    /// Advice for the user.
    pub fn help(&self) -> &'static str {
        match self {
            ModelError::NoBackward => {
                "give a training step: a native graph with a backward pass, as `--phase training` draws of a language model, and `workload … --training` of others"
            }
            ModelError::Name { .. } | ModelError::Cycle { .. } => "correct the graph",
            ModelError::Order { .. } => {
                "a stage is a range of layers: give the operators of a cycle one layer"
            }
            ModelError::Kind { .. } => "add it to the cluster",
            ModelError::Unpriced { .. } => "give the operator flop and bytes, or seconds for the class",
            ModelError::Kinds { .. } => "give a cluster of one to four kinds",
            ModelError::Mixed { .. } => "leave mixed out, or give a cluster of two kinds",
            ModelError::Combinations { .. } => "give degrees, such as tp=8 and zero=1, or --microbatch",
            ModelError::Layers { .. } => "give operators layers, so that they are planned together",
            ModelError::Range { .. } | ModelError::Runtime { .. } => "correct the number",
            ModelError::Cut(CutFault::Stages { .. }) => {
                "give as many stages as pp has devices, times the chunks of each under interleaved and dualpipe-v"
            }
            ModelError::Cut(_) => "give the number of layers of every stage that end in a number",
            ModelError::Schedules => "give one or more of these",
        }
    }
}

/// Why a cut into stages is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CutFault {
    /// Numbers of layers that do not add up to those of the model.
    #[error("the cut has {found} layers that end in a number, and the model has {layers}")]
    Layers {
        /// Sum over the stages.
        found: u64,
        /// Number of such layers of the model.
        layers: usize,
    },
    /// A stage without layers.
    #[error("stage {stage} of the cut has no layers")]
    Stage {
        /// Index of the stage.
        stage: usize,
    },
    /// A number of stages that no plan can have.
    #[error("the cut has {stages} stages, which no plan with these schedules, pp and chunks has")]
    Stages {
        /// Number of stages of the cut.
        stages: u64,
    },
}
