//! `simulate` of a serving plan: requests through its replicas.

use std::path::Path;

use stagewright::tasks::{Kind, Simulating, kind_of_plan};

use super::args::SimulateArguments;
use super::error::Result;
use super::exit::Exit;
use super::files::{is_standard, read};
use super::output;
use super::resolve::{Question, planned_task};

/// Seconds that are not measured, as a share of those that are.
const WARM_UP: f64 = 0.2;

/// Whether the plan of a file is a serving plan. Standard input is read once, and never for one.
pub(crate) fn is_for(plan: &Path) -> Result<bool> {
    Ok(!is_standard(plan) && kind_of_plan(&read(plan)?.bytes) == Kind::Serving)
}

/// Simulates the requests of a plan.
pub(crate) fn run(arguments: &SimulateArguments) -> Result<Exit> {
    let (task, plan, label) = planned_task(&arguments.model, &arguments.plan, Question::default())?;
    let measured_s = f64::from(arguments.duration);
    let asked = Simulating {
        arrivals: arguments.arrivals.as_deref(),
        place: "--arrivals",
        warm_up_s: WARM_UP * measured_s,
        measured_s,
        seed: arguments.seed,
    };
    let shown = task.simulate(plan, &label, &asked)?;
    if arguments.json {
        output::data(shown.json())?;
    } else {
        output::result(&shown.text(output::width()))?;
    }
    Ok(Exit::Done)
}
