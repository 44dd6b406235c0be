//! `instances add`: writes a plan to a library if it is the best so far.
//!
//! A plan as good as the best-known one leaves that one and its finder in place, unless the library needs the new file: see
//! [`need`]. A note says what was done.

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use stagewright::code::{U001, X001};
use stagewright::core::tolerance;
use stagewright::report::units::percent;
use stagewright::tasks::{self, PlanFile};
use toml::value::Datetime;

use super::digest;
use super::entry::{Entry, Proof, Standing};
use super::library::{INDEX, Library};
use super::list::amount;
use super::model::{self, place};
use super::subject::{Checked, Subject};
use crate::args::AddArguments;
use crate::code::{O005, O006, O008, O009};
use crate::error::{CliError, Result};
use crate::exit::Exit;
use crate::files::Input;
use crate::{files, interrupt, output};

/// First lines of an index.
const HEAD: &str = "# Instances with their best-known plans. `stagewright instances add` writes digests and claims; see README.md.\n\n";

pub(super) fn run(folder: Option<&Path>, arguments: &AddArguments) -> Result<Exit> {
    let Some(folder) = folder else {
        return Err(CliError::new(U001, "a plan can be added only to a library in a folder")
            .at("--library")
            .help("give the folder, such as data/instances in the repository"));
    };
    check_day(&arguments.on)?;
    let mut library = Library::open(Some(folder))?;
    let known = library.find(&arguments.name)?.clone();
    let mut entry = known.clone();
    let model = model::text(&library, &entry, arguments.published.as_deref())?;
    entry.model_sha256 = digest(&model);
    let mut plan = None;
    if !(entry.is_published() && arguments.plan.is_none()) {
        let subject = Subject::new(&entry, &model)?;
        let size = subject.size()?;
        (entry.operators, entry.devices) = (size.parts, size.devices);
        let mut certified = None;
        if let Some(path) = &arguments.plan {
            let input = files::read(path)?;
            let checked = check(&entry, &subject, &input, known.value)?;
            let input = without_command(input);
            entry.value = checked.value;
            entry.plan_sha256 = Some(digest(&input.bytes));
            certified = checked.bound.filter(|_| checked.is_proved);
            plan = Some(input.bytes);
        }
        entry.bound = bound(&entry, &subject, certified, known.bound)?;
        let is_as_good =
            entry.value.zip(known.value).is_some_and(|(found, best)| tolerance::same(found, best));
        if !is_as_good {
            (entry.found_by, entry.found_on) = (arguments.by.clone(), arguments.on.clone());
        } else if plan.is_some() && !replaces(&library, &known, &mut entry) {
            plan = None;
        }
    }
    entry.status = entry.standing();
    let claims = match (entry.status, entry.value) {
        (Standing::Infeasible, _) | (_, None) => entry.status.name().to_owned(),
        (_, Some(value)) => format!("{}, {}", amount(&entry, value), entry.status.name()),
    };
    write(folder, &mut library, &entry, plan.as_deref())?;
    let name = &entry.name;
    output::result(&format!("{name}: {claims}\n"))?;
    Ok(Exit::Done)
}

/// Refuses a text that is not a day of the calendar in the form of the index.
fn check_day(text: &str) -> Result<()> {
    // TOML writes a day in the same form.
    let day = text.parse::<Datetime>();
    if day.is_ok_and(|day| day.date.is_some() && day.time.is_none()) {
        return Ok(());
    }
    Err(CliError::new(U001, format!("`{text}` is not a day"))
        .at("--on")
        .help("write the day as YYYY-MM-DD, such as 2026-11-26"))
}

/// Whether a plan as good as the best-known one replaces it. If not, the claims of the best-known plan are restored. A note
/// says which plan the library has now.
fn replaces(library: &Library, known: &Entry, entry: &mut Entry) -> bool {
    let finder = match &*known.found_by {
        "" => String::new(),
        name => format!(", found by {name}, {}", known.found_on),
    };
    let reason = need(library, known, entry);
    let outcome = match reason {
        Some(reason) => format!("and replaces its file, because {reason}"),
        None => "which stays in the library".into(),
    };
    output::note(&format!("note: the plan is as good as the best-known one{finder}, {outcome}"));
    if reason.is_none() {
        entry.value = known.value;
        entry.plan_sha256.clone_from(&known.plan_sha256);
        if entry.proof == Proof::Certificate {
            entry.bound = known.bound;
        }
    }
    reason.is_some()
}

