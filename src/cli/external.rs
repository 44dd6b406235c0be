//! Solvers in other programs: `exec:COMMAND`.
//!
//! The command gets the path of a problem document as its last argument and writes a plan to standard output, in any
//! notation that `check` reads. The independent checker evaluates the plan. A command that fails, or whose plan is
//! infeasible, has no plan, with the reason.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use stagewright::core::bound::strongest_before;
use stagewright::core::document::{PROBLEM_SCHEMA, ProblemDocument};
use stagewright::core::objective::Objective;
use stagewright::core::problem::Problem;
use stagewright::core::solver::{Context, Event, Plan, Solution, SolveError, Solver, Status, StopReason};
use stagewright::core::tolerance;
use stagewright::formats::{Format, Imported, PlanFile};
use stagewright::placement::placement;

use super::error::{CliError, Result};
use super::given::judge;

/// Start of the name of such a solver.
pub(crate) const PREFIX: &str = "exec:";

/// Time beyond the limit, for a command to start and to write its plan.
const GRACE: Duration = Duration::from_secs(5);

/// Interval at which a running command is looked at.
const POLL: Duration = Duration::from_millis(5);

/// A command that solves problems.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct External {
    /// The program and its arguments.
    command: Vec<String>,
    /// Folder in which it runs; `None` means that of this program.
    folder: Option<PathBuf>,
}

impl External {
    /// A command in a folder.
    pub(crate) fn new(command: Vec<String>, folder: PathBuf) -> External {
        // An empty path is no folder.
        External { command, folder: Some(folder).filter(|folder| !folder.as_os_str().is_empty()) }
    }

    /// Parses a command: words between spaces, or what [`External::argument`] returns.
    pub(crate) fn parse(text: &str) -> Result<External> {
        let external = match serde_json::from_str(text) {
            Ok(external) => external,
            Err(_) => {
                External { command: text.split_whitespace().map(str::to_owned).collect(), folder: None }
            }
        };
        if external.command.is_empty() {
            return Err(CliError::new("U001", "a solver in another program needs a command")
                .at("--solver")
                .help("write \"exec:python3 my_solver.py\""));
        }
        Ok(external)
    }

    /// The value of `--solver` for it, from which [`External::parse`] returns the same command.
    pub(crate) fn argument(&self) -> String {
        format!("{PREFIX}{}", serde_json::json!({ "command": self.command, "folder": self.folder }))
    }

