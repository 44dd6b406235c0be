//! The options of questions, each defined once.
//!
//! A record has everything that users see about an option: its name, values, default and help, and the kinds of questions that
//! it has an effect on. The formats that it has an effect on are in [`FORMATS`]. The arguments of the program, their help, the
//! reference, the arguments of the Python package, and the errors for options without effect come from these records. A new
//! option is a record in [`OPTIONS`] and a field of the structure that its group is read into.

mod table;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use stagewright_formats::FORMATS;

use super::Kind;
use crate::code::{U001, U013};
use crate::failure::{Failure, Result};
use crate::reading::Place;
pub use table::OPTIONS;

/// Definition of an option.
#[derive(Debug, Clone, Copy)]
pub struct OptionRecord {
    /// Name: the field of the document or of the structure that it is read into.
    pub name: &'static str,
    /// Name on the command line without hyphens before it, if it is not `name` with hyphens in place of underscores.
    written: Option<&'static str>,
    /// Structure that the option is read into.
    pub group: Group,
    /// Values that the option takes.
    pub values: Values,
    /// Meaning, without its default and its formats.
    pub help: &'static str,
    /// Value of an option that is not given; empty if it is obvious.
    pub default: &'static str,
    /// Whether the default is a value as users write it, and not words.
    pub is_value: bool,
    /// Kinds of questions that the option has an effect on.
    pub kinds: &'static [Kind],
    /// Option without which this one has no meaning.
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
    /// Parallelism of a joint plan: fields of [`ParallelOptions`](super::ParallelOptions).
    Joint,
    /// Limits, seed and threads of a solve.
    Solving,
    /// Options of single commands, which define their arguments themselves.
    Command,
}

/// Values that an option takes. Text in capitals is their placeholder in help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Given or not.
    Switch,
    /// A whole number up to a maximum.
    Number(&'static str, u64),
    /// A text.
    Text(&'static str),
    /// A text, each time that the option is given.
    Texts(&'static str),
    /// The path of a file.
    File(&'static str),
    /// The path of a file, each time that the option is given.
    Files(&'static str),
    /// A name among these.
    Choice(&'static [Choice]),
    /// Several names among these, separated by commas.
    Choices(&'static [Choice]),
}

/// A value by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Name that users write.
    pub name: &'static str,
    /// Meaning, if the name does not state it.
    pub help: &'static str,
    /// Value of a switch that the choice represents; `None` if its name is the value.
    pub switch: Option<bool>,
}

impl OptionRecord {
    /// Name on the command line, without hyphens before it.
    pub fn written(&self) -> String {
        self.written.map_or_else(|| self.name.replace('_', "-"), str::to_owned)
    }

    /// Formats of models that the option has an effect on; empty for any.
    pub fn formats(&self) -> Vec<&'static str> {
        FORMATS
            .iter()
            .filter(|entry| self.group == Group::Reading && entry.options.contains(&self.name))
            .map(|entry| entry.name)
            .collect()
    }

    /// Help with a default in words and the formats.
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
    /// Options of the group, in the order in which help lists them.
    pub fn options(self) -> impl Iterator<Item = &'static OptionRecord> {
        OPTIONS.iter().filter(move |option| option.group == self)
    }

    /// Heading of the options in help, if they have one.
    pub fn heading(self) -> Option<&'static str> {
        match self {
            Group::Surroundings | Group::Command => None,
            Group::Reading => Some("Reading the model"),
            Group::Objective => Some("Objective"),
            Group::Joint => Some("Joint plans"),
            Group::Solving => Some("Solving"),
        }
    }
}

/// Record of an option.
pub fn option(name: &str) -> Option<&'static OptionRecord> {
    OPTIONS.iter().find(|option| option.name == name)
}

/// Options that are given as the structure of their group.
///
/// # Errors
/// A value that the structure does not take (U001), located by `place`.
pub fn read<T: DeserializeOwned>(given: Map<String, Value>, place: &Place) -> Result<T> {
    serde_path_to_error::deserialize(Value::Object(given)).map_err(|error| {
        let name = error.path().iter().next().map(ToString::to_string).unwrap_or_default();
        let cause = error.into_inner().to_string();
        Failure::new(U001, cause).at(place(&name)).help("correct the option, or leave it out")
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

/// Error for an option without effect on its subject, such as "a file of Piper".
pub(super) fn no_effect(name: &str, what: &str, place: &Place) -> Failure {
    let option = place(name);
    Failure::new(U013, format!("{option} does not apply to {what}")).at(option).help("leave it out")
}
