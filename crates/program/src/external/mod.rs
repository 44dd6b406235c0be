//! Solvers in other programs: `exec:COMMAND`.
//!
//! The command gets the path of a problem document as its last argument and writes a plan to standard output, in any
//! notation that `check` reads. The independent checker evaluates the plan. If the command fails, or its plan is
//! infeasible, there is no plan, and the reason is reported. [`process`] runs the command, and
//! [`descendants`](super::descendants) ends the processes that it leaves behind.

mod process;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;
use stagewright::code::U001;
use stagewright::core::bound::strongest_before;
use stagewright::core::document::{PROBLEM_SCHEMA, ProblemDocument};
use stagewright::core::objective::Objective;
use stagewright::core::problem::Problem;
use stagewright::core::solver::{Capabilities, Context, Event, Plan, Solution, SolveError, Solver, Status};
use stagewright::core::tolerance;
use stagewright::formats::{Format, Imported, PlanFile};
use stagewright::placement::placement;
use stagewright::tasks::placement::judge;

use super::error::{CliError, Result};

/// Prefix of the name of a solver that is a command.
pub(crate) const PREFIX: &str = stagewright::tasks::COMMAND;

/// Maximum number of characters of a reason.
const LONGEST_REASON: usize = 200;

/// A command that solves problems.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct External {
    /// The program and its arguments.
    command: Vec<String>,
    /// Folder in which the command runs; `None` means this program's working folder.
    folder: Option<PathBuf>,
}

impl External {
    /// A command in a folder.
    pub(crate) fn new(command: Vec<String>, folder: PathBuf) -> External {
        // An empty path would not name a folder.
        External { command, folder: Some(folder).filter(|folder| !folder.as_os_str().is_empty()) }
    }

    /// Parses a command: words separated by spaces, or the form that [`External::argument`] returns.
    pub(crate) fn parse(text: &str) -> Result<External> {
        let external = match serde_json::from_str(text) {
            Ok(external) => external,
            Err(_) => {
                External { command: text.split_whitespace().map(str::to_owned).collect(), folder: None }
            }
        };
        if external.command.is_empty() {
            return Err(CliError::new(U001, "a solver in another program needs a command")
                .at("--solver")
                .help("write \"exec:python3 my_solver.py\""));
        }
        Ok(external)
    }

    /// The value of `--solver` from which [`External::parse`] reconstructs the command.
    pub(crate) fn argument(&self) -> String {
        format!("{PREFIX}{}", serde_json::json!({ "command": self.command, "folder": self.folder }))
    }

    /// Words of the command that name files, on whose contents the results of the command depend.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let folder = self.folder.clone().unwrap_or_default();
        self.command.iter().map(move |word| folder.join(word)).filter(|path| path.is_file())
    }

    /// Runs the command, and returns its plan or the reason why there is none.
    fn plan(&self, problem: &Problem, context: &Context<'_>) -> Result<Plan, String> {
        let output = self.run(&document(problem, context), context)?;
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

    /// Runs the command on a problem, and returns its standard output.
    fn run(&self, problem: &ProblemDocument, context: &Context<'_>) -> Result<Vec<u8>, String> {
        let place = tempfile::tempdir().map_err(|error| format!("no folder for the problem: {error}"))?;
        let input = place.path().join("problem.json");
        let text = serde_json::to_vec(problem).map_err(|error| error.to_string())?;
        fs::write(&input, text).map_err(|error| format!("no file for the problem: {error}"))?;
        let name = self.command.first().map_or("", String::as_str);
        let mut command = Command::new(name);
        command.args(self.command.iter().skip(1)).arg(&input);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        process::output(name, &mut command, context)
    }
}

/// Shortens a reason to one line of limited length, because it may quote any output of the command.
fn shortened(reason: &str) -> String {
    let line = reason.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    match line.char_indices().nth(LONGEST_REASON) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
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
        seed: context.seed(),
        threads: context.threads(),
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

    fn capabilities(&self) -> Capabilities {
        Capabilities { depends_on_seed: true, ..Capabilities::default() }
    }

    fn run(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution, SolveError> {
        let found = self.plan(problem, context);
        let bound = strongest_before(problem, context.stop());
        let stop = context.stop().reason();
        Ok(match found {
            Ok(plan) => {
                context.emit(Event::Incumbent { value: plan.value() });
                Solution::with_plan(self.name(), plan, bound, stop)
            }
            Err(reason) => {
                Solution::without_plan(self.name(), Status::Unknown, bound, stop, shortened(&reason))
            }
        })
    }
}
