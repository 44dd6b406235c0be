//! A case: runs of `plan --json` in child processes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use stagewright::core::document::{GraphDocument, JointPlanDocument, PlanDocument, StrategyPlanDocument};
use stagewright::core::solver::StopReason;
use stagewright::formats::write_graph;
use stagewright::registry;
use tempfile::NamedTempFile;

use super::baseline::Baseline;
use super::input::{Input, option, plain, stem};
use super::moment::{self, Moment};
use super::runs::Runs;
use super::suite::Suite;
use super::variant::Variant;
use super::{PEAK_MEMORY, locked};
use crate::code::B004;
use crate::error::{CliError, Result};
use crate::external::External;
use crate::{cluster, files, instances};

/// One combination of a suite.
pub(super) struct Case {
    /// Index in the suite.
    pub(super) number: usize,
    /// The model.
    pub(super) input: Input,
    /// Cluster file; `None` means the model's own.
    pub(super) cluster: Option<String>,
    /// Options of `plan` for the objective.
    pub(super) objective: BTreeMap<String, toml::Value>,
    /// Name of a solver, a variant, a command or a given plan.
    pub(super) solver: String,
    /// Method to which the name in `solver` refers.
    pub(super) method: Method,
    /// Seed.
    pub(super) seed: u64,
}

/// Source of the plan of a case.
#[derive(Debug, Clone)]
pub(super) enum Method {
    /// A solver of this program.
    Solver,
    /// A variant of a solver.
    Variant(Variant),
    /// A solver in another program.
    Command(External),
    /// The file of a given plan.
    Plan(PathBuf),
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
    /// Seconds of each run spent in the solver, ascending; the rest is reading the model and writing the plan.
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
    /// Mark from comparing the value with the best known of an instance. The journal does not keep it, because the
    /// library may change.
    #[serde(skip)]
    pub(super) mark: &'static str,
    /// Identifiers of the model and of the cluster file, which distinguish cases with equal names.
    pub(super) files: [String; 2],
    /// Whether an interrupt cut off the runs of the case. No journal keeps such a row.
    #[serde(skip)]
    pub(super) is_cut_off: bool,
}

/// Status of a case that was not run because of an interrupt.
const NOT_RUN: &str = "not run";

impl Row {
    /// Whether all `runs` runs printed a plan document, possibly without a plan.
    pub(super) fn is_answered(&self, runs: usize) -> bool {
        self.solving.len() == runs
    }

    /// Whether the case was run at least once, or refused.
    pub(super) fn is_run(&self) -> bool {
        self.status != NOT_RUN
    }

    /// Sets the ratio to the baseline value and, for an instance with its own objective and devices, the mark.
    pub(super) fn compare(&mut self, baseline: Option<&Baseline>) {
        let baseline = baseline.and_then(|baseline| baseline.of(&self.input, &self.solver));
        self.ratio = baseline.zip(self.value_s).map(|(baseline, value)| value / baseline);
        let is_own = self.objective.is_empty() && self.cluster.is_empty();
        self.mark =
            self.value_s.filter(|_| is_own).map_or("", |value| instances::mark(&self.files[0], value));
    }
}

impl Case {
    /// Description for progress on standard error.
    pub(super) fn describe(&self) -> String {
        let objective = self.objective();
        let objective = if objective.is_empty() { String::new() } else { format!(" ({objective})") };
        format!("{} with {}{objective}", self.input.name(), self.solver)
    }

    /// Position of the digest of the program in the key.
    pub(super) const PROGRAM: usize = 0;
    /// Position of the digest of the input.
    pub(super) const INPUT: usize = 3;
    /// Position of the digest of the cluster file.
    pub(super) const CLUSTER: usize = 4;

