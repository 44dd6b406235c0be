//! Options for reading a model: the command line overrides options stored in a plan.
//!
//! A plan depends on how its model was read. So these options are stored in the plan and serve as defaults for every
//! command that reads it. An option on the command line takes precedence; if the two differ, a note reports the
//! difference.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};
use stagewright::code::{U001, X001};
use stagewright::core::document::{ClusterDocument, ModelOptionsDocument};
use stagewright::reading::ModelOptions;
use stagewright::tasks::PlanFile;

use super::args::{AroundArguments, ImportArguments, Surroundings};
use super::error::{CliError, Result, option};
use super::{output, quantity};

/// The options and the cluster stored in plans, each with the name of its plan for errors.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Kept<'a> {
    pub(crate) options: Option<(&'a str, &'a ModelOptionsDocument)>,
    pub(crate) cluster: Option<(&'a str, &'a ClusterDocument)>,
}

impl<'a> Kept<'a> {
    /// Options and cluster that a plan file stores.
    pub(crate) fn of(plan: &'a PlanFile<'_>) -> Kept<'a> {
        Kept {
            options: plan.options().map(|options| (plan.label(), options)),
            cluster: plan.cluster().map(|cluster| (plan.label(), cluster)),
        }
    }
}

/// The options given on the command line, as fields of the document.
fn typed(import: &ImportArguments, surroundings: Option<&Surroundings>) -> Result<Map<String, Value>> {
    let mut fields = import.0.values().clone();
    for name in ["dims", "set"] {
        if let Some(Value::Array(texts)) = fields.get(name) {
            fields[name] = sizes(name, texts.iter().filter_map(Value::as_str))?;
        }
    }
    if let Some(given) = surroundings.map(|surroundings| &surroundings.0) {
        if let Some(text) = given.text("memory_reserve") {
            fields.insert("memory_reserve".into(), bytes(text)?.into());
        }
        let costs: Vec<_> = given.files("costs").iter().map(|path| path.display().to_string()).collect();
        if !costs.is_empty() {
            fields.insert("costs".into(), costs.into());
        }
    }
    Ok(fields)
}

/// Parses sizes of the form `NAME=N`. Dimensions are at least 1.
fn sizes<'a>(name: &str, typed: impl Iterator<Item = &'a str>) -> Result<Value> {
    let (what, least, example) = match name {
        "dims" => ("a dimension with a size", 1, "--dim sequence_length=128"),
        _ => ("a name with a number", 0, "--set layers=4"),
    };
    let mut sizes: Map<String, Value> = Map::new();
    for text in typed {
        let size = text.rsplit_once('=').and_then(|(name, size)| Some((name, size.parse::<u64>().ok()?)));
        let Some((key, size)) = size.filter(|(key, size)| !key.is_empty() && *size >= least) else {
            return Err(CliError::new(U001, format!("`{text}` is not {what}"))
                .at(option(name))
                .help(format!("write NAME=N, as in {example}")));
        };
        if sizes.insert(key.to_owned(), size.into()).is_some_and(|other| other != size) {
            return Err(CliError::new(U001, format!("`{key}` has two sizes"))
                .at(option(name))
                .help("give every name one size"));
        }
    }
    Ok(sizes.into())
}

/// Parses the overrides of a configuration's widths.
pub(crate) fn set(typed: &[String]) -> Result<BTreeMap<String, u64>> {
    let values = sizes("set", typed.iter().map(String::as_str))?;
    serde_json::from_value(values)
        .map_err(|error| CliError::new(X001, format!("cannot read the sizes of --set: {error}")))
}

/// Parses a memory reserve in bytes; `none` means 0.
fn bytes(text: &str) -> Result<u64> {
    let size = quantity::size(text).map_err(|cause| {
        CliError::new(U001, cause)
            .at("--memory-reserve")
            .help("give a size with its unit, as in 16GiB, or none to reserve no memory")
    })?;
    Ok(size.unwrap_or(0))
}

/// Merges the options of the command line with those of a plan, which they override. A note reports each difference.
pub(crate) fn model_options(arguments: &ImportArguments, kept: Kept<'_>) -> Result<ModelOptions> {
    merged(typed(arguments, None)?, kept)
}

/// Merges the options of the command line, including the memory reserve and files of measurements, with those of a
/// plan, which they override.
pub(crate) fn model_options_around(around: &AroundArguments, kept: Kept<'_>) -> Result<ModelOptions> {
    merged(typed(&around.import, Some(&around.surroundings))?, kept)
}

