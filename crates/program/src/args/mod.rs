//! Command-line arguments, parsed but not interpreted: see `resolve`. Each command has a structure here; those that
//! several commands share are in `shared`, and the values that an option may take in `values`.

mod bench;
mod costs;
mod given;
mod instances;
mod lists;
mod machine;
mod shared;
mod values;

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueHint};
use stagewright::core::document::Schedule;
use stagewright::workloads::{Granularity, Optimizer, Precision};

pub(crate) use bench::*;
pub(crate) use costs::*;
pub(crate) use given::*;
pub(crate) use instances::*;
pub(crate) use lists::*;
pub(crate) use machine::*;
pub(crate) use shared::*;
use values::*;

/// Places every operator of a neural network on a device, with a proof of how good the placement is.
#[derive(Debug, Parser)]
#[command(name = "stagewright", version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Explain an error code
    #[arg(long, value_name = "CODE", exclusive = true)]
    explain: Option<String>,
    /// Report progress on standard error
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 check found a violation, 2 invalid usage or input, 3 proved infeasible, \
4 a plan that missed --gap, or a table of bench that was interrupted, 5 stopped by a limit or an interrupt without a result";

/// The request: a command, or an error code to explain.
#[derive(Debug)]
pub(crate) enum Asked {
    /// Run a command.
    Command(Box<Command>),
    /// Explain an error code.
    Code(String),
}

