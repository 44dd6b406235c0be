//! Arguments of `devices`, `clusters` and `solvers`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct DevicesArguments {
    /// Devices to show, each with every figure and its source [default: a list of all]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Print the devices as JSON, with every figure and its source
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ClustersArguments {
    /// Clusters to show in detail, by name, by shorthand such as 8xa100, or as files [default: a list of all names]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<PathBuf>,
    /// Print the clusters as JSON, with their documents
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SolversArguments {
    /// Solvers to show in detail [default: a list of all]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Print the solvers as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
