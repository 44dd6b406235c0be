//! The suite file: inputs, clusters, solvers and limits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use clap::{Arg, Args};
use serde::Deserialize;
use stagewright::clusters;
use stagewright::formats::read_toml;
use stagewright::text::quoted;
use tempfile::NamedTempFile;

use super::baseline::BaselineTable;
use super::case::{Case, Method, OF_SOLVERS};
use super::input::{
    Input, MAX_CASES, Options, ProblemsEntry, SHARED, Workload, WorkloadEntry, problems, resolve,
};
use super::moment::Asked;
use super::variant::Variant;
use crate::args::{ObjectiveArguments, ParallelArguments};
use crate::code::{B001, B002, B009};
use crate::error::{CliError, Result};
use crate::external::{External, PREFIX};
use crate::given::Given;
use crate::resolve::MAX_THREADS;
use crate::{files, instances, output};

/// Maximum number of runs of each case; a larger number is considered a mistake.
const MAX_RUNS: usize = 1_000_000;

/// A suite. Every solver solves every input on every cluster, for every objective and seed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Suite {
    /// Title of the table.
    pub(super) name: String,
    /// Model files and globs, relative to the suite file or to `$STAGEWRIGHT_SHARED`; instances as `instance:NAME`,
    /// which have objectives of their own unless the suite states some.
    #[serde(default)]
    inputs: Vec<String>,
    /// Built-in workloads.
    #[serde(default)]
    workloads: Vec<WorkloadEntry>,
    /// Options of all workloads, which those of a workload override.
    #[serde(default)]
    every_workload: Options,
    /// Another suite whose workloads and problems are inputs as well; its path is relative to this suite.
    workloads_of: Option<String>,
    /// Random problems from training recipes.
    #[serde(default)]
    problems: Vec<ProblemsEntry>,
    /// Cluster files, globs and built-in names; if empty, the cluster of each model.
    #[serde(default)]
    clusters: Vec<String>,
    /// Names of solvers and variants; `exec:NAME` is a command.
    #[serde(default = "auto")]
    solvers: Vec<String>,
    /// Given plans to evaluate in addition to the solvers, in the notation of `compare --plan`.
    #[serde(default)]
    plans: Vec<String>,
    /// Solvers in other programs.
    #[serde(default)]
    exec: Vec<Exec>,
    /// Variants of solvers.
    #[serde(default)]
    variants: Vec<Variant>,
    /// Options of `plan` that describe an objective, see [`of_objectives`]: `split = "free"` is `--split free`.
    #[serde(default = "default_objective")]
    objectives: Vec<BTreeMap<String, toml::Value>>,
    /// Seeds.
    #[serde(default = "zero")]
    seeds: Vec<u64>,
    /// Number of runs of each case.
    #[serde(default = "one")]
    pub(super) repeat: usize,
    /// Number of worker threads.
    #[serde(default = "one")]
    pub(super) threads: usize,
    /// Value of `--time-limit`.
    pub(super) time_limit: Option<String>,
    /// Value of `--memory-limit`.
    pub(super) memory_limit: Option<String>,
    /// Value of `--gap`.
    pub(super) gap: Option<String>,
    /// Solver to compare with every other solver, case by case.
    pub(super) look_at: Option<String>,
    /// Whether to summarise by group of inputs whose names differ only in their trailing numbers.
    #[serde(default)]
    pub(super) by_group: bool,
    /// Settings of the convergence tables, if requested.
    pub(super) convergence: Option<Asked>,
    /// Baseline values, if any.
    pub(super) baseline: Option<BaselineTable>,
    /// All inputs, resolved.
    #[serde(skip)]
    found: Vec<Input>,
    #[serde(skip)]
    given: Given,
    /// Plans of siblings, or errors in place of them, by the command that made them.
    #[serde(skip)]
    pub(super) siblings: Mutex<BTreeMap<Vec<String>, Result<NamedTempFile, String>>>,
    /// Path of the suite, for display in errors.
    #[serde(skip)]
    label: String,
    #[serde(skip)]
    folder: PathBuf,
}

/// A solver in another program, which `solvers` names as `exec:NAME`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exec {
    name: String,
    /// The program and its arguments; it runs in the folder of the suite.
    command: Vec<String>,
}

fn auto() -> Vec<String> {
    vec!["auto".into()]
}

fn default_objective() -> Vec<BTreeMap<String, toml::Value>> {
    vec![BTreeMap::new()]
}

fn zero() -> Vec<u64> {
    vec![0]
}

fn one() -> usize {
    1
}

