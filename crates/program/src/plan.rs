//! `plan`: finds a plan and proves how good it is.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use stagewright::bounds::Proving;
use stagewright::core::document::{ObjectiveKind, PlanDocument, Split};
use stagewright::core::placement::Placement;
use stagewright::core::problem::Problem;
use stagewright::core::solver::{Context, Observer, Solution, SolveError, Solver, Status, StopReason};
use stagewright::core::uncertainty::Uncertainty;
use stagewright::diagnose::{DiagnosisEffort, diagnose};
use stagewright::explain::Merged;
use stagewright::formats::{PlanFile, sibling, write_plan};
use stagewright::layers::keep_whole;
use stagewright::report::convergence::Convergence;
use stagewright::report::document::{Provenance, plan_document};
use stagewright::report::html::{self, Page};
use stagewright::report::step::Step;
use stagewright::report::table;
use stagewright::report::throughput::throughput;
use stagewright::text::visible;
use stagewright::{reading, robust};

use super::args::{ModelArguments, PlanArguments};
use super::error::{CliError, Result};
use super::exit::Exit;
use super::files::{self, Input, Outputs};
use super::policy;
use super::progress::Progress;
use super::recorder::Recorder;
use super::resolve::{self, Chosen, Documents, Solving};
use super::{export, interrupt, joint, output, simulate, strategies};

/// Maximum time of a diagnosis; it also ends with the time limit of the solve.
const DIAGNOSIS: Duration = Duration::from_secs(20);

/// More simulations than a machine plays in its life.
const MAX_SIMULATIONS: u64 = 1 << 53;

pub(crate) fn run(arguments: &PlanArguments, verbose: bool) -> Result<Exit> {
    if strategies::is_problem(&arguments.model.model) {
        return strategies::plan(arguments, verbose);
    }
    if arguments.parallel.parallel.is_some() {
        return joint::plan(arguments, verbose);
    }
    let outputs = outputs(arguments)?;
    let objective = resolve::objective(&arguments.objective)?;
    let solving = solving(arguments)?;
    let mut chosen = resolve::solver(&arguments.solver, &objective)?;
    if let Some(path) = &arguments.checkpoint {
        chosen = policy::of_checkpoint(path, arguments.zero_shot, &chosen)?;
    }
    resolve::counts(&chosen, &solving)?;
    let uncertainty = resolve::uncertainty(arguments, &objective)?;
    let ModelArguments { model, around, .. } = &arguments.model;
    let (cluster, pins) = (around.cluster.as_deref().map(Path::new), around.pins.as_deref());
    files::at_most_one_standard(&[Some(model), cluster, pins, arguments.start.as_deref()])?;
    let documents = resolve::documents(&arguments.model)?;
    let start = arguments.start.as_deref().map(|path| start_plan(path, &documents)).transpose()?;
    let (options, batch, coverage) =
        (documents.options.clone(), documents.batch(), documents.coverage.clone());
    let problem = resolve::problem(documents, objective)?;
    if let Some(merged) = Merged::from_problem(&problem) {
        output::note(&format!("note: {}", merged.text()));
    }
    let start = start.map(|(label, plan)| start_placement(&label, &plan, &problem)).transpose()?;
    if start.is_some() && !chosen.solver.capabilities().starts_from_plan {
        output::note(&format!(
            "`{}` does not start from a plan, so `--start` has no effect",
            chosen.solver.name()
        ));
    }
    if arguments.solver == "auto" && verbose {
        output::note(&format!("solver: {}", chosen.label));
    }
    let reserve_is_given = options.as_ref().is_some_and(|options| options.memory_reserve.is_some());
    let mut answer = answer(problem, start, &chosen, &solving, uncertainty, reserve_is_given, verbose)?;
    let Answer { problem, solution, document, .. } = &mut answer;
    document.model = options;
    let placement = solution.plan.as_ref().map(|plan| &plan.placement);
    document.sources = placement.and_then(|placement| reading::sources(problem, placement, &coverage));
    document.throughput = solution
        .value()
        .and_then(|value| throughput(&document.objective, value, batch, problem.graph().document()));
    // Written after it is printed, so that a full disk does not lose the result.
    answer.print(arguments, outputs)?;
    if let Some(hint) = hint_of_layers(&answer) {
        output::note(&hint);
    }
    answer.write_plan(arguments)?;
    answer.write_convergence(arguments)?;
    answer.write_drawing(arguments)?;
    answer.write_step(arguments)?;
    // The gap of a robust plan is that of its worst case.
    let reached = answer.document.robust.as_ref().map(|robust| robust.gap);
    Ok(match (reached, solving.gap) {
        (Some(reached), Some(wanted)) if reached > wanted => Exit::GapNotReached,
        (Some(_), _) => Exit::Done,
        (None, wanted) => Exit::from_solution(&answer.solution, wanted),
    })
}

