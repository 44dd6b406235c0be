//! The options of questions, each defined once.
//!
//! A record has everything that users see about an option: its name, values, default and help, and the kinds of
//! questions on which it has an effect. The formats on which it has an effect are in [`FORMATS`]. The arguments of the
//! program, their help, the reference, the arguments of the Python package, and the errors for options without effect
//! are generated from these records. A new option is a record in [`OPTIONS`] and a field of the structure that its
//! group is read into.

mod table;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use stagewright_formats::FORMATS;
use stagewright_formats::fault::Fault;

use super::Kind;
use crate::code::{U001, U013};
use crate::failure::{Failure, Result};
use crate::reading::Place;
pub use table::OPTIONS;

/// Definition of an option.
#[derive(Debug, Clone, Copy)]
pub struct OptionRecord {
    /// Name, which is also that of the field in the document or structure that the option is read into.
    pub name: &'static str,
    /// Name on the command line, without leading hyphens, if it differs from `name` with hyphens for underscores.
    written: Option<&'static str>,
    /// Structure that the option is read into.
    pub group: Group,
    /// Values that the option takes.
    pub values: Values,
    /// Meaning, without its default and its formats.
    pub help: &'static str,
    /// Value used if the option is not given; empty if it is obvious.
    pub default: &'static str,
    /// Whether the default is a value in the notation of users, rather than a description in words.
    pub is_value: bool,
    /// Kinds of questions on which the option has an effect.
    pub kinds: &'static [Kind],
    /// Another option that this one requires.
    pub requires: Option<&'static str>,
}

/// Structure that an option is read into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Inputs besides the model: fields of [`Request`](super::Request) and of `ModelOptionsDocument`.
    Surroundings,
    /// How the model is read: fields of `ModelOptionsDocument`.
    Reading,
    /// Objective and its rules: fields of [`ObjectiveOptions`](super::ObjectiveOptions).
    Objective,
    /// Requirements on a plan, and a second goal: fields of [`SelectionOptions`](super::SelectionOptions).
    Selection,
    /// Parallelism of a joint plan: fields of [`ParallelOptions`](super::ParallelOptions).
    Joint,
    /// Local plans: fields of [`LocalOptions`](super::LocalOptions).
    Local,
    /// Serving plans: fields of [`ServingOptions`](super::ServingOptions), which also has `goal` and `output`.
    Serving,
    /// Limits, seed and threads of a solve.
    Solving,
    /// Options of single commands, each of which defines its own arguments.
    Command,
}

/// Values that an option takes. A text in capitals is the placeholder shown in help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Given or not.
    Switch,
    /// A whole number, with its maximum.
    Number(&'static str, u64),
    /// Whole numbers separated by commas, with their maximum.
    Numbers(&'static str, u64),
    /// A text.
    Text(&'static str),
    /// A text; the option may be given several times.
    Texts(&'static str),
    /// The path of a file.
    File(&'static str),
    /// The path of a file; the option may be given several times.
    Files(&'static str),
    /// One of these names.
    Choice(&'static [Choice]),
    /// Several of these names, separated by commas.
    Choices(&'static [Choice]),
}

/// A value by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Name that users write.
    pub name: &'static str,
    /// Meaning, if the name does not state it.
    pub help: &'static str,
    /// Value of the switch that the choice stands for; `None` if the name itself is the value.
    pub switch: Option<bool>,
}

impl OptionRecord {
    /// Name on the command line, without leading hyphens.
    pub fn written(&self) -> String {
        self.written.map_or_else(|| self.name.replace('_', "-"), str::to_owned)
    }

    /// Formats of models on which the option has an effect; empty for any.
    pub fn formats(&self) -> Vec<&'static str> {
        FORMATS
            .iter()
            .filter(|entry| self.group == Group::Reading && entry.options.contains(&self.name))
            .map(|entry| entry.name)
            .collect()
    }

    /// Help text, followed by a default in words and the formats.
    pub fn described(&self) -> String {
        let mut text = self.help.to_owned();
        if !self.default.is_empty() && !self.is_value {
            text += &format!(" [default: {}]", self.default);
        }
        match self.formats()[..] {
            [] => text,
            ref formats => text + &format!(" ({})", formats.join(", ")),
        }
    }
}

impl Group {
    /// Options of the group, in the order of the help.
    pub fn options(self) -> impl Iterator<Item = &'static OptionRecord> {
        OPTIONS.iter().filter(move |option| option.group == self)
    }

    /// Heading of the group's options in help, if there is one.
    pub fn heading(self) -> Option<&'static str> {
        match self {
            Group::Surroundings | Group::Command => None,
            Group::Reading => Some("Reading the model"),
            Group::Objective => Some("Objective"),
            Group::Selection => Some("Choice among plans"),
            Group::Joint => Some("Joint plans"),
            Group::Local => Some("Local plans"),
            Group::Serving => Some("Serving plans"),
            Group::Solving => Some("Solving"),
        }
    }
}

/// Record of an option.
pub fn option(name: &str) -> Option<&'static OptionRecord> {
    OPTIONS.iter().find(|option| option.name == name)
}

/// Reads the given options into the structure of their group.
///
/// # Errors
/// A value that the structure does not take (U001), located by `place`.
pub fn read<T: DeserializeOwned>(given: Map<String, Value>, place: &Place) -> Result<T> {
    serde_path_to_error::deserialize(Value::Object(given)).map_err(|error| {
        let name = error.path().iter().next().map(ToString::to_string).unwrap_or_default();
        let Fault { message, help, .. } = Fault::of_value(&error.into_inner().to_string());
        Failure::new(U001, message).at(place(&name)).help(format!("{help}, or leave the option out"))
    })
}

/// Refuses options that have no effect on questions of a kind.
///
/// # Errors
/// The first such option (U013).
pub fn refuse<'a>(kind: Kind, given: impl IntoIterator<Item = &'a str>, place: &Place) -> Result<()> {
    let without_effect = |name: &&str| option(name).is_some_and(|option| !option.kinds.contains(&kind));
    match given.into_iter().find(without_effect) {
        Some(name) => Err(no_effect(name, &format!("a {}", kind.name()), place)),
        None => Ok(()),
    }
}

/// The error for an option without effect on its subject, such as "a file of Piper".
pub(super) fn no_effect(name: &str, what: &str, place: &Place) -> Failure {
    let option = place(name);
    Failure::new(U013, format!("{option} does not apply to {what}")).at(option).help("leave it out")
}
