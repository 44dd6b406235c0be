//! `explain`: the reasons for the value of a plan, and what would change it.

use std::path::Path;

use stagewright::code::U013;
use stagewright::tasks::{Explaining, Kind, Measurements, Session};

use super::args::ExplainArguments;
use super::error::{CliError, Result};
use super::exit::Exit;
use super::files::{self, Input};
use super::progress::Progress;
use super::resolve::{self, Question};
use super::{interrupt, output};

/// Default share by which costs are off.
const COSTS_OFF: &str = "10%";

/// Reads measurements for a plan of a kind.
fn measurements(kind: Kind, path: &Path) -> Result<Measurements> {
    let Input { label, bytes } = files::read(path)?;
    Measurements::read(kind, &label, &bytes)
}

pub(crate) fn run(arguments: &ExplainArguments, verbose: bool) -> Result<Exit> {
    files::outputs(&[
        ("--calibrate", arguments.calibrate.as_deref()),
        ("--html", arguments.html.as_deref()),
    ])?;
    files::at_most_one_standard(&[
        Some(&arguments.model.model),
        Some(&arguments.plan),
        arguments.measured.as_deref(),
    ])?;
    let options = resolve::solving(&arguments.solve)?.options();
    let costs_off = resolve::deviation("--costs-off", arguments.costs_off.as_deref().unwrap_or(COSTS_OFF))?;
    let question = Question {
        objective: Some(&arguments.objective),
        solve: Some(&arguments.solve),
        given: vec![("costs_off", arguments.costs_off.is_some()), ("measured", arguments.measured.is_some())],
        ..Question::default()
    };
    let (task, plan, label) = resolve::planned_task(&arguments.model, &arguments.plan, question)?;
    if arguments.html.is_some() && task.kind() != Kind::Serving {
        let cause = format!("--html does not apply to an explanation of a {}", task.kind().name());
        return Err(CliError::new(U013, cause).help("`plan` writes its page"));
    }
    let measured = arguments.measured.as_deref().map(|path| measurements(task.kind(), path)).transpose()?;
    let asked = Explaining { what_if: !arguments.no_what_if, costs_off, measured: measured.as_ref() };
    if let Some((measured, path)) = measured.as_ref().zip(arguments.calibrate.as_deref()) {
        files::write(path, &task.calibrated(plan.clone(), &label, measured)?)?;
        if files::is_standard(path) {
            return Ok(Exit::Done);
        }
    }
    // Without what-ifs there is no search to interrupt, so Ctrl-C keeps its default effect.
    let options = if asked.what_if { options.interrupt(interrupt::watch()) } else { options };
    let note = &mut |line: &str| output::note(line);
    let mut progress = Progress::new(verbose, task.kind());
    let mut session = Session::new(options, &mut progress, note);
    let shown = task.explain(plan, &label, asked, &mut session)?;
    progress.finish();
    if let Some(path) = &arguments.html {
        files::write_fallibly(path, |file| Ok(shown.html(file)))?;
    }
    output::shown(&shown, arguments.json)?;
    Ok(Exit::Done)
}
