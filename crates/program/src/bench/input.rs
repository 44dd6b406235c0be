//! Inputs of a suite: model files, built-in workloads, and random problems from a recipe.
//!
//! A suite describes a workload by the options of `workload`, and problems by their recipe. Together with the program,
//! these determine the graphs, so the journal identifies a case by them. Each case generates its graph anew, in a
//! temporary file; the time for this does not count in its runs.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Arg, Args, FromArgMatches};
use serde::Deserialize;
use stagewright::clusters;
use stagewright::core::document::GraphDocument;
use stagewright::train::{Instance, Recipe, instance};
use stagewright::workloads::family;

use crate::args::WorkloadArguments;
use crate::code::{B001, B002};
use crate::error::{CliError, Result};
use crate::resolve::cluster_file;
use crate::workload;

/// Environment variable with the folder of shared inputs: paths that start with `$STAGEWRIGHT_SHARED` are relative to
/// it.
pub(super) const SHARED: &str = "STAGEWRIGHT_SHARED";

/// Maximum number of cases; a suite with more is considered a mistake.
pub(super) const MAX_CASES: usize = 100_000;

/// Options of `workload`, see [`of_workloads`]: `batch = 8` is `--batch 8`, and `training = true` is `--training`.
pub(super) type Options = BTreeMap<String, toml::Value>;

/// Options of `workload` that do not describe a graph.
const OF_THE_COMMAND: [&str; 4] = ["list", "recipe", "count", "out"];

/// A workload as described in a suite.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct WorkloadEntry {
    /// Name in the tables.
    pub(super) name: String,
    /// Family of models.
    model: String,
    /// Cluster that the model carries: a file relative to the suite, or a built-in name.
    cluster: Option<String>,
    /// Options of a smaller model of the family, from whose plan a variant starts; all other options are those of the
    /// workload.
    sibling: Option<Options>,
    #[serde(flatten)]
    options: Options,
}

/// Random problems as described in a suite.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProblemsEntry {
    /// Training recipe, relative to the suite.
    recipe: String,
    /// Number of problems; the first ones of the recipe are taken.
    count: u64,
}

/// An input of a suite.
#[derive(Debug, Clone)]
pub(super) enum Input {
    /// A model file, or an instance as `instance:NAME`.
    File(String),
    /// A built-in workload.
    Workload(Arc<Workload>),
    /// A problem from a recipe, by its index.
    Problem(Arc<Problems>, u64),
}

/// A built-in workload.
#[derive(Debug)]
pub(super) struct Workload {
    name: String,
    model: String,
    options: Options,
    cluster: Option<PathBuf>,
    sibling: Option<Options>,
}

/// The random problems of a recipe, of which an input is one.
#[derive(Debug)]
pub(super) struct Problems {
    file: PathBuf,
    recipe: Recipe,
}

impl Input {
    /// Name in the tables.
    pub(super) fn name(&self) -> String {
        match self {
            Input::File(path) => stem(path),
            Input::Workload(workload) => workload.name.clone(),
            Input::Problem(problems, index) => instance::name(&problems.recipe, *index),
        }
    }

    /// Unique identifier of the input: the path of a file, or the arguments that generate a graph.
    pub(super) fn id(&self) -> String {
        match self {
            Input::File(path) => path.clone(),
            Input::Workload(workload) => {
                let cluster = workload.cluster.iter().map(|cluster| option("cluster", cluster.display()));
                let words = workload.words(&workload.options).into_iter().chain(cluster);
                format!("{}: {}", workload.name, words.collect::<Vec<_>>().join(" "))
            }
            Input::Problem(problems, index) => {
                format!("{}: problem {index} of {}", self.name(), problems.file.display())
            }
        }
    }

    /// The file from which the model comes; for a workload, its cluster, which may also be a built-in name.
    pub(super) fn files(&self) -> Option<PathBuf> {
        match self {
            Input::File(path) => Some(path.into()),
            Input::Workload(workload) => workload.cluster.clone(),
            Input::Problem(problems, _) => Some(problems.file.clone()),
        }
    }

    /// The graph of a workload or a problem; `None` for a file.
    pub(super) fn graph(&self) -> Result<Option<GraphDocument>> {
        match self {
            Input::File(_) => Ok(None),
            Input::Workload(workload) => workload.graph(&workload.options).map(Some),
            Input::Problem(problems, index) => {
                let Instance { problem, .. } = instance(&problems.recipe, *index);
                Ok(Some(workload::with_own_cluster(&problem)))
            }
        }
    }

    /// The graph of the sibling of a workload, if it has one.
    pub(super) fn sibling(&self) -> Option<Result<GraphDocument>> {
        match self {
            Input::Workload(workload) => Some(workload.graph(workload.sibling.as_ref()?)),
            _ => None,
        }
    }

    /// Identifier of a workload's sibling; empty if it has none.
    pub(super) fn sibling_id(&self) -> String {
        match self {
            Input::Workload(workload) => {
                workload.sibling.as_ref().map(|sibling| workload.words(sibling).join(" ")).unwrap_or_default()
            }
            _ => String::new(),
        }
    }
}

