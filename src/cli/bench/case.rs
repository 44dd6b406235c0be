//! One case: runs of `plan --json` in child processes.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use stagewright::core::document::PlanDocument;
use stagewright::report::table::status;

use super::PEAK_MEMORY;
use super::baseline::Baseline;
use super::suite::Suite;
use crate::cli::error::CliError;

/// One combination of a suite.
pub(super) struct Case {
    /// Model file.
    pub(super) input: String,
    /// Cluster file; none is the model's own.
    pub(super) cluster: Option<String>,
    /// Options of `plan`.
    pub(super) objective: BTreeMap<String, toml::Value>,
    /// Solver.
    pub(super) solver: String,
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
    /// Wall-clock seconds of every run, ascending.
    pub(super) seconds: Vec<f64>,
    /// Of those the solver's, ascending; the rest reads the model and writes the plan.
    pub(super) solving: Vec<f64>,
    pub(super) peak_bytes: Option<u64>,
    /// Operators of the plan.
    pub(super) operators: Option<usize>,
    /// Value over that of the file of values; of the suite as it is now, so no journal keeps it.
    #[serde(skip)]
    pub(super) ratio: Option<f64>,
    /// The files themselves, which tell cases apart whose names do not.
    pub(super) files: [String; 2],
}

impl Row {
    /// Whether its runs printed a plan, or that there is none.
    pub(super) fn is_answered(&self) -> bool {
        !self.solving.is_empty()
    }

    /// Puts its value beside that of the file of values.
    pub(super) fn compare(&mut self, baseline: Option<&Baseline>) {
        let baseline = baseline.and_then(|baseline| baseline.of(&self.input, &self.solver));
        self.ratio = baseline.zip(self.value_s).map(|(baseline, value)| value / baseline);
    }
}

impl Case {
    /// For the story on standard error.
    pub(super) fn describe(&self) -> String {
        let objective = self.objective();
        let objective = if objective.is_empty() { String::new() } else { format!(" ({objective})") };
        format!("{} with {}{objective}", stem(&self.input), self.solver)
    }

    /// All that its outcome depends on, for the journal: the command that runs it, how often, what is in its files,
    /// and the version of the program.
    pub(super) fn key(&self, suite: &Suite) -> Vec<String> {
        let version = concat!("stagewright ", env!("CARGO_PKG_VERSION")).to_owned();
        let contents = [Some(&self.input), self.cluster.as_ref()].map(|path| {
            // A cluster may go by a name, which is no file.
            let bytes = path.and_then(|path| std::fs::read(path).ok());
            bytes.map(|bytes| BASE64.encode(Sha256::digest(bytes))).unwrap_or_default()
        });
        let key = [version, format!("runs {}", suite.repeat)].into_iter().chain(contents);
        key.chain(self.options(suite)).collect()
    }

    fn objective(&self) -> String {
        let words: Vec<String> =
            self.objective.iter().map(|(key, value)| format!("{key} {}", plain(value))).collect();
        words.join(", ")
    }

    /// Runs it as often as the suite says.
    pub(super) fn run(&self, suite: &Suite) -> Result<Row, CliError> {
        let mut row = Row {
            input: stem(&self.input),
            cluster: self.cluster.as_deref().map(stem).unwrap_or_default(),
            objective: self.objective(),
            solver: self.solver.clone(),
            seed: self.seed,
            files: [self.input.clone(), self.cluster.clone().unwrap_or_default()],
            ..Row::default()
        };
        for _ in 0..suite.repeat {
            let started = Instant::now();
            let output = self.command(suite)?.output().map_err(|error| {
                CliError::new("B004", format!("cannot start a run: {error}")).at(self.input.clone())
            })?;
            row.seconds.push(started.elapsed().as_secs_f64());
            let story = String::from_utf8_lossy(&output.stderr);
            let peak = story.lines().find_map(|line| line.strip_prefix(PEAK_MEMORY)?.parse::<u64>().ok());
            row.peak_bytes = row.peak_bytes.max(peak);
            match serde_json::from_slice::<PlanDocument>(&output.stdout) {
                Ok(plan) => {
                    row.status = status(plan.status).into();
                    row.value_s = plan.objective.value_s;
                    row.bound_s = plan.bound.value_s;
                    row.gap = plan.gap;
                    row.solving.push(plan.seconds);
                    let operators = plan.devices.iter().map(|device| device.ops.len()).sum();
                    row.operators = plan.objective.value_s.map(|_| operators);
                }
                Err(_) => {
                    let error = story.lines().find(|line| line.starts_with("error"));
                    row.status = error.unwrap_or("error: no plan was printed").into();
                }
            }
        }
        row.seconds.sort_by(f64::total_cmp);
        row.solving.sort_by(f64::total_cmp);
        Ok(row)
    }

    fn command(&self, suite: &Suite) -> Result<Command, CliError> {
        let program = std::env::current_exe()
            .map_err(|error| CliError::new("B004", format!("cannot find this program: {error}")))?;
        let mut command = Command::new(program);
        command.args(self.options(suite)).stdin(Stdio::null());
        Ok(command)
    }

    /// What the program is called with.
    fn options(&self, suite: &Suite) -> Vec<String> {
        let mut options: Vec<String> =
            ["plan", "--json", "--verbose", "--solver", &self.solver].map(str::to_owned).to_vec();
        options.push(format!("--threads={}", suite.threads));
        options.push(format!("--seed={}", self.seed));
        let limits = [
            ("--time-limit", &suite.time_limit),
            ("--memory-limit", &suite.memory_limit),
            ("--gap", &suite.gap),
            ("--cluster", &self.cluster),
        ];
        for (option, value) in limits {
            options.extend(value.iter().map(|value| format!("{option}={value}")));
        }
        for (option, value) in &self.objective {
            options.push(format!("--{}={}", option.replace('_', "-"), plain(value)));
        }
        options.push("--".into());
        options.push(self.input.clone());
        options
    }
}

/// A file's name without folder and extension.
fn stem(path: &str) -> String {
    Path::new(path).file_stem().map_or_else(|| path.into(), |stem| stem.to_string_lossy().into_owned())
}

/// A value as it is typed.
fn plain(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
