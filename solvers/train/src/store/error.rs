//! Errors of label files.

use std::path::Path;

use stagewright_core::code::Code;
use thiserror::Error;

use super::super::label::LabelError;
use crate::code::D::*;

/// Error of a label file.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A file that cannot be opened, read, locked or written.
    #[error("cannot {doing} the labels: {cause}")]
    File {
        /// The file.
        file: String,
        /// The operation.
        doing: &'static str,
        /// The cause.
        cause: String,
    },
    /// A file of another kind.
    #[error("not a label file")]
    NoLabels {
        /// The file.
        file: String,
    },
    /// A file with another or an unknown schema.
    #[error("schema is `{found}`, expected `{}`", super::LABELS_SCHEMA)]
    Schema {
        /// The file.
        file: String,
        /// The schema in the header of the file.
        found: String,
    },
    /// Labels of another recipe.
    #[error("the labels were made with another recipe: `{what}` differs")]
    OtherRecipe {
        /// The file.
        file: String,
        /// The first field that differs.
        what: &'static str,
    },
    /// A line that is not a valid label.
    #[error("{cause}")]
    Line {
        /// The file.
        file: String,
        /// Number of the line, from 1.
        line: usize,
        /// The mistake.
        cause: String,
    },
    /// A file that another program is writing.
    #[error("another process is writing these labels")]
    InUse {
        /// The file.
        file: String,
    },
    /// A label of a problem other than the given one.
    #[error("the label of instance {index} does not fit the problem: {cause}")]
    OtherProblem {
        /// Number of the instance.
        index: u64,
        /// The mismatch.
        cause: String,
    },
    /// An instance that cannot be labelled.
    #[error("instance {index}: {error}")]
    Label {
        /// Number of the instance.
        index: u64,
        /// The error.
        error: LabelError,
    },
    /// A label that another process failed to make.
    #[error("instance {index} was not labelled elsewhere: {cause}")]
    Elsewhere {
        /// Number of the instance.
        index: u64,
        /// The cause.
        cause: String,
    },
    /// Worker threads that cannot be started.
    #[error("cannot start worker threads: {0}")]
    Threads(String),
}

impl StoreError {
    pub(super) fn file(path: &Path, doing: &'static str, error: &std::io::Error) -> StoreError {
        StoreError::File { file: super::shown(path), doing, cause: error.to_string() }
    }

    /// Stable error code.
    pub fn code(&self) -> Code {
        match self {
            StoreError::File { .. } => D010,
            StoreError::NoLabels { .. } => D011,
            StoreError::Schema { .. } => D012,
            StoreError::OtherRecipe { .. } => D013,
            StoreError::Line { .. } => D014,
            StoreError::InUse { .. } => D015,
            StoreError::OtherProblem { .. } => D016,
            StoreError::Threads(_) => D017,
            StoreError::Elsewhere { .. } => D024,
            StoreError::Label { error, .. } => return error.code(),
        }
        .into()
    }

    /// Location: the file, with the line or the field if known.
    pub fn place(&self) -> String {
        match self {
            StoreError::File { file, .. } | StoreError::NoLabels { file } | StoreError::InUse { file } => {
                file.clone()
            }
            StoreError::Schema { file, .. } => format!("{file}:1: schema"),
            StoreError::OtherRecipe { file, what } => format!("{file}:1: {what}"),
            StoreError::Line { file, line, .. } => format!("{file}:{line}"),
            StoreError::OtherProblem { index, .. }
            | StoreError::Label { index, .. }
            | StoreError::Elsewhere { index, .. } => format!("instance {index}"),
            StoreError::Threads(_) => String::new(),
        }
    }

    /// A hint for fixing the error.
    pub fn help(&self) -> &'static str {
        match self {
            StoreError::File { .. } => {
                "check that the folder exists and is writable, and that the disk has space"
            }
            StoreError::NoLabels { .. } => "give a label file, or a new file",
            StoreError::Schema { .. } => "use the version that wrote the labels, or a new file",
            StoreError::OtherRecipe { .. } => {
                "use the recipe and effort that the labels were made with, or a new file"
            }
            StoreError::Line { .. } => "remove the line: its instance is labelled again",
            StoreError::InUse { .. } => "wait for it to end, or use another file",
            StoreError::OtherProblem { .. } => "use the recipe in the header of the file",
            StoreError::Threads(_) => "use fewer threads",
            StoreError::Elsewhere { .. } => "use the same build there",
            StoreError::Label { error, .. } => error.help(),
        }
    }
}