impl Workload {
    /// Builds the workload of an entry. Its options override those for all workloads of the suite.
    ///
    /// # Errors
    /// If the options describe no graph (B002), or the cluster does not exist (B001) or is invalid.
    pub(super) fn new(
        entry: &WorkloadEntry,
        of_all: &Options,
        folder: &Path,
        place: &str,
    ) -> Result<Workload> {
        let over = |options: &Options, own: &Options| {
            options.iter().chain(own).map(|(name, value)| (name.replace('_', "-"), value.clone())).collect()
        };
        let options: Options = over(of_all, &entry.options);
        let workload = Workload {
            name: entry.name.clone(),
            model: entry.model.clone(),
            cluster: entry.cluster.as_ref().map(|name| cluster(folder, name, place)).transpose()?,
            sibling: entry.sibling.as_ref().map(|own| over(&options, own)),
            options,
        };
        for options in workload.sibling.iter().chain([&workload.options]) {
            let wrong = |error: CliError| {
                let help = error.help_lines().join("\n");
                CliError::new(B002, error.cause()).at(place).help(help)
            };
            workload
                .arguments(options)
                .and_then(|arguments| workload.plain_graph(&arguments))
                .map_err(wrong)?;
        }
        if let Some(cluster) = &workload.cluster {
            cluster_file(cluster)?;
        }
        Ok(workload)
    }

    /// The command line of `workload` that generates the graph.
    fn words(&self, options: &Options) -> Vec<String> {
        let given = options.iter().filter(|(_, value)| value.as_bool() != Some(false));
        let words = given.map(|(name, value)| match value {
            toml::Value::Boolean(_) => format!("--{name}"),
            value => option(name, plain(value)),
        });
        ["workload".to_owned()].into_iter().chain(words).chain(["--".into(), self.model.clone()]).collect()
    }

    fn arguments(&self, options: &Options) -> Result<WorkloadArguments> {
        let known = of_workloads();
        if let Some(unknown) = options.keys().find(|name| !known.contains(name)) {
            let cause = format!("`{unknown}` is not an option of a workload");
            return Err(CliError::new(B002, cause).help(format!("the options are {}", known.join(", "))));
        }
        let command = WorkloadArguments::augment_args(clap::Command::new("workload"));
        let matches = command.try_get_matches_from(self.words(options));
        matches.and_then(|matches| WorkloadArguments::from_arg_matches(&matches)).map_err(|error| {
            let story = error.to_string();
            let first = story.lines().take_while(|line| !line.is_empty()).map(str::trim);
            let cause = first.collect::<Vec<_>>().join(" ");
            CliError::new(B002, cause.trim_start_matches("error: ")).help("see `stagewright workload --help`")
        })
    }

    fn plain_graph(&self, arguments: &WorkloadArguments) -> Result<GraphDocument> {
        workload::graph(family(&self.model)?, arguments)
    }

    /// The graph, including its cluster.
    fn graph(&self, options: &Options) -> Result<GraphDocument> {
        let graph = self.plain_graph(&self.arguments(options)?)?;
        let cluster = self.cluster.as_deref().map(cluster_file).transpose()?;
        Ok(GraphDocument { cluster: cluster.map(|(_, cluster)| cluster).or(graph.cluster), ..graph })
    }
}

/// The problems that an entry describes.
///
/// # Errors
/// If the recipe does not exist (B001) or is invalid, or the count is out of range (B002).
pub(super) fn problems(entry: &ProblemsEntry, folder: &Path, place: &str) -> Result<Vec<Input>> {
    if !(1..=MAX_CASES as u64).contains(&entry.count) {
        let cause = format!("count is {}, expected 1 to {MAX_CASES}", entry.count);
        return Err(CliError::new(B002, cause).at(place).help("correct the number"));
    }
    let file = existing(folder, &entry.recipe).ok_or_else(|| {
        CliError::new(B001, format!("there is no recipe `{}`", entry.recipe))
            .at(place)
            .help("correct the suite")
    })?;
    let recipe = workload::recipe(&file)?;
    let problems = Arc::new(Problems { file, recipe });
    Ok((0..entry.count).map(|index| Input::Problem(problems.clone(), index)).collect())
}

/// A cluster, as the value of `--cluster`. A file beside the suite takes precedence over a built-in cluster of the same
/// name.
fn cluster(folder: &Path, name: &str, place: &str) -> Result<PathBuf> {
    let built_in = || clusters::find(name).map(|_| name.into());
    existing(folder, name).map_or_else(built_in, Ok).map_err(|error| {
        CliError::new(B001, CliError::from(error).cause()).at(place).help("correct the suite")
    })
}

/// The path of a file beside the suite or among the shared inputs, if it exists.
fn existing(folder: &Path, path: &str) -> Option<PathBuf> {
    resolve(folder, path).filter(|file| file.is_file())
}

/// Names of the options that a workload may have. None of them names a file.
fn of_workloads() -> Vec<String> {
    let command = WorkloadArguments::augment_args(clap::Command::new("workload"));
    let names = command.get_arguments().filter_map(Arg::get_long);
    names.filter(|name| !OF_THE_COMMAND.contains(name)).map(str::to_owned).collect()
}

/// Formats an option with its value.
pub(super) fn option(name: &str, value: impl Display) -> String {
    format!("--{name}={value}")
}

/// A file's name without folder and extension.
pub(super) fn stem(path: &str) -> String {
    Path::new(path).file_stem().map_or_else(|| path.into(), |stem| stem.to_string_lossy().into_owned())
}

/// Formats a value for the command line.
pub(super) fn plain(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Resolves a path relative to the suite's folder or to the shared inputs; `None` if the shared inputs are not
/// available.
pub(super) fn resolve(folder: &Path, path: &str) -> Option<PathBuf> {
    match path.strip_prefix('$').and_then(|rest| rest.strip_prefix(SHARED)) {
        Some(rest) => {
            let shared = std::env::var_os(SHARED).filter(|value| !value.is_empty())?;
            Some(Path::new(&shared).join(rest.trim_start_matches('/')))
        }
        None => Some(folder.join(path)),
    }
}
