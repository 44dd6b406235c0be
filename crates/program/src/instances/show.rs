//! `instances show`: one instance, with its provenance, or one of its documents.

use std::path::Path;

use stagewright::formats::{Notation, import_model, is_strategies, write_cluster};
use stagewright::report::units::percent;
use stagewright::report::wrap::facts;

use super::entry::{Entry, Source};
use super::library::Library;
use super::list::amount;
use super::model::{self, place};
use crate::args::ShowArguments;
use crate::code::O008;
use crate::error::{CliError, Result};
use crate::exit::Exit;
use crate::files::{self, is_standard};
use crate::{output, resolve};

pub(super) fn run(library: &Library, arguments: &ShowArguments) -> Result<Exit> {
    files::outputs(&[("--out", arguments.out.as_deref())])?;
    let entry = library.find(&arguments.name)?;
    let document = match arguments {
        ShowArguments { model: true, .. } => text(model::text(library, entry, None)?),
        ShowArguments { plan: true, .. } => match model::plan(library, entry)? {
            Some(plan) => text(plan.bytes),
            None => return Err(absent(entry, "plan")),
        },
        ShowArguments { cluster: true, .. } => cluster(library, entry)?,
        _ => {
            output::result(&facts(lines(entry), output::width()))?;
            return Ok(Exit::Done);
        }
    };
    match arguments.out.as_deref().filter(|path| !is_standard(path)) {
        Some(path) => files::write(path, &document)?,
        None => output::data(&document)?,
    }
    Ok(Exit::Done)
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

fn absent(entry: &Entry, what: &str) -> CliError {
    CliError::new(O008, format!("the instance has no {what}"))
        .at(place(entry))
        .help("`instances show NAME` says what it has")
}

/// The cluster, as TOML.
fn cluster(library: &Library, entry: &Entry) -> Result<String> {
    let cluster = match &entry.cluster {
        Some(name) => Some(resolve::cluster_file(Path::new(name))?.1),
        None => match model::text(library, entry, None)? {
            bytes if is_strategies(&bytes) => None,
            bytes => import_model(&entry.name, &bytes, &Default::default())?.graph.cluster,
        },
    };
    match cluster {
        Some(cluster) => Ok(write_cluster(&cluster, Notation::Toml)),
        None => Err(absent(entry, "cluster")),
    }
}

fn lines(entry: &Entry) -> Vec<(&'static str, String)> {
    let mut lines = vec![
        ("name", entry.name.clone()),
        ("about", entry.about.clone()),
        ("model", entry.model.text()),
        ("model digest", format!("sha256 {}", entry.model_sha256)),
        ("operators", entry.operators.to_string()),
        (
            "devices",
            match (&entry.cluster, entry.devices) {
                (Some(name), _) => name.clone(),
                (None, Some(count)) => format!("{count}, in the model"),
                (None, None) => "none".into(),
            },
        ),
        ("objective", entry.objective()),
    ];
    if !matches!(entry.model, Source::Published { .. }) {
        lines.push(("to plan it", format!("stagewright plan instance:{}", entry.name)));
    }
    lines.extend(entry.value.map(|value| ("value", amount(entry, value))));
    lines.extend(entry.bound.map(|bound| ("bound", amount(entry, bound))));
    lines.extend(entry.gap().map(|gap| ("gap", percent(gap))));
    lines.push(("status", entry.status.name().into()));
    lines.push(("proof", entry.proof.text()));
    lines.extend(entry.plan_sha256.iter().map(|digest| ("plan digest", format!("sha256 {digest}"))));
    if !entry.found_by.is_empty() {
        lines.push(("found by", format!("{}, {}", entry.found_by, entry.found_on)));
    }
    lines
}
