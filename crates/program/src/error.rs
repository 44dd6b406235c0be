//! Errors of the command line, and the places that they name.

use std::sync::Arc;

use stagewright::reading::Place;
use stagewright::tasks::options;

pub(crate) use stagewright::failure::{Failure as CliError, Result};

/// Place of an option in errors and notes.
pub(crate) fn place() -> Place {
    Arc::new(option)
}

/// The command-line option that corresponds to a field.
pub(crate) fn option(name: &str) -> String {
    match options::option(name) {
        Some(option) => format!("--{}", option.written()),
        None => format!("--{}", name.replace('_', "-")),
    }
}
