//! Reading a model and a cluster together: settings that one leaves open and the other determines.
//!
//! A file does not say everything about a model. [`import_options`] passes the options of a model to its importer, and
//! [`join`] prepares a model and a cluster for each other: the class of profiled times, measurements, and memory
//! reserves. Remarks on the prices of operators are returned as notes, which the caller prints.

mod language;
mod measured;
mod options;
mod precision;
mod profiled;
mod unpriced;

use std::num::NonZeroU64;
use std::path::Path;

use stagewright_core::document::{
    BatchDocument, ClusterDocument, CostsDocument, GraphDocument, ModelOptionsDocument, ObjectiveDocument,
    ObjectiveKind, RuntimeDocument, Split,
};
use stagewright_core::memory;
use stagewright_costs::{Coverage, Unmeasured};
use stagewright_formats::layers::keep_whole;
use stagewright_formats::{
    Format, ImportOptions, Imported, detect, foreign, import_file, import_model, is_streamed,
};
use stagewright_structure::Figures;

use crate::code::{U001, U005};
use crate::failure::{Failure, Result};
use crate::files::{self, LARGEST, Opened, too_large, unreadable};
use crate::structures;
pub use measured::{measured, sources, sources_on};
pub use options::{ModelOptions, Place, import_options, suit};

/// Opens a model: a file, or the folder of a language model.
///
/// # Errors
/// As for [`files::open`].
pub fn open(path: &Path) -> Result<Opened> {
    match structures::is_several_files(path) {
        true => Ok(Opened::Language(path.to_owned())),
        false => files::open(path),
    }
}

/// A model as it was read.
pub struct Model {
    /// Label in errors.
    pub label: String,
    /// The graph and its format.
    pub imported: Imported,
    /// Figures of a language model whose graph was drawn from its layers.
    pub figures: Option<Figures>,
}

/// Reads a model. A large file is read only as far as its format needs.
fn import(opened: Opened, options: &ModelOptions, notes: &mut Vec<String>) -> Result<Model> {
    let ModelOptions { document, place, .. } = options;
    let place = &|name: &str| place(name);
    let import = import_options(document, place)?;
    let drawn = |label: String, (imported, figures): (Imported, Figures)| {
        Ok(Model { label, imported: import.finish(imported), figures: Some(figures) })
    };
    match opened {
        Opened::Language(path) if import.format.is_none_or(|format| format == Format::Language) => {
            drawn(path.display().to_string(), language::of_path(&path, document, notes, place)?)
        }
        Opened::Language(path) if path.is_dir() => {
            let name = import.format.map_or("", |format| format.entry().name);
            let cause = format!("a folder is no model of the format {name}");
            Err(Failure::new(U005, cause).at(place("format")).help("leave it out, or give a file"))
        }
        // Another format was asked for.
        Opened::Language(path) => self::import(files::open(&path)?, options, notes),
        Opened::Memory(input) => {
            let format = match import.format {
                Some(format) => format,
                None => detect(&input.label, &input.bytes)?,
            };
            if format == Format::Language {
                return drawn(input.label.clone(), language::of_bytes(&input, document, place)?);
            }
            let import = ImportOptions { format: Some(format), ..import };
            let imported = import_model(&input.label, &input.bytes, &import)?;
            Ok(Model { label: input.label, imported, figures: None })
        }
        Opened::File(label, mut file) => {
            let failed = |error: std::io::Error| unreadable(label.as_str(), &error);
            let is_large = file.metadata().map_err(failed)?.len() > LARGEST;
            if is_large && !is_streamed(&mut file, &import).map_err(failed)? {
                let foreign = foreign(&mut file).map_err(failed)?;
                return Err(
                    foreign.map_or_else(|| too_large(&label), |foreign| foreign.refused(&label).into())
                );
            }
            let imported = import_file(&label, &mut file, &import)?;
            Ok(Model { label, imported, figures: None })
        }
    }
}

/// Reads and prepares a model. Adds notes on its options and prices.
///
/// # Errors
/// If it is not a valid model or is too large for a format that is held whole (I006), or a given option has no effect on
/// its format (U012).
pub fn model(opened: Opened, options: &ModelOptions, notes: &mut Vec<String>) -> Result<Model> {
    let ModelOptions { document, given, place } = options;
    let mut model = import(opened, options, notes)?;
    let Model { label, imported, .. } = &mut model;
    let is_only_counted = suit(given.iter().map(String::as_str), imported.format, |name| place(name))?;
    if let (true, Some(batch)) = (is_only_counted, document.batch) {
        let option = place("batch");
        notes.push(format!(
            "{option} {batch} does not change the costs of the file; it states how many samples they are for"
        ));
    }
    // A language model may begin with an empty cache.
    if document.context == Some(0) && imported.format != Format::Language {
        return Err(Failure::new(U001, "the context must be at least 1")
            .at(place("context"))
            .help("give at least 1"));
    }
    if document.whole_layers {
        keep_whole(&mut imported.graph);
    }
    notes.extend(unpriced::note(label, &imported.graph));
    Ok(model)
}

