//! `train`: trains a checkpoint of the policy, or of a learned system, from a configuration.

use std::io::{IsTerminal, stderr};
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use stagewright::code::U001;
use stagewright::report::units::seconds;
use stagewright::text::visible;
use stagewright::train::LabelEffort;
use stagewright::train::run::{Folder, Measured, RunDocument, Watch, run as train};
use stagewright::train::store::Labeller;
use stagewright::train::system::{self, Episodes, SYSTEM_TRAINING_SCHEMA, SystemRunDocument};

use super::error::at;
use super::labels::{self, Nodes};
use crate::args::TrainArguments;
use crate::error::{CliError, Result};
use crate::exit::Exit;
use crate::{files, interrupt, output, resolve};

pub(crate) fn run(arguments: &TrainArguments, verbose: bool) -> Result<Exit> {
    let label = arguments.configuration.display().to_string();
    if arguments.worker {
        return labels::answer(&label);
    }
    let text = files::read(&arguments.configuration)?;
    let text = String::from_utf8_lossy(&text.bytes);
    // The schema distinguishes the two; a configuration with neither schema is rejected as one for the policy.
    if is_of_system(&text) {
        return system(arguments, &label, &text);
    }
    let document = RunDocument::from_toml(&text).map_err(|error| at(&label, error))?;
    let beside = arguments.configuration.parent().unwrap_or(Path::new("."));
    let nodes = nodes(arguments)?;
    let folder = folder(arguments, &label)?;
    let efforts = document.efforts().map_err(|error| at(&label, error))?;
    if nodes.is_some() && efforts.iter().any(|effort| matches!(effort, LabelEffort::Seconds(_))) {
        output::note(
            "labels made in a number of seconds depend on the speed and the load of the nodes; with `simulations` \
             instead of `seconds` they are the same on all",
        );
    }
    let progress = Progress::new();
    let watch = Watch {
        threads: resolve::threads(arguments.threads)?,
        labeller: nodes.as_ref().map(|nodes| nodes as &dyn Labeller),
        interrupt: interrupt::watch(),
        labelled: &|done, total, kind| {
            progress.show(&format!("labels {kind}"), done, total);
            if verbose && progress.bar.is_none() && (done == total || done.is_multiple_of(LABELS)) {
                output::note(&format!("labels {kind}: {done} of {total}"));
            }
        },
        stepped: &|done, total| progress.show("steps", done, total),
        measured: &|measured| progress.note(&line(measured)),
    };
    let outcome = train(&document, beside, &folder, &watch).map_err(|error| {
        let failure = nodes.as_ref().and_then(Nodes::failure);
        failure.unwrap_or_else(|| at(&label, error))
    })?;
    if let Some(bar) = &progress.bar {
        bar.finish_and_clear();
    }
    let how = match (outcome.is_interrupted, outcome.is_early) {
        (true, _) => "interrupted; the same command resumes",
        (_, true) => "stopped early, without improvement",
        _ => "done",
    };
    output::result(&match outcome.best {
        Some(best) => format!(
            "{} steps, {how}; lowest held-out loss {best:.4}, of {}\n",
            outcome.steps,
            visible(&folder.best().display().to_string())
        ),
        None => format!("{} steps, {how}; no measurement yet\n", outcome.steps),
    })?;
    Ok(if outcome.is_interrupted { Exit::NoPlan } else { Exit::Done })
}

/// Shows the progress of a run.
struct Progress {
    /// The progress bar, if standard error is a terminal.
    bar: Option<ProgressBar>,
}

impl Progress {
    fn new() -> Progress {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(1);
            if let Ok(style) = ProgressStyle::with_template("{elapsed} {msg} {pos}/{len} {wide_bar} {eta}") {
                bar.set_style(style);
            }
            bar
        });
        Progress { bar }
    }

    fn show(&self, message: &str, done: u64, total: u64) {
        if let Some(bar) = &self.bar {
            bar.set_message(message.to_owned());
            bar.set_length(total);
            bar.set_position(done);
        }
    }

    /// Prints a line above the bar.
    fn note(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| output::note(line)),
            None => output::note(line),
        }
    }
}

