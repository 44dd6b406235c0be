//! Options for reading a model: the command line overrides the options stored in a plan.
//!
//! A plan depends on how its model was read. So these options are stored in the plan, and are the defaults of every
//! command that reads it. An option on the command line takes precedence; if the two differ, a note reports it.
//!
//! # Adding an option
//!
//! Add a field to `ModelOptionsDocument`, omitted from the document if the option is not given, and its lines in
//! [`typed`] and `reading::import_options`. Storing, merging and the notes use the names of the fields.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};
use stagewright::code::{U001, X001};
use stagewright::core::document::ModelOptionsDocument;
use stagewright::formats::CostRules;
use stagewright::reading::ModelOptions;
use stagewright::tasks::PlanFile;

use super::args::{AroundArguments, ImportArguments};
use super::error::{CliError, Result};
use super::{output, quantity};

/// The options stored in a plan, with the plan's name in errors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept<'a> {
    pub(crate) label: &'a str,
    pub(crate) options: &'a ModelOptionsDocument,
}

impl<'a> Kept<'a> {
    /// The options that a file of a plan keeps, if any.
    pub(crate) fn of(plan: &'a PlanFile<'_>) -> Option<Kept<'a>> {
        plan.options().map(|options| Kept { label: plan.label(), options })
    }
}

/// The options given on the command line.
fn typed(
    arguments: &ImportArguments,
    reserve: Option<&str>,
    costs: &[PathBuf],
) -> Result<ModelOptionsDocument> {
    Ok(ModelOptionsDocument {
        format: arguments.format.clone(),
        batch: arguments.batch,
        whole_layers: arguments.whole_layers,
        dims: dims(&arguments.dims)?,
        context: arguments.context,
        sequences: arguments.sequences,
        precision: arguments.precision,
        tied_together: arguments.tied == Some(true),
        without_fusion: arguments.fusion == Some(false),
        cost_rules: (arguments.cost_rules == Some(CostRules::One)).then_some(1),
        time_unit: arguments.time_unit,
        keep_input_costs: arguments.keep_input_costs,
        profile_class: arguments.profile_class.clone(),
        gradients: arguments.gradients,
        memory_reserve: reserve.map(bytes).transpose()?,
        costs: costs.iter().map(|path| path.display().to_string()).collect(),
    })
}

/// Parses sizes by name from `NAME=N`.
fn dims(typed: &[String]) -> Result<BTreeMap<String, u64>> {
    let mut dims = BTreeMap::new();
    for text in typed {
        let size = text.rsplit_once('=').and_then(|(name, size)| Some((name, size.parse::<u64>().ok()?)));
        let (name, size) = match size {
            Some((name, size)) if !name.is_empty() && size > 0 => (name, size),
            _ => {
                return Err(CliError::new(U001, format!("`{text}` is not a dimension with a size"))
                    .at("--dim")
                    .help("write NAME=N, as in --dim sequence_length=128"));
            }
        };
        if dims.insert(name.to_owned(), size).is_some_and(|other| other != size) {
            return Err(CliError::new(U001, format!("`{name}` has two sizes"))
                .at("--dim")
                .help("give every dimension one size"));
        }
    }
    Ok(dims)
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

/// Merges the options of the command line over those of a plan. A note reports each difference.
pub(crate) fn model_options(arguments: &ImportArguments, kept: Option<Kept<'_>>) -> Result<ModelOptions> {
    merged(&typed(arguments, None, &[])?, kept)
}

/// Merges the options of the command line, with the memory reserve and files of measurements, over those of a plan.
pub(crate) fn model_options_around(around: &AroundArguments, kept: Option<Kept<'_>>) -> Result<ModelOptions> {
    merged(&typed(&around.import, around.memory_reserve.as_deref(), &around.costs)?, kept)
}

fn merged(typed: &ModelOptionsDocument, kept: Option<Kept<'_>>) -> Result<ModelOptions> {
    let typed = fields(typed);
    let given: BTreeSet<String> = typed.keys().cloned().collect();
    let mut all = kept.map(|kept| fields(kept.options)).unwrap_or_default();
    let plan = kept.map(|kept| kept.label.to_owned()).unwrap_or_default();
    for (name, value) in typed {
        let said = all.insert(name.clone(), value.clone());
        if let Some(said) = said.filter(|said| *said != value) {
            let option = option(&name);
            output::note(&format!("note: {option} is {value}; {plan} was made with {said}"));
        }
    }
    let document: ModelOptionsDocument = serde_json::from_value(Value::Object(all))
        .map_err(|error| CliError::new(X001, format!("cannot merge the options of the plan: {error}")))?;
    // Source of a field: an option, or a path in the plan.
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

/// The fields that are given, by name.
fn fields(document: &ModelOptionsDocument) -> Map<String, Value> {
    match serde_json::to_value(document) {
        Ok(Value::Object(fields)) => fields,
        // Unreachable: a struct of names, numbers and switches serialises to an object.
        _ => Map::new(),
    }
}

/// The command-line option of a field.
pub(crate) fn option(name: &str) -> String {
    match name {
        "dims" => "--dim".to_owned(),
        "tied_together" => "--tied".to_owned(),
        "without_fusion" => "--fusion".to_owned(),
        _ => format!("--{}", name.replace('_', "-")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing() -> ImportArguments {
        ImportArguments {
            format: None,
            batch: None,
            whole_layers: false,
            dims: Vec::new(),
            context: None,
            sequences: None,
            precision: None,
            tied: None,
            fusion: None,
            cost_rules: None,
            time_unit: None,
            keep_input_costs: false,
            profile_class: None,
            gradients: None,
        }
    }

    #[test]
    fn what_is_typed_goes_before_what_a_plan_keeps() {
        let kept = ModelOptionsDocument {
            batch: Some(8),
            whole_layers: true,
            memory_reserve: Some(5),
            ..ModelOptionsDocument::default()
        };
        let kept = Some(Kept { label: "plan.json", options: &kept });
        let arguments = ImportArguments { batch: Some(16), ..nothing() };
        let options = model_options(&arguments, kept).expect("options");
        assert_eq!(options.document.batch, Some(16));
        assert!(options.document.whole_layers);
        assert_eq!(options.kept().and_then(|kept| kept.memory_reserve), Some(5));
        let place = |name| (options.place)(name);
        assert_eq!([place("batch"), place("format")], ["--batch", "plan.json: model.format"]);
    }

    #[test]
    fn nothing_said_is_nothing_kept() {
        assert_eq!(model_options(&nothing(), None).expect("options").kept(), None);
        let said = typed(&nothing(), Some("none"), &[]).expect("options");
        assert_eq!(
            merged(&said, None).expect("options").kept().and_then(|kept| kept.memory_reserve),
            Some(0)
        );
    }

    /// Every field is omitted by default, which distinguishes options that were not given.
    #[test]
    fn no_field_is_written_by_default() {
        assert_eq!(fields(&ModelOptionsDocument::default()), Map::new());
    }
}
