//! The model of an instance, made by a recipe.

use std::path::Path;

use clap::Parser;
use stagewright::formats::{import_model, is_strategies, write_graph};
use stagewright::nearest::instead;
use stagewright::workloads::family;

use super::embedded;
use super::entry::{Entry, Source};
use super::library::Library;
use crate::args::{Arguments, Asked, Command, PlanArguments};
use crate::code::{O002, O007};
use crate::error::{CliError, Result};
use crate::files::{self, Input, Opened};
use crate::{convert, external, resolve, workload};

/// Time limit for replaying a solver, in seconds. Shipped proofs take a fraction of this time.
const REPLAY: &str = "120s";

/// The bytes of a model that its digest covers: a graph as `convert` writes it, or the unpacked file.
pub(super) fn text(library: &Library, entry: &Entry, published: Option<&Path>) -> Result<Vec<u8>> {
    match &entry.model {
        Source::Workload { workload: words } => {
            let Command::Workload(arguments) = parsed(entry, &format!("workload {words}"))? else {
                return Err(not_a(entry, "workload"));
            };
            let name = arguments.family.as_deref().ok_or_else(|| not_a(entry, "workload"))?;
            Ok(write_graph(&workload::graph(family(name)?, &arguments)?).into_bytes())
        }
        Source::Export { export, options } => {
            let bytes = embedded::export(export).ok_or_else(|| {
                CliError::new(O002, format!("no export is called `{export}`"))
                    .at(place(entry))
                    .help(instead(export, embedded::exports()))
            })?;
            let Command::Convert(arguments) = parsed(entry, &format!("convert {options} -- {export} -"))?
            else {
                return Err(not_a(entry, "convert"));
            };
            let input = files::unpack(format!("data/models/{export}"), bytes.to_vec())?;
            convert::model(Opened::Memory(input), &arguments)
        }
        Source::File { file, .. } => library.file(file).map(|input| input.bytes),
        Source::Published { published: file, from } => match published {
            Some(folder) => files::read(&folder.join(file)).map(|input| input.bytes),
            None => Err(CliError::new(O007, format!("{file} is a published file, not part of the library"))
                .at(place(entry))
                .help(format!("get it from {from}, and give its folder to `verify --published`"))),
        },
    }
}

/// The model as a document that contains its devices; a strategy problem has none.
pub(super) fn with_cluster(library: &Library, entry: &Entry) -> Result<Vec<u8>> {
    let bytes = text(library, entry, None)?;
    let Some(cluster) = entry.cluster.as_deref().filter(|_| !is_strategies(&bytes)) else { return Ok(bytes) };
    let mut model = import_model(&entry.name, &bytes, &Default::default())?.graph;
    model.cluster = Some(resolve::cluster_file(Path::new(cluster))?.1);
    Ok(write_graph(&model).into_bytes())
}

/// The arguments of `plan` for an instance whose model is in a file.
pub(super) fn arguments(entry: &Entry, model: &Path, solver: &str) -> Result<PlanArguments> {
    if solver.starts_with(external::PREFIX) {
        return Err(CliError::new(O002, "the proof runs another program")
            .at(place(entry))
            .help("name a solver of this program"));
    }
    let cluster = entry.cluster.iter().map(|cluster| format!(" --cluster={cluster}")).collect::<String>();
    plan_arguments(entry, &format!("--time-limit={REPLAY} --solver={solver}{cluster}"), model)
}

/// The arguments of `plan` for an instance whose model has its devices.
pub(super) fn question(entry: &Entry, model: &Path) -> Result<PlanArguments> {
    plan_arguments(entry, "", model)
}

/// The arguments of `plan`: those of an instance and others.
fn plan_arguments(entry: &Entry, others: &str, model: &Path) -> Result<PlanArguments> {
    let words = format!("plan {others} {} -- MODEL", entry.options);
    let Command::Plan(mut arguments) = parsed(entry, &words)? else { return Err(not_a(entry, "plan")) };
    arguments.model.model = model.to_owned();
    Ok(*arguments)
}

/// Parses a line of words as a command.
fn parsed(entry: &Entry, words: &str) -> Result<Command> {
    let words = ["stagewright"].into_iter().chain(words.split_whitespace());
    match Arguments::try_parse_from(words).and_then(Arguments::asked) {
        Ok(Asked::Command(command)) => Ok(*command),
        Ok(Asked::Code(_)) => Err(not_a(entry, "command")),
        Err(error) => {
            let story = error.to_string();
            let cause = story.lines().next().unwrap_or_default().trim_start_matches("error: ");
            Err(CliError::new(O002, cause).at(place(entry)).help("correct its options in the index"))
        }
    }
}

fn not_a(entry: &Entry, what: &str) -> CliError {
    CliError::new(O002, format!("its options are not those of `{what}`"))
        .at(place(entry))
        .help("correct them in the index")
}

/// Place that errors about an instance name.
pub(super) fn place(entry: &Entry) -> String {
    format!("instance {}", entry.name)
}

/// The plan of an instance, if the library has one.
pub(super) fn plan(library: &Library, entry: &Entry) -> Result<Option<Input>> {
    entry.plan_sha256.as_ref().map(|_| library.file(&entry.plan())).transpose()
}
