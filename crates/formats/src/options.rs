//! Import options: everything that a format leaves open and the user has to choose.

use std::collections::BTreeMap;

use stagewright_core::document::Precision;

use super::{Format, Imported};

/// Import options. A format ignores those that it does not use.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ImportOptions {
    /// The format; `None` means detection by content.
    pub format: Option<Format>,
    /// Batch size, if the file leaves it open (ONNX).
    pub batch: Option<u64>,
    /// Sizes of dimensions that the file only names (ONNX).
    pub dims: BTreeMap<String, u64>,
    /// Number of tokens in a key-value cache, if the file leaves it open (ONNX).
    pub context: Option<u64>,
    /// Number of sequences in a key-value cache, if the file leaves it open; `None` means those of the batch (ONNX).
    pub sequences: Option<u64>,
    /// Precision that floating-point numbers are cast to; `None` keeps the file's.
    pub precision: Option<Precision>,
    /// Placement of weights that several operators read.
    pub tied: Tied,
    /// Whether operators share kernels (ONNX, OpenVINO).
    pub fusion: Fusion,
    /// Unit of the file's times. Piper's files do not state one; for other formats this overrides the unit of
    /// the format.
    pub time_unit: Option<TimeUnit>,
    /// Whether to keep the profiled time of input nodes, which measures data loading and not the model
    /// (PipeDream).
    pub keep_input_costs: bool,
    /// Device class of measured times; `None` means `acc` (PipeDream, Piper, CostGraphDef).
    pub profile_class: Option<String>,
    /// Transfer of gradients (PipeDream).
    pub gradients: Gradients,
}

impl ImportOptions {
    /// Device class of measured times.
    pub(super) fn class(&self) -> &str {
        self.profile_class.as_deref().unwrap_or(super::reference::ACCELERATOR)
    }

    /// Applies the options of every format: the placement of weights that several operators read.
    pub fn finish(&self, mut imported: Imported) -> Imported {
        if self.tied == Tied::Together {
            for parameter in &mut imported.graph.parameters {
                parameter.together |= parameter.trained && parameter.readers.len() > 1;
            }
        }
        imported
    }
}

/// Placement of a weight that several operators read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tied {
    /// A copy of the weight on every device that reads it.
    #[default]
    Copy,
    /// The weight on one device, with all its readers.
    Together,
}

/// Whether operators share kernels, by the table in [`fusion`](crate::fusion).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fusion {
    /// Operators share kernels.
    #[default]
    On,
    /// Every operator except views is a kernel of its own.
    Off,
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
    /// Units per second. Division by it is exact if the quotient is representable.
    pub(super) fn per_second(self) -> f64 {
        match self {
            TimeUnit::Seconds => 1.0,
            TimeUnit::Milliseconds => 1e3,
            TimeUnit::Microseconds => 1e6,
            TimeUnit::Nanoseconds => 1e9,
        }
    }
}

/// Transfer of gradients for a profile that lists only forward edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gradients {
    /// Every backward tensor mirrors a forward one: same ends, same bytes. A gradient with contributions from
    /// several readers then crosses a link once, as the activation did. This suits throughput, but loses the
    /// order of the backward pass.
    #[default]
    Mirrored,
    /// Every edge is reversed, with the bytes of the activation whose gradient it carries, and each backward
    /// operator also waits for its forward one: the order of a true backward pass.
    Reversed,
}