    /// Words of the command that name files, on whose contents its results depend.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let folder = self.folder.clone().unwrap_or_default();
        self.command.iter().map(move |word| folder.join(word)).filter(|path| path.is_file())
    }

    /// Runs the command, and returns its plan or the reason why there is none.
    fn plan(&self, problem: &Problem, context: &Context<'_>) -> Result<Plan, String> {
        let place = tempfile::tempdir().map_err(|error| format!("no folder for the problem: {error}"))?;
        let output = self.run(place.path(), &document(problem, context), context)?;
        let (graph, cluster) = (problem.graph().document(), problem.cluster().document());
        let unreadable = |cause: String| format!("its plan cannot be read: {cause}");
        let imported = Imported { graph: graph.clone(), format: Format::Native, ids: None };
        let plan = PlanFile::read("plan", &output)
            .and_then(|plan| plan.for_model(&imported, Some(cluster)))
            .map_err(|error| unreadable(error.message.clone()))?;
        let (plan, breaks) = judge(plan, graph, cluster, Some(problem.pins()), problem.objective())
            .map_err(|error| unreadable(error.to_string()))?;
        if !breaks.is_empty() {
            return Err(format!("its plan is infeasible: {}", breaks.join(", ")));
        }
        let placement = placement(problem, &plan).map_err(|error| unreadable(error.to_string()))?;
        let found = Plan::try_new(problem, placement)
            .map_err(|broken| format!("its plan is infeasible: {broken}"))?;
        match plan.objective.value_s {
            Some(value) if tolerance::same(value, found.value()) => Ok(found),
            _ => Err("its plan cannot be evaluated".into()),
        }
    }

    /// Runs the command on a problem, and returns what it wrote.
    fn run(&self, place: &Path, problem: &ProblemDocument, context: &Context<'_>) -> Result<Vec<u8>, String> {
        let failed = |error: io::Error| format!("no file for the problem: {error}");
        let [input, output, story] = ["problem.json", "plan", "errors"].map(|name| place.join(name));
        let text = serde_json::to_vec(problem).map_err(|error| error.to_string())?;
        fs::write(&input, text).map_err(failed)?;
        let name = self.command.first().map_or("", String::as_str);
        let mut command = Command::new(name);
        command
            .args(self.command.iter().skip(1))
            .arg(&input)
            .stdin(Stdio::null())
            // Files, since a process that stays behind could keep a pipe open.
            .stdout(File::create(&output).map_err(failed)?)
            .stderr(File::create(&story).map_err(failed)?);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.spawn().map_err(|error| format!("cannot start `{name}`: {error}"))?;
        let ended = wait(child, context).map_err(|error| format!("`{name}` was lost: {error}"))?;
        match ended {
            Ok(status) if status.success() => fs::read(&output).map_err(failed),
            Ok(status) => {
                let story = fs::read(&story).unwrap_or_default();
                let story = String::from_utf8_lossy(&story);
                let last = story.lines().rev().find(|line| !line.trim().is_empty());
                let last = last.map(|line| format!(": {}", line.trim())).unwrap_or_default();
                Err(match status.code() {
                    Some(code) => format!("exit code {code}{last}"),
                    None => format!("{status}{last}"),
                })
            }
            Err(StopReason::Interrupted) => Err("interrupted".into()),
            Err(_) => Err(format!("no plan within the time limit and {} s", GRACE.as_secs())),
        }
    }
}

/// Waits for a process until the time limit and the grace are over. Then it is killed with all that it started.
fn wait(mut child: Child, context: &Context<'_>) -> io::Result<Result<ExitStatus, StopReason>> {
    let limit = context.limits.time.map(|limit| limit.saturating_add(GRACE));
    let ended = loop {
        if let Some(status) = child.try_wait()? {
            break Ok(status);
        }
        if context.stop().is_interrupted() {
            break Err(StopReason::Interrupted);
        }
        if limit.is_some_and(|limit| context.elapsed() >= limit) {
            break Err(StopReason::Time);
        }
        thread::sleep(POLL);
    };
    #[cfg(unix)]
    if let Some(group) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
        // A group without processes needs no signal.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    if ended.is_err() {
        let _ = child.kill();
        child.wait()?;
    }
    Ok(ended)
}

fn document(problem: &Problem, context: &Context<'_>) -> ProblemDocument {
    let cluster = problem.cluster();
    let mut graph = problem.graph().document().clone();
    graph.cluster = None;
    ProblemDocument {
        schema: PROBLEM_SCHEMA.into(),
        graph,
        cluster: cluster.document().clone(),
        devices: cluster.devices().map(|device| cluster.device_name(device)).collect(),
        objective: problem.objective().to_document(None),
        pins: problem.pins().clone(),
        time_limit_s: context.stop().remaining().map(|left| left.as_secs_f64()),
        memory_limit_bytes: context.limits.memory,
        gap: context.limits.gap,
        seed: context.seed,
        threads: context.threads,
    }
}

impl Solver for External {
    fn name(&self) -> &'static str {
        "exec"
    }

    fn summary(&self) -> &'static str {
        "a solver in another program"
    }

    fn unsupported(&self, _: &Objective) -> Option<&'static str> {
        None
    }

    fn solve(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution, SolveError> {
        SolveError::check(self, problem)?;
        let found = self.plan(problem, context);
        let bound = strongest_before(problem, context.stop());
        let stop = context.stop().reason();
        Ok(match found {
            Ok(plan) => {
                context.emit(Event::Incumbent { value: plan.value() });
                Solution::with_plan(self.name(), plan, bound, stop)
            }
            Err(reason) => Solution::without_plan(self.name(), Status::Unknown, bound, stop, reason),
        })
    }
}
