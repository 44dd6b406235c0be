//! Arguments of `devices`, `clusters`, `solvers` and `show`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

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

#[derive(Debug, Args)]
pub(crate) struct ShowModelArguments {
    /// Language model: a folder of Hugging Face, its config.json, an index or a file of safetensors, a GGUF file, or a
    /// structure; - is standard input
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) model: PathBuf,
    /// Tokens of a sequence for the figures at a context [default: the longest of the model]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=MOST_TOKENS))]
    pub(crate) context: Option<u64>,
    /// Encoding of cached keys and values: bf16, fp8, q8_0 [default: that of the model, or bf16]
    #[arg(long, value_name = "ENCODING")]
    pub(crate) cache: Option<String>,
    /// Architecture whose layers a configuration has, instead of its model_type
    #[arg(long = "as", value_name = "ARCHITECTURE")]
    pub(crate) architecture: Option<String>,
    /// Width or count that overrides the configuration's, as in layers=4; repeat for several
    #[arg(long, value_name = "NAME=N")]
    pub(crate) set: Vec<String>,
    /// Print the figures as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Maximum number of tokens of a sequence.
const MOST_TOKENS: u64 = 1 << 40;
