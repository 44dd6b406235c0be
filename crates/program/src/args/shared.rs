//! Arguments that several commands share: the model, the devices, the import, the objective and the limits.

use std::path::PathBuf;

use clap::Args;
use stagewright::core::document::{
    Communication, Execution, GradientsDocument, ObjectiveKind, Precision, RecomputeWorkspace, Schedule,
    Split, TimeUnitDocument, Training,
};
use stagewright::tasks::{ObjectiveOptions, ParallelOptions};
use stagewright::workloads::CostRules;

use super::values::*;

/// The model, and where its operators may run.
#[derive(Debug, Args)]
pub(crate) struct ModelArguments {
    /// Model file; - is standard input
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) around: AroundArguments,
}

/// The inputs of a problem besides the model and the objective.
#[derive(Debug, Clone, Args)]
pub(crate) struct AroundArguments {
    /// Cluster: a TOML or JSON file, a built-in name such as dgx-a100, or devices such as 8xa100 or
    /// 4xv100:fp32+1xepyc-7742. Optional if the model carries its own
    #[arg(long, value_name = "CLUSTER")]
    pub(crate) cluster: Option<PathBuf>,
    /// Pins file: operators, and the devices, kinds or classes that each may use
    #[arg(long, value_name = "FILE")]
    pub(crate) pins: Option<PathBuf>,
    /// Memory to keep free on every device except hosts, instead of the cluster's reserve: 16GiB, none
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory_reserve: Option<String>,
    /// Measurements that price the model instead of the roofline, in any format that `costs import` reads; repeat for
    /// several files
    #[arg(long, value_name = "FILE")]
    pub(crate) costs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) import: ImportArguments,
}

/// Options for what the format of a model leaves open. A plan keeps them, so commands that read the plan do not need
/// them again.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Reading the model")]
pub(crate) struct ImportArguments {
    /// Format of the model [default: detected from the file]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// Batch size, if the model leaves it open (onnx)
    #[arg(long, value_name = "N")]
    pub(crate) batch: Option<u64>,
    /// Size of a dimension that the model only names; repeat for every such name (onnx)
    #[arg(long = "dim", value_name = "NAME=N")]
    pub(crate) dims: Vec<String>,
    /// Number of tokens in the key-value cache, if the model leaves it open (onnx)
    #[arg(long, value_name = "N")]
    pub(crate) context: Option<u64>,
    /// Number of sequences with a key-value cache [default: the batch] (onnx)
    #[arg(long, value_name = "N")]
    pub(crate) sequences: Option<u64>,
    /// Cast all floating-point numbers to this precision [default: that of the model] (onnx, openvino)
    #[arg(long, value_name = "TYPE", value_parser = precision())]
    pub(crate) precision: Option<Precision>,
    /// Placement of weights that several operators read: a copy on each device, or together with all their readers
    /// [default: copy]
    #[arg(long, value_parser = together())]
    pub(crate) tied: Option<bool>,
    /// Fuse the operators that runtimes run in one kernel [default: on] (onnx, openvino)
    #[arg(long, value_parser = switch())]
    pub(crate) fusion: Option<bool>,
    /// Cost rules of operators: 2, or 1 from before views were free and parameters shared [default: 2] (onnx, openvino)
    #[arg(long, value_parser = cost_rules(), value_name = "VERSION")]
    pub(crate) cost_rules: Option<CostRules>,
    /// Keep the operators of every layer on one device, as runtimes that divide layers require
    #[arg(long)]
    pub(crate) whole_layers: bool,
    /// Unit of the model's times; required for piper files, which do not state theirs
    #[arg(long, value_parser = time_unit(), value_name = "UNIT")]
    pub(crate) time_unit: Option<TimeUnitDocument>,
    /// Keep the profiled times of input nodes, which measure data loading (pipedream)
    #[arg(long)]
    pub(crate) keep_input_costs: bool,
    /// Device class of the profiled times (pipedream, piper, cost-graph) [default: acc]
    #[arg(long, value_name = "CLASS")]
    pub(crate) profile_class: Option<String>,
    /// Transfer of gradients, if a profile lists only forward edges (pipedream) [default: mirrored]
    #[arg(long, value_parser = gradients())]
    pub(crate) gradients: Option<GradientsDocument>,
}

