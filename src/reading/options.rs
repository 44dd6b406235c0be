//! Conversion of a model's options for its importer, and the check that its format uses them.

use std::collections::BTreeSet;
use std::sync::Arc;

use stagewright_core::document::{GradientsDocument, ModelOptionsDocument, TimeUnitDocument};
use stagewright_formats::nearest::instead;
use stagewright_formats::{FORMATS, Format, Fusion, Gradients, ImportOptions, Tied, TimeUnit};

use crate::code::{U001, U005, U012};
use crate::failure::{Failure, Result};

/// The place of an option in errors and notes, by the option's name: `--memory-reserve` for `memory_reserve`.
pub type Place = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// How to read a model: the options given by the user, which override those of a plan.
#[derive(Clone)]
pub struct ModelOptions {
    /// The options, as a plan stores them.
    pub document: ModelOptionsDocument,
    /// Names of the options that the user gave; the others come from a plan.
    pub given: BTreeSet<String>,
    /// Place where an option is given.
    pub place: Place,
}

impl ModelOptions {
    /// The options to store in a plan; `None` if all are defaults.
    pub fn kept(&self) -> Option<ModelOptionsDocument> {
        (self.document != ModelOptionsDocument::default()).then(|| self.document.clone())
    }
}

/// The present version of the cost rules, which plans of earlier versions of the program store.
const COST_RULES: u8 = 2;

/// Converts options for the importers. `place` maps an option's name in the document to the place where users give it.
///
/// # Errors
/// If a size is zero (U001), the cost rules are not the present ones (U001), or the format is unknown (U005).
pub fn import_options(
    options: &ModelOptionsDocument,
    place: impl Fn(&str) -> String,
) -> Result<ImportOptions> {
    let wrong =
        |name: &str, cause: String, help: &str| Err(Failure::new(U001, cause).at(place(name)).help(help));
    let ModelOptionsDocument { batch, context, sequences, expert_group, keep_input_costs, .. } = *options;
    let sizes = [("batch", batch), ("sequences", sequences), ("expert_group", expert_group)];
    for (name, size) in sizes {
        if size == Some(0) {
            return wrong(
                name,
                format!("the {} must be at least 1", name.replace('_', " ")),
                "give at least 1",
            );
        }
    }
    if let Some(rules) = options.cost_rules.filter(|&rules| rules != COST_RULES) {
        let help = "plan the model again, by the present rules";
        return wrong("cost_rules", format!("there are no cost rules {rules} any more"), help);
    }
    Ok(ImportOptions {
        format: format(options, &place)?,
        batch,
        dims: options.dims.clone(),
        context,
        sequences,
        precision: options.precision,
        tied: if options.tied_together { Tied::Together } else { Tied::Copy },
        fusion: if options.without_fusion { Fusion::Off } else { Fusion::On },
        time_unit: options.time_unit.map(|unit| match unit {
            TimeUnitDocument::S => TimeUnit::Seconds,
            TimeUnitDocument::Ms => TimeUnit::Milliseconds,
            TimeUnitDocument::Us => TimeUnit::Microseconds,
            TimeUnitDocument::Ns => TimeUnit::Nanoseconds,
        }),
        keep_input_costs,
        profile_class: options.profile_class.clone(),
        gradients: match options.gradients {
            None | Some(GradientsDocument::Mirrored) => Gradients::Mirrored,
            Some(GradientsDocument::Reversed) => Gradients::Reversed,
        },
    })
}

/// The requested format of the model, if any.
fn format(options: &ModelOptionsDocument, place: impl Fn(&str) -> String) -> Result<Option<Format>> {
    let Some(name) = options.format.as_deref() else { return Ok(None) };
    Format::named(name).map(Some).ok_or_else(|| {
        let known = FORMATS.iter().map(|entry| entry.name);
        Failure::new(U005, format!("unknown model format `{name}`"))
            .at(place("format"))
            .help(format!("{}; omit it to detect the format", instead(name, known)))
    })
}

/// Rejects given options that a format does not use, because ignoring one would silently read a model other than the
/// one requested. The batch is an exception, because it also scales the throughput. Returns whether a batch was given
/// that has no other effect.
///
/// # Errors
/// If an option has no effect on models of this format (U012).
pub fn suit<'a>(
    given: impl Iterator<Item = &'a str>,
    format: Format,
    place: impl Fn(&str) -> String,
) -> Result<bool> {
    let mut only_counted = false;
    for name in given.filter(|name| !format.has_option(name)) {
        let others = FORMATS.iter().filter(|entry| entry.options.contains(&name));
        let others: Vec<&str> = others.map(|entry| entry.name).collect();
        // An option that no format lists applies to all formats.
        if others.is_empty() {
            continue;
        }
        if name == "batch" {
            only_counted = true;
            continue;
        }
        let cause = format!("the option has no effect on models of the format {}", format.entry().name);
        return Err(Failure::new(U012, cause)
            .at(place(name))
            .help(format!("leave it out; it is an option of {}", others.join(", "))));
    }
    Ok(only_counted)
}
