//! What was typed. Nothing here is interpreted: see `resolve`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum, ValueHint};
use stagewright::core::document::Precision;

/// Decides where every operator of a neural network runs, with a proof of how good the answer is.
#[derive(Debug, Parser)]
#[command(name = "stagewright", version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Say what an error code means
    #[arg(long, value_name = "CODE", exclusive = true)]
    explain: Option<String>,
    /// Tell on standard error what is being done
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 check found a violation, 2 bad usage or input, 3 proved infeasible, \
4 a plan but not the --gap asked for, 5 a limit ended the search with no plan";

/// What is asked for.
#[derive(Debug)]
pub(crate) enum Asked {
    /// A command.
    Command(Box<Command>),
    /// What a code means.
    Code(String),
}

impl Arguments {
    /// What is asked for, which is one thing.
    pub(crate) fn asked(self) -> Result<Asked, clap::Error> {
        let wrong = |kind, message| Err(Arguments::command().error(kind, message));
        match (self.command, self.explain) {
            (Some(command), None) => Ok(Asked::Command(Box::new(command))),
            (None, Some(code)) => Ok(Asked::Code(code)),
            (Some(_), Some(_)) => {
                wrong(ErrorKind::ArgumentConflict, "--explain CODE stands without a command")
            }
            (None, None) => wrong(ErrorKind::MissingSubcommand, "a command is missing"),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Find a plan and prove how good it is
    Plan(PlanArguments),
    /// Show lower bounds by source, without a plan
    Bound(BoundArguments),
    /// Recompute a plan independently: feasibility, value, claims
    Check(CheckArguments),
    /// Why a plan is worth what it is, and what would change that
    Explain(ExplainArguments),
    /// Play one step of a plan: its timeline, what it waits for, memory
    Simulate(SimulateArguments),
    /// Convert models, clusters and plans between formats
    Convert(ConvertArguments),
    /// Carry a plan into a runtime: its partition, placement or flags
    Export(ExportArguments),
    /// Print a script that writes a framework's model as native JSON
    Exporter(ExporterArguments),
    /// Solvers, expert rules and plans side by side
    Compare(CompareArguments),
    /// Solve a list of inputs and print a table
    Bench(BenchArguments),
    /// Train the learned policy, or one of the field's learned systems
    Train(TrainArguments),
    /// Adapt the learned policy to one model and cluster
    Finetune(FinetuneArguments),
    /// Generate the graph of a well-known model
    Workload(WorkloadArguments),
    /// Print a completion script
    Completions(CompletionsArguments),
    /// Print or write the manual
    Man(ManArguments),
}

/// The model and where it may run.
#[derive(Debug, Args)]
pub(crate) struct ModelArguments {
    /// Model file; - is standard input
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) around: AroundArguments,
}

/// What makes a problem of a model, but for the objective.
#[derive(Debug, Args)]
pub(crate) struct AroundArguments {
    /// Cluster: a file, TOML or JSON; a built-in name such as dgx-a100; or devices such as 8xa100 or
    /// 4xv100:fp32+1xepyc-7742. A model that carries its own needs none
    #[arg(long, value_name = "CLUSTER")]
    pub(crate) cluster: Option<PathBuf>,
    /// Pins file: operators and the devices, kinds or classes each may use
    #[arg(long, value_name = "FILE")]
    pub(crate) pins: Option<PathBuf>,
    /// Memory to keep free on every device that is no host, in place of what the cluster says: 1GiB, none
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory_reserve: Option<String>,
    #[command(flatten)]
    pub(crate) import: ImportArguments,
}

/// What the format of a model leaves open. A plan keeps what was given, and commands that read the plan need not be told
/// again.
#[derive(Debug, Args)]
#[command(next_help_heading = "Reading the model")]
pub(crate) struct ImportArguments {
    /// Format of the model, instead of recognising it
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// Batch, where the model leaves it open (onnx)
    #[arg(long, value_name = "N")]
    pub(crate) batch: Option<u64>,
    /// Size of a dimension that the model only names, for every such name (onnx)
    #[arg(long = "dim", value_name = "NAME=N")]
    pub(crate) dims: Vec<String>,
    /// Tokens in the cache of keys and values, where the model leaves that open (onnx)
    #[arg(long, value_name = "N")]
    pub(crate) context: Option<u64>,
    /// Sequences that have such a cache [default: the batch] (onnx)
    #[arg(long, value_name = "N")]
    pub(crate) sequences: Option<u64>,
    /// Cast all numbers with a fraction [default: as the model has them] (onnx, openvino)
    #[arg(long, value_name = "TYPE", value_parser = precision())]
    pub(crate) precision: Option<Precision>,
    /// Where weights are that several operators read: a copy on each device, or all of them together
    /// [default: copy]
    #[arg(long, value_enum)]
    pub(crate) tied: Option<TiedArgument>,
    /// Run what runtimes fuse in one kernel [default: on] (onnx, openvino)
    #[arg(long, value_enum)]
    pub(crate) fusion: Option<SwitchArgument>,
    /// How operators are priced: 1 as before views were free and parameters shared, 2 as they are [default: 2] (onnx, openvino)
    #[arg(long, value_enum, value_name = "VERSION")]
    pub(crate) cost_rules: Option<CostRulesArgument>,
    /// Keep the operators of every layer on one device, which runtimes that divide layers ask for
    #[arg(long)]
    pub(crate) whole_layers: bool,
    /// Unit of the model's times; piper files do not name theirs
    #[arg(long, value_enum, value_name = "UNIT")]
    pub(crate) time_unit: Option<TimeUnitArgument>,
    /// Keep the profiled times of input nodes, which are of loading data (pipedream)
    #[arg(long)]
    pub(crate) keep_input_costs: bool,
    /// Device class that profiled times are for (pipedream, piper, cost-graph) [default: acc]
    #[arg(long, value_name = "CLASS")]
    pub(crate) profile_class: Option<String>,
    /// How gradients are sent, where a profile lists forward edges alone (pipedream) [default: mirrored]
    #[arg(long, value_enum)]
    pub(crate) gradients: Option<GradientsArgument>,
}

/// What is minimised, under which rules. What is left out has a default, or for `check` what the plan says.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Objective")]
pub(crate) struct ObjectiveArguments {
    /// What to minimise [default: throughput]
    #[arg(long, value_enum)]
    pub(crate) objective: Option<KindArgument>,
    /// Which sets of operators may share a device [default: contiguous]
    #[arg(long, value_enum)]
    pub(crate) split: Option<SplitArgument>,
    /// How communication adds to compute [default: serial]
    #[arg(long, value_enum)]
    pub(crate) communication: Option<CommunicationArgument>,
    /// How the passes of a training step are scored [default: combined]
    #[arg(long, value_enum)]
    pub(crate) training: Option<TrainingArgument>,
    /// Most calls of an accelerator, for latency [default: 1]
    #[arg(long, value_name = "Q")]
    pub(crate) calls: Option<u32>,
    /// How a step runs, for makespan: transfers through ports, or free of contention as in GiPH's simulator
    /// [default: ports]
    #[arg(long, value_enum)]
    pub(crate) execution: Option<ExecutionArgument>,
    /// Pipeline schedule: the value is the time of its iteration, and it decides the activations in memory [default: none]
    #[arg(long, value_enum)]
    pub(crate) schedule: Option<ScheduleArgument>,
    /// Microbatches of the schedule
    #[arg(long, value_name = "M")]
    pub(crate) microbatches: Option<u32>,
    /// Most devices that one stage may be replicated on [default: 1]
    #[arg(long, value_name = "R")]
    pub(crate) max_replicas: Option<u32>,
}

/// How to solve.
#[derive(Debug, Args)]
#[command(next_help_heading = "Solving")]
pub(crate) struct SolveArguments {
    /// Wall-clock limit: 60s, 500ms, 2m, none
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub(crate) time_limit: String,
    /// Limit on the solver's tables: 8GiB, none
    #[arg(long, value_name = "SIZE", default_value = "8GiB")]
    pub(crate) memory_limit: String,
    /// Stop at this gap, as 1% or 0.01, and exit with 4 if it is not reached
    #[arg(long, value_name = "SHARE")]
    pub(crate) gap: Option<String>,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Worker threads [default: one per processor]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    #[command(flatten)]
    pub(crate) model: ModelArguments,
    #[command(flatten)]
    pub(crate) objective: ObjectiveArguments,
    #[command(flatten)]
    pub(crate) solve: SolveArguments,
    /// Solver by name
    #[arg(long, value_name = "NAME", default_value = "auto", help_heading = "Solving")]
    pub(crate) solver: String,
    /// Most simulations of plans after the first schedules, for a solver that counts them
    #[arg(long, value_name = "N", help_heading = "Solving")]
    pub(crate) simulations: Option<u64>,
    /// Checkpoint to begin with: of the policy instead of the shipped one, or of gdp, placeto, hsdag or hdp
    #[arg(long, value_name = "FILE", help_heading = "Solving")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Play one episode of what the checkpoint of gdp, placeto, hsdag or hdp thinks likeliest, and learn nothing
    #[arg(long, requires = "checkpoint", help_heading = "Solving")]
    pub(crate) zero_shot: bool,
    /// Write the plan to a file; - is standard output, in place of the table
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print the plan as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the plan as a Graphviz drawing, as `export --to dot` makes it
    #[arg(long, value_name = "FILE")]
    pub(crate) dot: Option<PathBuf>,
    /// Write the timeline of one step of the plan to a file that Perfetto and chrome://tracing open. Whatever
    /// the objective, the step runs as `simulate` plays it
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Write a report to a file that any browser opens: figures, graph, devices, timelines, convergence
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write when, and after how many simulations, the solver found better plans and bounds to a CSV file
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
    pub(crate) solve: SolveArguments,
    /// Also what this solver proves
    #[arg(long, value_name = "NAME", help_heading = "Solving")]
    pub(crate) solver: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    #[command(flatten)]
    pub(crate) model: ModelArguments,
    /// Plan file, or a split of the reference package
    #[arg(value_name = "PLAN")]
    pub(crate) plan: PathBuf,
    #[command(flatten)]
    pub(crate) objective: ObjectiveArguments,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    #[command(flatten)]
    pub(crate) model: ModelArguments,
    /// Plan file, or a split of the reference package
    #[arg(value_name = "PLAN")]
    pub(crate) plan: PathBuf,
    #[command(flatten)]
    pub(crate) objective: ObjectiveArguments,
    #[command(flatten)]
    pub(crate) solve: SolveArguments,
    /// Solve no changed problems
    #[arg(long)]
    pub(crate) no_what_if: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SimulateArguments {
    #[command(flatten)]
    pub(crate) model: ModelArguments,
    /// Plan file under any objective, or a split of the reference package
    #[arg(value_name = "PLAN")]
    pub(crate) plan: PathBuf,
    /// Print the whole timeline as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the timeline to a file that Perfetto and chrome://tracing open
    #[arg(long, value_name = "FILE", conflicts_with = "schedule")]
    pub(crate) trace: Option<PathBuf>,
    /// An iteration of a pipeline schedule instead of one step; the plan's stages are its stages
    #[arg(long, value_enum)]
    pub(crate) schedule: Option<ScheduleArgument>,
    /// Microbatches of the iteration [default: those of the plan]
    #[arg(long, value_name = "M", requires = "schedule")]
    pub(crate) microbatches: Option<u32>,
    /// Stages of a device under the interleaved schedule: each of the plan's stages is divided into so many
    #[arg(long, value_name = "V", requires = "schedule", default_value_t = 1)]
    pub(crate) chunks: u32,
}

#[derive(Debug, Args)]
pub(crate) struct ConvertArguments {
    /// Model, cluster or plan, or the name of a built-in cluster; - is standard input
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// Where to; - is standard output
    #[arg(value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// native or reference for a model, json or toml for a cluster [default: native; by OUT's extension]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<String>,
    /// Cluster to put into the model: a file or a name
    #[arg(long, value_name = "CLUSTER")]
    pub(crate) cluster: Option<PathBuf>,
    /// IN is a plan or split of this model
    #[arg(long, value_name = "MODEL")]
    pub(crate) plan_of: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) import: ImportArguments,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// Model files: one is compared in detail, several by value
    #[arg(value_name = "MODEL", required = true)]
    pub(crate) models: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) around: AroundArguments,
    #[command(flatten)]
    pub(crate) objective: ObjectiveArguments,
    #[command(flatten)]
    pub(crate) solve: SolveArguments,
    /// Who takes part: solvers by name, auto, or the groups exact, search, baselines, learned (the field's
    /// learned systems) and all (the first three), each perhaps with a split rule of its own, as bnp@free [default: auto,
    /// auto@free and baselines]
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "Taking part")]
    pub(crate) solvers: Vec<String>,
    /// A plan, or a split of the reference package, that takes part as NAME, and only for the model of that file name.
    /// {} in FILE stands for the model's name or, where there is no such file, for what follows an underscore in it,
    /// as much as there can be. A plan for one model alone goes before one for any
    #[arg(long, value_name = "[MODEL:][NAME=]FILE", help_heading = "Taking part")]
    pub(crate) plan: Vec<String>,
    /// Who the speed-ups are over [default: one-device]
    #[arg(long, value_name = "NAME", help_heading = "Taking part")]
    pub(crate) baseline: Option<String>,
    /// Print JSON
    #[arg(long, group = "shape")]
    pub(crate) json: bool,
    /// Print CSV
    #[arg(long, group = "shape")]
    pub(crate) csv: bool,
    /// Print Markdown
    #[arg(long, group = "shape")]
    pub(crate) markdown: bool,
    /// Write the best plan as a page with the comparison, for one model
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    /// Plan file, or with --model a split of the reference package; - is standard input
    #[arg(value_name = "PLAN", required_unless_present = "list")]
    pub(crate) plan: Option<PathBuf>,
    /// Runtime to write for; see --list
    #[arg(long, value_name = "TARGET", required_unless_present = "list")]
    pub(crate) to: Option<String>,
    /// Show the targets and what they cannot express
    #[arg(long, conflicts_with_all = ["plan", "to", "model", "cluster", "out"])]
    pub(crate) list: bool,
    /// The model that the plan was made for: layers, passes and tensors, which some targets need
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<PathBuf>,
    /// The cluster that the plan was made for, a file or a name: which of its kinds are hosts. Without it that is
    /// read off a model that carries one, or off the names of the kinds
    #[arg(long, value_name = "CLUSTER")]
    pub(crate) cluster: Option<PathBuf>,
    /// Write to a file
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) import: ImportArguments,
}