fn outputs(arguments: &PlanArguments) -> Result<Outputs> {
    let is_printed = arguments.out.as_deref().is_some_and(files::is_standard);
    files::outputs(&[
        ("--json", arguments.json.then_some(Path::new("-")).filter(|_| !is_printed)),
        ("--out", arguments.out.as_deref()),
        ("--dot", arguments.dot.as_deref()),
        ("--trace", arguments.trace.as_deref()),
        ("--html", arguments.html.as_deref()),
        ("--convergence", arguments.convergence.as_deref()),
    ])
}

/// Maximum number of operators of a graph whose layers are counted for a hint: more take longer than an answer may wait.
const MOST_HINTED: usize = 50_000;

/// A hint to keep layers whole, where a limit of time or memory ended the search for a contiguous split and they are fewer
/// units by far.
fn hint_of_layers(answer: &Answer) -> Option<String> {
    let Answer { problem, solution, .. } = answer;
    let graph = problem.graph();
    let rules = problem.objective().rules();
    let is_cut_short = solution.status != Status::Optimal
        && matches!(solution.stop, Some(StopReason::Time | StopReason::Memory));
    let is_split =
        problem.objective().kind() == ObjectiveKind::Throughput && rules.split == Split::Contiguous;
    if !is_cut_short || !is_split || graph.operator_count() > MOST_HINTED {
        return None;
    }
    let mut whole = graph.document().clone();
    keep_whole(&mut whole);
    let classes: BTreeSet<&str> = whole.operators.iter().filter_map(|op| op.colocation.as_deref()).collect();
    let alone = whole.operators.iter().filter(|op| op.colocation.is_none()).count();
    let (units, layers) = (graph.class_count(), classes.len() + alone);
    (layers * FEWER <= units).then(|| {
        format!(
            "hint: {units} units smaller than layers make the search long; --whole-layers leaves {layers}"
        )
    })
}

/// Least ratio of units to whole layers for a hint.
const FEWER: usize = 4;

/// The plan of `--start`, with its label.
fn start_plan(path: &Path, documents: &Documents) -> Result<(String, PlanDocument)> {
    let Input { label, bytes } = files::read(path)?;
    let plan = PlanFile::read(&label, &bytes)?.for_model(&documents.model, Some(&documents.cluster))?;
    Ok((label, plan))
}

/// The placement of the plan of `--start`, carried over if it is of another model.
fn start_placement(label: &str, plan: &PlanDocument, problem: &Problem) -> Result<Placement> {
    let found = sibling::start(problem, plan).map_err(|error| CliError::placement(label, &error))?;
    let notes = found.notes(problem);
    notes.iter().for_each(|note| output::note(&format!("{label}: {note}")));
    Ok(found.placement)
}

fn solving(arguments: &PlanArguments) -> Result<Solving> {
    let mut solving = resolve::solving(&arguments.solve)?;
    if let Some(simulations) = arguments.simulations {
        resolve::count("--simulations", simulations, 0..=MAX_SIMULATIONS)?;
    }
    solving.limits.simulations = arguments.simulations;
    Ok(solving)
}

/// Solves a problem, and diagnoses it if there is no plan.
fn answer(
    problem: Problem,
    start: Option<Placement>,
    chosen: &Chosen,
    solving: &Solving,
    uncertainty: Option<Uncertainty>,
    reserve_is_given: bool,
    verbose: bool,
) -> Result<Answer> {
    let interrupt = interrupt::watch();
    let started = Instant::now();
    let mut recorder = Recorder::new(verbose, chosen.solver.capabilities().counts_simulations);
    let mut context = context(solving, &interrupt, &mut recorder);
    context.warm_start = start;
    let solver = &Proving(&*chosen.solver);
    let refused = |error| failed(chosen, &error);
    let mut robust = None;
    let solution = match uncertainty {
        None => solver.solve(&problem, &mut context).map_err(refused)?,
        Some(uncertainty) => {
            let found = robust::solve(&problem, uncertainty, solver, &mut context).map_err(refused)?;
            robust = robust::document(&found, uncertainty);
            found.solution(&context)
        }
    };
    let convergence = recorder.finish();
    let elapsed = started.elapsed();
    let provenance =
        Provenance { solver: chosen.label.clone(), seconds: elapsed.as_secs_f64(), seed: solving.seed };
    let mut document = plan_document(&problem, &solution, provenance);
    document.robust = robust;
    if solution.status == Status::Infeasible {
        let left =
            solving.limits.time.map_or(DIAGNOSIS, |limit| limit.saturating_sub(elapsed).min(DIAGNOSIS));
        let effort = DiagnosisEffort {
            solver: chosen.solver.clone(),
            time: left,
            memory: solving.limits.memory,
            threads: solving.threads,
            interrupt,
            reserve_is_given,
        };
        let why = diagnose(&problem, &effort);
        let why = why.iter().map(|finding| visible(&finding.to_string()).into_owned());
        document.reason = Some(document.reason.into_iter().chain(why).collect::<Vec<_>>().join("\n"));
    }
    Ok(Answer { problem, solution, document, convergence })
}

