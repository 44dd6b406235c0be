//! Errors of inputs: code, cause, place and a hint for fixing them.
//!
//! Codes are stable: scripts and the corpus in `data/malformed` rely on them. `data/errors.md` explains every
//! code.

use std::fmt;

use stagewright_core::code::Code;
use stagewright_core::text::visible;

use crate::code::M004;

/// The result of reading or writing a document.
pub type Result<T, E = InputError> = std::result::Result<T, E>;

/// An invalid input.
///
/// `Display` prints all of it, over several lines:
///
/// ```text
/// error[F003]: missing field `name`
///   --> model.json: operators[3]
///   help: add the field; data/schema has the schema of every document
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("error[{code}]: {message}\n  --> {place}\n  help: {help}")]
pub struct InputError {
    /// Stable error code, explained in `data/errors.md`.
    pub code: Code,
    /// Cause.
    pub message: String,
    /// Place of the error.
    pub place: Place,
    /// A hint for fixing the error.
    pub help: String,
}

/// A place in an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Label of the input, usually a file name.
    pub file: String,
    /// Place in the input.
    pub at: At,
}

/// Place in an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum At {
    /// The whole input.
    Whole,
    /// A value, as in `operators[17].seconds.acc`.
    Path(String),
    /// A position in the text. Lines and columns are counted from 1; columns count characters.
    Line {
        /// Line.
        line: u32,
        /// Column.
        column: u32,
    },
}

/// Maximum number of bytes that an error repeats of a cause or path: names in an input can be of any length.
const LONGEST_QUOTE: usize = 400;

/// Largest number of bytes of a hint: commands and lists of formats are longer than a cause.
const LONGEST_HELP: usize = 1000;

impl InputError {
    /// An error at a place; the message and the help are cut to a length that a terminal can show.
    pub fn new(
        code: impl Into<Code>,
        label: &str,
        position: At,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        let position = match position {
            At::Path(path) => At::Path(printable(&path, LONGEST_QUOTE)),
            other => other,
        };
        InputError {
            code: code.into(),
            message: printable(&message.into(), LONGEST_QUOTE),
            place: Place { file: label.to_owned(), at: position },
            help: printable(&help.into(), LONGEST_HELP),
        }
    }

    /// An error about the value at a path such as `nodes[3].size`.
    pub fn at_path(
        code: impl Into<Code>,
        label: &str,
        path: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        InputError::new(code, label, At::Path(path.into()), message, help)
    }

    /// An error about a model without operators.
    pub(super) fn empty(label: &str, message: &str) -> Self {
        InputError::new(M004, label, At::Whole, message, "give at least one")
    }
}

/// Errors quote text from inputs, so it is shortened, and every character of it is made visible.
fn printable(text: &str, longest: usize) -> String {
    let shown = visible(text);
    match shown.len() <= longest {
        true => shown.into_owned(),
        false => format!("{}…", &shown[..shown.floor_char_boundary(longest)]),
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Whole => Ok(()),
            At::Path(path) => write!(f, "{path}"),
            At::Line { line, column } => write!(f, "{line}:{column}"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            At::Whole => write!(f, "{}", self.file),
            At::Path(path) => write!(f, "{}: {path}", self.file),
            position => write!(f, "{}:{position}", self.file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::{F003, F005};

    #[test]
    fn an_error_is_a_block_of_code_place_and_help() {
        let error = InputError::at_path(F003, "model.json", "operators[3]", "missing field `name`", "add it");
        assert_eq!(
            error.to_string(),
            "error[F003]: missing field `name`\n  --> model.json: operators[3]\n  help: add it"
        );
    }

    #[test]
    fn names_of_an_input_cannot_flood_or_steer_a_terminal() {
        let hostile = format!("\u{1b}[2J\u{202e}{}", "x".repeat(100_000));
        let error = InputError::new(F005, "m", At::Path(hostile.clone()), hostile.clone(), hostile);
        for part in [error.message, error.place.at.to_string(), error.help] {
            assert!(part.len() < 2 * LONGEST_HELP);
            assert!(part.starts_with("\\u{1b}[2J\\u{202e}x"));
        }
    }
}
