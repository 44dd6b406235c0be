//! Arguments of the commands that measure and run models on this machine.

use std::path::PathBuf;

use clap::Args;

use super::ImportArguments;
use super::values::optimization;

/// Graph optimisations of ONNX Runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OptimizationLevel {
    /// No optimisation: every node is a kernel.
    None,
    /// Constants are folded and redundant nodes removed.
    Basic,
    /// Constants are folded, redundant nodes removed, and nodes fused.
    Extended,
}

/// How models run on this machine.
#[derive(Debug, Args)]
pub(crate) struct HostArguments {
    /// Shared library of ONNX Runtime [default: ORT_DYLIB_PATH, or that of the Python package onnxruntime]
    #[arg(long, value_name = "FILE", help_heading = "Running")]
    pub(crate) onnxruntime: Option<PathBuf>,
    /// Graph optimisations of ONNX Runtime: none, basic (folds constants, removes what does nothing) or extended (fuses)
    #[arg(long, value_name = "LEVEL", value_parser = optimization(), default_value = "basic", help_heading = "Running")]
    pub(crate) optimization: OptimizationLevel,
    /// Cores to run on, one process each, as in 0,1,4-7 [default: all]
    #[arg(long, value_name = "LIST", help_heading = "Running")]
    pub(crate) cores: Option<String>,
    /// Replace missing weights by random numbers
    #[arg(long, help_heading = "Running")]
    pub(crate) random_weights: bool,
    /// Seed of random weights and inputs
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Running")]
    pub(crate) seed: u64,
    /// Longest time without progress, after which the run ends
    #[arg(long, value_name = "TIME", default_value = "5min", help_heading = "Running")]
    pub(crate) patience: String,
}

#[derive(Debug, Args)]
pub(crate) struct ProfileArguments {
    /// ONNX model; - is standard input
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) import: ImportArguments,
    #[command(flatten)]
    pub(crate) host: HostArguments,
    /// Number of timed runs
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) runs: u32,
    /// Device class of the measurements
    #[arg(long, value_name = "NAME", default_value = "cpu")]
    pub(crate) class: String,
    /// Write the measurements to a file, for --costs; - is standard output, in place of the table
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Measure the links between processes, and write this machine as a cluster to a file: a device for each core
    #[arg(long, value_name = "FILE")]
    pub(crate) machine: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// ONNX model; - is standard input
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Plan of the model; - is standard input
    #[arg(value_name = "PLAN")]
    pub(crate) plan: PathBuf,
    #[command(flatten)]
    pub(crate) import: ImportArguments,
    #[command(flatten)]
    pub(crate) host: HostArguments,
    /// Number of samples that are timed, after those that fill the pipeline
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    pub(crate) samples: u32,
    /// Number of runs, each with new processes; the medians are shown
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeat: u32,
    /// Throttle the links of the devices to those of this cluster, by a token bucket
    #[arg(long, value_name = "CLUSTER")]
    pub(crate) throttle: Option<PathBuf>,
    /// Skip the comparison of the outputs with those of the whole model
    #[arg(long)]
    pub(crate) no_compare: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the timeline of the run to a file for Perfetto or chrome://tracing, for throughput beside the predicted one
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Write a page of what was predicted and measured, with the timeline of the run
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}
