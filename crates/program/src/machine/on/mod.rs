//! Running models on this machine: the host of `run` and `profile`, the model with its weights, and the worker
//! processes.

mod profile;
mod run;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use stagewright::code::{U001, X001};
use stagewright::formats::onnx::Whole;
use stagewright::formats::{Format, ImportOptions, Imported};
use stagewright::reading::{ModelOptions, import_options};
use stagewright::runtime::pipeline::Host;
use stagewright::runtime::protocol::Optimization;
use stagewright::runtime::weights::{Missing, each_location, gather};
use stagewright::runtime::{RunError, library, worker};

use crate::args::{HostArguments, OptimizationLevel};
use crate::error::{CliError, Result};
use crate::exit::Exit;
use crate::files::{self, Opened};
use crate::{interrupt, quantity, resolve};
pub(crate) use profile::run as profile;
pub(crate) use run::run;

/// Argument that makes this program a worker process.
const WORKER: &str = "worker";

/// Runs the task received on standard input.
pub(crate) fn worker() -> Exit {
    match worker::run() {
        0 => Exit::Done,
        _ => Exit::Violation,
    }
}

/// Time without progress after which a run ends if the user gives none: a year.
const EVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// The host that the arguments describe.
fn host(arguments: &HostArguments) -> Result<Host> {
    let library = library::find(arguments.onnxruntime.as_deref()).and_then(library::checked);
    let library = library.map_err(|error| failed("--onnxruntime", &error))?;
    let patience = quantity::time(&arguments.patience)
        .map_err(|cause| CliError::new(U001, cause).at("--patience"))?
        .unwrap_or(EVER);
    let program = std::env::current_exe().map_err(|error| {
        CliError::new(X001, format!("this program cannot be found: {error}"))
            .help("start it by its full path")
    })?;
    let stop = interrupt::watch();
    Ok(Host {
        program,
        arguments: vec![WORKER.into()],
        library,
        optimization: match arguments.optimization {
            OptimizationLevel::None => Optimization::None,
            OptimizationLevel::Basic => Optimization::Basic,
            OptimizationLevel::Extended => Optimization::Extended,
        },
        cores: cores(arguments.cores.as_deref())?,
        patience,
        stop: Arc::new(move || stop.load(Ordering::Relaxed)),
    })
}

/// Parses a list of cores such as `0,2,4-7`.
fn cores(list: Option<&str>) -> Result<Vec<usize>> {
    let allowed = worker::cores();
    let Some(list) = list else { return Ok(allowed) };
    let wrong = |cause: String| {
        let all: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        CliError::new(U001, cause)
            .at("--cores")
            .help(format!("this process may use the cores {}", all.join(", ")))
    };
    let mut cores = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number =
            |text: &str| text.trim().parse::<usize>().map_err(|_| wrong(format!("`{part}` is not a core")));
        let (first, last) = (number(first)?, number(last)?);
        for core in first..=last.min(first.saturating_add(1 << 16)) {
            if !allowed.contains(&core) {
                return Err(wrong(format!("core {core} is not available")));
            }
            if !cores.contains(&core) {
                cores.push(core);
            }
        }
    }
    match cores.is_empty() {
        true => Err(wrong(format!("`{list}` names no core"))),
        false => Ok(cores),
    }
}

/// The error for a failed run, at a file or an option.
fn failed(place: &str, error: &RunError) -> CliError {
    CliError::new(error.code(), error.to_string()).at(place).help(error.help())
}

/// The error for a model or a plan that cannot run as processes, with an alternative in `help`.
fn not_runnable(place: &str, cause: String, help: &str) -> CliError {
    failed(place, &RunError::NotRunnable(cause)).help(help)
}

/// An ONNX model, both as it runs and as it is planned.
struct Model {
    /// Name in errors.
    label: String,
    /// The model with its weights.
    whole: Whole,
    /// Graph of the model, as imported.
    imported: Imported,
}

/// Reads an ONNX model only once, because it may come from standard input.
fn model(path: &Path, options: &ModelOptions) -> Result<Model> {
    if stagewright::structures::is_several_files(path) {
        let cause = "a language model without its graph cannot be run".to_owned();
        return Err(not_runnable(&path.display().to_string(), cause, "give the model as ONNX"));
    }
    let input = files::read(path)?;
    let (label, bytes) = (&input.label, &input.bytes);
    let reading = import_options(&options.document, |name| (options.place)(name))?;
    let format = match reading.format {
        Some(format) => format,
        None => stagewright::formats::detect(label, bytes)?,
    };
    if format != Format::Onnx {
        let cause = format!("a model in the format {} cannot be run", format.entry().name);
        return Err(not_runnable(label, cause, "give the model as ONNX"));
    }
    // Costs at another precision do not predict how the file itself runs.
    let cast = match reading.precision {
        Some(precision) => Some((precision, Whole::new(label, bytes, &reading)?.types)),
        None => None,
    };
    let whole = Whole::new(label, bytes, &ImportOptions { precision: None, ..reading })?;
    if let Some((precision, _)) = cast.filter(|(_, types)| *types != whole.types) {
        let cause = format!("--precision casts the model to {precision}, and the file runs as it is");
        let help = "leave out --precision, also when the plan is made, or cast the file itself";
        return Err(not_runnable(label, cause, help));
    }
    let (label, imported) = resolve::opened_model(Opened::Memory(input), options)?;
    Ok(Model { label, whole, imported })
}

/// Moves the weights of a model to a folder.
fn move_weights(model: &mut Model, path: &Path, arguments: &HostArguments, folder: &Path) -> Result<()> {
    let missing = if arguments.random_weights { Missing::Random(arguments.seed) } else { Missing::Refuse };
    let beside = if files::is_standard(path) { None } else { Some(path.parent().unwrap_or(Path::new(""))) };
    each_location(&mut model.whole.model, |location| {
        beside.map_or(Ok(()), |folder| files::kept(&folder.join(location)))
    })?;
    gather(&mut model.whole.model, beside, missing, folder).map_err(|error| failed(&model.label, &error))
}

/// Creates a folder for the files of a run, which is removed when dropped.
fn folder() -> Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix("stagewright-").tempdir().map_err(|source| {
        let what = "a temporary folder cannot be made".to_owned();
        failed("TMPDIR", &RunError::Io { what, source })
    })
}
