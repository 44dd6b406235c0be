//! `plan`: finds a plan and proves how good it is.

use std::path::Path;

use stagewright::core::document::PlanStatus;
use stagewright::report::convergence::Convergence;
use stagewright::tasks::{Answer, Session, SolverChoice};

use super::args::PlanArguments;
use super::error::Result;
use super::exit::Exit;
use super::files::{self, Outputs};
use super::recorder::Recorder;
use super::resolve::{self, Question};
use super::{interrupt, origin, output, policy};

/// Maximum value of `--simulations`, which is far more than a machine can run.
const MAX_SIMULATIONS: u64 = 1 << 53;

pub(crate) fn run(arguments: &PlanArguments, verbose: bool) -> Result<Exit> {
    let outputs = outputs(arguments)?;
    let solving = resolve::solving(&arguments.solve)?;
    if let Some(simulations) = arguments.simulations {
        resolve::count("--simulations", simulations, 0..=MAX_SIMULATIONS)?;
    }
    let origin = origin::origin()?;
    let options =
        solving.options().simulations(arguments.simulations).robust(resolve::robustness(arguments)?);
    let task = resolve::task(&arguments.model, question(arguments, &|| solver(arguments)))?;
    if let Some(chosen) = task.chosen().filter(|_| verbose && arguments.solver == "auto") {
        output::note(&format!("solver: {}", chosen.label));
    }
    let counts = task.chosen().is_some_and(|chosen| chosen.solver.capabilities().counts_simulations);
    let mut recorder = Recorder::new(verbose, task.kind(), counts);
    let note = &mut |line: &str| output::note(line);
    let session = Session::new(options.interrupt(interrupt::watch()), &mut recorder, note);
    let mut session = Session { with_diagnosis: true, ..session };
    let mut answer = task.solve(&mut session)?;
    answer.document.set_origin(origin);
    let convergence = recorder.finish();
    // The files are written after the plan is printed, so that a full disk does not lose the result.
    print(&answer, arguments, outputs)?;
    answer.hints.iter().for_each(|hint| output::note(hint));
    write(&answer, &convergence, arguments)?;
    let exit = exit(&answer, solving.gap);
    // The process is about to end, and freeing a million operators one by one takes half a second.
    std::mem::forget((task, answer));
    Ok(exit)
}

/// The question that the arguments pose.
pub(crate) fn question<'a>(
    arguments: &'a PlanArguments,
    solver: &'a dyn Fn() -> Result<SolverChoice>,
) -> Question<'a> {
    Question {
        objective: Some(&arguments.objective),
        selection: Some(&arguments.selection),
        parallel: Some(&arguments.parallel),
        local: Some(&arguments.local),
        serving: Some(&arguments.serving),
        solve: Some(&arguments.solve),
        solver: Some(solver),
        start: arguments.start.as_deref(),
        given: vec![
            ("robust", arguments.robust.is_some()),
            ("simulations", arguments.simulations.is_some()),
            ("checkpoint", arguments.checkpoint.is_some()),
            ("dot", arguments.dot.is_some()),
            ("trace", arguments.trace.is_some()),
            ("html", arguments.html.is_some()),
            ("convergence", arguments.convergence.is_some()),
        ],
        is_stated: false,
    }
}

/// The solver that the arguments choose, with the parameters of a checkpoint if one is given.
pub(crate) fn solver(arguments: &PlanArguments) -> Result<SolverChoice> {
    let choice = resolve::choice(&arguments.solver)?;
    match &arguments.checkpoint {
        Some(path) => policy::of_checkpoint(path, arguments.zero_shot, choice),
        None => Ok(choice),
    }
}

/// The exit code of an answer; `wanted` is the requested gap, if any.
fn exit(answer: &Answer, wanted: Option<f64>) -> Exit {
    match (answer.document.value(), answer.gap, wanted) {
        (None, ..) if answer.document.status() == PlanStatus::Infeasible => Exit::Infeasible,
        (None, ..) => Exit::NoPlan,
        (Some(_), reached, Some(wanted)) if reached.is_none_or(|reached| reached > wanted) => {
            Exit::GapNotReached
        }
        (Some(_), ..) => Exit::Done,
    }
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

/// Prints the plan, unless another output goes to standard output.
fn print(answer: &Answer, arguments: &PlanArguments, outputs: Outputs) -> Result<()> {
    match outputs {
        _ if arguments.json || arguments.out.as_deref().is_some_and(files::is_standard) => {
            output::data(&answer.document.json())
        }
        Outputs::Standard => Ok(()),
        Outputs::Files => output::result(&answer.text(output::width())),
    }
}

/// Writes the files that the arguments name.
fn write(answer: &Answer, convergence: &Convergence, arguments: &PlanArguments) -> Result<()> {
    if let Some(path) = arguments.out.as_deref().filter(|path| !files::is_standard(path)) {
        files::write(path, &answer.document.json())?;
    }
    if let Some(path) = &arguments.convergence {
        let plan = &answer.document;
        files::write(
            path,
            &convergence.clone().with_answer(plan.value(), plan.bound(), plan.seconds()).csv(),
        )?;
    }
    if let Some(path) = &arguments.dot {
        match answer.drawing(&path.display().to_string())? {
            Some(drawing) => files::write(path, &drawing)?,
            None => output::note("no operator is placed, so no drawing was written"),
        }
    }
    if let Some(path) = &arguments.trace {
        match answer.has_step() {
            true => files::write_fallibly(path, |file| answer.trace(file))?,
            false => output::note("there is no plan, so no timeline was written"),
        }
    }
    if let Some(path) = &arguments.html {
        let cluster = arguments.model.around.cluster().map(|path| path.display().to_string());
        files::write_fallibly(path, |file| answer.html(cluster.as_deref(), convergence, file))?;
    }
    Ok(())
}
