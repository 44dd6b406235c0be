//! A case: runs of `plan --json` in child processes.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use stagewright::core::document::{PlanDocument, StrategyPlanDocument};
use stagewright::core::solver::StopReason;
use tempfile::NamedTempFile;

use super::PEAK_MEMORY;
use super::baseline::Baseline;
use super::convergence::{self, Moment};
use super::runs::Runs;
use super::suite::Suite;
use super::variant::Variant;
use crate::cli::error::{CliError, Result};

/// One combination of a suite.
pub(super) struct Case {
    /// Index in the suite.
    pub(super) number: usize,
    /// Model file.
    pub(super) input: String,
    /// Cluster file; `None` means the model's own.
    pub(super) cluster: Option<String>,
    /// Options of `plan` for the objective.
    pub(super) objective: BTreeMap<String, toml::Value>,
    /// Name of a solver or variant.
    pub(super) solver: String,
    /// The variant of that name, if it is one.
    pub(super) variant: Option<Variant>,
    /// Seed.
    pub(super) seed: u64,
}

/// One row of the table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) input: String,
    pub(super) cluster: String,
    pub(super) objective: String,
    pub(super) solver: String,
    pub(super) seed: u64,
    pub(super) status: String,
    pub(super) value_s: Option<f64>,
    pub(super) bound_s: Option<f64>,
    pub(super) gap: Option<f64>,
    /// Wall-clock seconds of each run, ascending.
    pub(super) seconds: Vec<f64>,
    /// Seconds of each run in the solver, ascending; the rest is reading the model and writing the plan.
    pub(super) solving: Vec<f64>,
    pub(super) peak_bytes: Option<u64>,
    /// Number of operators in the plan.
    pub(super) operators: Option<usize>,
    /// Whether the value and the bound are costs of a strategy problem, not seconds.
    #[serde(default)]
    pub(super) is_cost: bool,
    /// Improvements during the last run, in order, if the suite records convergence.
    #[serde(default)]
    pub(super) moments: Vec<Moment>,
    /// Value over the baseline value. The journal does not keep it, since the suite's baseline may change.
    #[serde(skip)]
    pub(super) ratio: Option<f64>,
    /// The model and cluster file, which distinguish cases with equal names.
    pub(super) files: [String; 2],
    /// Whether an interrupt cut off its runs, which no journal keeps.
    #[serde(skip)]
    pub(super) is_cut_off: bool,
}

/// The status of a case that an interrupt left no time for.
const NOT_RUN: &str = "not run";

impl Row {
    /// Whether all `runs` runs printed a plan document, possibly without a plan.
    pub(super) fn is_answered(&self, runs: usize) -> bool {
        self.solving.len() == runs
    }

    /// Whether it was run once at least, or refused.
    pub(super) fn is_run(&self) -> bool {
        self.status != NOT_RUN
    }

    /// Sets the ratio to the baseline value.
    pub(super) fn compare(&mut self, baseline: Option<&Baseline>) {
        let baseline = baseline.and_then(|baseline| baseline.of(&self.input, &self.solver));
        self.ratio = baseline.zip(self.value_s).map(|(baseline, value)| value / baseline);
    }
}

impl Case {
    /// Description for progress on standard error.
    pub(super) fn describe(&self) -> String {
        let objective = self.objective();
        let objective = if objective.is_empty() { String::new() } else { format!(" ({objective})") };
        format!("{} with {}{objective}", stem(&self.input), self.solver)
    }

    /// Position of the digest of the program in the key.
    pub(super) const PROGRAM: usize = 0;
    /// Position of the digest of the input.
    pub(super) const INPUT: usize = 3;
    /// Position of the digest of the cluster file.
    pub(super) const CLUSTER: usize = 4;

    /// Journal key: everything that the outcome depends on. That is the command, the number of runs, the content of the
    /// files, and the digest of the program; but not the number of jobs, so that a suite can be resumed with any.
    pub(super) fn key(&self, suite: &Suite, program: &str) -> Vec<String> {
        let contents = [Some(&self.input), self.cluster.as_ref()].map(|path| {
            // A cluster may be given by name, not as a file.
            let bytes = path.and_then(|path| std::fs::read(path).ok());
            bytes.map(|bytes| BASE64.encode(Sha256::digest(bytes))).unwrap_or_default()
        });
        let key = [program.to_owned(), format!("runs {}", suite.repeat), self.solver.clone()]
            .into_iter()
            .chain(contents);
        let variant = self.variant.iter().flat_map(|variant| {
            let digest =
                |file: &PathBuf| std::fs::read(file).map(|bytes| BASE64.encode(Sha256::digest(bytes)));
            let checkpoint = variant.checkpoint.as_ref().and_then(|file| digest(file).ok());
            [checkpoint, variant.finetune.clone()].map(Option::unwrap_or_default)
        });
        let watched = suite.convergence.as_ref().map(|_| "convergence".to_owned());
        key.chain(variant).chain(watched).chain(self.plan(suite)).chain(self.problem(suite)).collect()
    }