#[derive(Debug, Args)]
pub(crate) struct TrainArguments {
    /// Configuration, TOML; those of the shipped checkpoint are in data/policy, those of GDP, Placeto, HSDAG and HDP in
    /// data/policy/systems
    #[arg(value_name = "CONFIG")]
    pub(crate) configuration: PathBuf,
    /// Folder of the run: state, measurements, best checkpoint, and labels where the policy learns from them. A run that
    /// is there goes on
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,
    /// Worker threads [default: one per processor]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct FinetuneArguments {
    #[command(flatten)]
    pub(crate) model: ModelArguments,
    #[command(flatten)]
    pub(crate) objective: ObjectiveArguments,
    #[command(flatten)]
    pub(crate) solve: SolveArguments,
    /// Checkpoint to begin with [default: the shipped one]
    #[arg(long, value_name = "FILE")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Where the adapted checkpoint goes
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    /// Suite file, TOML
    #[arg(value_name = "SUITE")]
    pub(crate) suite: PathBuf,
    /// Cases at a time; times are only comparable one at a time
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) jobs: usize,
    /// Keep finished cases in a file, and run only those that it lacks or another build ran
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: Option<PathBuf>,
    /// Write plots as SVG into a folder: performance profiles, mean ratios and, where the
    /// suite asks for it, convergence
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) plots: Option<PathBuf>,
    /// Write the table as CSV
    #[arg(long, value_name = "FILE")]
    pub(crate) out_csv: Option<PathBuf>,
    /// Write the table as Markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) out_markdown: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct WorkloadArguments {
    /// Family of models; see --list
    #[arg(value_name = "FAMILY", required_unless_present_any = ["list", "recipe"])]
    pub(crate) family: Option<String>,
    /// Show the families, or the variants of one, and what their graphs add up to
    #[arg(long)]
    pub(crate) list: bool,
    /// Variant of the family [default: the first]
    #[arg(long, value_name = "NAME")]
    pub(crate) variant: Option<String>,
    /// A training step: forward, backward and update
    #[arg(long)]
    pub(crate) training: bool,
    /// Optimiser of the training step [default: adam]
    #[arg(long, value_enum, requires = "training")]
    pub(crate) optimizer: Option<OptimizerArgument>,
    /// What an operator of the graph stands for
    #[arg(long, value_enum, default_value_t = GranularityArgument::Operator)]
    pub(crate) granularity: GranularityArgument,
    /// How operators are priced: kernels fused, weights shared, every tensor in memory (2), or as before (1)
    /// [default: 2]
    #[arg(long, value_enum)]
    pub(crate) cost_rules: Option<CostRulesArgument>,
    /// How weights and activations are kept
    #[arg(long, value_enum, default_value_t = PrecisionArgument::Fp32)]
    pub(crate) precision: PrecisionArgument,
    /// Samples in a batch
    #[arg(long, value_name = "N", help_heading = "Sizes")]
    pub(crate) batch: Option<u64>,
    /// Steps or tokens of a sample
    #[arg(long, value_name = "N", help_heading = "Sizes")]
    pub(crate) sequence: Option<u64>,
    /// Pixels along a side of the input
    #[arg(long, value_name = "N", help_heading = "Sizes")]
    pub(crate) image: Option<u64>,
    /// Width of the hidden state, or filters of a convolutional network
    #[arg(long, value_name = "N", help_heading = "Sizes")]
    pub(crate) hidden: Option<u64>,
    /// Layers, stacks, or cells
    #[arg(long, value_name = "N", help_heading = "Sizes")]
    pub(crate) layers: Option<u64>,
    /// Entries of the vocabulary
    #[arg(long, value_name = "N", help_heading = "Sizes")]
    pub(crate) vocabulary: Option<u64>,
    /// Random problems of a training recipe, TOML: graphs with clusters of their own, one file each
    #[arg(long, value_name = "FILE", requires_all = ["count", "out"], conflicts_with_all = ["family", "list"],
          help_heading = "Random problems")]
    pub(crate) recipe: Option<PathBuf>,
    /// How many of them
    #[arg(long, value_name = "N", requires = "recipe", help_heading = "Random problems")]
    pub(crate) count: Option<u64>,
    /// Write the graph to a file, or random problems into a folder
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// Shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// Write all pages into a folder, rather than print the first
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) folder: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ExporterArguments {
    /// Framework
    #[arg(value_enum)]
    pub(crate) framework: FrameworkArgument,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum FrameworkArgument {
    Torch,
}

/// Reads a precision by its name.
fn precision() -> impl TypedValueParser<Value = Precision> {
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
    /// Like the activations, as the NeurIPS 2020 package has it
    Mirrored,
    /// From each reader back, in the order of a true backward pass
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