    /// Journal key: everything on which the outcome depends. This includes the command, the number of runs, the content
    /// of the files, and the digest of the program, but not the number of jobs, so that a suite can be resumed with any
    /// number.
    pub(super) fn key(&self, suite: &Suite, program: &str) -> Vec<String> {
        let digest = |file: &Path| cluster::digest_of_file(file).unwrap_or_default();
        // A cluster given by name, rather than as a file, has no content to hash.
        let contents = [self.input.files(), self.cluster.as_ref().map(PathBuf::from)]
            .map(|file| file.as_deref().map(digest).unwrap_or_default());
        let key = [program.to_owned(), format!("runs {}", suite.repeat), self.solver.clone()]
            .into_iter()
            .chain(contents);
        let method: Vec<String> = match &self.method {
            Method::Solver => Vec::new(),
            Method::Variant(variant) => {
                let checkpoint = variant.checkpoint.as_deref().map(digest);
                let start = variant.start(&self.input.name()).as_deref().map(digest);
                let sibling =
                    variant.sibling.as_ref().map(|time| format!("{time} {}", self.input.sibling_id()));
                [checkpoint, variant.finetune.clone(), start, sibling].map(Option::unwrap_or_default).into()
            }
            Method::Command(command) => command.files().map(|file| digest(&file)).collect(),
            Method::Plan(file) => vec![digest(file)],
        };
        let watched = suite.convergence.as_ref().map(|_| "convergence".to_owned());
        let call =
            self.plan(suite).into_iter().chain(self.problem(suite, self.seed)).chain([self.input.id()]);
        key.chain(method).chain(watched).chain(call).collect()
    }