impl Suite {
    /// Reads a suite and finds its inputs.
    pub(super) fn read(path: &Path) -> Result<Suite> {
        let mut suite = Suite::parse(path)?;
        let label = suite.label.clone();
        let bad = |cause: String| wrong(label.clone(), cause);
        for (field, count, most) in
            [("repeat", suite.repeat, MAX_RUNS), ("threads", suite.threads, MAX_THREADS)]
        {
            if !(1..=most).contains(&count) {
                let cause = format!("{field} is {count}, expected 1 to {most}");
                return Err(wrong(format!("{label}: {field}"), cause));
            }
        }
        if let Some(mistake) = suite.mistake() {
            return Err(bad(mistake));
        }
        let variants = std::mem::take(&mut suite.variants).into_iter();
        suite.variants = variants.map(|variant| variant.beside(&suite.folder)).collect::<Result<_, _>>()?;
        for pattern in &suite.inputs {
            suite.found.extend(suite.expand(pattern)?.into_iter().map(Input::File));
        }
        if let Some(other) = &suite.workloads_of {
            let other = Suite::parse(&suite.folder.join(other))?;
            suite.found.extend(other.made()?);
        }
        suite.found.extend(suite.made()?);
        if let Some(mistake) = suite.mistake_of_siblings() {
            return Err(bad(mistake));
        }
        for pattern in &std::mem::take(&mut suite.clusters) {
            // A file beside the suite takes precedence over a built-in cluster of the same name.
            if clusters::find(pattern).is_ok() && !suite.folder.join(pattern).is_file() {
                suite.clusters.push(pattern.clone());
            } else {
                let found = suite.expand(pattern)?;
                suite.clusters.extend(found);
            }
        }
        if let Some(baseline) = &mut suite.baseline {
            baseline.file = match resolve(&suite.folder, &baseline.file) {
                Some(path) => path.display().to_string(),
                None => String::new(),
            };
        }
        let place = format!("{label}: plans");
        let given = Given::parse(&suite.plans, &place)?.resolved(|plan| {
            let path = resolve(&suite.folder, plan);
            if path.is_none() {
                output::note(&format!("skipped: {plan}, since {SHARED} is not set"));
            }
            path
        });
        given.fit(&suite.found.iter().map(Input::name).collect::<Vec<_>>(), &place)?;
        if let Some(twice) = given.names().find(|name| suite.solvers.iter().any(|solver| solver == name)) {
            let cause = format!("`{twice}` is the name of both a solver and a plan");
            return Err(CliError::new(B002, cause).at(place).help("give the plan another name: NAME=FILE"));
        }
        suite.given = given;
        match suite.case_count() {
            Some(count) if count <= MAX_CASES => Ok(suite),
            _ => Err(bad(format!(
                "inputs, clusters, objectives, solvers and seeds make more than {MAX_CASES} cases"
            ))),
        }
    }

