//! Values that options may take.

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use stagewright::core::document::Precision;

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum FrameworkArgument {
    Torch,
}

/// Reads a precision by its name.
pub(crate) fn precision() -> impl TypedValueParser<Value = Precision> {
    PossibleValuesParser::new(Precision::ALL.map(Precision::name))
        .try_map(|name| Precision::named(&name).ok_or("no precision has that name"))
}

#[derive(Debug, Clone, Copy, ValueEnum, PartialEq, Eq)]
pub(crate) enum TiedArgument {
    Copy,
    Together,
}

#[derive(Debug, Clone, Copy, ValueEnum, PartialEq, Eq)]
pub(crate) enum SwitchArgument {
    On,
    Off,
}

#[derive(Debug, Clone, Copy, ValueEnum, PartialEq, Eq)]
pub(crate) enum CostRulesArgument {
    #[value(name = "1")]
    One,
    #[value(name = "2")]
    Two,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum TimeUnitArgument {
    S,
    Ms,
    Us,
    Ns,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum GradientsArgument {
    /// Like the activations, as in the NeurIPS 2020 package
    Mirrored,
    /// From each reader back along its edge, in the order of a true backward pass
    Reversed,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum KindArgument {
    Throughput,
    Latency,
    Makespan,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum SplitArgument {
    Contiguous,
    Convex,
    Free,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum CommunicationArgument {
    Serial,
    Overlap,
    Duplex,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum TrainingArgument {
    Combined,
    Separate,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ExecutionArgument {
    Ports,
    ContentionFree,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ScheduleArgument {
    None,
    #[value(name = "gpipe")]
    GPipe,
    #[value(name = "1f1b")]
    OneFOneB,
    Interleaved,
    ZeroBubble,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum OptimizerArgument {
    Sgd,
    Momentum,
    Adam,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum GranularityArgument {
    Operator,
    Layer,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum PrecisionArgument {
    Fp32,
    Fp16,
    Bf16,
    Fp8,
}