    fn objective(&self) -> String {
        let words: Vec<String> =
            self.objective.iter().map(|(key, value)| format!("{key} {}", plain(value))).collect();
        words.join(", ")
    }

    /// Its row before it is run.
    pub(super) fn row(&self) -> Row {
        Row {
            status: NOT_RUN.into(),
            input: stem(&self.input),
            cluster: self.cluster.as_deref().map(stem).unwrap_or_default(),
            objective: self.objective(),
            solver: self.solver.clone(),
            seed: self.seed,
            files: [self.input.clone(), self.cluster.clone().unwrap_or_default()],
            ..Row::default()
        }
    }

    /// Runs it as often as the suite says, or until runs are ended.
    pub(super) fn run(&self, suite: &Suite, runs: &Runs) -> Result<Row> {
        let mut row = self.row();
        for _ in 0..suite.repeat {
            row.is_cut_off = !self.run_once(suite, runs, &mut row)?;
            if row.is_cut_off {
                break;
            }
        }
        row.seconds.sort_by(f64::total_cmp);
        row.solving.sort_by(f64::total_cmp);
        Ok(row)
    }

    /// Adds a run to its row. Says whether it came to its end.
    fn run_once(&self, suite: &Suite, runs: &Runs, row: &mut Row) -> Result<bool> {
        let adapted = match self.adapt(suite, runs)? {
            Adapted::CutOff => return Ok(false),
            Adapted::Refused(error) => {
                row.status = error;
                return Ok(true);
            }
            Adapted::No => None,
            Adapted::To(file) => Some(file),
        };
        let given = self.variant.as_ref().and_then(|variant| variant.checkpoint.as_deref());
        let checkpoint = adapted.as_ref().map(|file| file.path()).or(given);
        let watched =
            suite.convergence.as_ref().map(|_| self.file("the convergence of a run")).transpose()?;
        let mut call = self.plan(suite);
        call.extend(checkpoint.map(|file| option("checkpoint", file.display())));
        call.extend(watched.as_ref().map(|file| option("convergence", file.path().display())));
        let started = Instant::now();
        let Some(output) = self.call(runs, call.into_iter().chain(self.problem(suite)))? else {
            return Ok(false);
        };
        let took = started.elapsed().as_secs_f64();
        let plan = Printed::read(&output.stdout);
        // The signal of a terminal may reach the run before it reaches this process.
        let interrupted = Some(StopReason::Interrupted.name());
        if plan.as_ref().is_some_and(|plan| plan.stop.as_deref() == interrupted) {
            return Ok(false);
        }
        row.seconds.push(took);
        let story = String::from_utf8_lossy(&output.stderr);
        let peak = story.lines().find_map(|line| line.strip_prefix(PEAK_MEMORY)?.parse::<u64>().ok());
        row.peak_bytes = row.peak_bytes.max(peak);
        match plan {
            Some(plan) => {
                row.status = plan.status.into();
                row.value_s = plan.value;
                row.bound_s = plan.bound;
                row.gap = plan.gap;
                row.is_cost = plan.is_cost;
                row.solving.push(plan.seconds);
                row.operators = plan.operators;
                if let Some(file) = &watched {
                    row.moments = convergence::read(file.path())?;
                    if row.value_s.is_some() && row.moments.is_empty() {
                        let cause = format!("a run has not reported its convergence: {}", story.trim_end());
                        return Err(CliError::new("B004", cause)
                            .at(self.input.clone())
                            .help("free disk space for temporary files"));
                    }
                }
            }
            None => row.status = error_of(&story).unwrap_or("error: no plan was printed").into(),
        }
        Ok(true)
    }

    /// Adapts a checkpoint to the input, if the variant requests it. Its time does not count as the plan's.
    fn adapt(&self, suite: &Suite, runs: &Runs) -> Result<Adapted> {
        let Some((variant, time)) =
            self.variant.as_ref().and_then(|variant| Some((variant, variant.finetune.as_ref()?)))
        else {
            return Ok(Adapted::No);
        };
        let file = self.file("an adapted checkpoint")?;
        let mut call =
            vec!["finetune".into(), option("out", file.path().display()), option("time-limit", time)];
        call.extend(variant.checkpoint.iter().map(|file| option("checkpoint", file.display())));
        let Some(output) = self.call(runs, call.into_iter().chain(self.problem(suite)))? else {
            return Ok(Adapted::CutOff);
        };
        if output.status.success() {
            return Ok(Adapted::To(file));
        }
        let story = String::from_utf8_lossy(&output.stderr);
        let error = error_of(&story).unwrap_or("error: the checkpoint could not be adapted");
        Ok(Adapted::Refused(error.into()))
    }