fn merged(typed: Map<String, Value>, kept: Kept<'_>) -> Result<ModelOptions> {
    // A switch that is off is the default for every format, so it does not count as given.
    let is_on = |value: &Value| *value != Value::Bool(false);
    let given: BTreeSet<String> =
        typed.iter().filter(|(_, value)| is_on(value)).map(|(name, _)| name.clone()).collect();
    let mut all = kept.options.map(|(_, options)| fields(options)).unwrap_or_default();
    let plan = kept.options.map(|(plan, _)| plan.to_owned()).unwrap_or_default();
    for (name, value) in typed {
        let said = all.insert(name.clone(), value.clone());
        if let Some(said) = said.filter(|said| *said != value) {
            let option = option(&name);
            output::note(&format!("note: {option} is {value}; {plan} was made with {said}"));
        }
    }
    let document: ModelOptionsDocument = serde_json::from_value(Value::Object(all))
        .map_err(|error| CliError::new(X001, format!("cannot merge the options of the plan: {error}")))?;
    // Place where a field is given: an option, or a path in the plan.
    let names = given.clone();
    let place = move |name: &str| match names.contains(name) {
        true => option(name),
        false => format!("{plan}: model.{name}"),
    };
    if document.batch == Some(0) {
        let error = CliError::new(U001, "the batch must be at least 1").at(place("batch"));
        return Err(error.help("give at least 1"));
    }
    Ok(ModelOptions { document, given, place: Arc::new(place) })
}

/// The fields that are set, by name.
fn fields(document: &ModelOptionsDocument) -> Map<String, Value> {
    match serde_json::to_value(document) {
        Ok(Value::Object(fields)) => fields,
        // Unreachable: a struct of names, numbers and switches serialises to an object.
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, FromArgMatches};

    use super::*;

    /// The import options that a command line gives.
    fn given(words: &[&str]) -> ImportArguments {
        let command = ImportArguments::augment_args(Command::new("plan").no_binary_name(true));
        let matches = command.try_get_matches_from(words).expect("arguments");
        ImportArguments::from_arg_matches(&matches).expect("options")
    }

    #[test]
    fn what_is_typed_goes_before_what_a_plan_keeps() {
        let kept = ModelOptionsDocument {
            batch: Some(8),
            whole_layers: true,
            memory_reserve: Some(5),
            ..ModelOptionsDocument::default()
        };
        let kept = Kept { options: Some(("plan.json", &kept)), cluster: None };
        let options = model_options(&given(&["--batch", "16"]), kept).expect("options");
        assert_eq!(options.document.batch, Some(16));
        assert!(options.document.whole_layers);
        assert_eq!(options.kept().and_then(|kept| kept.memory_reserve), Some(5));
        let place = |name| (options.place)(name);
        assert_eq!([place("batch"), place("format")], ["--batch", "plan.json: model.format"]);
    }

    #[test]
    fn nothing_said_is_nothing_kept() {
        assert_eq!(model_options(&given(&[]), Kept::default()).expect("options").kept(), None);
    }

    #[test]
    fn a_switch_that_is_off_overrides_a_plan() {
        let kept = ModelOptionsDocument { tied_together: true, ..ModelOptionsDocument::default() };
        let kept = Kept { options: Some(("plan.json", &kept)), cluster: None };
        let options = model_options(&given(&["--tied", "copy"]), kept).expect("options");
        assert!(!options.document.tied_together && options.given.is_empty());
    }

    #[test]
    fn every_dimension_has_one_size() {
        let sizes = |words| Some(model_options(&given(words), Kept::default()).ok()?.document.dims);
        let expected = [("batch".to_owned(), 2), ("past".to_owned(), 8)].into();
        assert_eq!(sizes(&["--dim", "batch=2", "--dim", "past=8", "--dim", "batch=2"]), Some(expected));
        assert_eq!(sizes(&["--dim", "batch=2", "--dim", "batch=3"]), None);
        assert_eq!(sizes(&["--dim", "batch"]), None);
    }

    /// No field with a default value is written: this is how options that were not given are recognised.
    #[test]
    fn no_field_is_written_by_default() {
        assert_eq!(fields(&ModelOptionsDocument::default()), Map::new());
    }
}