    /// Parses a suite file, without resolving its inputs.
    fn parse(path: &Path) -> Result<Suite> {
        let input = files::read(path)?;
        let suite: Suite = read_toml(&input.label, &input.bytes).map_err(|error| {
            CliError::new(B002, error.message.clone())
                .at(error.place.to_string())
                .help(format!("{}; {EXAMPLES}", error.help))
        })?;
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Suite { label: input.label, folder, ..suite })
    }

    /// The workloads and problems that the suite itself lists, without those of another suite.
    fn made(&self) -> Result<Vec<Input>> {
        let mut made: Vec<Input> = Vec::new();
        for entry in &self.workloads {
            let place = format!("{}: workloads.{}", self.label, entry.name);
            if made.iter().any(|input| input.name() == entry.name) {
                return Err(wrong(place, format!("the workload `{}` is defined twice", entry.name)));
            }
            let workload = Workload::new(entry, &self.every_workload, &self.folder, &place)?;
            made.push(Input::Workload(Arc::new(workload)));
        }
        for entry in &self.problems {
            made.extend(problems(entry, &self.folder, &format!("{}: problems", self.label))?);
        }
        Ok(made)
    }

    /// Describes the first input that has no sibling, if a variant starts from siblings.
    fn mistake_of_siblings(&self) -> Option<String> {
        let variant = self.variants.iter().find(|variant| variant.sibling.is_some())?;
        let alone = self.found.iter().find(|input| input.sibling_id().is_empty())?;
        Some(format!("the variant `{}` starts from siblings, and `{}` has none", variant.name, alone.name()))
    }

    /// Refuses a suite that runs commands: a suite from someone else could otherwise run arbitrary commands.
    ///
    /// # Errors
    /// B009, with the commands.
    pub(super) fn runs_no_command(&self, path: &Path) -> Result<()> {
        let Some(first) = self.exec.first() else { return Ok(()) };
        let others = match self.exec.len() - 1 {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        let words = first.command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        Err(CliError::new(B009, format!("the suite runs commands: {words}{others}"))
            .at(path.display().to_string())
            .help("if you trust it, run it with --allow-exec"))
    }

    /// Describes what is invalid in the suite, if anything, without accessing files.
    fn mistake(&self) -> Option<String> {
        let has_inputs = !(self.inputs.is_empty() && self.workloads.is_empty() && self.problems.is_empty());
        if !(has_inputs || self.workloads_of.is_some())
            || (self.solvers.is_empty() && self.plans.is_empty())
            || self.objectives.is_empty()
            || self.seeds.is_empty()
        {
            return Some("inputs, solvers, objectives and seeds each need at least one entry".into());
        }
        let options = of_objectives();
        let mut given = self.objectives.iter().flat_map(BTreeMap::keys);
        if let Some(unknown) = given.find(|option| !options.contains(&option.replace('-', "_"))) {
            let known = options.join(", ");
            return Some(format!("`{unknown}` is not an option of an objective; the options are {known}"));
        }
        if let Some(looked_at) = self.look_at.as_ref().filter(|name| !self.solvers.contains(name)) {
            return Some(format!("look_at is `{looked_at}`, which is not one of the solvers"));
        }
        let mut seconds = self.convergence.iter().flat_map(|asked| &asked.seconds);
        if seconds.any(|&limit| !(limit.is_finite() && limit > 0.0)) {
            return Some("the seconds of convergence must be above 0".into());
        }
        let reaches = self.convergence.iter().flat_map(|asked| &asked.reaches);
        if let Some(unknown) = reaches.into_iter().find(|name| !self.solvers.contains(name)) {
            return Some(format!("convergence reaches `{unknown}`, which is not one of the solvers"));
        }
        let commands = self.exec.iter().enumerate().find_map(|(index, exec)| {
            let name = &exec.name;
            let is_twice = self.exec[..index].iter().any(|other| other.name == *name);
            let is_unused = !self.solvers.iter().any(|solver| solver.strip_prefix(PREFIX) == Some(name));
            let mistakes = [
                (is_twice, "is defined twice"),
                (exec.command.is_empty(), "has no command"),
                (is_unused, "is not one of the solvers"),
            ];
            let (_, mistake) = mistakes.into_iter().find(|(is_so, _)| *is_so)?;
            Some(format!("`{PREFIX}{name}` {mistake}"))
        });
        let mut named = self.solvers.iter().filter_map(|solver| solver.strip_prefix(PREFIX));
        let unknown = named.find(|name| !self.exec.iter().any(|exec| exec.name == *name));
        let unknown = unknown.map(|name| format!("`{PREFIX}{name}` has no command: add it under [[exec]]"));
        if let Some(mistake) = commands.or(unknown) {
            return Some(mistake);
        }
        self.variants.iter().enumerate().find_map(|(index, variant)| {
            let name = &variant.name;
            let is_twice = self.variants[..index].iter().any(|other| other.name == *name);
            let twice = is_twice.then(|| format!("the variant `{name}` is defined twice"));
            let is_unused = !self.solvers.contains(name);
            let unused = is_unused.then(|| format!("the variant `{name}` is not one of the solvers"));
            variant.mistake().or(twice).or(unused)
        })
    }

    /// The files that match a pattern, sorted. A pattern with an unset variable is skipped with a note; a missing file
    /// is an error.
    fn expand(&self, pattern: &str) -> Result<Vec<String>> {
        if let Some(found) = instances::matching(pattern)? {
            return Ok(found);
        }
        let Some(path) = resolve(&self.folder, pattern) else {
            output::note(&format!("skipped: {pattern}, since {SHARED} is not set"));
            return Ok(Vec::new());
        };
        let pattern = path.display().to_string();
        let none = |why: String| CliError::new(B001, why).at(pattern.clone()).help("correct the suite");
        let found = glob::glob(&pattern).map_err(|error| none(error.msg.to_owned()))?;
        let files: Vec<String> =
            found.filter_map(Result::ok).map(|path| path.display().to_string()).collect();
        if files.is_empty() {
            return Err(none("no such file".into()));
        }
        Ok(files)
    }

    /// The method to which a solver's name refers.
    fn method(&self, name: &str) -> Method {
        let exec = name.strip_prefix(PREFIX).and_then(|own| self.exec.iter().find(|exec| exec.name == own));
        match (self.variant(name), exec) {
            (Some(variant), _) => Method::Variant(variant.clone()),
            (None, Some(exec)) => Method::Command(External::new(exec.command.clone(), self.folder.clone())),
            (None, None) => Method::Solver,
        }
    }

    /// The variant with a name, if there is one.
    fn variant(&self, name: &str) -> Option<&Variant> {
        self.variants.iter().find(|variant| variant.name == name)
    }

    /// Number of combinations; `None` on overflow.
    fn case_count(&self) -> Option<usize> {
        let contenders = self.solvers.len() + self.plans.len();
        let lists = [self.found.len(), self.clusters.len().max(1), self.objectives.len(), contenders];
        lists.into_iter().try_fold(self.seeds.len(), usize::checked_mul)
    }

    /// All combinations; the input changes slowest.
    pub(super) fn cases(&self) -> Vec<Case> {
        let clusters: Vec<Option<String>> = if self.clusters.is_empty() {
            vec![None]
        } else {
            self.clusters.iter().cloned().map(Some).collect()
        };
        let mut cases = Vec::new();
        for input in &self.found {
            for cluster in &clusters {
                for objective in &self.objectives {
                    let solvers = self.solvers.iter().map(|solver| (solver.as_str(), self.method(solver)));
                    let plans = self.given.named(&input.name()).into_iter();
                    for (solver, method) in
                        solvers.chain(plans.map(|(name, file)| (name, Method::Plan(file))))
                    {
                        for &seed in &self.seeds {
                            cases.push(Case {
                                number: cases.len(),
                                input: input.clone(),
                                cluster: cluster.clone(),
                                objective: objective.clone(),
                                solver: solver.to_owned(),
                                method: method.clone(),
                                seed,
                            });
                        }
                    }
                }
            }
        }
        cases
    }
}

