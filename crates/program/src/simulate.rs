//! `simulate`: simulates one step of a plan under dataflow execution, or an iteration of a schedule.

use std::path::Path;

use stagewright::code::U006;
use stagewright::core::document::{Execution, Schedule};
use stagewright::core::evaluate::{Violation, evaluate};
use stagewright::core::objective::Objective;
use stagewright::core::placement::Placement;
use stagewright::core::problem::Problem;
use stagewright::placement::placement;
use stagewright::report::steady::Steady;
use stagewright::report::step::document::{DeviceNames, StepDocument};
use stagewright::report::step::{Step, text, trace};
use stagewright::tasks::objective_of;

use super::args::SimulateArguments;
use super::error::{CliError, Result};
use super::exit::Exit;
use super::files::{self, Outputs};
use super::{iteration, output, requests, resolve};

/// Maximum number of violated constraints that are reported; the rest are only counted.
const TOLD: usize = 5;

pub(crate) fn run(arguments: &SimulateArguments) -> Result<Exit> {
    let outputs = files::outputs(&[
        ("--json", arguments.json.then_some(Path::new("-"))),
        ("--trace", arguments.trace.as_deref()),
    ])?;
    if requests::is_for(&arguments.plan)? {
        return requests::run(arguments);
    }
    let (documents, plan, label) = resolve::planned(&arguments.model, &arguments.plan)?;
    if let Some(schedule) = arguments.schedule.filter(|&it| it != Schedule::None) {
        return iteration::run(arguments, schedule, documents, &plan, &label);
    }
    let problem = documents.problem(of_step(plan.objective.execution))?;
    let placement = placement(&problem, &plan).map_err(|error| CliError::placement(&label, &error))?;
    let placement = placement.as_step(problem.graph(), plan.objective.kind);
    judge(&problem, &placement, &label)?;
    let step = Step::new(&problem, &placement);
    // The step is valid even if the plan's own objective is not.
    let pipeline = objective_of(&plan.objective).and_then(|objective| {
        problem.with_objective(objective).map_err(|error| CliError::problem(&label, &error))
    });
    let steady = match &pipeline {
        Ok(pipeline) => Steady::new(pipeline, &placement),
        Err(error) => Steady::none(&problem, error.cause().to_owned()),
    };
    let width = output::width();
    match outputs {
        _ if arguments.json => {
            output::data(&output::json(&StepDocument::new(&step, &DeviceNames::new(&step), &steady))?)?
        }
        Outputs::Standard => {}
        Outputs::Files => output::result(&format!("{}\n{}", text::step(&step, width), steady.text(width)))?,
    }
    if let Some(path) = &arguments.trace {
        files::write_with(path, |file| trace::write(&step, file))?;
    }
    Ok(Exit::Done)
}

/// The objective for simulating a step, whatever the plan's own objective. The execution mode comes from the plan,
/// which states it if it is for makespan.
fn of_step(execution: Execution) -> Objective {
    Objective::Makespan { execution }
}

/// Rejects a placement with operators on devices that cannot run them. Other violations are only reported, because the
/// step can still be simulated.
fn judge(problem: &Problem, placement: &Placement, label: &str) -> Result<()> {
    let violations = evaluate(problem, placement).violations;
    if let Some(first) =
        violations.iter().find(|violation| matches!(violation, Violation::Unsupported { .. }))
    {
        return Err(CliError::new(U006, first.to_string())
            .at(label)
            .help("correct the plan: its step cannot be simulated; `check` lists every violation"));
    }
    let replicated =
        |violation: &&Violation| matches!(violation, Violation::Replicas { .. } | Violation::Devices { .. });
    if violations.iter().any(|violation| replicated(&violation)) {
        output::note("note: a replicated stage is simulated on the one device that it names");
    }
    let broken: Vec<&Violation> = violations.iter().filter(|violation| !replicated(violation)).collect();
    for violation in broken.iter().take(TOLD) {
        output::note(&format!("note: the plan is infeasible as one step: {violation}"));
    }
    if broken.len() > TOLD {
        output::note(&format!("note: and {} more", broken.len() - TOLD));
    }
    Ok(())
}