impl Arguments {
    /// Returns the request: a command or an error code to explain.
    ///
    /// # Errors
    /// If neither or both are given.
    pub(crate) fn asked(self) -> Result<Asked, clap::Error> {
        let wrong = |kind, message| Err(Arguments::command().error(kind, message));
        match (self.command, self.explain) {
            (Some(command), None) => Ok(Asked::Command(Box::new(command))),
            (None, Some(code)) => Ok(Asked::Code(code)),
            (Some(_), Some(_)) => {
                wrong(ErrorKind::ArgumentConflict, "--explain CODE cannot be combined with a command")
            }
            (None, None) => wrong(ErrorKind::MissingSubcommand, "a command is missing"),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Find a plan and prove how good it is
    Plan(Box<PlanArguments>),
    /// Show lower bounds by source, without a plan
    Bound(BoundArguments),
    /// Verify a plan independently: feasibility, value, claims
    Check(CheckArguments),
    /// Explain the value of a plan, and what would change it
    Explain(ExplainArguments),
    /// Simulate one step of a plan: timeline, waits, memory; or the requests of a serving plan
    Simulate(SimulateArguments),
    /// Import, show and apply measured costs
    Costs(CostsArguments),
    /// Measure the operators of an ONNX model on this machine
    Profile(ProfileArguments),
    /// Run a plan as a pipeline of processes on this machine: predicted and measured times
    Run(RunArguments),
    /// Convert models, clusters and plans between formats
    Convert(ConvertArguments),
    /// Export a plan to a runtime: its partition, placement or flags
    Export(ExportArguments),
    /// Print a script that exports a framework's model as native JSON
    Exporter(ExporterArguments),
    /// Compare solvers, expert rules and plans side by side
    Compare(CompareArguments),
    /// Solve a list of inputs and print a table
    Bench(BenchArguments),
    /// Train the learned policy, or a learned system of the literature
    Train(TrainArguments),
    /// Adapt the learned policy to one model and cluster
    Finetune(FinetuneArguments),
    /// Generate the graph of a well-known model
    Workload(WorkloadArguments),
    /// List, show and verify the instances of the library
    Instances(InstancesArguments),
    /// Show parameters, weights, cache and work of a language model
    Show(ShowModelArguments),
    /// List the built-in devices, or show some of them with every source
    Devices(DevicesArguments),
    /// List the built-in clusters, or show some of them in detail
    Clusters(ClustersArguments),
    /// List the solvers, or show some of them: what they support and guarantee
    Solvers(SolversArguments),
    /// Print a completion script
    Completions(CompletionsArguments),
    /// Print the manual, or write its pages
    Man(ManArguments),
    /// A process of `run` or `profile`, which tell it what to do on standard input
    #[command(hide = true)]
    Worker,
}

#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    #[command(flatten)]
    pub(crate) model: ModelArguments,
    #[command(flatten)]
    pub(crate) objective: ObjectiveArguments,
    #[command(flatten)]
    pub(crate) selection: SelectionArguments,
    #[command(flatten)]
    pub(crate) parallel: ParallelArguments,
    #[command(flatten)]
    pub(crate) local: LocalArguments,
    #[command(flatten)]
    pub(crate) serving: ServingArguments,
    #[command(flatten)]
    pub(crate) solve: SolveArguments,
    /// Name of the solver; "exec:COMMAND" runs a solver in another program
    #[arg(long, value_name = "NAME", default_value = "auto", help_heading = "Solving")]
    pub(crate) solver: String,
    /// Plan to start from, for solvers that use one: a plan of the same model, or of the same architecture with another length,
    /// depth or batch; for a strategy problem, a plan with a certificate; for a serving plan, the one that runs, with --move-price
    #[arg(long, value_name = "PLAN", help_heading = "Solving")]
    pub(crate) start: Option<PathBuf>,
    /// Maximum number of simulations of plans after the initial schedules, for a solver that counts them
    #[arg(long, value_name = "N", help_heading = "Solving")]
    pub(crate) simulations: Option<u64>,
    /// Checkpoint to start from: of the policy, instead of the shipped one, or of gdp, placeto, hsdag or hdp
    #[arg(long, value_name = "FILE", help_heading = "Solving")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Run one greedy episode of the checkpoint of gdp, placeto, hsdag or hdp, without learning
    #[arg(long, requires = "checkpoint", help_heading = "Solving")]
    pub(crate) zero_shot: bool,
    /// Plan for costs that are off by up to this share, such as 10%: the plan of least value in the worst case, in which all
    /// operators of a kind, or all links, take that much longer than predicted (throughput without a schedule). `learned` is the
    /// spread of learned costs
    #[arg(long, value_name = "SHARE", help_heading = "Costs that are off")]
    pub(crate) robust: Option<String>,
    /// Maximum number of kinds of operators that are off at once; the links count as one [default: 1]
    #[arg(long, value_name = "N", requires = "robust", help_heading = "Costs that are off")]
    pub(crate) robust_budget: Option<u32>,
    /// Write the plan to a file; - is standard output, in place of the table
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print the plan as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the plan as a Graphviz drawing, like `export --to dot`
    #[arg(long, value_name = "FILE")]
    pub(crate) dot: Option<PathBuf>,
    /// Write the timeline of one step of the plan to a file for Perfetto or chrome://tracing. Whatever
    /// the objective, the step is simulated as by `simulate`
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Write a report to a file that any browser opens: figures, graph, devices, timelines, convergence
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write a CSV file of every better plan and bound found, with its time and number of simulations
    #[arg(long, value_name = "FILE")]
    pub(crate) convergence: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct BoundArguments {
    #[command(flatten)]
    pub(crate) model: ModelArguments,
    #[command(flatten)]
    pub(crate) objective: ObjectiveArguments,
    #[command(flatten)]
    pub(crate) parallel: ParallelArguments,
    #[command(flatten)]
    pub(crate) local: LocalArguments,
    #[command(flatten)]
    pub(crate) serving: ServingArguments,
    #[command(flatten)]
    pub(crate) solve: SolveArguments,
    /// Also show the bound that this solver proves
    #[arg(long, value_name = "NAME", help_heading = "Solving")]
    pub(crate) solver: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    #[command(flatten)]
    pub(crate) model: ModelArguments,
    /// Plan file, a split of the reference package, or a device for every operator as JSON: {"conv1": "gpu0", …} or a list
    #[arg(value_name = "PLAN", required_unless_present = "flags")]
    pub(crate) plan: Option<PathBuf>,
    /// Options of llama-server to check instead of a plan: memory, speed, and the distance from the best
    #[arg(
        long,
        value_name = "LINE",
        allow_hyphen_values = true,
        requires = "local",
        conflicts_with = "plan",
        help_heading = "Local plans"
    )]
    pub(crate) flags: Option<String>,
    #[command(flatten)]
    pub(crate) local: LocalArguments,
    #[command(flatten)]
    pub(crate) serving: ServingArguments,
    #[command(flatten)]
    pub(crate) objective: ObjectiveArguments,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    #[command(flatten)]
    pub(crate) model: ModelArguments,
    /// Plan file, a split of the reference package, or a device for every operator as JSON: {"conv1": "gpu0", …} or a list
    #[arg(value_name = "PLAN")]
    pub(crate) plan: PathBuf,
    #[command(flatten)]
    pub(crate) objective: ObjectiveArguments,
    #[command(flatten)]
    pub(crate) solve: SolveArguments,
    /// Skip the what-ifs and the sensitivity, which solve changed problems
    #[arg(long)]
    pub(crate) no_what_if: bool,
    /// Share by which costs are off in the sensitivity [default: 10%]
    #[arg(long, value_name = "SHARE", conflicts_with = "no_what_if")]
    pub(crate) costs_off: Option<String>,
    /// Log of a training run of a joint plan, to show beside its prediction: output of Megatron-LM, NeMo, torchtitan or
    /// DeepSpeed, or a trace of PyTorch's profiler. For a serving plan the result of a benchmark of its replicas: of vllm bench serve,
    /// of sglang.bench_serving, or of aiperf
    #[arg(long, value_name = "LOG")]
    pub(crate) measured: Option<PathBuf>,
    /// Write what the measurements give for the next plan: for `plan --runtime` the runtime of a joint plan, with constants fitted to
    /// the log; for `plan --calibration` factors on the times of a serving plan
    #[arg(long, value_name = "FILE", requires = "measured")]
    pub(crate) calibrate: Option<PathBuf>,
    /// Write the explanation of a serving plan to a file that any browser opens: pools, stages, memory, other limits on times
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SimulateArguments {
    #[command(flatten)]
    pub(crate) model: ModelArguments,
    /// Plan file for any objective, a split of the reference package, or a device for every operator as JSON
    #[arg(value_name = "PLAN")]
    pub(crate) plan: PathBuf,
    /// Print the whole timeline as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the timeline to a file for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE", conflicts_with = "schedule")]
    pub(crate) trace: Option<PathBuf>,
    /// Simulate an iteration of a pipeline schedule, with the stages of the plan, instead of one step
    #[arg(long, value_parser = schedule())]
    pub(crate) schedule: Option<Schedule>,
    /// Number of microbatches of the iteration [default: as in the plan]
    #[arg(long, value_name = "M", requires = "schedule")]
    pub(crate) microbatches: Option<u32>,
    /// Number of stages per device: each stage of the plan is divided into V [default: 2 under dualpipe-v, otherwise 1]
    #[arg(long, value_name = "V", requires = "schedule")]
    pub(crate) chunks: Option<u32>,
    /// Arrivals of requests at a serving plan: poisson:12.5 (a second), closed:64 (in the system), bursts:8:2s, or a CSV with the
    /// columns arrival_s, input and output [default: the load of the plan]
    #[arg(long, value_name = "ARRIVALS", conflicts_with_all = ["schedule", "trace"])]
    pub(crate) arrivals: Option<String>,
    /// Seconds of requests that are measured, after a fifth as many that are not
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["schedule", "trace"], default_value_t = 600)]
    pub(crate) duration: u32,
    /// Seed of the arrivals of requests
    #[arg(long, value_name = "N", conflicts_with_all = ["schedule", "trace"], default_value_t = 0)]
    pub(crate) seed: u64,
}