    /// Files that a run of the case reads. A cluster given by name is included as a path that does not exist.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let method = match &self.method {
            Method::Solver => Vec::new(),
            Method::Variant(variant) => {
                variant.checkpoint.iter().cloned().chain(variant.start(&self.input.name())).collect()
            }
            Method::Command(command) => command.files().collect(),
            Method::Plan(file) => vec![file.clone()],
        };
        let cluster = self.cluster.as_ref().map(PathBuf::from);
        self.input.files().into_iter().chain(cluster).chain(method).collect()
    }

    /// The variant that the case runs, if it runs one.
    fn variant(&self) -> Option<&Variant> {
        match &self.method {
            Method::Variant(variant) => Some(variant),
            _ => None,
        }
    }

    fn objective(&self) -> String {
        let words: Vec<String> =
            self.objective.iter().map(|(key, value)| format!("{key} {}", plain(value))).collect();
        words.join(", ")
    }

    /// The row of the case before it is run.
    pub(super) fn row(&self) -> Row {
        Row {
            status: NOT_RUN.into(),
            input: self.input.name(),
            cluster: self.cluster.as_deref().map(stem).unwrap_or_default(),
            objective: self.objective(),
            solver: self.solver.clone(),
            seed: self.seed,
            files: [self.input.id(), self.cluster.clone().unwrap_or_default()],
            ..Row::default()
        }
    }

    /// Runs the case as often as the suite specifies, or until all runs are ended.
    pub(super) fn run(&self, suite: &Suite, runs: &Runs) -> Result<Row> {
        let mut row = self.row();
        let made = self.input.graph()?.map(|graph| self.model(&graph)).transpose()?;
        let model = made.as_ref().map_or_else(|| self.input.id(), |file| file.path().display().to_string());
        for _ in 0..suite.repeat {
            row.is_cut_off = !self.run_once(suite, runs, &model, &mut row)?;
            if row.is_cut_off {
                break;
            }
        }
        row.seconds.sort_by(f64::total_cmp);
        row.solving.sort_by(f64::total_cmp);
        Ok(row)
    }

    /// Runs the case once and adds the result to its row. Returns whether the run was completed.
    fn run_once(&self, suite: &Suite, runs: &Runs, model: &str, row: &mut Row) -> Result<bool> {
        let prepared =
            self.adapt(suite, runs, model).and_then(|file| Ok((file, self.sibling_plan(suite, runs)?)));
        let (adapted, start) = match prepared {
            Ok(prepared) => prepared,
            Err(Unprepared::CutOff) => return Ok(false),
            Err(Unprepared::Refused(error)) => {
                row.status = error;
                return Ok(true);
            }
            Err(Unprepared::Failed(error)) => return Err(error),
        };
        let given = self.variant().and_then(|variant| variant.checkpoint.as_deref());
        let checkpoint = adapted.as_ref().map(|file| file.path()).or(given);
        let watched = suite
            .convergence
            .as_ref()
            .filter(|_| !self.is_given())
            .map(|_| self.file("the convergence of a run"))
            .transpose()?;
        let mut call = self.plan(suite);
        call.extend(checkpoint.map(|file| option("checkpoint", file.display())));
        call.extend(start.map(|file| option("start", file.display())));
        call.extend(watched.as_ref().map(|file| option("convergence", file.path().display())));
        let started = Instant::now();
        call.extend(self.problem(suite, self.seed));
        let Some(output) = self.call(runs, call, model)? else { return Ok(false) };
        let took = started.elapsed().as_secs_f64();
        let plan = match self.method {
            Method::Plan(_) => Printed::given(&output.stdout),
            _ => Printed::read(&output.stdout),
        };
        // A signal from the terminal may reach the run before it reaches this process.
        let interrupted = Some(StopReason::Interrupted.name());
        if plan.as_ref().is_some_and(|plan| plan.stop.as_deref() == interrupted) {
            return Ok(false);
        }
        row.seconds.push(took);
        let story = String::from_utf8_lossy(&output.stderr);
        let peak = story.lines().find_map(|line| line.strip_prefix(PEAK_MEMORY)?.parse::<u64>().ok());
        // The peak memory reported for a command is that of this program, not that of the command.
        row.peak_bytes = row.peak_bytes.max(peak.filter(|_| !matches!(self.method, Method::Command(_))));
        let Some(plan) = plan else {
            row.status = error_of(&story).unwrap_or("error: no plan was printed").into();
            return Ok(true);
        };
        self.keep(plan, row);
        if let Some(file) = &watched {
            row.moments = moment::read(file.path())?;
            if row.value_s.is_some() && row.moments.is_empty() {
                let cause = format!("a run has not reported its convergence: {}", story.trim_end());
                return Err(CliError::new(B004, cause)
                    .at(self.input.id())
                    .help("free disk space for temporary files"));
            }
        }
        Ok(true)
    }

    /// Adds what a run printed to the row.
    fn keep(&self, plan: Printed, row: &mut Row) {
        row.status = match (&self.method, plan.value, plan.reason) {
            // Only the command itself can say why it has no plan.
            (Method::Command(_), None, Some(reason)) => reason,
            _ => plan.status,
        };
        row.value_s = plan.value;
        row.bound_s = plan.bound;
        row.gap = plan.gap;
        row.is_cost = plan.is_cost;
        row.solving.push(plan.seconds);
        row.operators = plan.operators;
    }

    /// A checkpoint adapted to the input, if the variant requests one. The time for adapting it does not count as the
    /// plan's.
    fn adapt(&self, suite: &Suite, runs: &Runs, model: &str) -> Result<Option<NamedTempFile>, Unprepared> {
        let Some((variant, time)) =
            self.variant().and_then(|variant| Some((variant, variant.finetune.as_ref()?)))
        else {
            return Ok(None);
        };
        let file = self.file("an adapted checkpoint")?;
        let mut call =
            vec!["finetune".into(), option("out", file.path().display()), option("time-limit", time)];
        call.extend(variant.checkpoint.iter().map(|file| option("checkpoint", file.display())));
        call.extend(self.problem(suite, self.seed));
        let output = self.call(runs, call, model)?.ok_or(Unprepared::CutOff)?;
        match output.status.success() {
            true => Ok(Some(file)),
            false => Err(Unprepared::Refused(said(&output, "error: the checkpoint could not be adapted"))),
        }
    }

    /// The plan of the sibling, if the variant starts from one. Cases that differ only in their seed share this plan,
    /// and the time to find it does not count as theirs.
    fn sibling_plan(&self, suite: &Suite, runs: &Runs) -> Result<Option<PathBuf>, Unprepared> {
        let asked = self.variant().and_then(|variant| Some((variant, variant.sibling.as_ref()?)));
        let Some(((variant, time), graph)) = asked.zip(self.input.sibling()) else { return Ok(None) };
        let mut call = vec!["plan".into(), option("solver", &variant.solver), option("time-limit", time)];
        call.extend(variant.checkpoint.iter().map(|file| option("checkpoint", file.display())));
        call.extend(self.problem(suite, 0));
        let key = [call.clone(), vec![self.input.sibling_id()]].concat();
        // The lock is held while the plan is made, so that other cases wait for it.
        let mut plans = locked(&suite.siblings);
        if !plans.contains_key(&key) {
            let (model, file) = (self.model(&graph?)?, self.file("the plan of a sibling")?);
            call.push(option("out", file.path().display()));
            let output =
                self.call(runs, call, &model.path().display().to_string())?.ok_or(Unprepared::CutOff)?;
            let plan = match output.status.success() {
                true => Ok(file),
                false => Err(said(&output, "error: there is no plan of the sibling")),
            };
            plans.insert(key.clone(), plan);
        }
        match &plans[&key] {
            Ok(file) => Ok(Some(file.path().to_owned())),
            Err(error) => Err(Unprepared::Refused(error.clone())),
        }
    }

    /// Writes a graph to a temporary file.
    fn model(&self, graph: &GraphDocument) -> Result<NamedTempFile> {
        let file = self.file("a model")?;
        files::write(file.path(), &write_graph(graph))?;
        Ok(file)
    }

    /// Creates a temporary file, which is removed when dropped.
    fn file(&self, what: &str) -> Result<NamedTempFile> {
        NamedTempFile::new().map_err(|error| {
            CliError::new(B004, format!("cannot create a file for {what}: {error}")).at(self.input.id())
        })
    }

    /// Runs this program on a model in a child process; `None` if all runs were ended before it finished.
    fn call(&self, runs: &Runs, options: Vec<String>, model: &str) -> Result<Option<Output>> {
        let failed = |doing: &str, error: std::io::Error| {
            CliError::new(B004, format!("cannot {doing}: {error}")).at(self.input.id())
        };
        let program = std::env::current_exe().map_err(|error| failed("find this program", error))?;
        let starts_others = matches!(self.method, Method::Command(_));
        runs.run(Command::new(program).args(options).args(["--", model]), starts_others)
            .map_err(|error| failed("start a run", error))
    }

    /// Whether the case evaluates a given plan.
    fn is_given(&self) -> bool {
        matches!(self.method, Method::Plan(_))
    }

    /// Arguments of `plan`, without those of the problem; for a given plan, the arguments of `compare`.
    fn plan(&self, suite: &Suite) -> Vec<String> {
        let solver = match &self.method {
            Method::Plan(file) => {
                let call = ["compare", "--json", "--verbose", "--solvers", "none"].map(str::to_owned);
                return call
                    .into_iter()
                    .chain([option("plan", format!("plan={}", file.display()))])
                    .collect();
            }
            Method::Solver if registry::ablation(&self.solver).is_some() => {
                format!("{}{}", registry::ABLATION, self.solver)
            }
            Method::Solver => self.solver.clone(),
            Method::Variant(variant) => variant.solver.clone(),
            Method::Command(command) => command.argument(),
        };
        let mut call: Vec<String> = ["plan", "--json", "--verbose", "--solver"].map(str::to_owned).into();
        call.push(solver);
        let is_zero_shot = self.variant().is_some_and(|variant| variant.zero_shot);
        call.extend(is_zero_shot.then(|| "--zero-shot".to_owned()));
        let start = self.variant().and_then(|variant| variant.start(&self.input.name()));
        call.extend(start.map(|file| option("start", file.display())));
        let limits = [("time-limit", &suite.time_limit), ("gap", &suite.gap)];
        call.extend(limits.iter().filter_map(|(name, value)| Some(option(name, value.as_ref()?))));
        call
    }

    /// The default objective, if the suite gives only rules of it: without the name of the objective, an instance would
    /// complete them by its own options.
    fn kind(&self) -> Option<&'static str> {
        let is_named = ["objective", "parallel"].iter().any(|name| self.objective.contains_key(*name));
        let has_rules = self.objective.keys().any(|name| !OF_SOLVERS.contains(&name.as_str()));
        (has_rules && !is_named && instances::is_instance(&self.input.id())).then_some("throughput")
    }

    /// Arguments that describe the problem and its resources, without the model.
    fn problem(&self, suite: &Suite, seed: u64) -> Vec<String> {
        let mut call = vec![option("threads", suite.threads), option("seed", seed)];
        let given = [("memory-limit", &suite.memory_limit), ("cluster", &self.cluster)];
        call.extend(given.iter().filter_map(|(name, value)| Some(option(name, value.as_ref()?))));
        let objective = self
            .objective
            .iter()
            .filter(|(name, _)| !self.is_given() || !OF_SOLVERS.contains(&name.as_str()));
        call.extend(objective.map(|(name, value)| option(&name.replace('_', "-"), plain(value))));
        if self.objective.is_empty() {
            call.extend(instances::options(&self.input.id()));
        }
        call.extend(self.kind().map(|kind| option("objective", kind)));
        call
    }
}

