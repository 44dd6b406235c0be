//! `check`: verifies a plan with code independent of the solvers.

use stagewright::core::solver::Silent;
use stagewright::tasks::Session;

use super::args::CheckArguments;
use super::error::Result;
use super::exit::Exit;
use super::resolve::{self, Question};
use super::{interrupt, output};

pub(crate) fn run(arguments: &CheckArguments) -> Result<Exit> {
    let question = Question {
        objective: Some(&arguments.objective),
        local: Some(&arguments.local),
        serving: Some(&arguments.serving),
        given: vec![("flags", arguments.flags.is_some())],
        ..Question::default()
    };
    let (task, plan, label) = match (&arguments.plan, &arguments.flags) {
        (Some(plan), _) => resolve::planned_task(&arguments.model, plan, question)?,
        (None, flags) => {
            let task = resolve::task(&arguments.model, question)?;
            let plan = task.line(flags.as_deref().unwrap_or_default())?;
            (task, plan, "--flags".to_owned())
        }
    };
    let note = &mut |line: &str| output::note(line);
    let observer = &mut Silent;
    let session = Session::new(stagewright::Options::default(), observer, note);
    let mut session = Session { strongest: Some(&interrupt::watch), ..session };
    let checked = task.check(plan, &label, &mut session)?;
    output::shown(&checked.shown, arguments.json)?;
    Ok(if checked.holds { Exit::Done } else { Exit::Violation })
}
