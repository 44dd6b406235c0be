//! Arguments generated from the option records of the library, and the values that users give them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, RangedU64ValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use serde_json::{Map, Value};
use stagewright::tasks::options::{Choice, Group, OptionRecord, Values};

/// The given options of a group.
#[derive(Debug, Clone, Default)]
pub(crate) struct Given {
    /// Values, in the form of the documents.
    values: Map<String, Value>,
    /// Paths of files, which need not be valid text.
    files: BTreeMap<&'static str, Vec<PathBuf>>,
    /// Options whose value is a default.
    defaults: BTreeSet<&'static str>,
}

impl Given {
    /// Values of the options by name, in the form of the documents; without files.
    pub(crate) fn values(&self) -> &Map<String, Value> {
        &self.values
    }

    /// The text of an option with a value.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).and_then(Value::as_str)
    }

    /// The number of an option that takes one.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.values.get(name).and_then(Value::as_u64)
    }

    /// The files of an option.
    pub(crate) fn files(&self, name: &str) -> &[PathBuf] {
        self.files.get(name).map_or(&[], Vec::as_slice)
    }

    /// The file of an option.
    pub(crate) fn file(&self, name: &str) -> Option<&Path> {
        self.files(name).first().map(PathBuf::as_path)
    }

    /// Names of the options that users gave.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let names = self.values.keys().map(String::as_str).chain(self.files.keys().copied());
        names.filter(|name| !self.defaults.contains(*name))
    }

    /// The options, and defaults for those that are not given.
    pub(crate) fn or(&self, defaults: &Given) -> Given {
        let mut all = defaults.clone();
        all.values.extend(self.values.clone());
        all.files.extend(self.files.clone());
        all
    }

    fn of(group: Group, matches: &ArgMatches) -> Given {
        let mut given = Given::default();
        for option in group.options() {
            given.take(option, matches);
        }
        given
    }

    fn take(&mut self, option: &OptionRecord, matches: &ArgMatches) {
        if option.is_value && matches.value_source(option.name) == Some(ValueSource::DefaultValue) {
            self.defaults.insert(option.name);
        }
        let texts =
            || matches.get_many::<String>(option.name).map(|texts| texts.cloned().collect::<Vec<_>>());
        let value = match option.values {
            Values::Switch => matches.get_flag(option.name).then_some(Value::Bool(true)),
            Values::Number(..) => matches.get_one::<u64>(option.name).map(|&number| number.into()),
            Values::Numbers(..) => matches
                .get_many::<u64>(option.name)
                .map(|numbers| numbers.copied().collect::<Vec<_>>().into()),
            Values::Text(_) => matches.get_one::<String>(option.name).map(|text| text.as_str().into()),
            Values::Choice(choices) => matches
                .get_one::<String>(option.name)
                .map(|name| switch(choices, name).map_or_else(|| name.as_str().into(), Value::Bool)),
            Values::Texts(_) | Values::Choices(_) => texts().map(Value::from),
            Values::File(_) | Values::Files(_) => {
                if let Some(paths) = matches.get_many::<PathBuf>(option.name) {
                    self.files.insert(option.name, paths.cloned().collect());
                }
                None
            }
        };
        self.values.extend(value.map(|value| (option.name.to_owned(), value)));
    }
}

/// Value of the switch that a choice stands for; `None` if the choice is not a switch.
fn switch(choices: &[Choice], name: &str) -> Option<bool> {
    choices.iter().find(|choice| choice.name == name)?.switch
}

/// Builds the argument for an option.
fn argument(option: &'static OptionRecord) -> Arg {
    let argument = Arg::new(option.name).long(option.written()).help(option.described());
    let argument = match option.group.heading() {
        Some(heading) => argument.help_heading(heading),
        None => argument,
    };
    let argument = match option.is_value {
        true => argument.default_value(option.default),
        false => argument,
    };
    let argument = match option.requires {
        Some(other) => argument.requires(other),
        None => argument,
    };
    match option.values {
        Values::Switch => argument.action(ArgAction::SetTrue),
        Values::Number(name, maximum) => {
            argument.value_name(name).value_parser(RangedU64ValueParser::<u64>::new().range(0..=maximum))
        }
        Values::Numbers(name, maximum) => argument
            .value_name(name)
            .value_parser(RangedU64ValueParser::<u64>::new().range(0..=maximum))
            .value_delimiter(','),
        Values::Text(name) => argument.value_name(name),
        Values::Texts(name) => argument.value_name(name).action(ArgAction::Append),
        Values::File(name) => argument.value_name(name).value_parser(value_parser!(PathBuf)),
        Values::Files(name) => {
            argument.value_name(name).value_parser(value_parser!(PathBuf)).action(ArgAction::Append)
        }
        Values::Choice(choices) => argument.value_parser(names(choices)),
        Values::Choices(choices) => {
            argument.value_parser(names(choices)).value_delimiter(',').action(ArgAction::Append)
        }
    }
}

/// A parser for the names of choices.
fn names(choices: &'static [Choice]) -> PossibleValuesParser {
    PossibleValuesParser::new(choices.iter().map(|choice| match choice.help {
        "" => PossibleValue::new(choice.name),
        help => PossibleValue::new(choice.name).help(help),
    }))
}

/// Declares the arguments of groups.
macro_rules! groups {
    ($($(#[$doc:meta])* $name:ident = $group:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Default)]
        pub(crate) struct $name(pub(crate) Given);

        impl Args for $name {
            fn augment_args(command: Command) -> Command {
                command.args(Group::$group.options().map(argument))
            }

            fn augment_args_for_update(command: Command) -> Command {
                Self::augment_args(command)
            }
        }

        impl FromArgMatches for $name {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
                Ok($name(Given::of(Group::$group, matches)))
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
                *self = Self::from_arg_matches(matches)?;
                Ok(())
            }
        }
    )+};
}

groups! {
    /// Inputs of a problem besides the model.
    Surroundings = Surroundings;
    /// Options for everything that the format of a model leaves open. A plan keeps them, so commands that read the plan
    /// do not need them again.
    ImportArguments = Reading;
    /// Objective and its rules. An omitted option has its default, or for `check` the value in the plan.
    ObjectiveArguments = Objective;
    /// Requirements on a plan, and a second goal.
    SelectionArguments = Selection;
    /// Parallelism of joint plans.
    ParallelArguments = Joint;
    /// Local plans.
    LocalArguments = Local;
    /// Serving plans.
    ServingArguments = Serving;
    /// Limits, seed and threads of a solve.
    SolveArguments = Solving;
}
