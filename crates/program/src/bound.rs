//! `bound`: lower bounds by source.

use stagewright::code::U004;
use stagewright::tasks::{Session, SolverChoice};

use super::args::BoundArguments;
use super::error::{CliError, Result};
use super::exit::Exit;
use super::progress::Progress;
use super::resolve::{self, Question};
use super::{external, interrupt, output};

pub(crate) fn run(arguments: &BoundArguments, verbose: bool) -> Result<Exit> {
    let options = resolve::solving(&arguments.solve)?.options();
    let choice = || match arguments.solver.as_deref() {
        Some(name) if name.starts_with(external::PREFIX) => {
            Err(CliError::new(U004, "a solver in another program proves no bound")
                .at("--solver")
                .help("leave it out, or name a solver of this program"))
        }
        Some(name) => resolve::choice(name),
        None => Ok(SolverChoice::None),
    };
    let question = Question {
        objective: Some(&arguments.objective),
        parallel: Some(&arguments.parallel),
        local: Some(&arguments.local),
        serving: Some(&arguments.serving),
        solve: Some(&arguments.solve),
        solver: Some(&choice),
        given: vec![("solver", arguments.solver.is_some())],
        ..Question::default()
    };
    let task = resolve::task(&arguments.model, question)?;
    let mut progress = Progress::new(verbose, task.kind());
    let note = &mut |line: &str| output::note(line);
    let mut session = Session::new(options.interrupt(interrupt::watch()), &mut progress, note);
    let bounds = task.bounds(&mut session)?;
    progress.finish();
    if bounds.is_infeasible {
        output::note("infeasible: there is no plan to bound; `plan` explains why");
    }
    output::shown(&bounds.shown, arguments.json)?;
    Ok(match (bounds.is_infeasible, bounds.is_cut_short) {
        (true, _) => Exit::Infeasible,
        (false, true) => Exit::NoPlan,
        (false, false) => Exit::Done,
    })
}
