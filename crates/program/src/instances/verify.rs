//! `instances verify`: replays every claim of a library.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde::Serialize;
use stagewright::core::tolerance;
use stagewright::report::grid::{Column, Grid};
use stagewright::report::units::seconds;

use super::digest;
use super::entry::{Entry, Proof, Standing};
use super::library::Library;
use super::list::amount;
use super::model::{self, place};
use super::subject::Subject;
use crate::args::VerifyArguments;
use crate::code::{O, O003, O004, O005, O006};
use crate::error::{CliError, Result};
use crate::exit::Exit;
use crate::{interrupt, output, progress};

/// The verdict on the claims of an instance.
#[derive(Serialize)]
struct Verdict<'e> {
    name: &'e str,
    value: Option<f64>,
    bound: Option<f64>,
    proof: String,
    /// Whether every claim holds.
    holds: bool,
    /// Code and message of the error, if the instance was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<[String; 2]>,
    /// A better value, if the replay found one.
    #[serde(skip_serializing_if = "Option::is_none")]
    better: Option<f64>,
    seconds: f64,
    #[serde(skip)]
    entry: &'e Entry,
}

pub(super) fn run(library: &Library, arguments: &VerifyArguments, verbose: bool) -> Result<Exit> {
    let published = arguments.published.as_deref();
    let entries = chosen(library, arguments)?;
    let interrupt = interrupt::watch();
    let started = Instant::now();
    let mut verdicts = Vec::new();
    for (at, &entry) in entries.iter().enumerate() {
        progress::line(verbose, &format!("{} of {}: {}", at + 1, entries.len(), entry.name));
        let begun = Instant::now();
        let outcome = verify(library, entry, published, &interrupt);
        if interrupt.load(Ordering::Relaxed) {
            output::note(&format!("interrupted: {at} of {} instances were verified", entries.len()));
            break;
        }
        if let Err(error) = &outcome {
            output::error(error);
        }
        verdicts.push(Verdict {
            name: &entry.name,
            value: entry.value,
            bound: entry.bound,
            proof: entry.proof.text(),
            holds: outcome.is_ok(),
            refused: outcome.as_ref().err().map(|error| [error.code().name.into(), error.cause().into()]),
            better: outcome.ok().flatten(),
            seconds: begun.elapsed().as_secs_f64(),
            entry,
        });
    }
    let refused = verdicts.iter().filter(|verdict| !verdict.holds).count();
    match arguments.json {
        true => output::data(&output::json(&verdicts)?)?,
        false => {
            let mut text = table(&verdicts).text(output::width());
            text += &format!(
                "\n{} verified, {refused} refused, in {}\n",
                verdicts.len() - refused,
                seconds(started.elapsed().as_secs_f64())
            );
            let skipped = library.index.instances.len() - entries.len();
            if arguments.names.is_empty() && skipped > 0 {
                text += &format!(
                    "{skipped} published instances were left out: --published FOLDER verifies them\n"
                );
            }
            output::result(&text)?;
        }
    }
    Ok(match (refused, verdicts.len() < entries.len()) {
        (1.., _) => Exit::Violation,
        (0, true) => Exit::NoPlan,
        (0, false) => Exit::Done,
    })
}

/// The instances to verify. Published files are verified if they exist or are requested by name.
fn chosen<'l>(library: &'l Library, arguments: &VerifyArguments) -> Result<Vec<&'l Entry>> {
    match &arguments.names[..] {
        [] => {
            let all = library.index.instances.iter();
            Ok(all.filter(|entry| arguments.published.is_some() || !entry.is_published()).collect())
        }
        names => names.iter().map(|name| library.find(name)).collect(),
    }
}

