//! Values that an option chooses by name.

use super::OptimizationLevel;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use stagewright::core::document::{Schedule, TransferKind};
use stagewright::workloads::{self, Granularity, Optimizer};

/// Declares parsers of values by name.
macro_rules! values {
    ($($option:ident: $type:ty = $($name:literal => $value:expr),+;)+) => {$(
        pub(crate) fn $option() -> impl TypedValueParser<Value = $type> {
            one_of([$(($name, "", $value)),+])
        }
    )+};
}

values! {
    schedule: Schedule = "none" => Schedule::None, "gpipe" => Schedule::GPipe, "1f1b" => Schedule::OneFOneB,
        "interleaved" => Schedule::Interleaved, "zero-bubble" => Schedule::ZeroBubble,
        "zero-bubble-2p" => Schedule::ZeroBubbleTwice, "dualpipe-v" => Schedule::DualPipeV;
    optimization: OptimizationLevel = "none" => OptimizationLevel::None, "basic" => OptimizationLevel::Basic,
        "extended" => OptimizationLevel::Extended;
    transfer: TransferKind = "send" => TransferKind::Send, "all-reduce" => TransferKind::AllReduce,
        "all-gather" => TransferKind::AllGather, "reduce-scatter" => TransferKind::ReduceScatter,
        "all-to-all" => TransferKind::AllToAll, "broadcast" => TransferKind::Broadcast;
    exporter: &'static str = "torch" => stagewright::formats::torch::EXPORTER,
        "kernels" => stagewright::formats::torch::KERNELS;
}

pub(crate) fn optimizer() -> impl TypedValueParser<Value = Optimizer> {
    one_of(Optimizer::ALL.map(|optimizer| (optimizer.name(), "", optimizer)))
}

pub(crate) fn granularity() -> impl TypedValueParser<Value = Granularity> {
    one_of(Granularity::ALL.map(|granularity| (granularity.name(), "", granularity)))
}

pub(crate) fn workload_precision() -> impl TypedValueParser<Value = workloads::Precision> {
    one_of(workloads::Precision::ALL.map(|precision| (precision.name(), "", precision)))
}

/// A choice among values, each with a name and a help text.
fn one_of<T, const N: usize>(values: [(&'static str, &'static str, T); N]) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let names = values.map(|(name, help, _)| match help {
        "" => PossibleValue::new(name),
        help => PossibleValue::new(name).help(help),
    });
    PossibleValuesParser::new(names).try_map(move |chosen| {
        values.iter().find(|(name, ..)| *name == chosen).map(|&(.., value)| value).ok_or("unknown value")
    })
}
