//! Output to the terminal. No other module writes to standard output or standard error.
//!
//! `print!` panics when a pipe is closed, so it is not used, and the lints that forbid it need no exception.
//!
//! Text for display reaches the terminal with control characters escaped, whatever the inputs contain. Only line ends
//! are kept: texts consist of tables, facts and lines, and each of these keeps names on one line.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Write};

use stagewright::code::{I003, X001};
use stagewright::tasks::Shown;
use stagewright::text::{visible, visible_lines};

use super::error::{CliError, Result};
use super::style;

/// Writes a result for display to standard output.
pub(crate) fn result(text: &str) -> Result<()> {
    let text = visible_lines(text);
    data(&if style::is_coloured(&io::stdout()) { Cow::Owned(style::coloured(&text)) } else { text })
}

/// Writes blocks of lines for display to standard output, with an empty line between them.
pub(crate) fn blocks(blocks: impl Iterator<Item = String>) -> Result<()> {
    result(&blocks.collect::<Vec<_>>().join("\n"))
}

/// Writes a result for programs to standard output, unchanged.
pub(crate) fn data(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    judged(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// The result of writing to standard output. A closed pipe does not count as an error.
pub(crate) fn judged(written: io::Result<()>) -> Result<()> {
    match written {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(CliError::new(I003, format!("cannot write the result: {error}"))
            .at("standard output")
            .help("free disk space, or redirect the output")),
    }
}

/// Writes a result of a task to standard output, as JSON or for display.
pub(crate) fn shown(shown: &Shown, is_json: bool) -> Result<()> {
    if is_json { data(shown.json()) } else { result(&shown.text(width())) }
}

/// Writes a line to standard error.
pub(crate) fn note(line: &str) {
    story(&visible(line));
}

/// Writes notes to standard error, one line each.
pub(crate) fn notes(notes: &[String]) {
    for text in notes {
        note(&format!("note: {text}"));
    }
}

/// Writes an error to standard error.
pub(crate) fn error(error: &CliError) {
    story(&error.to_string());
}

/// Writes a text to standard error. A failure is ignored, because there is nowhere to report it.
fn story(text: &str) {
    let mut out = io::stderr().lock();
    let text = if style::is_coloured(&out) { Cow::Owned(style::coloured(text)) } else { Cow::Borrowed(text) };
    let _ = writeln!(out, "{text}");
}

/// Width of standard output in characters; `None`, meaning unlimited, if it is not a terminal.
pub(crate) fn width() -> Option<u16> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0)
}

/// Formats a value as pretty-printed JSON that ends with a newline.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<String> {
    match serde_json::to_string_pretty(value) {
        Ok(text) => Ok(text + "\n"),
        Err(error) => Err(CliError::new(X001, format!("cannot write JSON: {error}"))),
    }
}