/// Hint for a suite.
const EXAMPLES: &str = "see data/suites for examples";

/// The error for an invalid suite.
fn wrong(place: String, cause: String) -> CliError {
    CliError::new(B002, cause).at(place).help(EXAMPLES)
}

/// Names of the options that an objective may have. None of them names a file, so a suite from someone else cannot
/// overwrite files.
fn of_objectives() -> Vec<String> {
    let command =
        ParallelArguments::augment_args(ObjectiveArguments::augment_args(clap::Command::new("plan")));
    let described = command.get_arguments().filter_map(Arg::get_long).map(|name| name.replace('-', "_"));
    described.chain(OF_SOLVERS.map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    #[cfg(all(feature = "milp", feature = "policy", feature = "metis"))]
    use stagewright::registry;

    use super::*;

    /// The shipped suites.
    fn shipped() -> Vec<PathBuf> {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("data/suites");
        let files: Vec<PathBuf> =
            folder.read_dir().expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
        assert!(files.len() > 20);
        files
    }

    #[test]
    fn workloads_of_shipped_suites_make_graphs() {
        let suites: Vec<Suite> = shipped()
            .iter()
            .map(|file| Suite::parse(file).unwrap_or_else(|error| panic!("{error:?}")))
            .collect();
        let made: usize =
            suites.iter().map(|suite| suite.made().unwrap_or_else(|error| panic!("{error:?}")).len()).sum();
        assert!(made > 500, "{made}");
    }

    /// Shared files, and files in `target` that are generated for a suite, may be absent; all others must exist.
    #[cfg(all(feature = "milp", feature = "policy", feature = "metis"))]
    #[test]
    fn shipped_suites_read_and_name_solvers_that_there_are() {
        for file in shipped() {
            let suite = Suite::parse(&file).unwrap_or_else(|error| panic!("{error:?}"));
            assert_eq!(suite.mistake(), None, "{}", file.display());
            let named = |name: &str| registry::named(name).or_else(|| registry::ablation(name));
            let is_there =
                |name: &str| name == "auto" || named(name).is_some() || suite.variant(name).is_some();
            let unknown: Vec<_> = suite.solvers.iter().filter(|name| !is_there(name)).collect();
            assert!(unknown.is_empty(), "{}: {unknown:?}", file.display());
            let counts = |name: &&String| {
                let solver = suite.variant(name).map_or(name.as_str(), |variant| &variant.solver);
                named(solver).is_some_and(|solver| solver.capabilities().counts_simulations)
            };
            let is_counted = suite.objectives.iter().any(|objective| objective.contains_key("simulations"));
            let uncounted: Vec<_> = suite.solvers.iter().filter(|name| is_counted && !counts(name)).collect();
            assert!(uncounted.is_empty(), "{}: {uncounted:?} count no simulations", file.display());
            let mut named: Vec<String> = suite.inputs.iter().chain(&suite.clusters).cloned().collect();
            named.extend(suite.baseline.as_ref().map(|baseline| baseline.file.clone()));
            let checkpoints = suite.variants.iter().filter_map(|variant| variant.checkpoint.as_ref());
            named.extend(checkpoints.map(|checkpoint| checkpoint.display().to_string()));
            let is_made =
                |name: &str| name.starts_with("../../target/") || name.starts_with(&format!("${SHARED}/"));
            for name in named.iter().filter(|name| !is_made(name) && clusters::find(name).is_err()) {
                assert!(suite.expand(name).is_ok(), "{}: there is no {name}", file.display());
            }
        }
    }
}