    /// Creates a temporary file, which is removed when dropped.
    fn file(&self, what: &str) -> Result<NamedTempFile> {
        NamedTempFile::new().map_err(|error| {
            CliError::new("B004", format!("cannot create a file for {what}: {error}")).at(self.input.clone())
        })
    }

    /// Runs this program in a child process; `None` if runs were ended before it finished.
    fn call(&self, runs: &Runs, options: impl Iterator<Item = String>) -> Result<Option<Output>> {
        let failed = |doing: &str, error: std::io::Error| {
            CliError::new("B004", format!("cannot {doing}: {error}")).at(self.input.clone())
        };
        let program = std::env::current_exe().map_err(|error| failed("find this program", error))?;
        runs.run(Command::new(program).args(options)).map_err(|error| failed("start a run", error))
    }

    /// Arguments of `plan`, without those of the problem.
    fn plan(&self, suite: &Suite) -> Vec<String> {
        let solver = self.variant.as_ref().map_or(&self.solver, |variant| &variant.solver);
        let mut call: Vec<String> =
            ["plan", "--json", "--verbose", "--solver", solver].map(str::to_owned).into();
        let is_zero_shot = self.variant.as_ref().is_some_and(|variant| variant.zero_shot);
        call.extend(is_zero_shot.then(|| "--zero-shot".to_owned()));
        let limits = [("time-limit", &suite.time_limit), ("gap", &suite.gap)];
        call.extend(limits.iter().filter_map(|(name, value)| Some(option(name, value.as_ref()?))));
        call
    }

    /// Arguments of the problem and its resources.
    fn problem(&self, suite: &Suite) -> Vec<String> {
        let mut call = vec![option("threads", suite.threads), option("seed", self.seed)];
        let given = [("memory-limit", &suite.memory_limit), ("cluster", &self.cluster)];
        call.extend(given.iter().filter_map(|(name, value)| Some(option(name, value.as_ref()?))));
        call.extend(self.objective.iter().map(|(name, value)| option(&name.replace('_', "-"), plain(value))));
        call.extend(["--".into(), self.input.clone()]);
        call
    }
}

/// What a run printed.
struct Printed {
    status: &'static str,
    value: Option<f64>,
    bound: Option<f64>,
    gap: Option<f64>,
    /// Whether the value and the bound are costs of a strategy problem.
    is_cost: bool,
    seconds: f64,
    operators: Option<usize>,
    stop: Option<String>,
}

impl Printed {
    /// Reads a plan, or a strategy plan.
    fn read(bytes: &[u8]) -> Option<Printed> {
        if let Ok(plan) = serde_json::from_slice::<PlanDocument>(bytes) {
            let operators = plan.devices.iter().map(|device| device.ops.len()).sum();
            return Some(Printed {
                status: plan.status.name(),
                value: plan.objective.value_s,
                bound: plan.bound.value_s,
                gap: plan.gap,
                is_cost: false,
                seconds: plan.seconds,
                operators: plan.objective.value_s.map(|_| operators),
                stop: plan.stop,
            });
        }
        let plan: StrategyPlanDocument = serde_json::from_slice(bytes).ok()?;
        Some(Printed {
            status: plan.status.name(),
            value: plan.cost.map(|cost| cost as f64),
            bound: plan.bound.cost,
            gap: plan.gap,
            is_cost: true,
            seconds: plan.seconds,
            operators: plan.cost.map(|_| plan.strategies.len()),
            stop: plan.stop,
        })
    }
}

/// Result of adapting a checkpoint before a run.
enum Adapted {
    /// No adaptation was requested.
    No,
    /// The adapted checkpoint.
    To(NamedTempFile),
    /// The error of a failed adaptation.
    Refused(String),
    /// Runs were ended before it was done.
    CutOff,
}

/// The first line of an error in the output on standard error.
fn error_of(story: &str) -> Option<&str> {
    story.lines().find(|line| line.starts_with("error"))
}

/// Formats an option with its value.
fn option(name: &str, value: impl Display) -> String {
    format!("--{name}={value}")
}

/// A file's name without folder and extension.
fn stem(path: &str) -> String {
    Path::new(path).file_stem().map_or_else(|| path.into(), |stem| stem.to_string_lossy().into_owned())
}

/// Formats a value for the command line.
fn plain(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::Row;

    #[test]
    fn a_row_of_which_a_run_failed_is_no_answer() {
        let row = Row { seconds: vec![0.1, 0.2], solving: vec![0.1], ..Row::default() };
        assert!(row.is_answered(1) && !row.is_answered(2));
    }
}
