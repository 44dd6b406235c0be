//! Arguments of `bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

#[derive(Debug, Args)]
#[command(subcommand_negates_reqs = true, args_conflicts_with_subcommands = true)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    pub(crate) command: Option<BenchCommand>,
    /// Suite file (TOML)
    #[arg(value_name = "SUITE", required = true)]
    pub(crate) suite: Option<PathBuf>,
    /// Number of cases to run in parallel; times are comparable only with 1
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) jobs: usize,
    /// Keep finished cases in a file, and run only those that it lacks or that another build ran
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: Option<PathBuf>,
    /// Run only every N-th case, beginning with case I, as in 1/4
    #[arg(long, value_name = "I/N")]
    pub(crate) shard: Option<String>,
    /// Run the cases on a Ray cluster: auto, or HOST:PORT of its head node
    #[arg(long, value_name = "ADDRESS", conflicts_with = "jobs")]
    pub(crate) ray: Option<String>,
    /// Run the commands that the suite names under [[exec]]: they run with your permissions
    #[arg(long)]
    pub(crate) allow_exec: bool,
    /// Run the cases that are named on standard input, on a node of a cluster
    #[arg(long, hide = true, conflicts_with_all = ["jobs", "journal", "shard", "ray"])]
    pub(crate) worker: bool,
    #[command(flatten)]
    pub(crate) table: TableArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Join the journals of shards into one, and print their table
    Merge(MergeArguments),
}

#[derive(Debug, Args)]
pub(crate) struct MergeArguments {
    /// Suite file (TOML)
    #[arg(value_name = "SUITE")]
    pub(crate) suite: PathBuf,
    /// Journals of its shards
    #[arg(value_name = "JOURNAL", required = true)]
    pub(crate) journals: Vec<PathBuf>,
    /// Write all finished cases to a file, each once
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: PathBuf,
    #[command(flatten)]
    pub(crate) table: TableArguments,
}

/// Destinations of the table besides standard output.
#[derive(Debug, Args)]
pub(crate) struct TableArguments {
    /// Write SVG plots into a folder: performance profiles, mean ratios and, if the
    /// suite requests it, convergence
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) plots: Option<PathBuf>,
    /// Write the table as CSV
    #[arg(long, value_name = "FILE")]
    pub(crate) out_csv: Option<PathBuf>,
    /// Write the table as Markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) out_markdown: Option<PathBuf>,
    /// Write the tables by solver as LaTeX, for the package booktabs
    #[arg(long, value_name = "FILE")]
    pub(crate) out_latex: Option<PathBuf>,
}