/// Options of `plan` that affect how a plan is found, but not its value.
pub(super) const OF_SOLVERS: [&str; 3] = ["simulations", "robust", "robust_budget"];

/// Output of a run.
#[derive(Default)]
struct Printed {
    status: String,
    value: Option<f64>,
    bound: Option<f64>,
    gap: Option<f64>,
    /// Whether the value and the bound are costs of a strategy problem.
    is_cost: bool,
    seconds: f64,
    operators: Option<usize>,
    stop: Option<String>,
    /// Reason why there is no plan.
    reason: Option<String>,
}

/// The output of `compare --json`: by model, or for joint plans the rows themselves.
#[derive(Deserialize)]
#[serde(untagged)]
enum Compared {
    Models { models: Vec<ComparedModel> },
    Rows(Vec<ComparedPlan>),
}

#[derive(Deserialize)]
struct ComparedModel {
    rows: Vec<ComparedPlan>,
}

/// The row of a given plan.
#[derive(Deserialize)]
struct ComparedPlan {
    status: String,
    #[serde(default)]
    breaks: Vec<String>,
    value_s: Option<f64>,
    reason: Option<String>,
}

impl Printed {
    /// Reads the comparison of a given plan. A plan that breaks a rule has no value.
    fn given(bytes: &[u8]) -> Option<Printed> {
        let rows = match serde_json::from_slice(bytes).ok()? {
            Compared::Models { models } => models.into_iter().next()?.rows,
            Compared::Rows(rows) => rows,
        };
        let plan = rows.into_iter().next()?;
        let value = plan.value_s.filter(|_| plan.breaks.is_empty());
        let status = match (value, plan.breaks.as_slice()) {
            (Some(_), _) => plan.status,
            (None, []) => plan.reason.unwrap_or(plan.status),
            (None, breaks) => breaks.join(", "),
        };
        Some(Printed { status, value, ..Printed::default() })
    }