fn table(verdicts: &[Verdict<'_>]) -> Grid {
    let mut grid = Grid::of(&[
        (Column::Keys, &["name"]),
        (Column::Figures, &["value"]),
        (Column::Details, &["bound"]),
        (Column::Words, &["proof"]),
        (Column::Details, &["time"]),
        (Column::Words, &["result"]),
    ]);
    for verdict in verdicts {
        let shown = |value: Option<f64>| value.map(|value| amount(verdict.entry, value)).unwrap_or_default();
        let result = match (&verdict.refused, verdict.better) {
            (Some([code, _]), _) => format!("refused: {code}"),
            (None, Some(better)) => format!("verified, new best {}", amount(verdict.entry, better)),
            (None, None) if verdict.entry.plan_sha256.is_none() && verdict.entry.is_published() => {
                "digest verified".into()
            }
            (None, None) if matches!(verdict.entry.proof, Proof::Published(_)) => {
                "plan verified, bound as published".into()
            }
            (None, None) => "verified".into(),
        };
        grid.row([
            verdict.name.to_owned(),
            shown(verdict.value),
            shown(verdict.bound),
            verdict.proof.clone(),
            seconds(verdict.seconds),
            result,
        ]);
    }
    grid
}

/// Verifies one instance; returns a better value if the replay finds one.
fn verify(
    library: &Library,
    entry: &Entry,
    published: Option<&Path>,
    interrupt: &Arc<AtomicBool>,
) -> Result<Option<f64>> {
    let model = model::text(library, entry, published).map_err(|error| named(error, entry))?;
    let found = digest(&model);
    if found != entry.model_sha256 {
        let cause = format!("the model has the digest {found}, the index has {}", entry.model_sha256);
        return Err(refused(entry, O003, cause, "get the model that the index describes"));
    }
    if entry.status != entry.standing() {
        let (claimed, follows) = (entry.status.name(), entry.standing().name());
        let cause = format!("the status is {claimed}, but value and bound say {follows}");
        return Err(refused(entry, O006, cause, "correct the index"));
    }
    if entry.is_published() && entry.plan_sha256.is_none() {
        return Ok(None);
    }
    let subject = Subject::new(entry, &model)?;
    check_size(entry, &subject)?;
    let certified = check_plan(library, entry, &subject)?;
    let solved = match &entry.proof {
        Proof::None if entry.bound.is_some() => {
            return Err(refused(entry, O006, "a bound is claimed without a proof", "give `proof`"));
        }
        Proof::None | Proof::Published(_) => return Ok(None),
        Proof::Certificate => None,
        Proof::Bounds => Some(subject.bound(interrupt).map_err(|error| named(error, entry))?),
        Proof::Solver(_) => Some(subject.solve(interrupt).map_err(|error| named(error, entry))?),
    };
    let is_infeasible = solved.as_ref().is_some_and(|solved| solved.is_infeasible);
    if entry.status == Standing::Infeasible || is_infeasible {
        return match is_infeasible && entry.status == Standing::Infeasible {
            true => Ok(None),
            false => {
                let cause =
                    format!("the status is {}, but the solver does not confirm it", entry.status.name());
                Err(refused(entry, O006, cause, "correct the status"))
            }
        };
    }
    check_bound(entry, solved.as_ref().map_or(certified, |solved| solved.bound))?;
    let better = solved.and_then(|solved| solved.value).zip(entry.value);
    Ok(better
        .filter(|&(found, known)| found < known && !tolerance::same(found, known))
        .map(|(found, _)| found))
}

/// The error that refuses an instance.
fn refused(entry: &Entry, code: O, cause: impl Into<String>, help: &str) -> CliError {
    CliError::new(code, cause).at(place(entry)).help(help)
}

/// Checks the numbers of operators and devices.
fn check_size(entry: &Entry, subject: &Subject) -> Result<()> {
    let size = subject.size().map_err(|error| named(error, entry))?;
    if (size.parts, size.devices) == (entry.operators, entry.devices) {
        return Ok(());
    }
    let shown =
        |devices: Option<u64>| devices.map(|count| format!(" on {count} devices")).unwrap_or_default();
    let cause = format!(
        "there are {} operators{}, the index has {}{}",
        size.parts,
        shown(size.devices),
        entry.operators,
        shown(entry.devices)
    );
    Err(refused(entry, O003, cause, "correct the index"))
}

/// Checks the plan and its value, and returns the bound that its certificate proves.
fn check_plan(library: &Library, entry: &Entry, subject: &Subject) -> Result<Option<f64>> {
    let plan = model::plan(library, entry).map_err(|error| named(error, entry))?;
    let (plan, value) = match (plan, entry.value) {
        (Some(plan), Some(value)) => (plan, value),
        (None, None) => return Ok(None),
        _ => {
            let cause = "a value and a plan need each other";
            return Err(refused(entry, O005, cause, "give both or neither"));
        }
    };
    let found = digest(&plan.bytes);
    if Some(&found) != entry.plan_sha256.as_ref() {
        let claimed = entry.plan_sha256.as_deref().unwrap_or_default();
        let cause = format!("the plan has the digest {found}, the index has {claimed}");
        return Err(refused(entry, O004, cause, "get the plan that the index describes"));
    }
    let checked = subject.check(&plan).map_err(|error| named(error, entry))?;
    if let Some(violation) = checked.violations.first() {
        let cause = format!("the checker refuses the plan: {violation}");
        return Err(refused(entry, O005, cause, "give a correct plan"));
    }
    if !checked.value.is_some_and(|found| tolerance::same(found, value)) {
        let found = checked.value.map_or_else(|| "none".into(), |found| amount(entry, found));
        let cause = format!("the plan has the value {found}, the index has {}", amount(entry, value));
        return Err(refused(entry, O005, cause, "correct the value in the index"));
    }
    Ok(checked.bound.filter(|_| checked.is_proved))
}

/// Checks the claimed bound against the proved one.
fn check_bound(entry: &Entry, proved: Option<f64>) -> Result<()> {
    if let (Some(claimed), Some(proved)) = (entry.bound, proved)
        && (proved >= claimed || tolerance::same(proved, claimed))
    {
        return Ok(());
    }
    let shown = |bound: Option<f64>| bound.map_or_else(|| "none".into(), |bound| amount(entry, bound));
    let cause =
        format!("the bound is {}, the {} proves {}", shown(entry.bound), entry.proof.text(), shown(proved));
    Err(refused(entry, O006, cause, "correct the bound, or give a proof of it"))
}

/// Turns an error in a document of an instance into a refusal of that instance.
fn named(error: CliError, entry: &Entry) -> CliError {
    match error.code() {
        code if code.name.starts_with('O') => error,
        code => CliError::new(O005, format!("its documents cannot be used: {code}: {}", error.cause()))
            .at(place(entry))
            .help(format!("`--explain {code}` explains it")),
    }
}
