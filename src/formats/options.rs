//! What a format leaves open, and a person has to say.

use super::Format;

/// How to read a model. What a format has no use for is passed over.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ImportOptions {
    /// The format; recognised by content where it is none.
    pub format: Option<Format>,
    /// The size of a batch that the file leaves open (ONNX).
    pub batch: Option<u64>,
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