    /// Reads a plan, a joint plan or a strategy plan.
    fn read(bytes: &[u8]) -> Option<Printed> {
        if let Ok(plan) = serde_json::from_slice::<PlanDocument>(bytes) {
            let operators = plan.devices.iter().map(|device| device.ops.len()).sum();
            return Some(Printed {
                status: plan.status.name().into(),
                value: plan.objective.value_s,
                bound: plan.bound.value_s,
                gap: plan.gap,
                is_cost: false,
                seconds: plan.seconds,
                operators: plan.objective.value_s.map(|_| operators),
                stop: plan.stop,
                reason: plan.reason,
            });
        }
        if let Ok(plan) = serde_json::from_slice::<JointPlanDocument>(bytes) {
            return Some(Printed {
                status: plan.status.name().into(),
                value: plan.objective.value_s,
                bound: plan.bound.value_s,
                gap: plan.gap,
                is_cost: false,
                seconds: plan.seconds,
                operators: None,
                stop: plan.stop,
                reason: plan.reason,
            });
        }
        let plan: StrategyPlanDocument = serde_json::from_slice(bytes).ok()?;
        Some(Printed {
            status: plan.status.name().into(),
            value: plan.cost.map(|cost| cost as f64),
            bound: plan.bound.cost,
            gap: plan.gap,
            is_cost: true,
            seconds: plan.seconds,
            operators: plan.cost.map(|_| plan.strategies.len()),
            stop: plan.stop,
            reason: None,
        })
    }
}

/// Reasons why a run could not be prepared.
enum Unprepared {
    /// The preparing command failed with this error.
    Refused(String),
    /// All runs were ended before the preparation finished.
    CutOff,
    /// The command could not be run.
    Failed(CliError),
}

impl From<CliError> for Unprepared {
    fn from(error: CliError) -> Self {
        Unprepared::Failed(error)
    }
}

/// The error that a run reported, or `otherwise` if it reported none.
fn said(output: &Output, otherwise: &str) -> String {
    error_of(&String::from_utf8_lossy(&output.stderr)).unwrap_or(otherwise).to_owned()
}

/// The first line of an error in what a run wrote to standard error.
fn error_of(story: &str) -> Option<&str> {
    story.lines().find(|line| line.starts_with("error"))
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
