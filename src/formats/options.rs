//! What a format leaves open, and a person has to say.

use std::collections::BTreeMap;

use stagewright_core::document::Precision;

use super::{Format, Imported};

/// How to read a model. What a format has no use for is passed over.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ImportOptions {
    /// The format; recognised by content where it is none.
    pub format: Option<Format>,
    /// The size of a batch that the file leaves open (ONNX).
    pub batch: Option<u64>,
    /// Sizes of dimensions that the file only names (ONNX).
    pub dims: BTreeMap<String, u64>,
    /// Tokens that a cache of keys and values holds, where the file leaves that open (ONNX).
    pub context: Option<u64>,
    /// Sequences that have such a cache; those of the batch where it is none (ONNX).
    pub sequences: Option<u64>,
    /// What numbers with a fraction are cast to; as they are in the file where it is none.
    pub precision: Option<Precision>,
    /// Where weights are that several operators read.
    pub tied: Tied,
    /// Whether operators share kernels (ONNX, OpenVINO).
    pub fusion: Fusion,
    /// How operators are priced, where the file has no times (ONNX, OpenVINO).
    pub cost_rules: CostRules,
    /// The unit of the file's times. Piper's files do not say; other formats have a unit of their own, which
    /// this overrides.
    pub time_unit: Option<TimeUnit>,
    /// Keeps the profiled time of input nodes, which is that of loading data and not of the model
    /// (PipeDream).
    pub keep_input_costs: bool,
    /// The device class that measured times are for; `acc` where it is none (PipeDream, Piper, CostGraphDef).
    pub profile_class: Option<String>,
    /// How gradients are sent (PipeDream).
    pub gradients: Gradients,
}

impl ImportOptions {
    /// The device class of measured times.
    pub(super) fn class(&self) -> &str {
        self.profile_class.as_deref().unwrap_or(super::reference::ACCELERATOR)
    }

    /// What holds of any format: where weights are that several operators read.
    pub(super) fn finish(&self, mut imported: Imported) -> Imported {
        if self.tied == Tied::Together {
            for parameter in &mut imported.graph.parameters {
                parameter.together |= parameter.trained && parameter.readers.len() > 1;
            }
        }
        imported
    }
}

/// Where a weight is that several operators read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tied {
    /// On every device that reads it.
    #[default]
    Copy,
    /// On one device, with all that read it.
    Together,
}

/// Whether operators share kernels, by the table in [`fusion`](crate::fusion).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fusion {
    /// They do.
    #[default]
    On,
    /// Every operator is a kernel of its own, but for views.
    Off,
}

/// How operators are priced, and with that the version of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CostRules {
    /// Every operator is a kernel, constants belong to their readers: `stagewright.graph/1`.
    One,
    /// Views are free, kernels fused, parameters shared: `stagewright.graph/2`.
    #[default]
    Two,
}

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
}

impl TimeUnit {
    /// How many make a second. Dividing by it is exact to the last bit where the quotient is.
    pub(super) fn per_second(self) -> f64 {
        match self {
            TimeUnit::Seconds => 1.0,
            TimeUnit::Milliseconds => 1e3,
            TimeUnit::Microseconds => 1e6,
            TimeUnit::Nanoseconds => 1e9,
        }
    }
}

/// How the gradients of a profile that lists forward edges alone are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gradients {
    /// Every backward tensor is the mirror image of a forward one: same ends, same bytes. A gradient that
    /// several readers add to then crosses a link once, as the activation did. Throughput reads it so; the
    /// order of the backward pass is lost.
    #[default]
    Mirrored,
    /// Every edge is turned around, with the bytes of the activation that the gradient is of, and each
    /// backward operator also waits for its forward one: the order of a true backward pass.
    Reversed,
}