#[derive(Debug, Args)]
pub(crate) struct ConvertArguments {
    /// Model, cluster or plan file, or the name of a built-in cluster; - is standard
    /// input
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// Output file; - is standard output
    #[arg(value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// Output format: native, packed or reference for a model, json or toml for a cluster [default: native; by OUT's extension; for
    /// a language model its structure, and with native its graph]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<String>,
    /// Cluster to embed in the model: a file or a name
    #[arg(long, value_name = "CLUSTER")]
    pub(crate) cluster: Option<PathBuf>,
    /// Model that IN is a plan or split of
    #[arg(long, value_name = "MODEL")]
    pub(crate) plan_of: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) import: ImportArguments,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// Model files: details for one model; values and gaps for several, in LaTeX also the details
    #[arg(value_name = "MODEL", required = true)]
    pub(crate) models: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) around: AroundArguments,
    #[command(flatten)]
    pub(crate) objective: ObjectiveArguments,
    #[command(flatten)]
    pub(crate) parallel: ParallelArguments,
    #[command(flatten)]
    pub(crate) local: LocalArguments,
    #[command(flatten)]
    pub(crate) serving: ServingArguments,
    #[command(flatten)]
    pub(crate) solve: SolveArguments,
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "Taking part", help = taking_part())]
    pub(crate) solvers: Vec<String>,
    /// Plan, or split file of the reference package, to compare as NAME; with MODEL, only for the model of that file
    /// name. {} in FILE stands for the model's name or, if there is no such file, for its longest part after an
    /// underscore that gives one. A plan for one model takes precedence over a plan for any
    #[arg(long, value_name = "[MODEL:][NAME=]FILE", help_heading = "Taking part")]
    pub(crate) plan: Vec<String>,
    /// Run every solver that depends on a seed with several: a number, which counts from seed 0, or a list such as 1,2,3.
    /// The value is then the mean, with the 95% interval of Student's t
    #[arg(long, value_name = "N|LIST", conflicts_with = "seed", help_heading = "Taking part")]
    pub(crate) seeds: Option<String>,
    /// Solver or plan that speed-ups are relative to [default: one-device]
    #[arg(long, value_name = "NAME", help_heading = "Taking part")]
    pub(crate) baseline: Option<String>,
    /// Print the result as JSON
    #[arg(long, group = "shape")]
    pub(crate) json: bool,
    /// Print the result as CSV
    #[arg(long, group = "shape")]
    pub(crate) csv: bool,
    /// Print the result as Markdown
    #[arg(long, group = "shape")]
    pub(crate) markdown: bool,
    /// Print the result as a table of a paper in LaTeX, for the package booktabs
    #[arg(long, group = "shape")]
    pub(crate) latex: bool,
    /// Write an HTML page of the best plan with the comparison, for one model
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    /// Plan file, or with --model a split file of the reference package; - is standard input
    #[arg(value_name = "PLAN", required_unless_present = "list")]
    pub(crate) plan: Option<PathBuf>,
    /// Target runtime; see --list
    #[arg(long, value_name = "TARGET", required_unless_present = "list")]
    pub(crate) to: Option<String>,
    /// List the targets and what they cannot express
    #[arg(long, conflicts_with_all = ["plan", "to", "model", "cluster", "out"])]
    pub(crate) list: bool,
    /// Model of the plan: layers, passes and tensors, which some targets need
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<PathBuf>,
    /// Cluster of the plan, a file or a name: states which kinds are hosts. Without it, that is derived from the
    /// model's own cluster, or else from the names of the kinds
    #[arg(long, value_name = "CLUSTER")]
    pub(crate) cluster: Option<PathBuf>,
    /// Write the result to a file
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) import: ImportArguments,
}

