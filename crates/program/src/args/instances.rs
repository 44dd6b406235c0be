//! Arguments of `instances`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

#[derive(Debug, Args)]
pub(crate) struct InstancesArguments {
    #[command(subcommand)]
    pub(crate) command: InstancesCommand,
    /// Folder of another library, with an index.toml [default: the library in the program]
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, global = true)]
    pub(crate) library: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum InstancesCommand {
    /// List the instances: value, bound and status
    List(ListArguments),
    /// Show an instance with its provenance, or write one of its documents
    Show(ShowArguments),
    /// Replay all claims: digests, plans and bounds
    Verify(VerifyArguments),
    /// Add a plan to a library in a folder, if it is the best one of its instance
    Add(AddArguments),
}

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArguments {
    /// Name of the instance
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Print the model
    #[arg(long, group = "document")]
    pub(crate) model: bool,
    /// Print the best-known plan
    #[arg(long, group = "document")]
    pub(crate) plan: bool,
    /// Print the cluster as TOML
    #[arg(long, group = "document")]
    pub(crate) cluster: bool,
    /// Write the document to a file
    #[arg(long, value_name = "FILE", requires = "document")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    /// Names of instances [default: all, published ones only with --published]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Folder of published files, which are not part of the library
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) published: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AddArguments {
    /// Name of the instance, which has an entry in the index
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Plan of the instance; without one, the solver must prove the instance infeasible
    #[arg(value_name = "PLAN")]
    pub(crate) plan: Option<PathBuf>,
    /// Who found the plan
    #[arg(long, value_name = "NAME")]
    pub(crate) by: String,
    /// The day on which it was found: YYYY-MM-DD
    #[arg(long, value_name = "DATE")]
    pub(crate) on: String,
    /// Folder of published files
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) published: Option<PathBuf>,
}