/// A solved problem, with a writer for each output.
struct Answer {
    problem: Problem,
    solution: Solution,
    document: PlanDocument,
    convergence: Convergence,
}

impl Answer {
    /// Prints the plan, unless another output goes to standard output.
    fn print(&self, arguments: &PlanArguments, outputs: Outputs) -> Result<()> {
        let cluster = self.problem.cluster().document();
        match outputs {
            _ if arguments.json || arguments.out.as_deref().is_some_and(files::is_standard) => {
                output::data(&write_plan(&self.document))
            }
            Outputs::Standard => Ok(()),
            Outputs::Files => output::result(&table::plan(&self.document, cluster, output::width())),
        }
    }

    fn write_plan(&self, arguments: &PlanArguments) -> Result<()> {
        match arguments.out.as_deref().filter(|path| !files::is_standard(path)) {
            Some(path) => files::write(path, &write_plan(&self.document)),
            None => Ok(()),
        }
    }

    fn write_convergence(&self, arguments: &PlanArguments) -> Result<()> {
        match &arguments.convergence {
            Some(path) => files::write(path, &self.convergence.clone().with_answer(&self.document).csv()),
            None => Ok(()),
        }
    }

    fn write_drawing(&self, arguments: &PlanArguments) -> Result<()> {
        match &arguments.dot {
            Some(_) if self.document.devices.is_empty() => {
                output::note("no operator is placed, so no drawing was written");
                Ok(())
            }
            Some(path) => export::write_dot(path, &self.document, &self.problem),
            None => Ok(()),
        }
    }

    /// Writes the timeline of a step, and the page with it.
    fn write_step(&self, arguments: &PlanArguments) -> Result<()> {
        let Answer { problem, document, .. } = self;
        let label = arguments.model.model.display().to_string();
        let placement = self.solution.plan.as_ref().map(|plan| &plan.placement);
        if arguments.trace.is_some() && placement.is_none() {
            output::note("there is no plan, so no timeline was written");
        }
        let wants_step = arguments.trace.is_some() || arguments.html.is_some();
        let of_step =
            placement.filter(|_| wants_step).map(|_| simulate::step_problem(problem, &label)).transpose()?;
        let played =
            placement.map(|placement| placement.as_step(problem.graph(), problem.objective().kind()));
        let step = of_step.as_ref().zip(played.as_ref()).map(|(problem, played)| Step::new(problem, played));
        if let Some((path, step)) = arguments.trace.as_ref().zip(step.as_ref()) {
            simulate::write_trace(path, step)?;
        }
        let Some(path) = &arguments.html else { return Ok(()) };
        let page = Page {
            model: &model_name(problem, &label),
            cluster: &cluster_name(problem, arguments.model.around.cluster.as_deref()),
            problem,
            document,
            placement,
            step: step.as_ref(),
            convergence: Some(&self.convergence),
            comparison: None,
        };
        files::write_with(path, |file| html::write(&page, file))
    }
}

/// Name of the model in a report: its own name, else its file.
pub(crate) fn model_name(problem: &Problem, label: &str) -> String {
    match problem.graph().name() {
        "" => label.into(),
        name => name.into(),
    }
}

/// Name of the cluster in a report: its own name, else the argument.
pub(crate) fn cluster_name(problem: &Problem, typed: Option<&Path>) -> String {
    let document = problem.cluster().document();
    match (document.name.as_str(), typed) {
        ("", Some(typed)) => typed.display().to_string(),
        ("", None) => "its own cluster".into(),
        (name, _) => name.into(),
    }
}

/// Runs a solver under the limits, with progress on standard error.
pub(crate) fn solve(
    problem: &Problem,
    chosen: &Chosen,
    solving: &Solving,
    interrupt: &Arc<AtomicBool>,
    verbose: bool,
) -> Result<Solution> {
    observed(problem, chosen, solving, interrupt, &mut Progress::new(verbose))
}

/// Runs a solver under the limits, with an observer.
fn observed(
    problem: &Problem,
    chosen: &Chosen,
    solving: &Solving,
    interrupt: &Arc<AtomicBool>,
    observer: &mut dyn Observer,
) -> Result<Solution> {
    let mut context = context(solving, interrupt, observer);
    Proving(&*chosen.solver).solve(problem, &mut context).map_err(|error| failed(chosen, &error))
}

/// The context of a solve under the limits.
fn context<'a>(
    solving: &Solving,
    interrupt: &Arc<AtomicBool>,
    observer: &'a mut dyn Observer,
) -> Context<'a> {
    let mut context = Context::new(solving.limits, interrupt.clone(), observer);
    context.seed = solving.seed;
    context.threads = solving.threads;
    context
}

fn failed(chosen: &Chosen, error: &SolveError) -> CliError {
    match error {
        SolveError::Unsupported { .. } => CliError::new("U004", error.to_string()).at("--solver"),
        _ => CliError::new("X001", error.to_string()).at(format!("--solver {}", chosen.solver.name())),
    }
}