#[derive(Debug, Args)]
pub(crate) struct TrainArguments {
    /// Configuration file, TOML: for the shipped checkpoint in data/policy, for GDP, Placeto, HSDAG and HDP in
    /// data/policy/systems
    #[arg(value_name = "CONFIG")]
    pub(crate) configuration: PathBuf,
    /// Folder of the run: state, measurements, best checkpoint, and labels if the policy learns from them. An existing
    /// run is resumed
    #[arg(
        long,
        value_name = "FOLDER",
        value_hint = ValueHint::DirPath,
        required_unless_present = "worker"
    )]
    pub(crate) out: Option<PathBuf>,
    /// Worker threads [default: one per processor]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Make the labels on a Ray cluster: auto, or HOST:PORT of its head node
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) ray: Option<String>,
    /// Make the labels that are named on standard input, on a node of a cluster
    #[arg(long, hide = true, conflicts_with_all = ["out", "ray"])]
    pub(crate) worker: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FinetuneArguments {
    #[command(flatten)]
    pub(crate) model: ModelArguments,
    #[command(flatten)]
    pub(crate) objective: ObjectiveArguments,
    #[command(flatten)]
    pub(crate) solve: SolveArguments,
    /// Checkpoint to start from [default: the shipped one]
    #[arg(long, value_name = "FILE")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Write the adapted checkpoint to a file
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct WorkloadArguments {
    /// Family of models; see --list
    #[arg(value_name = "FAMILY", required_unless_present_any = ["list", "recipe"])]
    pub(crate) family: Option<String>,
    /// List the families, or the variants of one, with the totals of their graphs
    #[arg(long)]
    pub(crate) list: bool,
    /// Variant of the family [default: the first]
    #[arg(long, value_name = "NAME")]
    pub(crate) variant: Option<String>,
    /// Generate a training step: forward, backward and update
    #[arg(long)]
    pub(crate) training: bool,
    /// Optimiser of the training step [default: adam]
    #[arg(long, value_parser = optimizer(), requires = "training")]
    pub(crate) optimizer: Option<Optimizer>,
    /// Granularity of the graph's operators
    #[arg(long, value_parser = granularity(), default_value = "operator")]
    pub(crate) granularity: Granularity,
    /// Precision of weights and activations
    #[arg(long, value_parser = workload_precision(), default_value = "fp32")]
    pub(crate) precision: Precision,
    /// Number of samples in a batch
    #[arg(long, value_name = "N", help_heading = "Sizes")]
    pub(crate) batch: Option<u64>,
    /// Number of steps or tokens of a sample
    #[arg(long, value_name = "N", help_heading = "Sizes")]
    pub(crate) sequence: Option<u64>,
    /// Side of the input image, in pixels
    #[arg(long, value_name = "N", help_heading = "Sizes")]
    pub(crate) image: Option<u64>,
    /// Width of the hidden state, or number of filters of a convolutional network
    #[arg(long, value_name = "N", help_heading = "Sizes")]
    pub(crate) hidden: Option<u64>,
    /// Number of layers, stacks or cells
    #[arg(long, value_name = "N", help_heading = "Sizes")]
    pub(crate) layers: Option<u64>,
    /// Size of the vocabulary
    #[arg(long, value_name = "N", help_heading = "Sizes")]
    pub(crate) vocabulary: Option<u64>,
    /// Generate random problems from a training recipe (TOML): graphs with their own clusters, one file each
    #[arg(long, value_name = "FILE", requires_all = ["count", "out"], conflicts_with_all = ["family", "list"],
          help_heading = "Random problems")]
    pub(crate) recipe: Option<PathBuf>,
    /// Number of random problems
    #[arg(long, value_name = "N", requires = "recipe", help_heading = "Random problems")]
    pub(crate) count: Option<u64>,
    /// Write the graph to a file, packed if its name ends in .msgpack, or the random problems into a folder
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// Shell to complete for
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// Folder to write all pages into, instead of printing the first
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) folder: Option<PathBuf>,
    /// Write Markdown instead of roff
    #[arg(long)]
    pub(crate) markdown: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExporterArguments {
    /// Framework of the model, or `kernels` for a script that measures products and attention on a device
    #[arg(value_parser = exporter())]
    pub(crate) framework: &'static str,
}
