//! Arguments of `costs`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use stagewright::core::document::TransferKind;

use super::AroundArguments;
use super::values::transfer;

#[derive(Debug, Args)]
pub(crate) struct CostsArguments {
    #[command(subcommand)]
    pub(crate) command: CostsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CostsCommand {
    /// Read measurements of other programs, and write them as one file
    Import(ImportCostsArguments),
    /// Show what was measured, and how good interpolation is on what was not
    Show(ShowCostsArguments),
    /// Write measured seconds into a model
    Apply(ApplyCostsArguments),
}

#[derive(Debug, Args)]
pub(crate) struct ImportCostsArguments {
    /// Measurements: the folder of the Python package aiconfigurator_core, a profile of ONNX Runtime, a trace of PyTorch's
    /// profiler, a Chakra trace, the output of nccl-tests, or a file that this command wrote
    #[arg(value_name = "SOURCE", required = true)]
    pub(crate) sources: Vec<PathBuf>,
    /// Device class of the measurements [default: that of the source]
    #[arg(long, value_name = "NAME")]
    pub(crate) class: Option<String>,
    /// Systems of aiconfigurator_core to read, as in h100_sxm; repeat for several [default: all]
    #[arg(long = "system", value_name = "NAME")]
    pub(crate) systems: Vec<String>,
    /// Framework of aiconfigurator_core whose kernels are read: vllm, sglang or trtllm [default: the first with all products]
    #[arg(long, value_name = "NAME")]
    pub(crate) framework: Option<String>,
    /// Transfer that nccl-tests measured, if its output does not say
    #[arg(long, value_name = "NAME", value_parser = transfer())]
    pub(crate) transfer: Option<TransferKind>,
    /// Devices of a collective, if the source does not say
    #[arg(long, value_name = "N")]
    pub(crate) devices: Option<u32>,
    /// First calls of an operator to leave out
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) warm_up: usize,
    /// Write the measurements to a file [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ShowCostsArguments {
    /// Measurements, in any format that `import` reads; several are merged, later ones taking precedence
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Predict measurements from the others, and show the errors beside those of the roofline
    #[arg(long)]
    pub(crate) accuracy: bool,
    /// Show closed forms fitted to the kernels, as a class of a cluster has them
    #[arg(long)]
    pub(crate) fits: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ApplyCostsArguments {
    /// Model file; - is standard input
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) around: AroundArguments,
    /// Write the model with its seconds to a file; - is standard output, in place of the table
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}
