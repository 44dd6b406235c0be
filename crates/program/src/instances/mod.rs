//! `instances`: the library of instances, each with its best-known plan and a bound.
//!
//! As MIPLIB does for integer programs and PSPLIB for project scheduling (Gleixner et al., Mathematical Programming
//! Computation 2021; Kolisch and Sprecher, EJOR 1997), the library names problems, so that results on them can be
//! compared across papers. An instance consists of a model, devices and an objective ([`entry`]); a recipe makes the
//! model ([`model`]). The value and the bound of an instance are claims, which [`verify`] replays: digests, the plan
//! through the independent checker, and the bound from the plan's certificate, from closed forms or by an exact solver
//! ([`subject`]).
//!
//! The library in `data/instances` is part of the program ([`embedded`]). Every command accepts `instance:NAME` as a
//! model: it reads the model of the instance, with its devices. `plan`, `bound` and `compare` also take its objective and
//! options as defaults ([`question`]).

mod add;
mod embedded;
mod entry;
mod library;
mod list;
mod model;
mod question;
mod show;
mod subject;
mod verify;

use std::path::Path;

use glob::Pattern;
use sha2::{Digest, Sha256};
use stagewright::core::tolerance;

use super::args::{InstancesArguments, InstancesCommand};
use super::error::{CliError, Result};
use super::exit::Exit;
use crate::code::O001;
use entry::Entry;
use library::Library;
pub(crate) use question::{Posed, posed};

/// Prefix of a path that refers to the model of an instance.
const SCHEME: &str = "instance:";

pub(crate) fn run(arguments: &InstancesArguments, verbose: bool) -> Result<Exit> {
    let folder = arguments.library.as_deref();
    match &arguments.command {
        InstancesCommand::List(arguments) => list::run(&Library::open(folder)?, arguments),
        InstancesCommand::Show(arguments) => show::run(&Library::open(folder)?, arguments),
        InstancesCommand::Verify(arguments) => verify::run(&Library::open(folder)?, arguments, verbose),
        InstancesCommand::Add(arguments) => add::run(folder, arguments),
    }
}

/// The name in a path of the form `instance:NAME`, unless there is a file of that name.
pub(crate) fn name(path: &Path) -> Option<&str> {
    path.to_str()?.strip_prefix(SCHEME).filter(|_| !path.exists())
}

/// The model of an instance of the shipped library, as a document that contains its devices.
pub(crate) fn document(name: &str) -> Result<Vec<u8>> {
    let library = Library::open(None)?;
    model::with_cluster(&library, library.find(name)?)
}

/// The instances that match a pattern such as `instance:random-*`, as paths; `None` if the pattern is not of that form.
/// Published instances are left out, because their models are not in the library.
pub(crate) fn matching(pattern: &str) -> Result<Option<Vec<String>>> {
    let Some(wanted) = pattern.strip_prefix(SCHEME) else { return Ok(None) };
    let wrong =
        |cause: String| CliError::new(O001, cause).at(pattern).help("`instances list` shows all names");
    let wanted = Pattern::new(wanted).map_err(|error| wrong(error.msg.to_owned()))?;
    let library = Library::open(None)?;
    let all =
        library.index.instances.iter().filter(|entry| !entry.is_published() && wanted.matches(&entry.name));
    let found: Vec<String> = all.map(|entry| format!("{SCHEME}{}", entry.name)).collect();
    if found.is_empty() { Err(wrong("no instance has such a name".into())) } else { Ok(Some(found)) }
}

/// Whether a path refers to the model of an instance.
pub(crate) fn is_instance(path: &str) -> bool {
    name(Path::new(path)).is_some()
}

/// The options of `plan` for an instance; empty for any other path.
pub(crate) fn options(path: &str) -> Vec<String> {
    let options = known(path).map(|entry| entry.options).unwrap_or_default();
    options.split_whitespace().map(str::to_owned).collect()
}

/// Mark for a value found on an instance: `new best`, `below the bound`, which is impossible, or nothing.
pub(crate) fn mark(path: &str, value: f64) -> &'static str {
    let Some(entry) = known(path) else { return "" };
    let is_below =
        |known: Option<f64>| known.is_some_and(|known| value < known && !tolerance::same(value, known));
    match (is_below(entry.bound), is_below(entry.value)) {
        (true, _) => "below the bound",
        (false, true) => "new best",
        (false, false) => "",
    }
}

fn known(path: &str) -> Option<Entry> {
    let name = name(Path::new(path))?;
    Library::open(None).ok()?.find(name).ok().cloned()
}

/// SHA-256 in hexadecimal.
fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::{Library, mark};

    #[test]
    fn a_value_is_marked_by_what_is_known() {
        let library = Library::open(None).unwrap_or_else(|error| panic!("{error}"));
        let open = library.find("random-22-makespan").unwrap_or_else(|error| panic!("{error}"));
        let (Some(value), Some(bound)) = (open.value, open.bound) else { panic!("the instance has claims") };
        let path = "instance:random-22-makespan";
        assert_eq!(mark(path, value), "");
        assert_eq!(mark(path, 1.1 * value), "");
        assert_eq!(mark(path, 0.5 * (value + bound)), "new best");
        assert_eq!(mark(path, 0.99 * bound), "below the bound");
        assert_eq!(mark("random-22-makespan", 0.99 * bound), "", "a file is no instance");
    }
}