/// Opens the folder of a run.
fn folder(arguments: &TrainArguments, label: &str) -> Result<Folder> {
    let Some(out) = &arguments.out else {
        return Err(CliError::new(U001, "a run needs a folder").at("--out").help("give one"));
    };
    Folder::new(out).map_err(|error| at(label, error))
}

/// The nodes that make the labels, if a cluster was requested.
fn nodes(arguments: &TrainArguments) -> Result<Option<Nodes>> {
    let Some(address) = &arguments.ray else { return Ok(None) };
    if files::is_standard(&arguments.configuration) {
        return Err(CliError::new(U001, "the nodes cannot read the configuration from standard input")
            .at("--ray")
            .help("write it to a file in a folder that all nodes have"));
    }
    Ok(Some(Nodes::new(address, &arguments.configuration)))
}

fn is_of_system(text: &str) -> bool {
    let table: Result<toml::Table, _> = text.parse();
    table.is_ok_and(|table| {
        table.get("schema").and_then(|schema| schema.as_str()) == Some(SYSTEM_TRAINING_SCHEMA)
    })
}

/// Trains a learned system of the literature.
fn system(arguments: &TrainArguments, label: &str, text: &str) -> Result<Exit> {
    let document = SystemRunDocument::from_toml(text).map_err(|error| at(label, error))?;
    if arguments.ray.is_some() || arguments.worker {
        return Err(CliError::new(U001, "a learned system is trained without labels")
            .at(if arguments.worker { "--worker" } else { "--ray" })
            .help("leave it out"));
    }
    let folder = folder(arguments, label)?;
    let beside = arguments.configuration.parent().unwrap_or(Path::new("."));
    let bar = stderr().is_terminal().then(|| ProgressBar::new(document.episodes));
    let measured = |now: &Episodes| {
        let line = format!(
            "episode {}: held out {} times the bound, {:.1}% fit, {} placements, {}",
            now.episode,
            now.over_bound.map_or("–".into(), |ratio| format!("{ratio:.4}")),
            100.0 * now.fits,
            now.placements,
            seconds(now.seconds)
        );
        match &bar {
            Some(bar) => bar.suspend(|| output::note(&line)),
            None => output::note(&line),
        }
    };
    let played = |done: u64, _: u64| bar.iter().for_each(|bar| bar.set_position(done));
    let (threads, interrupt) = (resolve::threads(arguments.threads)?, interrupt::watch());
    let watch = system::Watch { threads, interrupt, measured: &measured, played: &played };
    let episodes = system::run(&document, beside, &folder, &watch).map_err(|error| at(label, error))?;
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    let is_done = episodes >= document.episodes;
    let how = if is_done { "done" } else { "interrupted; the same command resumes" };
    let best = match folder.best().is_file() {
        true => format!("the best measurement is {}", visible(&folder.best().display().to_string())),
        false => "no measurement yet".into(),
    };
    output::result(&format!("{episodes} episodes, {how}; {best}\n"))?;
    Ok(if is_done { Exit::Done } else { Exit::NoPlan })
}

/// Number of labels between two lines of progress, if there is no progress bar.
const LABELS: u64 = 250;

fn line(measured: &Measured) -> String {
    format!(
        "step {}: loss {:.4}, held out {:.4} (devices {:.4}, edges {:.4}, order {:.4}, value {:.4}; {:.1}% of \
         devices right), {:.1} graphs/s, {}",
        measured.step,
        measured.loss,
        measured.held_out,
        measured.affinity,
        measured.together,
        measured.priority,
        measured.value,
        100.0 * measured.hits,
        measured.graphs_per_second,
        seconds(measured.seconds)
    )
}