/// Why the library needs a plan that is as good as the best-known one; `None` if it does not.
fn need(library: &Library, known: &Entry, entry: &Entry) -> Option<&'static str> {
    let stored = model::plan(library, known).ok().flatten();
    if stored.is_none_or(|plan| Some(digest(&plan.bytes)) != known.plan_sha256) {
        return Some("that is missing or was changed");
    }
    if known.model_sha256 != entry.model_sha256 {
        return Some("the model has changed");
    }
    let is_higher = match (entry.bound, known.bound) {
        (Some(found), Some(known)) => found > known && !tolerance::same(found, known),
        (found, _) => found.is_some(),
    };
    (is_higher && entry.proof == Proof::Certificate).then_some("its certificate proves a higher bound")
}

/// The plan of a file without the command that made it, which may hold private paths. A file that keeps no command stays as it
/// is.
fn without_command(input: Input) -> Input {
    let kind = tasks::kind_of_plan(&input.bytes);
    // A notation that needs its model keeps no command.
    let document = PlanFile::read(kind, &input.label, &input.bytes).ok().and_then(PlanFile::alone);
    let Some(mut document) = document else { return input };
    match document.remove_command() {
        true => Input { bytes: document.json().into_bytes(), ..input },
        false => input,
    }
}

/// Checks a plan of an instance, which must be at least as good as the best-known one.
fn check(entry: &Entry, subject: &Subject, input: &Input, best: Option<f64>) -> Result<Checked> {
    let checked = subject.check(input)?;
    if let Some(violation) = checked.violations.first() {
        return Err(CliError::new(O005, format!("the checker refuses the plan: {violation}"))
            .at(input.label.clone())
            .help("give a plan of this instance; `check` shows all that is wrong"));
    }
    if let Some((found, best)) = checked.value.zip(best)
        && (found > best && !tolerance::same(found, best))
    {
        let more = percent((found - best) / best);
        let (found, best) = (amount(entry, found), amount(entry, best));
        let cause = format!("the plan takes {found}, {more} more than the best-known one, {best}");
        return Err(CliError::new(O009, cause)
            .at(input.label.clone())
            .help("give a plan that is at least as good"));
    }
    Ok(checked)
}

/// The bound that the proof of an instance gives, which must be at least as high as the known one. `certified` is the
/// bound proved by the plan's certificate.
fn bound(
    entry: &Entry,
    subject: &Subject,
    certified: Option<f64>,
    known: Option<f64>,
) -> Result<Option<f64>> {
    let interrupt = interrupt::watch();
    let bound = match &entry.proof {
        Proof::None => None,
        Proof::Published(_) => entry.bound,
        Proof::Certificate => certified,
        Proof::Bounds => subject.bound(&interrupt)?.bound,
        Proof::Solver(_) => {
            let solved = subject.solve(&interrupt)?;
            if entry.value.is_none() && !solved.is_infeasible {
                return Err(CliError::new(O008, "the instance has no plan, and is not infeasible")
                    .at(place(entry))
                    .help("give a plan"));
            }
            solved.bound.filter(|_| !solved.is_infeasible)
        }
    };
    let holds = |known: f64| bound.is_some_and(|found| found >= known || tolerance::same(found, known));
    if let Some(known) = known.filter(|&known| !holds(known)) {
        let cause = format!("the proof gives no bound as high as the known one, {}", amount(entry, known));
        return Err(CliError::new(O006, cause)
            .at(place(entry))
            .help("give a plan whose certificate proves it, or another `proof` in the index"));
    }
    Ok(bound)
}

/// Writes the plan of an instance, and updates its entry in the index.
fn write(folder: &Path, library: &mut Library, entry: &Entry, plan: Option<&[u8]>) -> Result<()> {
    if let Some(plan) = plan {
        files::make_folder(&folder.join("plans"))?;
        files::write_with(&folder.join(entry.plan()), |file| {
            let mut packed = GzEncoder::new(file, Compression::best());
            packed.write_all(plan)?;
            packed.finish().map(drop)
        })?;
    }
    for other in library.index.instances.iter_mut().filter(|other| other.name == entry.name) {
        *other = entry.clone();
    }
    let text = toml::to_string(&library.index)
        .map_err(|error| CliError::new(X001, format!("cannot write TOML: {error}")))?;
    files::write(&folder.join(INDEX), &format!("{HEAD}{text}"))
}
