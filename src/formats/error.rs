//! What is wrong with an input: code, cause, place and what to do about it.
//!
//! Codes are stable: scripts and the corpus in `data/malformed` rely on them. A code that is given up is not
//! used again.
//!
//! | code | cause |
//! | --- | --- |
//! | F001 | the bytes are not UTF-8 text |
//! | F002 | the text is not well-formed JSON or TOML, or is nested too deeply |
//! | F003 | a field is missing |
//! | F004 | a field is not known |
//! | F005 | a value has the wrong type, or is none of those allowed |
//! | F006 | the content is of no known format |
//! | F007 | the document is of another schema, or another version of it |
//! | F008 | the file is empty |
//! | F009 | a key stands twice |
//! | F010 | a number is not finite |
//! | F011 | the file cannot be read to its end |
//! | M001 | imported model: two nodes have one id or name |
//! | M002 | imported model: an edge or input names what no node is or makes |
//! | M003 | imported model: a time, size or cost is negative, not finite or no number |
//! | M004 | imported model: there are no nodes |
//! | M005 | imported model: the unit of its times has to be given |
//! | M006 | imported model: a line, field or element is not what the format has in its place |
//! | M007 | imported model: the bytes are no protobuf message, or are cut off |
//! | M008 | imported model: a shape is not known |
//! | M009 | imported model: shapes or attributes contradict one another |
//! | M010 | imported model: a dimension is symbolic, or the batch given is not that of the file |
//! | M011 | imported model: an operator has a body of its own, which is not priced |
//! | M012 | imported model: a node cannot run on one device |
//! | R001 | reference model: two nodes have one id |
//! | R002 | reference model: an edge names an id that no node has |
//! | R003 | reference model: an edge joins a node to itself |
//! | R004 | reference model: the edges out of one node differ in cost |
//! | R005 | reference model: an edge leads from a backward to a forward node |
//! | R006 | reference model: the edges form a cycle |
//! | R007 | reference model: a time, size or cost is negative |
//! | R008 | reference model: a device count is negative, not whole or absurd |
//! | R009 | reference model: there are no nodes |
//! | S001 | split: an id that no node of the model has |
//! | S002 | split: a node is placed twice |
//! | S003 | split: a device that the model's cluster does not have |
//! | S004 | split: nodes are placed nowhere, and colocation does not say where they belong |
//! | S005 | split: a node is left out, and its colour class is on several devices |
//! | S006 | split: the model did not come from the reference format, so it has no ids |
//! | W001 | writing a reference model: there is no cluster |
//! | W002 | writing a reference model: the cluster has more than one kind of accelerator or host, groups or a matrix |
//! | W003 | writing a reference model: an operator has no measured time where it needs one |
//! | W004 | writing a reference model: an operator has several outgoing tensors |
//! | W005 | writing a reference model: a tensor has neither measured seconds nor a link to derive them from |
//! | W006 | writing a reference model: a tensor or operator name is unknown or not unique |

use std::fmt;

/// An input that cannot be used.
///
/// `Display` prints it whole, over several lines:
///
/// ```text
/// error[F003]: missing field `name`
///   --> model.json: operators[3]
///   help: add the field; data/schema has the schema of every document
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("error[{code}]: {message}\n  --> {place}\n  help: {help}")]
pub struct InputError {
    /// Stable code, from the table of this module.
    pub code: &'static str,
    /// The cause.
    pub message: String,
    /// Where it is.
    pub place: Place,
    /// What to do.
    pub help: String,
}

/// A place in an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// What the caller called the input, usually a file name.
    pub file: String,
    /// Where in it.
    pub at: At,
}

/// Where in an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum At {
    /// All of it.
    Whole,
    /// A value, as in `operators[17].seconds.acc`.
    Path(String),
    /// A position in the text, both counted from 1; columns count characters.
    Line {
        /// Line.
        line: u32,
        /// Column.
        column: u32,
    },
}

/// Longest cause and path that an error repeats: names in an input can be of any length.
const LONGEST_QUOTE: usize = 400;

/// Longest help: commands and lists of formats are longer than a cause.
const LONGEST_HELP: usize = 1000;

impl InputError {
    pub(super) fn new(
        code: &'static str,
        label: &str,
        at: At,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        let at = match at {
            At::Path(path) => At::Path(printable(path, LONGEST_QUOTE)),
            other => other,
        };
        InputError {
            code,
            message: printable(message.into(), LONGEST_QUOTE),
            place: Place { file: label.to_owned(), at },
            help: printable(help.into(), LONGEST_HELP),
        }
    }

    /// An error about the value at a path such as `nodes[3].size`.
    pub(super) fn at_path(
        code: &'static str,
        label: &str,
        path: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        InputError::new(code, label, At::Path(path.into()), message, help)
    }
}

/// What an input says is repeated in errors, so it is kept short and free of terminal escapes.
fn printable(text: String, longest: usize) -> String {
    if text.len() <= longest && !text.chars().any(char::is_control) {
        return text;
    }
    let mut out = String::new();
    for c in text.chars() {
        if out.len() >= longest {
            out.push('…');
            break;
        }
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
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
            at => write!(f, "{}:{at}", self.file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_a_block_of_code_place_and_help() {
        let error =
            InputError::at_path("F003", "model.json", "operators[3]", "missing field `name`", "add it");
        assert_eq!(
            error.to_string(),
            "error[F003]: missing field `name`\n  --> model.json: operators[3]\n  help: add it"
        );
    }

    #[test]
    fn names_of_an_input_cannot_flood_or_steer_a_terminal() {
        let hostile = format!("\u{1b}[2J{}", "x".repeat(100_000));
        let error = InputError::new("F005", "m", At::Path(hostile.clone()), hostile.clone(), hostile);
        for part in [error.message, error.place.at.to_string(), error.help] {
            assert!(part.len() < 2 * LONGEST_HELP);
            assert!(part.starts_with("\\u{1b}[2J"));
        }
    }
}