/// Prepares a model and a cluster for each other, and reports the source of each operator's seconds. `costs` are
/// measurements with their labels. What was not measured has the prices that the options name among the files of measurements, or
/// else those of `unnamed`. `place` maps the name of an option in a plan's `model` to the place where users give it.
///
/// # Errors
/// If the class of profiled times cannot be determined (U011), or the measurements contradict one another.
#[expect(clippy::too_many_arguments, reason = "the parts of a question")]
pub fn join(
    label: &str,
    model: &mut Imported,
    cluster: &mut ClusterDocument,
    options: &ModelOptionsDocument,
    costs: Vec<(String, CostsDocument)>,
    unnamed: Unmeasured<'_>,
    notes: &mut Vec<String>,
    place: impl Fn(&str) -> String,
) -> Result<Coverage> {
    profiled::on(model, options.profile_class.as_deref(), cluster, &place)?;
    notes.extend(precision::note(label, &model.graph, cluster, &place));
    let named = Unmeasured::among(&options.costs);
    let coverage = measured(model, cluster, costs, named.unwrap_or(unnamed), notes, &place)?;
    if matches!(named, Some(Unmeasured::Learned(_))) && !coverage.has_predicted {
        let classes: Vec<&str> = coverage.operators.keys().map(String::as_str).collect();
        notes.push(format!("learned costs have no kernel of the model on {}", classes.join(", ")));
    }
    reserve(cluster, options);
    Ok(coverage)
}

/// States in the options of a plan that learned costs had a part in it, so that every command that reads it prices the model
/// as it did.
pub fn state_prices(options: &mut ModelOptionsDocument, coverage: &Coverage) {
    if coverage.has_predicted && Unmeasured::among(&options.costs).is_none() {
        options.costs.push(Unmeasured::LEARNED.to_owned());
    }
}

/// Makes the reserve of kinds that state none explicit, so that every table shows the memory that a plan may use: that of a
/// runtime, if there is one, and the default otherwise.
pub fn state_reserve(
    graph: &GraphDocument,
    cluster: &mut ClusterDocument,
    runtime: Option<&RuntimeDocument>,
) {
    for kind in &mut cluster.kinds {
        let reserve = match runtime {
            Some(runtime) if !kind.host => {
                kind.reserve_bytes.unwrap_or(runtime.reserve(kind.memory_bytes.unwrap_or(0.0)))
            }
            _ => memory::reserve(graph, kind),
        };
        if reserve > 0.0 {
            kind.reserve_bytes = Some(reserve);
        }
    }
}

/// Sets the requested memory reserve on every device except hosts.
pub fn reserve(cluster: &mut ClusterDocument, options: &ModelOptionsDocument) {
    if let Some(bytes) = options.memory_reserve {
        for kind in cluster.kinds.iter_mut().filter(|kind| !kind.host) {
            kind.reserve_bytes = Some(bytes as f64);
        }
    }
}

/// Makes the split free if the objective is not throughput. Returns a note if the user gave a split; `place` names the
/// option.
pub fn without_split(
    objective: &mut ObjectiveDocument,
    is_given: bool,
    place: impl Fn(&str) -> String,
) -> Option<String> {
    let why = match objective.kind {
        ObjectiveKind::Throughput => return None,
        // Calls follow a rule of their own, and hosts may run any operators between calls.
        ObjectiveKind::Latency => "latency, whose rule is that of the calls",
        ObjectiveKind::Makespan => "the makespan: any operator may run on any device",
    };
    objective.split = Split::Free;
    is_given.then(|| format!("{} has no effect on {why}", place("split")))
}

/// The samples and tokens in a batch of a model, if known.
pub fn batch(graph: &GraphDocument, options: Option<&ModelOptionsDocument>) -> Option<BatchDocument> {
    let given = options.and_then(|options| NonZeroU64::new(options.batch?));
    let samples = given.or(graph.batch.map(|known| known.samples))?;
    Some(BatchDocument { samples, tokens: graph.batch.and_then(|known| known.tokens) })
}