/// The objective and its rules. An omitted option has its default, or for `check` the value in the plan.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Objective")]
pub(crate) struct ObjectiveArguments {
    /// Objective to optimise [default: throughput]
    #[arg(long, value_parser = objective())]
    pub(crate) objective: Option<ObjectiveKind>,
    /// Sets of operators that may share a device [default: contiguous]
    #[arg(long, value_parser = split())]
    pub(crate) split: Option<Split>,
    /// Overlap of communication with compute [default: serial]
    #[arg(long, value_parser = communication())]
    pub(crate) communication: Option<Communication>,
    /// Scoring of the passes of a training step [default: combined]
    #[arg(long, value_parser = training())]
    pub(crate) training: Option<Training>,
    /// Maximum number of calls per accelerator, for latency [default: 1]
    #[arg(long, value_name = "Q")]
    pub(crate) calls: Option<u32>,
    /// Execution of a step, for makespan: transfers through ports, or contention-free as in GiPH's simulator
    /// [default: ports]
    #[arg(long, value_parser = execution())]
    pub(crate) execution: Option<Execution>,
    /// Pipeline schedule: the value is the time of one iteration; also sets the activations in memory. With --parallel, those
    /// that a plan may have, separated by commas: 1f1b, interleaved, zero-bubble [default: none; 1f1b with --parallel]
    #[arg(long, value_parser = schedule(), value_delimiter = ',')]
    pub(crate) schedule: Vec<Schedule>,
    /// Number of microbatches of the schedule
    #[arg(long, value_name = "M")]
    pub(crate) microbatches: Option<u32>,
    /// Maximum number of devices that a stage may be replicated on [default: 1]
    #[arg(long, value_name = "R")]
    pub(crate) max_replicas: Option<u32>,
}

impl AroundArguments {
    /// Names of the options that are given, besides those of the import.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        given([
            ("cluster", self.cluster.is_some()),
            ("pins", self.pins.is_some()),
            ("memory_reserve", self.memory_reserve.is_some()),
            ("costs", !self.costs.is_empty()),
        ])
    }
}

impl ObjectiveArguments {
    /// The options for the library.
    pub(crate) fn options(&self) -> ObjectiveOptions {
        let ObjectiveArguments { objective, split, communication, training, .. } = *self;
        let ObjectiveArguments { calls, execution, microbatches, max_replicas, .. } = *self;
        ObjectiveOptions {
            objective,
            split,
            communication,
            training,
            calls,
            execution,
            schedule: self.schedule.clone(),
            microbatches,
            max_replicas,
        }
    }

    /// Names of the options that are given.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        given([
            ("objective", self.objective.is_some()),
            ("split", self.split.is_some()),
            ("communication", self.communication.is_some()),
            ("training", self.training.is_some()),
            ("calls", self.calls.is_some()),
            ("execution", self.execution.is_some()),
            ("schedule", !self.schedule.is_empty()),
            ("microbatches", self.microbatches.is_some()),
            ("max_replicas", self.max_replicas.is_some()),
        ])
    }
}

/// The names of options that are given.
fn given<const COUNT: usize>(options: [(&'static str, bool); COUNT]) -> Vec<&'static str> {
    options.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
}

/// Joint plans: operators split over devices as well as the model.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Joint plans")]
pub(crate) struct ParallelArguments {
    /// Parallelism that a joint plan may use: tp, dp, pp, ep, zero, recompute, separated by commas. tp=8 gives a degree,
    /// pp=4 the devices of a pipeline (groups of tp devices of one copy), zero=1 a stage, recompute=full a configuration of all
    /// layers of a stack. Without it, every operator runs on one
    /// device
    #[arg(long, value_name = "LIST")]
    pub(crate) parallel: Option<String>,
    /// Samples of a batch over all copies [default: the microbatches in a file of Piper]
    #[arg(long, value_name = "N", requires = "parallel")]
    pub(crate) global_batch: Option<u64>,
    /// Samples of a microbatch [default: any]
    #[arg(long, value_name = "N", requires = "parallel")]
    pub(crate) microbatch: Option<u32>,
    /// Memory of layers that are recomputed: the largest of a stage, or their sum as Piper counts [default: max] (piper)
    #[arg(long, value_parser = recompute_workspace(), requires = "parallel")]
    pub(crate) recompute_workspace: Option<RecomputeWorkspace>,
}

impl ParallelArguments {
    /// The options for the library; `None` without parallelism.
    pub(crate) fn options(&self) -> Option<ParallelOptions> {
        let ParallelArguments { global_batch, microbatch, recompute_workspace, .. } = *self;
        let parallel = self.parallel.clone()?;
        Some(ParallelOptions { parallel, global_batch, microbatch, recompute_workspace })
    }

    /// Names of the options that are given.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        given([
            ("parallel", self.parallel.is_some()),
            ("global_batch", self.global_batch.is_some()),
            ("microbatch", self.microbatch.is_some()),
            ("recompute_workspace", self.recompute_workspace.is_some()),
        ])
    }
}

/// Limits, seed and threads of a solve.
#[derive(Debug, Args)]
#[command(next_help_heading = "Solving")]
pub(crate) struct SolveArguments {
    /// Wall-clock limit of the solve, from when its inputs are read: 60s, 500ms, 2m, none. Several hundred thousand operators
    /// may take some tenths of a second more
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub(crate) time_limit: String,
    /// Memory limit of the solver's tables: 8GiB, none
    #[arg(long, value_name = "SIZE", default_value = "8GiB")]
    pub(crate) memory_limit: String,
    /// Stop at this gap, such as 1% or 0.01, and exit with 4 if it is not reached
    #[arg(long, value_name = "SHARE")]
    pub(crate) gap: Option<String>,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Worker threads [default: one per processor]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
}
