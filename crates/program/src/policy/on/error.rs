//! Errors of training.

use stagewright::train::run::RunError;

use crate::error::CliError;

/// The error of a training run, about the file called `label`.
pub(super) fn at(label: &str, error: RunError) -> CliError {
    let place = match &error {
        RunError::Notation { line: Some(line), .. } => format!("{label}:{line}"),
        RunError::Recipe { field, error } => format!("{label}: {field}.{}", error.place()),
        RunError::Count { field, .. } => format!("{label}: {field}"),
        RunError::InUse { folder } => folder.clone(),
        RunError::Store(error) => error.place(),
        RunError::Checkpoint { file, .. } | RunError::File { file, .. } => file.clone(),
        _ => label.into(),
    };
    CliError::new(error.code(), error.to_string()).at(place).help(error.help())
}
